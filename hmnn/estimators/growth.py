"""A wider network that knows what the narrow one knew: more inputs, more outputs."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy import ndarray

from hmnn.core.filtering import Filter, State
from hmnn.core.learning import Bank, Mixed, Recent
from hmnn.core.projections.drifting import Drift
from hmnn.core.projections.lowrank import Factored
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
    work = _wider(state.work, fresh.work, classes) if isinstance(fresh.work, Recent) else state.work
    return learned._replace(
        filter=state._replace(posterior=law, work=work), x=known_columns.grown(learned.x, columns)
    )


def embedded(old: Filter, new: Filter, law: Any, fresh: Any, classes: Any = None) -> Any:
    """The old weights in the places they have in the wider network, of every filter of a bank.

    The other places are those of `fresh`. `classes` are the new numbers of the old classes, which
    are two at least; by default they stay.
    """
    if not isinstance(law, Mixed):
        return _embedded(old, new, law, fresh, classes)
    assert isinstance(old.projection, Bank)
    assert isinstance(new.projection, Bank)
    filters = [[group.members for group in part.projection.groups] for part in (old, new)]
    pairs = zip(*filters, law.members, fresh.members, strict=True)
    members = [_group(*parts, classes) for parts in pairs]
    return law._replace(members=tuple(members))


def _group(old: Filter, new: Filter, states: State, fresh: State, classes: Any) -> State:
    """The stacked members of a group, one after the other."""

    def law(state: State, i: int) -> Any:
        return jax.tree.map(lambda a: a[i], state.posterior)

    laws = [
        _embedded(old, new, law(states, i), law(fresh, i), classes) for i in range(len(states.t))
    ]
    return states._replace(posterior=jax.tree.map(lambda *leaves: np.stack(leaves), *laws))


def _wider(recent: Recent, fresh: Recent, classes: Sequence[int] | None) -> Recent:
    """The rows that are kept, with zeros in new columns and the new numbers of their classes."""
    x = np.zeros(fresh.x.shape, recent.x.dtype)
    x[:, : recent.x.shape[1]] = recent.x
    y = np.array(recent.y)
    if classes is not None:
        y = np.asarray(classes, y.dtype)[y.astype(int)]
    return recent._replace(x=x, y=y)


def _embedded(old: Filter, new: Filter, law: Any, fresh: Any, classes: Sequence[int] | None) -> Any:
    """One law of any of the closed forms."""
    if isinstance(law, Factored):
        return _factored(old, new, law, fresh, classes)
    if not isinstance(law, Drift):
        return _moments(old, new, law, fresh, classes)

    def tangent(i: int) -> Moments:
        one, other = (jax.tree.map(lambda a: a[i], part.tangents) for part in (law, fresh))
        return _moments(old, new, one, other, classes)

    tangents = [tangent(i) for i in range(len(law.numbers))]
    return law._replace(
        law=_moments(old, new, law.law, fresh.law, classes),
        tangents=jax.tree.map(lambda *leaves: np.stack(leaves), *tangents),
    )


def _placing(old: Filter, new: Filter, classes: Sequence[int] | None) -> Callable[..., Any]:
    """How leaves of the old network are put into those of the new one.

    One logit becomes the difference of two: means of -m / 2 and m / 2, half the variance each, say
    the same.
    """
    narrow, wide = _shapes(old), _shapes(new)
    single = narrow[-1] == (1,)
    halves = single and wide[-1] != (1,)
    turned = single and not halves and list(classes or (0, 1)) == [1, 0]

    def placed(inner: Any, outer: Any, sign: float, half: float = 0.5) -> tuple[ndarray, ...]:
        leaves = [np.array(leaf) for leaf in inner]
        if halves:
            leaves[-2:] = [
                np.concatenate([half * sign * leaf, half * leaf]) for leaf in leaves[-2:]
            ]
        if turned:
            leaves[-2:] = [sign * leaf for leaf in leaves[-2:]]
        rows = [list(range(len(leaf))) for leaf in leaves]
        if classes is not None and wide[-1] != (1,):
            rows[-2:] = [list(classes)] * 2
        return tuple(map(_placed, leaves, map(np.asarray, outer), rows))

    return placed


def _moments(
    old: Filter, new: Filter, law: Moments, fresh: Moments, classes: Sequence[int] | None
) -> Moments:
    """Means, variances and the covariance of a last layer."""
    placed = _placing(old, new, classes)
    mean = placed(law.mean, fresh.mean, -1.0, 0.5)
    variance = placed(law.variance, fresh.variance, 1.0, 0.5)
    if isinstance(law.last, tuple):
        return Moments(mean, variance)
    halves = len(law.mean[-1]) == 1 and len(mean[-1]) > 1
    last = _last(np.array(law.last), np.array(fresh.last), halves, classes)
    diagonal = np.diagonal(last, axis1=1, axis2=2)
    diagonal = np.broadcast_to(diagonal, (len(mean[-1]), diagonal.shape[1]))
    return Moments(mean, (*variance[:-2], diagonal[:, :-1].copy(), diagonal[:, -1].copy()), last)


def _factored(
    old: Filter, new: Filter, law: Factored, fresh: Factored, classes: Sequence[int] | None
) -> Factored:
    """A law of low rank, which says nothing of sums with new weights.

    What was said of one logit is said of the difference of two.
    """
    plain, other = (Moments(part.mean, part.variance) for part in (law, fresh))
    plain = _moments(old, new, plain, other, classes)
    placed = _placing(old, new, classes)
    columns = [
        placed([w[i] for w in law.factors], [w[i] for w in fresh.factors], -1.0, 1.0)
        for i in range(len(law.factors[0]))
    ]
    factors: Any = tuple(np.stack(leaves) for leaves in zip(*columns, strict=True))
    return Factored(plain.mean, plain.variance, factors)


def _last(inner: ndarray, outer: ndarray, halves: bool, classes: Sequence[int] | None) -> ndarray:
    """The covariances of the last layer."""
    if halves:
        inner = 0.5 * np.concatenate([inner, inner])
    result = outer.copy()
    places = np.append(np.arange(inner.shape[1] - 1), outer.shape[1] - 1)
    if len(outer) != len(inner):  # one for all outputs
        inner = inner.mean(axis=0, keepdims=True)
    rows = list(classes) if classes is not None and len(outer) == len(classes) > 1 else None
    for k, own in zip(range(len(inner)) if rows is None else rows, inner, strict=True):
        result[k][np.ix_(places, places)] = own
    return result


def _shapes(parts: Filter) -> list[tuple[int, ...]]:
    return _shapes_of(parts.first_weights)


@lru_cache(maxsize=128)
def _shapes_of(first_weights: Callable[[Any], Any]) -> list[tuple[int, ...]]:
    weights: Any = jax.eval_shape(first_weights, jax.random.key(0))
    return [leaf.shape for leaf in jax.tree.leaves(weights)]


def _placed(leaf: ndarray, into: ndarray, rows: list[int]) -> ndarray:
    result = into.copy()
    inner: Any = tuple(slice(n) for n in leaf.shape[1:])
    result[(rows, *inner)] = leaf
    return result
