"""What is known of the columns of a stream: their scale now, and what tells when it changes."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

KEEP = 1.0 - 1.0 / 3000.0
"""A new value takes such a part of the weight of the older ones: the latest 3000 or so count."""


class Scaler(NamedTuple):
    """The columns of a stream, as far as they are known."""

    number: Float[ndarray, " columns"]
    """The weight of the values of each column."""
    mean: Float[ndarray, " columns"]
    variance: Float[ndarray, " columns"]
    recent: Float[ndarray, "block columns"]
    """Rows since the units were looked at."""
    old_mean: Float[ndarray, "two columns"]
    old_variance: Float[ndarray, "two columns"]
    """Mean and variance as they were at the look before, and at the last one."""
    held: Bool[ndarray, " columns"]
    """Whether the column is standardised by the two numbers that follow."""
    held_mean: Float[ndarray, " columns"]
    held_unit: Float[ndarray, " columns"]
    blocks: int
    """For how many blocks they have been held."""
    keep: float
    """1 if nothing is forgotten, and no map is held."""


class Move(NamedTuple):
    """What was z is now ratio z + shift, for the same raw value; 1 and 0 where nothing changes."""

    ratio: Float[ndarray, " columns"]
    shift: Float[ndarray, " columns"]


def empty(columns: int, forgets: bool = True) -> Scaler:
    """No values yet."""
    zero = np.zeros(columns)
    keep = KEEP if forgets else 1.0
    fixed = np.zeros(columns, bool), zero, np.ones(columns), 0, keep
    old = np.zeros((2, columns))
    return Scaler(zero, zero, zero, np.zeros((0, columns)), old, old, *fixed)


def pair(columns: int, forgets: tuple[bool, bool]) -> tuple[Scaler, Scaler]:
    """No rows yet: of so many inputs, and of one target."""
    return empty(columns, forgets[0]), empty(1, forgets[1])


def grown(scaler: Scaler, columns: int) -> Scaler:
    """The same with more columns, of which nothing is known."""
    new, old = empty(columns), len(scaler.number)
    new = new._replace(recent=np.full((len(scaler.recent), columns), np.nan))
    wide: Any = {
        name: np.concatenate([getattr(scaler, name), part[..., old:]], axis=-1)
        for name, part in new._asdict().items()
        if isinstance(part, ndarray)
    }
    return scaler._replace(**wide)
