"""What a time step has to tell while the run goes on, from what its Info holds already: nothing is computed for it."""

from functools import cache
from typing import Any

import jax
import numpy as np


def of(info: Any) -> dict[str, Any]:
    """The numbers of an Info by name, those of a tree leaf by leaf ("drift.layers.0.weight"); no flags.

    They are arrays still: reading them from JAX is left to `plain`, which costs less for many time steps at once.
    """
    leaves, structure = jax.tree.flatten(info)
    return {name: leaf for name, leaf in zip(_names(structure), leaves, strict=True) if leaf.dtype.kind in "fi"}


def plain(values: dict[str, Any]) -> dict[str, float]:
    """Numbers as Python has them."""
    return {name: np.asarray(value).item() for name, value in values.items()}


@cache
def _names(structure: Any) -> list[str]:
    """The names of the leaves; finding them takes longer than reading the leaves."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(structure.unflatten(range(structure.num_leaves)))]
    return [jax.tree_util.keystr(path, simple=True, separator=".").replace("drift_by_leaf", "drift") for path in paths]
