"""A time step as a set of rows with weights: a row of weight k is k equal rows."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray

from hmnn.core.projections.natural import JOINT

MOST = 8192
"""Rows are written out more than once, for their weight, up to so many in all."""


class WeightedRows(NamedTuple):
    """Rows, their targets and their weights."""

    x: Float[ndarray, "rows columns"]
    y: Shaped[ndarray, " rows"]
    weight: Float[ndarray, " rows"]


def merged(data: WeightedRows) -> WeightedRows:
    """Equal rows as one with the sum of their weights, without those of weight 0.

    So weight k is the same as k equal rows, bit for bit, also in single precision and where the
    rows fill many lots. Lots are filled in the order in which rows appear, as that is mostly the
    order of time; the rows of a lot are learned together and are sorted.
    """
    real = data.weight > 0
    x, y, weight = (a[real] for a in data)
    if len(x) < 2:
        return WeightedRows(x, y, weight)
    cells = np.column_stack([x, y]) + 0.0  # -0.0 is 0.0, but has other bytes
    cells[np.isnan(cells)] = np.nan  # which may have other bytes too
    names = np.ascontiguousarray(cells).view(np.dtype((np.void, cells.itemsize * cells.shape[1])))[
        :, 0
    ]
    _, first, place = np.unique(names, return_index=True, return_inverse=True)
    appeared = np.argsort(np.argsort(first))
    order = np.lexsort((np.arange(len(first)), appeared // JOINT))
    total = np.bincount(place, weights=weight)
    return WeightedRows(x[first][order], y[first][order], total[order])


def written_out(data: WeightedRows) -> WeightedRows:
    """The rows as often as their mean weight says, with a share of their weight each time.

    Many rows of one step are taken in turn, each lot from where the last one led; so heavy rows
    should be too.
    """
    rows = len(data.x)
    times = round(min(max(data.weight.sum() / rows, 1.0), max(MOST // rows, 1)))
    return WeightedRows(
        np.tile(data.x, (times, 1)), np.tile(data.y, times), np.tile(data.weight / times, times)
    )
