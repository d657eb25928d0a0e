"""What experts are told: the last target, and how it differed from the one before.

Only for a row that comes right after a target that has arrived. Rows learned together have no
order, a target that is late has not arrived, and time that passes makes a target old: then nothing
is told, and the experts are silent.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn.core.members import Last
from hmnn.estimators.known_columns import Scaler, empty
from hmnn.estimators.scaling import FARTHEST

FEWEST = 5
"""So many differences must have been seen before experts speak."""


class LastTarget(NamedTuple):
    """The latest targets of a stream."""

    value: float
    """The last target; NaN if it is not known."""
    difference: float
    """By how much it differed from the one before; NaN if that is not known."""
    scaler: Scaler
    """Of such differences."""


class Maps(NamedTuple):
    """Level and unit by which numbers are standardised, row by row."""

    level: Float[ndarray, " rows"]
    unit: Float[ndarray, " rows"]


def unknown() -> LastTarget:
    """Before any target."""
    return LastTarget(np.nan, np.nan, empty(1))


def stale(last: LastTarget) -> LastTarget:
    """After time has passed, or rows were learned that have no order."""
    return last._replace(value=np.nan, difference=np.nan)


def differences(last: LastTarget, y: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """Of each target and the one before."""
    return np.diff(y, prepend=last.value)


def columns(
    last: LastTarget,
    y: Float[ndarray, " rows"],
    changes: Float[ndarray, " rows"],
    targets: Maps,
    jumps: Maps,
    seen: Float[ndarray, " rows"],
) -> Float[ndarray, "rows told"]:
    """What is told before each row, and the change that is learned there.

    Args:
        last: the latest targets before the first row.
        y: the last target before each row.
        changes: what experts learn at each row, standardised.
        targets: how y is standardised.
        jumps: how differences are standardised.
        seen: how many differences there were before each row.
    """
    before = np.append(last.difference, np.diff(y))
    known = np.isfinite(y) & np.isfinite(before) & (seen >= FEWEST)
    told = Last(
        change=changes,
        offset=(y + jumps.level - targets.level) / targets.unit,
        unit=jumps.unit / targets.unit,
        known=known.astype(np.float64),
        level=np.clip((y - targets.level) / targets.unit, -FARTHEST, FARTHEST),
        step=np.clip((before - jumps.level) / jumps.unit, -FARTHEST, FARTHEST),
    )
    silent = Last(0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    return np.stack(
        [np.where(known, part, calm) for part, calm in zip(told, silent, strict=True)], axis=1
    )
