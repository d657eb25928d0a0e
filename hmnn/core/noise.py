"""Where epsilon comes from: a source turns two random words a leaf into (eta, xi) a weight.

`random` draws with `jax.random`; `hmnn.core.cpu.hashing.hashed`, which the methods use, has the
same law and costs far less. docs/noise.md has the derivation and the tests.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt32

from hmnn import _tree
from hmnn._types import Key, Scalar, Weights
from hmnn.core.families import Family, Noise

Words = UInt32[Array, "leaves 2"]
Source = Callable[[Words, Scalar, Weights, PyTree], PyTree]
"""source(words, i, weights, family) -> a tree of Noise for draw i; only shapes of weights are
read."""


def words(key: Key, weights: Weights, *draws: int) -> UInt32[Array, "*draws leaves 2"]:
    """Two threefry words for each leaf of each draw."""
    return jax.random.bits(key, (*draws, _tree.structure(weights).num_leaves, 2), jnp.uint32)


def random(seeds: Words, i: Scalar, weights: Weights, family: PyTree) -> PyTree:
    """Independent Bernoulli masks and standard normals from `jax.random`."""
    return leaves(_random_leaf, seeds, weights, family)


def leaves(leaf: Callable[..., Noise], seeds: Words, weights: Weights, family: PyTree) -> PyTree:
    """The noise of every leaf, from the two words that belong to it."""
    return jax.tree.map(leaf, weights, _tree.structure(weights).unflatten(list(seeds)), family)


def _random_leaf(weight: Array, seed: UInt32[Array, " 2"], family: Family) -> Noise:
    mask_key, normal_key = jax.random.split(jax.random.wrap_key_data(seed, impl="threefry2x32"))
    eta = None if family.keep is None else jax.random.bernoulli(mask_key, family.keep, weight.shape)
    return Noise(eta, jax.random.normal(normal_key, weight.shape, weight.dtype))
