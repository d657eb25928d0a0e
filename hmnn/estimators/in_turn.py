"""Rows of a stream predicted and then learned, one at a time, in few compiled loops."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn.core import normal_mixtures
from hmnn.core.filtering import State
from hmnn.core.prediction import Prediction
from hmnn.estimators import followed, last_target, scaling
from hmnn.estimators.carrying import carried
from hmnn.estimators.equal_rows import WeightedRows
from hmnn.estimators.known_columns import Move, Scaler
from hmnn.estimators.last_target import LastTarget, Maps
from hmnn.estimators.learned import Learned, log_density, normals
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
    change: Part | None
    """Of the differences of targets, for experts."""
    start: int
    end: int
    moves: bool
    """Whether the network has to follow after these rows."""


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
        asked: rows that are only looked at; one by itself is the row that comes next.
    """
    stretches = _stretches(how, before, x, y, scaled)
    last, state = stretches[-1], before.filter
    more = np.zeros((0, x.shape[1])) if asked is None else asked
    more = scaling.beside(last.x.after, more) if scaled[0] and len(more) else np.nan_to_num(more)
    after, next_told = before.last, None
    if how.told and last.y:
        after = _after(before, y, last)
        next_told = last_columns(how, after, last.y.after, len(more))
    told, surprise = [], []
    believed: list[Any] = []
    for part in stretches:
        rows = part.x.centred if scaled[0] else np.nan_to_num(x[part.start : part.end])
        values = part.y.centred[:, 0] if part.y else y[part.start : part.end]
        moves = part.moves
        with_last = more if part is last and not moves else more[:0]
        columns = _told_before(before, y, part) if how.told else None
        if columns is not None and len(with_last):
            columns = np.concatenate([columns, next_told])
        state, said, (seen, weights) = _learned(how, state, rows, values, with_last, columns)
        if part.y:
            seen = _in_units(y[part.start : part.end], said, part.y)
        if moves:
            state = carried(how.few, state, *(p.move if p else None for p in part[:3]))
        told.append(said)
        surprise.append(seen)
        believed.append(weights)
    if len(more) and moves:
        told.append(_learned(how, state, more[:0], y[:0], more, next_told)[1])
    scalers = last.x.after, last.y.after if last.y else before.y
    history = None if believed[0] is None else np.concatenate(believed)
    learned = before.after(state, *scalers, np.concatenate(surprise), history, after)
    said = told[0] if len(told) == 1 else jax.tree.map(lambda *a: np.concatenate(a), *told)
    if not scaled[1]:
        return Taught(learned, said, np.zeros(len(x)), np.ones(len(x)))
    both = [_back(part.y) for part in stretches if part.y]
    level, unit = (np.concatenate(a) for a in zip(*both, strict=True))
    law = normals(jax.tree.map(lambda part: part[: len(y)], said))
    asked_for = followed.after(learned.asked, normal_mixtures.below(law, (y - level) / unit))
    return Taught(learned._replace(asked=asked_for), said, level, unit)


def looked_at(how: StreamFilter, learned: Learned, x: ndarray, scaled: bool) -> Prediction:
    """What is said of rows, none of which is learned."""
    rows = scaling.beside(learned.x, x) if scaled else np.nan_to_num(x)
    told = last_columns(how, learned.last, learned.y, len(x))
    return _learned(how, learned.filter, rows[:0], np.zeros(0), rows, told)[1]


def passed(
    how: StreamFilter, last: LastTarget, rows: WeightedRows
) -> tuple[LastTarget, Move | None]:
    """The latest targets after rows that have no order; they are not known.

    Nor are differences, but the rows count, so that all maps are looked at after the same ones.
    """
    if not how.told:
        return last_target.stale(last), None
    unknown = np.full((len(rows.x), 1), np.nan)
    scaler, move = scaling.absorbed(last.scaler, unknown, rows.weight)
    return last_target.stale(last)._replace(scaler=scaler), move


