"""Online standardisation by the mean and the deviation of the latest rows learned.

It forgets, so that it follows what moves. Two answers are possible when the scale of a column
moves: the function of the raw inputs stands (`Move` tells the network's layers how to follow), or
that of the standardised ones does. The first is right for a column that wanders to and fro, the
second for one that is still young or whose units have changed; `hmnn.estimators.units` tells these
apart. A value far outside of what was seen is drawn in before
it is absorbed, so that one wild value cannot spoil the scale.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn.estimators import units
from hmnn.estimators.known_columns import Move, Scaler
from hmnn.estimators.units import BLOCK, ENOUGH, WILD, varies

FARTHEST = 5.0
"""A standardised value is at most this far from 0."""
SETTLED = 256.0
"""From so many values on the map of a column is held fixed, and moves only now and then."""
HELD_FOR = 4
"""So many blocks it is held."""
WIDER, AWAY = 3.0, 2.0
"""A map that becomes wider or narrower than so many times, or moves so many deviations, is not
followed."""


class Part(NamedTuple):
    """Rows that follow each other, standardised in turn."""

    after: Scaler
    centred: Float[ndarray, "rows columns"]
    """Each row against all rows up to and with itself, or by the map that is held."""
    mean: Float[ndarray, "rows columns"]
    variance: Float[ndarray, "rows columns"]
    """What a prediction of each row is brought back to raw units by, see `level_and_unit`."""
    number: Float[ndarray, " rows"]
    """Values of the first column before each row."""
    move: Move | None
    """To follow when these rows are learned."""


class _Moments(NamedTuple):
    """The weight of the values, their mean from a base near them, and their variance."""

    number: Float[ndarray, "*rows columns"]
    shift: Float[ndarray, "*rows columns"]
    variance: Float[ndarray, "*rows columns"]
    base: Float[ndarray, " columns"]


def _moments(number: ndarray, shift: ndarray, square: ndarray, base: ndarray) -> _Moments:
    """From sums of distances from a base, and of their squares."""
    n = np.maximum(number, 1e-30)
    mean = shift / n
    return _Moments(number, mean, np.maximum(square / n - mean**2, 0.0), base)


def absorbed(
    scaler: Scaler, x: Float[ndarray, "rows columns"], weight: Float[ndarray, " rows"]
) -> tuple[Scaler, Move | None]:
    """The scaler after a batch, whose rows have no order; NaN is no value.

    The move is to be followed before the batch is learned.
    """
    there, base = np.isfinite(x), _base(scaler, x)
    held = there * weight[:, None]
    d, total = np.where(there, _drawn_in(scaler, x) - base, 0.0), held.sum(axis=0)
    kept = scaler.keep**total
    now = _moments(
        kept * scaler.number + total,
        (held * d).sum(axis=0),
        kept * scaler.number * scaler.variance + (held * d**2).sum(axis=0),
        base,
    )
    after = _after(scaler, now, x[weight > 0])
    return _looked_at(after) if len(after.recent) >= BLOCK else (after, None)


def running(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> list[Part]:
    """The scaler through a stream of single rows, cut where the units are looked at."""
    parts, start = [], 0
    while start < len(x):
        parts.append(_part(scaler, x[start : start + BLOCK - len(scaler.recent)]))
        scaler, start = parts[-1].after, start + len(parts[-1].centred)
    return parts


def joined(parts: list[Part]) -> Part:
    """Parts that follow each other as one; only the last may have a move."""
    if len(parts) == 1:
        return parts[0]
    return parts[-1]._replace(
        centred=np.concatenate([part.centred for part in parts]),
        mean=np.concatenate([part.mean for part in parts]),
        variance=np.concatenate([part.variance for part in parts]),
        number=np.concatenate([part.number for part in parts]),
    )


def beside(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> Float[ndarray, "rows columns"]:
    """Each row against all rows learned and itself, or by the map that is held."""
    there = np.isfinite(x)
    base = np.where((scaler.number == 0) & there, x, scaler.mean)  # a first value is its own mean
    low, high = _edges(scaler.number, scaler.mean, scaler.variance)
    d = np.where(there, np.clip(x, low, high) - base, 0.0)
    kept = np.where(there, scaler.keep, 1.0)
    now = _moments(
        kept * scaler.number + there, d, kept * scaler.number * scaler.variance + d**2, base
    )
    return _against(scaler, x, now)


def against(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> Float[ndarray, "rows columns"]:
    """Each row against the rows learned, or by the map that is held."""
    zero = np.zeros_like(scaler.mean)
    return _against(scaler, x, _Moments(scaler.number, zero, scaler.variance, scaler.mean))


def level_and_unit(scaler: Scaler) -> tuple[float, float]:
    """By which a standardised value of the only column is brought back to raw units."""
    if scaler.held[0]:
        return float(scaler.held_mean[0]), float(scaler.held_unit[0])
    return float(scaler.mean[0]), float(deviations(scaler.variance, scaler.mean)[0])


def deviations(variance: ndarray, mean: ndarray) -> ndarray:
    """Standard deviations, 1 where a column is constant up to rounding."""
    return np.where(varies(variance, mean), np.sqrt(variance), 1.0)


def _part(scaler: Scaler, x: ndarray) -> Part:
    """Rows that at most fill a block."""
    now, mean, variance = _in_turn(scaler, x)
    centred = _against(scaler, x, now)
    last = _Moments(now.number[-1], now.shift[-1], now.variance[-1], now.base)
    after, move = _after(scaler, last, x), None
    if len(after.recent) >= BLOCK:
        after, move = _looked_at(after)
    mean = np.where(scaler.held, scaler.held_mean, mean)
    number = np.append(scaler.number[0], now.number[:-1, 0])
    variance = np.where(scaler.held, scaler.held_unit**2, variance)
    return Part(after, centred, mean, variance, number, move)


def _in_turn(scaler: Scaler, x: ndarray) -> tuple[_Moments, ndarray, ndarray]:
    """Moments after each row, and mean and variance before it.

    Wild values are drawn in, each by the scaler before it.
    """
    drawn, start = x, 0
    while True:
        now = _row_by_row(scaler, drawn)
        number = np.concatenate([scaler.number[None], now.number[:-1]])
        mean = np.concatenate([scaler.mean[None], now.base + now.shift[:-1]])
        variance = np.concatenate([scaler.variance[None], now.variance[:-1]])
        low, high = _edges(number, mean, variance)
        wild = ((drawn < low) | (drawn > high))[start:].any(axis=1)
        if not wild.any():
            return now, mean, variance
        at = start + int(np.argmax(wild))
        drawn = drawn.copy() if drawn is x else drawn
        drawn[at] = np.clip(drawn[at], low[at], high[at])
        start = at + 1


def _drawn_in(scaler: Scaler, x: ndarray) -> ndarray:
    """The rows with wild values brought to the edge of what was seen before all of them.

    Of a first batch, to the edge of what most of its own values are.
    """
    low, high = _edges(scaler.number, scaler.mean, scaler.variance)
    new = scaler.number < ENOUGH
    if new.any() and len(x) >= ENOUGH:
        low[new], high[new] = units.edges(x[:, new])
    return np.clip(x, low, high)


def _edges(number: ndarray, mean: ndarray, variance: ndarray) -> tuple[ndarray, ndarray]:
    """Between which values nothing is wild; of a constant column, or of few values, nothing is."""
    known = (number >= ENOUGH) & varies(variance, mean)
    reach = np.where(known, WILD * np.sqrt(np.where(known, variance, 1.0)), np.inf)
    return mean - reach, mean + reach


def _base(scaler: Scaler, x: ndarray) -> ndarray:
    """A value near those of each column, so that sums of distances from it lose no digits."""
    there = np.isfinite(x)
    new = there.any(axis=0) & (scaler.number == 0)
    if not new.any():
        return scaler.mean
    first = np.take_along_axis(x, np.argmax(there, axis=0)[None], axis=0)[0]
    return np.where(new, first, scaler.mean)


def _row_by_row(scaler: Scaler, x: ndarray) -> _Moments:
    """After each row: a value takes its part of the weight of those before."""
    there, base = np.isfinite(x), _base(scaler, x)
    d = np.where(there, x - base, 0.0)
    kept = scaler.keep ** np.cumsum(there, axis=0)
    held = there / kept
    return _moments(
        kept * (scaler.number + np.cumsum(held, axis=0)),
        kept * np.cumsum(held * d, axis=0),
        kept * (scaler.number * scaler.variance + np.cumsum(held * d**2, axis=0)),
        base,
    )


def _after(scaler: Scaler, now: _Moments, x: ndarray) -> Scaler:
    return scaler._replace(
        number=now.number,
        mean=now.base + now.shift,
        variance=now.variance,
        recent=np.concatenate([scaler.recent, x]),
    )


def _looked_at(scaler: Scaler) -> tuple[Scaler, Move | None]:
    """At the end of a block: what was found out about the units, and the maps to be held."""
    found = units.judged(scaler.recent, scaler.old_mean[0], scaler.old_variance[0])
    pairs = zip(found.fresh, scaler[:3], strict=True)
    number, mean, variance = (np.where(found.changed, a, b) for a, b in pairs)
    scaler = scaler._replace(
        number=number,
        mean=mean,
        variance=variance,
        recent=scaler.recent[:0].copy(),
        held=scaler.held & ~found.changed,
        blocks=scaler.blocks + len(scaler.recent) // BLOCK,
    )
    scaler = scaler._replace(
        old_mean=_before_last(scaler.old_mean, mean, found.changed),
        old_variance=_before_last(scaler.old_variance, variance, found.changed),
    )
    if scaler.blocks < HELD_FOR or scaler.keep == 1.0:
        return scaler, None
    return _held(scaler)


def _before_last(old: ndarray, now: ndarray, changed: ndarray) -> ndarray:
    """What the next block is judged by: the last one may have been half of it in new units."""
    return np.stack([np.where(changed, now, old[1]), now])


def _held(scaler: Scaler) -> tuple[Scaler, Move | None]:
    """With new maps to be held; the network follows those that move a little.

    The maps are those of the look before: this last block may be half of it in new units.
    """
    mean, variance = scaler.old_mean[0], scaler.old_variance[0]
    unit = deviations(variance, mean)
    ready = (scaler.number >= SETTLED) & varies(variance, mean)
    ratio, shift = unit / scaler.held_unit, (mean - scaler.held_mean) / scaler.held_unit
    small = (np.abs(np.log(ratio)) < np.log(WIDER)) & (np.abs(shift) < AWAY)
    follow = scaler.held & ready & small
    ratio, shift = np.where(follow, ratio, 1.0), np.where(follow, shift, 0.0)
    held = scaler._replace(held=ready, held_mean=mean, held_unit=unit, blocks=0)
    return held, Move(ratio, shift) if follow.any() else None


def _against(scaler: Scaler, x: ndarray, now: _Moments) -> ndarray:
    """Distances in deviations, of columns that have them; a missing value is at the mean."""
    known = varies(now.variance, now.base + now.shift)
    unit = np.sqrt(np.where(known, now.variance, 1.0))
    z = np.where(known, (x - now.base - now.shift) / unit, 0.0)
    if scaler.held.any():
        z = np.where(scaler.held, (x - scaler.held_mean) / scaler.held_unit, z)
    return np.clip(np.where(np.isfinite(x), z, 0.0), -FARTHEST, FARTHEST)
