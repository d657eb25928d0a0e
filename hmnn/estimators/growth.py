"""A wider network that knows what the narrow one knew: more inputs, more outputs."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy import ndarray

from hmnn.core.filtering import Filter
from hmnn.core.projections.natural import Moments
from hmnn.estimators import known_columns
from hmnn.estimators.learned import Learned
from hmnn.methods import method
from hmnn.methods.streams import StreamFilter


def grown(
    learned: Learned,
    old: StreamFilter,
    new: StreamFilter,
    columns: int,
    classes: Sequence[int] | None = None,
) -> Learned:
    """What was learned, in a wider network; what is new is as at the start."""
    state = learned.filter
    fresh = method.init(new.few, state.key)
    law = embedded(old.few, new.few, state.posterior, fresh.posterior, classes)
    return learned._replace(
        filter=state._replace(posterior=law), x=known_columns.grown(learned.x, columns)
    )


def embedded(
    old: Filter, new: Filter, law: Moments, fresh: Moments, classes: Sequence[int] | None = None
) -> Moments:
    """The old weights in the places they have in the wider network.

    The other places are those of `fresh`. `classes` are the new numbers of the old classes, which
    are two at least; by default they stay.

    One logit becomes the difference of two: means of -m / 2 and m / 2, half the variance each, say
    the same.
    """
    narrow, wide = _shapes(old), _shapes(new)
    single = narrow[-1] == (1,)
    halves = single and wide[-1] != (1,)
    turned = single and not halves and list(classes or (0, 1)) == [1, 0]

    def moment(inner: ndarray, outer: ndarray, sign: float) -> ndarray:
        leaves = _cut(inner, narrow)
        if halves:
            leaves[-2:] = [np.concatenate([0.5 * sign * leaf, 0.5 * leaf]) for leaf in leaves[-2:]]
        if turned:
            leaves[-2:] = [sign * leaf for leaf in leaves[-2:]]
        rows = [list(range(len(leaf))) for leaf in leaves]
        if classes is not None and wide[-1] != (1,):
            rows[-2:] = [list(classes)] * 2
        placed = map(_placed, leaves, _cut(outer, wide), rows)
        return np.concatenate([leaf.ravel() for leaf in placed])

    law, fresh = jax.tree.map(np.asarray, law), jax.tree.map(np.asarray, fresh)
    return Moments(moment(law.mean, fresh.mean, -1.0), moment(law.variance, fresh.variance, 1.0))


def leaves_of(parts: Filter, flat: Any) -> list[ndarray]:
    """A vector of all weights, cut into the network's own arrays."""
    return _cut(np.array(flat, np.float64), _shapes(parts))


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


def _placed(leaf: ndarray, into: ndarray, rows: list[int]) -> ndarray:
    result = into.copy()
    inner: Any = tuple(slice(n) for n in leaf.shape[1:])
    result[(rows, *inner)] = leaf
    return result
