"""Which way round a matrix of weights lies in memory during a descent.

A processor takes 16 weights of a row at once, and those that are left over one by one: 500 rows of 20 weights cost
three times as much as 20 rows of 500. Only shapes are looked at, so that whatever has the shape of a leaf lies alike.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

LANES = 16


def turns(weights: PyTree) -> bool:
    """Whether a leaf would cost less the other way round."""
    return any(_turned(leaf) for leaf in jax.tree.leaves(weights))


def turn(tree: PyTree) -> PyTree:
    """Every matrix with its long rows as rows."""
    return jax.tree.map(lambda leaf: leaf.T if _turned(leaf) else leaf, tree)


def back(tree: PyTree, like: PyTree) -> PyTree:
    """What was turned, in the shapes of `like`."""
    return jax.tree.map(lambda leaf, old: leaf if jnp.shape(leaf) == jnp.shape(old) else leaf.T, tree, like)


def _turned(leaf: Any) -> bool:
    shape = jnp.shape(leaf)
    return len(shape) == 2 and _cost(*shape) > _cost(*reversed(shape))


def _cost(rows: int, columns: int) -> int:
    return rows * (columns // LANES + columns % LANES)
