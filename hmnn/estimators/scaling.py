"""Online standardisation by the mean and the deviation of the rows learned so far.

A value far outside of what was seen is drawn in before it is absorbed, so that one wild value
cannot spoil the scale; values that keep coming so move it all the same, by more at each of them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

FARTHEST = 5.0
"""A standardised value is at most this far from 0."""
WILD = 20.0
"""A value farther than this many standard deviations is absorbed as if it were that far."""
ENOUGH = 20
"""Values of a column before one can be called wild."""


class Scaler(NamedTuple):
    """Of each column: how many values, their mean, and the sum of squared distances from it."""

    number: Float[ndarray, " columns"]
    mean: Float[ndarray, " columns"]
    squares: Float[ndarray, " columns"]


class Running(NamedTuple):
    """The scaler row by row: after each row, and before it."""

    after: Scaler
    centred: Float[ndarray, "rows columns"]
    """Each row against all rows up to and with itself."""
    mean: Float[ndarray, "rows columns"]
    deviation: Float[ndarray, "rows columns"]
    """Mean and standard deviation before each row; 0 and 1 where there is none."""


def empty(columns: int) -> Scaler:
    """No values yet."""
    return Scaler(*(np.zeros(columns) for _ in Scaler._fields))


def grown(scaler: Scaler, columns: int) -> Scaler:
    """The same with more columns, of which nothing is known."""
    return Scaler(*(np.pad(a, (0, columns - len(a))) for a in scaler))


def absorbed(
    scaler: Scaler, x: Float[ndarray, "rows columns"], weight: Float[ndarray, " rows"]
) -> Scaler:
    """The scaler after a batch; NaN is no value."""
    return _sums(scaler, _drawn_in(scaler, x), weight)[0]


def followed(
    scaler: Scaler, x: Float[ndarray, "rows columns"]
) -> tuple[Scaler, Float[ndarray, "rows columns"]]:
    """The scaler after single rows, and each of them against all up to and with itself."""
    after, count, shift, square, base = _sums(scaler, _in_turn(scaler, x), np.ones(len(x)))
    return after, _against(x - base, *_moments(count, shift, square), base)


def running(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> Running:
    """The scaler through a stream of single rows."""
    after, count, shift, square, base = _sums(scaler, _in_turn(scaler, x), np.ones(len(x)))
    mean, variance = _moments(count, shift, square)
    first = scaler.squares / np.maximum(scaler.number, 1.0)
    before = [
        np.concatenate([a[None], b[:-1]])
        for a, b in ((scaler.mean, base + mean), (first, variance))
    ]
    return Running(
        after, _against(x - base, mean, variance, base), before[0], deviations(before[1], before[0])
    )


def beside(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> Float[ndarray, "rows columns"]:
    """Each row against all rows learned and itself."""
    there = np.isfinite(x)
    base = np.where((scaler.number == 0) & there, x, scaler.mean)  # a first value is its own mean
    d = np.where(there, _drawn_in(scaler, x) - base, 0.0)
    number = np.maximum(scaler.number + there, 1e-30)
    mean = d / number
    variance = np.maximum((scaler.squares + d**2) / number - mean**2, 0.0)
    return _against(x - base, mean, variance, base)


def against(scaler: Scaler, x: Float[ndarray, "rows columns"]) -> Float[ndarray, "rows columns"]:
    """Each row against the rows learned."""
    variance = scaler.squares / np.maximum(scaler.number, 1.0)
    return _against(x - scaler.mean, np.zeros_like(scaler.mean), variance, scaler.mean)


def deviations(variance: ndarray, mean: ndarray) -> ndarray:
    """Standard deviations, 1 where a column is constant up to rounding."""
    return np.where(variance > (1e-7 * mean) ** 2 + 1e-30, np.sqrt(variance), 1.0)


def _drawn_in(scaler: Scaler, x: ndarray) -> ndarray:
    """The rows with wild values brought to the edge of what was seen before all of them."""
    low, high = _edges(scaler.number, scaler.mean, scaler.squares / np.maximum(scaler.number, 1.0))
    return np.clip(x, low, high)


def _edges(number: ndarray, mean: ndarray, variance: ndarray) -> tuple[ndarray, ndarray]:
    """Between which values nothing is wild; of a constant column, or of few values, nothing is."""
    known = (number >= ENOUGH) & (variance > (1e-7 * mean) ** 2 + 1e-30)
    reach = np.where(known, WILD * np.sqrt(np.where(known, variance, 1.0)), np.inf)
    return mean - reach, mean + reach


def _in_turn(scaler: Scaler, x: ndarray) -> ndarray:
    """As `_drawn_in`, each row by the scaler before it: in one go up to the next wild value."""
    drawn, start, size = x, 0, len(x)
    while start < len(x):
        rows = drawn[start : start + size]
        after, count, shift, square, base = _sums(scaler, rows, np.ones(len(rows)))
        mean, variance = _moments(count, shift, square)
        first = scaler.squares / np.maximum(scaler.number, 1.0)
        before = [
            np.concatenate([a[None], b[:-1]])
            for a, b in ((scaler.number, count), (scaler.mean, base + mean), (first, variance))
        ]
        low, high = _edges(*before)
        wild = ((rows < low) | (rows > high)).any(axis=1)
        if not wild.any():
            scaler, start, size = after, start + len(rows), 2 * size
            continue
        at = int(np.argmax(wild))
        drawn = drawn.copy() if drawn is x else drawn
        drawn[start + at] = np.clip(rows[at], low[at], high[at])
        scaler = _sums(scaler, drawn[start : start + at + 1], np.ones(at + 1))[0]
        start, size = start + at + 1, 32  # after one wild value there may be more
    return drawn


def _sums(
    scaler: Scaler, x: ndarray, weight: ndarray
) -> tuple[Scaler, ndarray, ndarray, ndarray, ndarray]:
    """Sums of values, taken from a base near them so that no digits are lost.

    After all rows, and row by row.
    """
    there = np.isfinite(x)
    held = there * weight[:, None]
    base = scaler.mean
    new = there.any(axis=0) & (scaler.number == 0)
    if new.any():
        first = np.take_along_axis(x, np.argmax(there, axis=0)[None], axis=0)[0]
        base = np.where(new, first, base)
    d = np.where(there, x - base, 0.0)
    count = scaler.number + np.cumsum(held, axis=0)
    shift, square = np.cumsum(held * d, axis=0), scaler.squares + np.cumsum(held * d**2, axis=0)
    mean, variance = _moments(count[-1], shift[-1], square[-1])
    return Scaler(count[-1], base + mean, variance * count[-1]), count, shift, square, base


def _moments(count: ndarray, shift: ndarray, square: ndarray) -> tuple[ndarray, ndarray]:
    n = np.maximum(count, 1e-30)
    mean = shift / n
    return mean, np.maximum(square / n - mean**2, 0.0)


def _against(d: ndarray, mean: ndarray, variance: ndarray, base: ndarray) -> ndarray:
    constant = variance <= (1e-7 * (base + mean)) ** 2 + 1e-30
    z = np.where(constant, 0.0, (d - mean) / np.sqrt(np.where(constant, 1.0, variance)))
    return np.clip(np.where(np.isfinite(d), z, 0.0), -FARTHEST, FARTHEST)