def last_columns(
    how: StreamFilter, last: LastTarget, scaler: Scaler, rows: int
) -> Float[ndarray, "rows told"] | None:
    """What is told before a row that comes next; of several rows none is known to be that."""
    if not how.told:
        return None
    y = np.full(rows, last.value if rows == 1 else np.nan)
    targets, jumps = (
        Maps(*(np.full(rows, part) for part in scaling.level_and_unit(s)))
        for s in (scaler, last.scaler)
    )
    seen = np.full(rows, last.scaler.number[0])
    return last_target.columns(last, y, np.zeros(rows), targets, jumps, seen)


def _after(before: Learned, y: ndarray, stretch: _Stretch) -> LastTarget:
    """The latest targets after all rows."""
    if stretch.change is None:
        return before.last
    gap = last_target.differences(before.last, y)[-1]
    return LastTarget(float(y[-1]), float(gap), stretch.change.after)


def _told_before(before: Learned, y: ndarray, part: _Stretch) -> Float[ndarray, "rows told"] | None:
    """What is told before each row of a stretch, and what experts learn there."""
    if part.change is None or part.y is None:
        return None
    whole = np.append(before.last.value, y)
    gaps = last_target.differences(before.last, y)
    first = part.start
    last = before.last._replace(
        value=float(whole[first]),
        difference=float(gaps[first - 1]) if first else before.last.difference,
    )
    back = Maps(*_back(part.y)), Maps(*_back(part.change))
    changes = part.change.centred[:, 0]
    return last_target.columns(last, whole[first : part.end], changes, *back, part.change.number)


def _learned(
    how: StreamFilter,
    state: State,
    rows: ndarray,
    values: ndarray,
    more: ndarray,
    columns: ndarray | None,
) -> tuple[State, Prediction, tuple[ndarray, ndarray | None]]:
    """After some rows: the state, and what was said of all.

    Of those that were learned also how surprising they were, and how far members were believed.
    """
    number, kind = len(rows), default_float()
    both = np.concatenate([rows, more]).astype(kind) if len(more) else rows.astype(kind)
    weight = np.zeros(len(both), kind)
    weight[:number] = 1.0
    targets = np.zeros(len(both), np.int32 if how.classes else kind)
    targets[:number] = values
    state, info, told = how.rows(state, both, targets, weight, columns)
    said, surprise, believed = jax.device_get((told, info.surprise, info.believed))
    if len(both) > 1:
        said = jax.tree.map(lambda part: part[: len(both)], said)
    believed = None if believed is None else believed[:number]
    return state, said, (surprise[:number].astype(np.float64), believed)


def _in_units(y: ndarray, told: Prediction, part: Part) -> ndarray:
    """The log densities of numbers in their own units."""
    first = jax.tree.map(lambda a: a[: len(y)], told)
    return log_density(y, first, *_back(part))


def _back(part: Part) -> tuple[ndarray, ndarray]:
    """Level and unit of each row."""
    return part.mean[:, 0], scaling.deviations(part.variance, part.mean)[:, 0]


def _stretches(
    how: StreamFilter, before: Learned, x: ndarray, y: ndarray, scaled: tuple[bool, bool]
) -> list[_Stretch]:
    """The rows standardised in turn, cut where the network has to follow a move."""
    parts: list[list[Part]] = [scaling.running(before.x, x)]
    if scaled[1]:
        parts.append(scaling.running(before.y, y[:, None]))
    if how.told:
        gaps = last_target.differences(before.last, y)
        parts.append(scaling.running(before.last.scaler, gaps[:, None]))
    if len(parts[0]) > 1:
        return _cut(parts)
    first = parts[0][0]
    target = parts[1][0] if len(parts) > 1 else None
    change = parts[2][0] if len(parts) > 2 else None
    moves = first.move or (target and target.move) or (change and change.move)
    return [_Stretch(first, target, change, 0, len(first.centred), bool(moves))]


def _cut(parts: list[list[Part]]) -> list[_Stretch]:
    """Parts of x, of y and of its differences that end at the same rows, joined up to a move."""
    result, first, start, end = [], 0, 0, 0
    for i, part in enumerate(parts[0]):
        end += len(part.centred)
        moves = any(column[i].move for column in parts)
        if moves or i + 1 == len(parts[0]):
            whole: list[Any] = [scaling.joined(column[first : i + 1]) for column in parts]
            x, y, change = (*whole, None, None)[:3]
            result.append(_Stretch(x, y, change, start, end, moves))
            first, start = i + 1, end
    return result
