"""Whether a column of a stream has changed its units, told by a block of its latest values.

Medians and trimmed deviations, so that a few wild values in the block decide nothing.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

WILD = 20.0
"""A value farther than this many standard deviations is absorbed as if it were that far."""
ENOUGH = 20
"""Values of a column before one can be called wild, or its units be judged."""
BLOCK = 64
"""After so many rows the units are looked at."""
FAR = 3.0
"""A value is far if it is more than so many of the old deviations from the old mean,"""
MOST = 0.75
"""and the units have changed if such a share of the values is far,"""
NARROW = 0.01
"""or if the values are less wide than so small a part of the old deviation."""


class Judgement(NamedTuple):
    """What a block of rows says of each column."""

    changed: Bool[ndarray, " columns"]
    """Whether it has new units."""
    fresh: tuple[ndarray, ndarray, ndarray]
    """Number, mean and variance of the values that have them."""


def varies(variance: ndarray, mean: ndarray) -> ndarray:
    """Whether a column is more than a constant with rounding errors, in any units."""
    return variance > (1e-13 * mean) ** 2


def edges(x: Float[ndarray, "rows columns"]) -> tuple[ndarray, ndarray]:
    """Between which values nothing is wild, by what most of the values are."""
    centre, width = _most(x)
    reach = np.where(varies(width**2, centre), WILD * width, np.inf)
    return centre - reach, centre + reach


def judged(x: Float[ndarray, "rows columns"], mean: ndarray, variance: ndarray) -> Judgement:
    """Whether the values of a block contradict the mean and the variance before it."""
    old, number = np.sqrt(variance), np.isfinite(x).sum(axis=0)
    far = np.abs(x - mean) > FAR * old
    moved = far.sum(axis=0) >= MOST * number
    values = np.where(far | ~moved, x, np.nan)  # the first of a block may have the old units
    centre, width = _most(values)
    known = (number >= ENOUGH) & varies(variance, mean)
    changed = known & (moved | (width < NARROW * old)) & varies(width**2, centre)
    d = np.clip(values, centre - WILD * width, centre + WILD * width) - centre
    there = np.isfinite(d)
    total = np.maximum(there.sum(axis=0), 1)
    shift = np.where(there, d, 0.0).sum(axis=0) / total
    spread = np.where(there, (d - shift) ** 2, 0.0).sum(axis=0) / total
    return Judgement(changed, (total.astype(np.float64), centre + shift, spread))


def _most(x: ndarray) -> tuple[ndarray, ndarray]:
    """The median of each column, and a deviation that the farthest values have no part in."""
    number = np.isfinite(x).sum(axis=0)
    values = np.where(number > 0, x, 0.0)
    centre = np.nanmedian(values, axis=0)
    distance = np.sort(np.abs(values - centre), axis=0)  # NaN comes last
    kept = np.arange(len(x))[:, None] < number - np.maximum(number // 100, 1)
    trimmed = np.where(kept, distance, 0.0)
    root = np.sqrt((trimmed**2).sum(axis=0) / np.maximum(kept.sum(axis=0), 1))
    return centre, np.maximum(root, 1.4826 * np.nanmedian(distance, axis=0))
