"""A wider network that knows what the narrow one knew: more inputs, more outputs."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy import ndarray

from hmnn.core.filtering import Filter
from hmnn.core.projections.natural import Moments


def embedded(old: Filter, new: Filter, law: Moments, fresh: Moments) -> Moments:
    """The old weights in the places they have in the wider network.

    The other places are those of `fresh`.

    One logit becomes the difference of two: means of -m / 2 and m / 2, half the variance each, say
    the same.
    """
    narrow, wide = _shapes(old), _shapes(new)
    halves = narrow[-1] == (1,) and wide[-1] != (1,)

    def moment(inner: ndarray, outer: ndarray, sign: float) -> ndarray:
        leaves = _cut(inner, narrow)
        if halves:
            leaves[-2:] = [np.concatenate([0.5 * sign * leaf, 0.5 * leaf]) for leaf in leaves[-2:]]
        placed = [_placed(leaf, into) for leaf, into in zip(leaves, _cut(outer, wide), strict=True)]
        return np.concatenate([leaf.ravel() for leaf in placed])

    law, fresh = jax.tree.map(np.asarray, law), jax.tree.map(np.asarray, fresh)
    return Moments(moment(law.mean, fresh.mean, -1.0), moment(law.variance, fresh.variance, 1.0))


def leaves_of(parts: Filter, flat: Any) -> list[ndarray]:
    """A vector of all weights, cut into the network's own arrays."""
    return _cut(np.asarray(flat, np.float64), _shapes(parts))


def _shapes(parts: Filter) -> list[tuple[int, ...]]:
    return _shapes_of(parts.first_weights)


@lru_cache(maxsize=128)
def _shapes_of(first_weights: Callable[[Any], Any]) -> list[tuple[int, ...]]:
    weights: Any = jax.eval_shape(first_weights, jax.random.key(0))
    return [leaf.shape for leaf in jax.tree.leaves(weights)]


def _cut(flat: ndarray, shapes: list[tuple[int, ...]]) -> list[ndarray]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [
        part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)
    ]


def _placed(leaf: ndarray, into: ndarray) -> ndarray:
    result = into.copy()
    result[tuple(slice(n) for n in leaf.shape)] = leaf
    return result
