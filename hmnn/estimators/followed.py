"""Intervals that follow their coverage: adaptive conformal inference (Gibbs and Candes, 2021).

For each of a few levels a stream keeps the level that has to be asked for so that intervals cover
as often as the level says: after a row outside of its interval it is raised, after one inside it
is lowered a little. Over a long stream the share of rows outside tends to what was wanted, whatever
the data are.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
RATE = 0.01
"""How fast the level that is asked for follows."""
MOST = 0.9999
"""It is never more than this, as an interval with probability 1 has no ends."""


def first() -> Float[ndarray, " levels"]:
    """As the model says, before any row."""
    return LEVELS.copy()


def after(asked: Float[ndarray, " levels"], below: Float[ndarray, " rows"]) -> ndarray:
    """The levels to ask for after rows, to less than whose y this probability was given."""
    for share in np.abs(2.0 * below - 1.0):
        outside = share > asked
        asked = np.clip(asked + RATE * (outside - (1.0 - LEVELS)), 0.0, MOST)
    return asked


def level(asked: Float[ndarray, " levels"], wanted: float) -> float:
    """The level to ask for, between those that are kept."""
    points = np.concatenate([[0.0], LEVELS, [1.0]])
    values = np.concatenate([[0.0], asked, [1.0]])
    return float(min(np.interp(wanted, points, values), MOST))
