"""Names for the things that pass between rooms."""

from typing import Any, NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Real

Key = PRNGKeyArray
Scalar = float | int | Real[Array, "..."]
"""A hyperparameter: a number, or in a bank of filters one for each of its members."""
Number = Any
"""A number from a user, checked at the door."""
Weights = PyTree[Float[Array, "..."]]
"""One array per layer's weight or bias, in any pytree."""


class Outer(NamedTuple):
    """The derivatives of outputs in the weights of a dense layer, never multiplied out.

    That of output k in the weight from input i to unit o is pulled[k, o] inputs[i].
    """

    pulled: Float[Any, "*rows outputs units"]
    inputs: Float[Any, "*rows inputs"]


class Dataset(NamedTuple):
    """The observation D_t of one time step, one row per example."""

    x: Any
    y: Any


class Batch(NamedTuple):
    """Rows that count as often as their weights say; padding, which comes last, has weight 0."""

    x: Any
    y: Any
    weight: Any

    @property
    def rows(self) -> Any:
        """How many rows are real."""
        return (self.weight > 0).sum()
