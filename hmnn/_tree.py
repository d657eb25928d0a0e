"""A few helpers for pytrees of weights."""

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from hmnn._types import Weights


def total(f: Callable[..., Float[Array, "..."]], weights: Weights, *rest: Any) -> Float[Array, ""]:
    """Sum `f` over every weight of every leaf; `rest` may hold whole objects at the leaves."""
    parts = jax.tree.map(lambda *leaf: jnp.sum(f(*leaf)), weights, *rest)
    return sum(jax.tree.leaves(parts), start=jnp.zeros(()))


def unzip(outer: Weights, tree: PyTree, kind: type) -> Any:
    """Turn a tree of `kind` (a NamedTuple at each leaf of `outer`) into one `kind` of trees."""
    leaves = structure(outer).flatten_up_to(tree)
    return kind(*(structure(outer).unflatten(column) for column in zip(*leaves, strict=True)))


def structure(tree: PyTree) -> Any:
    """The tree's structure (JAX does not export the type)."""
    return jax.tree.structure(tree)


def split(flat: Float[Array, " size"], weights: Weights) -> Weights:
    """Cut a vector into leaves with the shapes and types of the weights."""
    leaves = jax.tree.leaves(weights)
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = jnp.split(flat, ends[:-1])
    return structure(weights).unflatten(
        [p.reshape(w.shape).astype(w.dtype) for p, w in zip(parts, leaves, strict=True)]
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every number of the tree is finite, and the sum of every leaf (one fast pass)."""
    sums = [
        jnp.isfinite(jnp.sum(a))
        for a in jax.tree.leaves(tree)
        if jnp.issubdtype(a.dtype, jnp.inexact)
    ]
    return jnp.stack(sums).all() if sums else jnp.array(True)


def kinds(tree: PyTree) -> tuple[type, ...]:
    """The classes of the dataclasses of which a tree is made."""
    found: list[type] = []

    def told(node: Any) -> bool:
        if is_dataclass(node):
            found.append(type(node))
        return False

    jax.tree.leaves(tree, is_leaf=told)
    return tuple(found)


def paths(weights: PyTree) -> list[str]:
    """The path of each leaf as text, such as `.layers[0].weight`."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(weights)]


def size(weights: PyTree) -> int:
    """How many weights there are; shapes will do."""
    return sum(leaf.size for leaf in jax.tree.leaves(weights))


def average(means: Weights, weights: Weights) -> Float[Array, ""]:
    """The mean over all weights, given that of every leaf."""
    pairs = zip(jax.tree.leaves(means), jax.tree.leaves(weights), strict=True)
    return sum((mean * leaf.size for mean, leaf in pairs), start=jnp.zeros(())) / size(weights)
