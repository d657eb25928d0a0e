"""Names for the things that pass between rooms."""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Key = PRNGKeyArray
Scalar = float | int | Float[Array, ""]
Weights = PyTree[Float[Array, "..."]]
"""One array per layer's weight or bias, in any pytree."""


class Dataset(NamedTuple):
    """The observation D_t of one time step, one row per example."""

    x: Any
    y: Any
