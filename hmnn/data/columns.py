"""The columns of a CSV file, a pandas frame or a polars frame, each of numbers or of words."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from hmnn import _check

MISSING = {"", "na", "n/a", "nan", "nat", "null", "none", "?", "<na>"}
"""What counts as a missing cell, in small letters."""
DELIMITERS = ",;\t"
"""The one that is most frequent in the header separates the cells."""


class Column(NamedTuple):
    """A column of the table: its name, and numbers (NaN if missing) or words (None if missing)."""

    name: str
    values: Any

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return isinstance(self.values, ndarray)

    @property
    def gaps(self) -> int:
        """How many cells are missing."""
        return int(np.isnan(self.values).sum()) if self.numeric else self.values.count(None)


def read(source: Any) -> tuple[str, dict[str, Column]]:
    """The name of a source and its columns: a CSV file by its path, or a pandas or polars frame."""
    if isinstance(source, str | Path):
        return Path(source).name, _file(Path(source))
    if not hasattr(source, "columns") or not hasattr(source, "__getitem__"):
        allowed = "the path of a CSV file, a pandas frame or a polars frame"
        raise _check.fail("source", allowed, type(source).__name__)
    _distinct([str(key) for key in source.columns])
    columns = {str(key): _column(str(key), source[key].to_numpy()) for key in source.columns}
    if not len(source):
        raise _check.fail("the table", "at least one row long", 0)
    return type(source).__name__, columns


def _column(name: str, values: ndarray) -> Column:
    if values.dtype.kind in "biuf":
        return Column(name, _finite(name, values.astype(np.float64)))
    if values.dtype.kind in "mMc":
        allowed = "numbers or words; convert it or leave it out"
        raise _check.fail(f"column {name!r}", allowed, str(values.dtype))
    return _cells(name, [str(cell) for cell in values])


def _file(path: Path) -> dict[str, Column]:
    """The columns of a CSV file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(DELIMITERS, key=first.count), strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a text file in UTF-8.") from None
    except csv.Error as error:
        words = f"{path} must be a CSV file: {error}, near line {reader.line_num}."
        raise ValueError(words) from None
    if len(rows) < 2:
        raise _check.fail(str(path), "a header and at least one row long", f"{len(rows)} lines")
    names = [cell.strip() for cell in rows[0][1]]
    _distinct(names)
    for line, row in rows[1:]:
        if len(row) != len(names):
            allowed = f"{len(names)} cells long, like the header"
            raise _check.fail(f"line {line} of {path}", allowed, len(row))
    return {name: _cells(name, [row[i] for _, row in rows[1:]]) for i, name in enumerate(names)}


def _distinct(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _check.fail("names of columns", "distinct", twice[0])


def _cells(name: str, cells: list[str]) -> Column:
    """A column of text: numbers if all cells that are not missing are."""
    words = [None if cell.strip().lower() in MISSING else cell.strip() for cell in cells]
    try:
        numbers = np.array([np.nan if w is None else float(w) for w in words], np.float64)
    except ValueError:
        return Column(name, words)
    return Column(name, _finite(name, numbers))


def _finite(name: str, values: ndarray) -> ndarray:
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise _check.fail(f"column {name!r}", "finite", f"inf in row {row}")
    return values
