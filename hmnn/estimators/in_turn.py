"""Rows of a stream predicted and then learned, one at a time, in few compiled loops."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn.core.filtering import State
from hmnn.core.prediction import Prediction
from hmnn.estimators import scaling
from hmnn.estimators.carrying import carried
from hmnn.estimators.learned import Learned, log_density
from hmnn.estimators.scaling import Part
from hmnn.methods.padding import default_float
from hmnn.methods.streams import StreamFilter


class Taught(NamedTuple):
    """After the rows, and what was said of each before it was learned."""

    learned: Learned
    told: Prediction
    """Of the rows that were learned, and then of those that were only asked."""
    level: Float[ndarray, " rows"]
    unit: Float[ndarray, " rows"]
    """By which numbers are brought back to the units of y."""


class _Stretch(NamedTuple):
    """Rows in which no map moves."""

    x: Part
    y: Part | None
    start: int
    end: int
    moves: bool
    """Whether the network has to follow after them."""


def taught(
    how: StreamFilter,
    before: Learned,
    x: Float[ndarray, "rows columns"],
    y: ndarray,
    scaled: tuple[bool, bool],
    asked: Float[ndarray, "more columns"] | None = None,
) -> Taught:
    """Predict each row and then learn it, then look at others, which are not learned.

    Args:
        how: the filter.
        before: what was learned so far.
        x: rows to learn, one at least.
        y: their targets.
        scaled: whether x and y are standardised.
        asked: rows that are only looked at.
    """
    stretches = _stretches(before, x, y, scaled)
    last, state = stretches[-1], before.filter
    more = np.zeros((0, x.shape[1])) if asked is None else asked
    more = scaling.beside(last.x.after, more) if scaled[0] and len(more) else np.nan_to_num(more)
    told, surprise = [], []
    for part in stretches:
        rows = part.x.centred if scaled[0] else np.nan_to_num(x[part.start : part.end])
        values = part.y.centred[:, 0] if part.y else y[part.start : part.end]
        with_last = more if part is last and not part.moves else more[:0]
        state, said, seen = _learned(how, state, rows, values, with_last)
        if part.y:
            seen = _in_units(y[part.start : part.end], said, part.y)
        if part.moves:
            state = carried(how.few, state, part.x.move, part.y.move if part.y else None)
        told.append(said)
        surprise.append(seen)
    if len(more) and last.moves:
        told.append(_learned(how, state, more[:0], y[:0], more)[1])
    scalers = last.x.after, last.y.after if last.y else before.y
    learned = before.after(state, *scalers, np.concatenate(surprise))
    said = told[0] if len(told) == 1 else jax.tree.map(lambda *a: np.concatenate(a), *told)
    if not scaled[1]:
        return Taught(learned, said, np.zeros(len(x)), np.ones(len(x)))
    both = [_back(part.y) for part in stretches if part.y]
    return Taught(learned, said, *(np.concatenate(a) for a in zip(*both, strict=True)))


def looked_at(how: StreamFilter, learned: Learned, x: ndarray, scaled: bool) -> Prediction:
    """What is said of rows, none of which is learned."""
    rows = scaling.beside(learned.x, x) if scaled else np.nan_to_num(x)
    return _learned(how, learned.filter, rows[:0], np.zeros(0), rows)[1]


def _learned(
    how: StreamFilter, state: State, rows: ndarray, values: ndarray, more: ndarray
) -> tuple[State, Prediction, ndarray]:
    """After some rows: the state, what was said of all, and how surprising those learned were."""
    number, kind = len(rows), default_float()
    both = np.concatenate([rows, more]).astype(kind) if len(more) else rows.astype(kind)
    weight = np.zeros(len(both), kind)
    weight[:number] = 1.0
    targets = np.zeros(len(both), np.int32 if how.classes else kind)
    targets[:number] = values
    state, info, told = how.rows(state, both, targets, weight)
    said, surprise = jax.device_get((told, info.surprise))
    if len(both) > 1:
        said = jax.tree.map(lambda part: part[: len(both)], said)
    return state, said, surprise[:number].astype(np.float64)


def _in_units(y: ndarray, told: Prediction, part: Part) -> ndarray:
    """The log densities of numbers in their own units."""
    first = Prediction(*(None if a is None else a[: len(y)] for a in told))
    return log_density(y, first, *_back(part))


def _back(part: Part) -> tuple[ndarray, ndarray]:
    """Level and unit of each row."""
    return part.mean[:, 0], scaling.deviations(part.variance, part.mean)[:, 0]


def _stretches(
    before: Learned, x: ndarray, y: ndarray, scaled: tuple[bool, bool]
) -> list[_Stretch]:
    """The rows standardised in turn, cut where the network has to follow a move."""
    parts = scaling.running(before.x, x)
    targets = scaling.running(before.y, y[:, None]) if scaled[1] else []
    result, first, start, end = [], 0, 0, 0
    for i, part in enumerate(parts):
        end += len(part.centred)
        moves = bool(part.move or (targets and targets[i].move))
        if moves or i + 1 == len(parts):
            numbers = scaling.joined(targets[first : i + 1]) if targets else None
            whole = scaling.joined(parts[first : i + 1]) if i > first else part
            result.append(_Stretch(whole, numbers, start, end, moves))
            first, start = i + 1, end
    return result
