"""Elec2: half hours of the New South Wales electricity market; does the price go up or down?"""

import math
from typing import NamedTuple

import numpy as np

from hmnn import _check
from hmnn.data import files

HEADER = '"date","day","period","nswprice","nswdemand","vicprice","vicdemand","transfer","class"'
FEATURES = ("day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
LABELS = {"DOWN": 0, "UP": 1}


class Elec2(NamedTuple):
    """The table, in the order of time; the date is left out, for it would give away the drift."""

    x: np.ndarray
    y: np.ndarray
    """1 where the price is above its mean of the last day (UP), otherwise 0."""
    features: tuple[str, ...] = FEATURES
    """The names of the columns of x."""


def elec2() -> Elec2:
    """The table of 45312 half hours: x (45312, 7) in float32, y (45312,) in int32."""
    return parse(files.read("elec2").decode("ascii"))


def parse(text: str) -> Elec2:
    """Read the table, refusing every line that is not as it should be."""
    first, *lines = text.removesuffix("\n").split("\n")
    if first != HEADER:
        raise _check.fail("line 1", HEADER, first[:120])
    if not lines:
        raise _check.fail("the table", "at least one line below the header", "none")
    x, y = np.empty((len(lines), len(FEATURES)), np.float32), np.empty(len(lines), np.int32)
    for i, line in enumerate(lines):
        x[i], y[i] = _row(line, i + 2)
    return Elec2(x, y)


def _row(line: str, number: int) -> tuple[list[float], int]:
    *cells, label = line.split(",")
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        values = []
    count = len(FEATURES) + 1
    if len(values) != count or label not in LABELS or not all(map(math.isfinite, values)):
        raise _check.fail(f"line {number}", f"{count} finite numbers and UP or DOWN", line[:120])
    return values[1:], LABELS[label]
