"""Sliding windows and splits in the order of time, for any array or pandas object."""

from itertools import pairwise
from typing import Any

from hmnn import _check
from hmnn._types import Dataset
from hmnn.data.streams import Stream


def sliding(
    x: Any,
    y: Any = None,
    size: int = 36,
    step: int = 1,
    horizon: int = 1,
    name: str = "windows",
    task: str = "",
) -> Stream:
    """Windows that slide over a table: time step t holds rows t * step to t * step + size - 1.

    Args:
        x: rows in the order of time: an array, a pandas frame or a series.
        y: one target per row of x; without it, the target is x itself, `horizon` rows later.
        size: rows of a window.
        step: rows by which the window slides.
        horizon: how far ahead the target is, when there is no y.
        name: of the stream.
        task: of the stream; "forecast" without y, "regression" with it, unless given.
    """
    size, step, horizon = (
        _check.count(n, v) for n, v in (("size", size), ("step", step), ("horizon", horizon))
    )
    if y is not None and len(y) != len(x):
        raise _check.fail("y", f"as long as x, {len(x)} rows", f"{len(y)} rows")
    inputs, targets = x, y
    if y is None:
        inputs, targets = rows(x, 0, len(x) - horizon), rows(x, horizon, len(x))
    if len(inputs) < size:
        raise _check.fail("size", f"at most the number of pairs, {max(len(inputs), 0)}", size)

    def at(t: int) -> Dataset:
        return Dataset(*(rows(part, t * step, t * step + size) for part in (inputs, targets)))

    made = {"rows": len(x), "size": size, "step": step, "horizon": horizon if y is None else 0}
    task = task or ("forecast" if y is None else "regression")
    return Stream(name, task, (len(inputs) - size) // step + 1, at, made)


def split(table: Any, *starts: int) -> list[Any]:
    """Cut a table in the order of time: one part before the first of `starts`, one from each on."""
    edges = [0, *(_check.count("starts", start) for start in starts), len(table)]
    if edges != sorted(set(edges)):
        allowed = f"increasing and below the number of rows, {len(table)}"
        raise _check.fail("starts", allowed, starts)
    return [rows(table, low, high) for low, high in pairwise(edges)]


def rows(table: Any, low: int, high: int) -> Any:
    """Rows low to high - 1 by their place; a pandas index is kept and not looked at."""
    return table.iloc[low:high] if hasattr(table, "iloc") else table[low:high]
