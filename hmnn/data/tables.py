"""Tables as streams: a CSV file, a pandas frame or a polars frame, in the order of its rows.

What becomes of a column:
- Numbers stay numbers. A column is one of numbers if every cell that is not missing is one.
- Other columns are categories: one column of 0 and 1 per category (`encoding="onehot"`) or its
  place in the sorted list (`"ordinal"`). Only that list is read ahead of time.
- A missing number (an empty cell, NA, NaN, null, None or ?) is the last one seen in its column, or
  0 before there was one. A missing category has 0 in all its columns (one-hot) or is -1 (ordinal).
  A row without target is left out. `missing="refuse"` makes each of these an error.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn import _check
from hmnn._types import Dataset
from hmnn.data import columns
from hmnn.data.columns import Column
from hmnn.data.streams import Stream

MOST_CATEGORIES = 100
"""More one-hot columns than this out of one column are refused: it is likely a date or a name."""
MOST_CLASSES = 20
"""A target with more whole numbers than this is a number to predict, unless `task` says no."""
BLOCK = 1000
"""Rows of a time step."""
TASKS = ("classification", "regression")


def table(
    source: Any,
    target: str,
    task: str | None = None,
    *,
    drop: Iterable[str] = (),
    categorical: Iterable[str] = (),
    encoding: str = "onehot",
    missing: str = "last",
    rows: int | None = None,
    block: int = BLOCK,
) -> Stream:
    """A table as a stream of blocks of rows; the head of this file says what becomes of columns.

    Args:
        source: path of a CSV file with a header (commas, semicolons or tabs), or a frame.
        target: the column to predict.
        task: "classification" or "regression"; by default classification if the target holds words,
            or at most 20 different whole numbers.
        drop: columns to leave out.
        categorical: columns of numbers that are names of categories.
        encoding: "onehot" or "ordinal".
        missing: "last" or "refuse".
        rows: only so many of the first rows that have a target.
        block: rows of a time step of the stream.
    """
    _check.choice("encoding", encoding, ("onehot", "ordinal"))
    _check.choice("missing", missing, ("last", "refuse"))
    if task is not None:
        _check.choice("task", task, TASKS)
    name, found = columns.read(source)
    drop, categorical = (
        [names] if isinstance(names, str) else list(names) for names in (drop, categorical)
    )
    for wanted in [target, *drop, *categorical]:
        _check.choice("column", wanted, found)
    y, task, classes, known = _target(found.pop(target), task, missing)
    left = [column for column in found.values() if column.name not in drop]
    kept = [_as_category(c) if c.name in categorical else c for c in left]
    if not kept:
        raise _check.fail("the table", "of at least one column beside the target", target)
    parts = [_encode(column, encoding, missing) for column in kept]
    x = np.column_stack([values for _, values in parts])[known]
    gaps = {column.name: column.gaps for column in kept if column.gaps}
    made = {"source": name, "target": target, "missing": gaps, "left_out": int((~known).sum())}
    first = slice(None if rows is None else _check.count("rows", rows))
    about: dict[str, Any] = {"classes": classes, "made": made, "block": block}
    about["features"] = [feature for names, _ in parts for feature in names]
    return blocks(x[first], y[first], task, name, **about)


def blocks(
    x: ndarray,
    y: ndarray,
    task: str,
    name: str = "arrays",
    *,
    features: Iterable[str] = (),
    classes: Iterable[Any] = (),
    made: dict[str, Any] | None = None,
    block: int = BLOCK,
) -> Stream:
    """Arrays as a stream of blocks of rows; names of features and classes stand in its `made`."""
    _check.choice("task", task, TASKS)
    _check.count("block", block)
    if len(x) != len(y) or not len(y):
        raise _check.fail("x and y", "of the same length, at least 1", f"{len(x)} and {len(y)}")
    about = {**(made or {}), "rows": len(y), "block": block}
    about |= {"features": list(features), "classes": list(classes)}

    def at(t: int) -> Dataset:
        rows = slice(t * block, (t + 1) * block)
        return Dataset(x[rows], y[rows])

    return Stream(name, task, -(-len(y) // block), at, about)


def _as_category(column: Column) -> Column:
    if not column.numeric:
        return column
    return Column(column.name, [None if v != v else _label(v) for v in column.values.tolist()])


def _label(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _order(word: str) -> tuple[int, float, str]:
    """Numbers in their order, then words in theirs."""
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


def _target(column: Column, task: Any, missing: str) -> tuple[ndarray, str, list[str], ndarray]:
    """The labels 0 .. K - 1 or the numbers, the task, the classes, and which rows have a target."""
    words = _as_category(column).values
    known = np.array([word is not None for word in words])
    if missing == "refuse" and not known.all():
        row = int(np.argmin(known))
        raise _check.fail(f"target {column.name!r}", "in every row", f"none in row {row}")
    seen, codes = _codes(words)
    if not seen:
        raise _check.fail(f"target {column.name!r}", "there in at least one row", "none")
    whole = column.numeric and bool(np.all(column.values[known] == np.round(column.values[known])))
    if task is None:
        few = whole and len(seen) <= MOST_CLASSES
        task = "classification" if few or not column.numeric else "regression"
    if task == "regression":
        if not column.numeric:
            raise _check.fail(f"target {column.name!r}", "numbers for a regression", seen[-1])
        return column.values[known], task, [], known
    if len(seen) < 2:
        raise _check.fail(f"target {column.name!r}", "of at least two classes", seen[0])
    return codes[known], task, seen, known


def _codes(words: list[str | None]) -> tuple[list[str], ndarray]:
    """The different words in their order, and the place of each; -1 for one that is missing."""
    seen = sorted({word for word in words if word is not None}, key=_order)
    place: dict[str | None, int] = {None: -1} | {word: i for i, word in enumerate(seen)}
    return seen, np.array([place[word] for word in words], np.int64)


def _encode(column: Column, encoding: str, missing: str) -> tuple[list[str], ndarray]:
    """Names and values of the columns that a column becomes."""
    gaps = column.gaps
    if gaps == len(column.values):
        allowed = "there in at least one row, or left out"
        raise _check.fail(f"column {column.name!r}", allowed, "none")
    if gaps and missing == "refuse":
        raise _check.fail(f"column {column.name!r}", "in every row", f"{gaps} missing")
    if column.numeric:
        return [column.name], _carry(column.values)[:, None]
    seen, codes = _codes(column.values)
    if encoding == "ordinal":
        return [column.name], codes[:, None].astype(np.float64)
    if len(seen) > MOST_CATEGORIES:
        allowed = f"of at most {MOST_CATEGORIES} categories, or left out, or ordinal"
        raise _check.fail(f"column {column.name!r}", allowed, len(seen))
    flags = (codes[:, None] == np.arange(len(seen))).astype(np.float64)
    return [f"{column.name}={word}" for word in seen], flags


def _carry(values: ndarray) -> ndarray:
    """The last number seen in place of each that is missing, 0 before the first."""
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(last < 0, 0.0, values[last])
