"""Where epsilon comes from: a source gives (eta, xi) for every leaf from a key and the number of the draw."""

from collections.abc import Callable

import jax
from jaxtyping import PyTree

from hmnn import _tree
from hmnn._types import Key, Scalar, Weights
from hmnn.core.families import Family, Noise

Source = Callable[[Key, Scalar, Weights, PyTree], PyTree]
"""source(key, i, weights, family) -> a tree of Noise for draw i = 0 .. N - 1; only shapes of the weights are read."""


def random(key: Key, i: Scalar, weights: Weights, family: PyTree) -> PyTree:
    """Independent Bernoulli masks and standard normals from `jax.random`."""
    return jax.tree.map(_leaf, weights, _tree.keys(jax.random.fold_in(key, i), weights), family)


def _leaf(weight: jax.Array, key: Key, family: Family) -> Noise:
    mask_key, normal_key = jax.random.split(key)
    eta = None if family.keep is None else jax.random.bernoulli(mask_key, family.keep, weight.shape)
    return Noise(eta, jax.random.normal(normal_key, weight.shape, weight.dtype))
