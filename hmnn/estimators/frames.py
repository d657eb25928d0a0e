"""The columns of any table, each of numbers, of dates or of words, with its missing values.

A table is a frame of pandas or polars, a table of pyarrow, a structured array of NumPy or a list of
dictionaries. None of these packages is imported: what is asked for is what their tables share.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn import _check

ALLOWED = "a finite number, a word, a date or missing"
NO_NUMBERS = (str, bytes, dt.date, dt.timedelta, np.datetime64, np.timedelta64)


def names(table: Any) -> list[Any] | None:
    """The names of a table's columns, or None if it is no table with names."""
    if hasattr(table, "collect_schema") and not hasattr(table, "__len__"):  # polars
        raise _check.fail("X", "a table in memory, as collect() makes one", type(table).__name__)
    if hasattr(table, "column_names"):  # pyarrow, whose `columns` are the columns themselves
        found = list(table.column_names)
    elif hasattr(table, "columns"):
        found = list(table.columns)
    elif isinstance(table, ndarray) and table.dtype.names:
        found = list(table.dtype.names)
    elif are_rows(table):
        found = list(dict.fromkeys(name for row in table for name in row))
    else:
        return None
    if len(set(found)) < len(found):
        raise _check.fail("X", "a table whose columns have different names", found)
    return found


def unnamed(table: Any) -> dict[str, ndarray]:
    """The columns of an array, with the names x0, x1 and so on."""
    array = table if isinstance(table, ndarray) else np.asarray(table, object)
    if array.ndim != 2:
        raise _check.fail("X", "a table, or an array of two dimensions", type(table).__name__)
    return {f"x{i}": values for i, values in enumerate(array.T)}


def are_numbers(table: Any) -> bool:
    """Whether this is an array or a pandas frame of numbers, or else no table that we know."""
    if hasattr(table, "iloc") and hasattr(table, "dtypes"):
        return all(getattr(kind, "kind", "O") in "biuf" for kind in table.dtypes)
    if names(table) is not None:
        return False
    try:
        array = np.asarray(table) if isinstance(table, list | tuple) else table
    except (ValueError, OverflowError):
        raise _check.fail("X", "rows of numbers or words, all of the same length", table) from None
    if not isinstance(array, ndarray) or array.ndim != 2 or array.dtype.kind in "biufcV":
        return True
    return array.dtype.kind == "O" and not any(
        isinstance(value, NO_NUMBERS) or is_missing(value) for value in array.flat
    )


def are_rows(table: Any) -> bool:
    """Whether a table is a list of dictionaries."""
    return (
        isinstance(table, list | tuple)
        and len(table) > 0
        and all(isinstance(row, Mapping) for row in table)
    )


def columns(table: Any, wanted: Iterable[Any]) -> dict[Any, ndarray]:
    """Columns of a table by name: float64, datetime64[us], or objects for words."""
    if are_rows(table):
        return {name: cells(name, [row.get(name) for row in table]) for name in wanted}
    take = table.column if hasattr(table, "column_names") else table.__getitem__
    return {name: column(name, take(name)) for name in wanted}


def some_rows(table: Any, start: int, stop: int) -> Any:
    """Rows of a table, or targets of rows."""
    if hasattr(table, "slice"):  # polars and pyarrow
        return table.slice(start, stop - start)
    return table.iloc[start:stop] if hasattr(table, "iloc") else table[start:stop]


def column(name: Any, given: Any) -> ndarray:
    """One column; NaN, NaT or None where a value is missing."""
    kind = getattr(getattr(given, "dtype", None), "kind", "")
    if str(getattr(given, "dtype", "")) == "category":  # pandas
        words = np.array([*(word(value) for value in given.cat.categories), None], object)
        return words[given.cat.codes.to_numpy()]  # a missing one has the code -1
    if str(getattr(given, "type", "")).startswith("dictionary"):  # pyarrow
        return np.array([v if v is None else word(v) for v in given.to_pylist()], object)
    if hasattr(given, "isna") and kind in ("b", "i", "u", "f"):
        given = given.to_numpy(dtype=np.float64, na_value=np.nan)
    elif hasattr(given, "isna") and kind == "M":
        given = given.to_numpy("datetime64[us]")
    values = np.asarray(given)
    if values.ndim != 1:
        raise _check.fail(f"feature {name!r}", ALLOWED, values[0].tolist())
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s")
    if values.dtype.kind not in "biuf":
        return cells(name, values.tolist())
    numbers = values.astype(np.float64)
    for wrong in numbers[np.abs(numbers) > _check.LARGEST].tolist():
        cell(name, wrong)
    return numbers


def cells(name: Any, values: list[Any]) -> ndarray:
    """A column of single values, which must be of one kind."""
    found = [cell(name, value) for value in values]
    kinds = list(dict.fromkeys(type(value) for value in found if value is not None))
    if len(kinds) > 1:
        other = next(v for v, f in zip(values, found, strict=True) if type(f) is kinds[1])
        raise _check.fail(f"feature {name!r}", "of one kind: numbers, words or dates", other)
    if kinds == [str]:
        return np.array(found, object)
    if kinds == [np.datetime64]:
        return np.array([np.datetime64("NaT") if v is None else v for v in found], "datetime64[us]")
    return np.array(found, np.float64)


def cell(name: Any, value: Any) -> float | str | np.datetime64 | None:
    """One value as a number, a word or a date, None if it is missing.

    True and False are 1 and 0, a duration is its seconds.
    """
    # Nearly all values, and a row has many.
    if (type(value) is float or type(value) is int) and abs(value) <= _check.LARGEST:
        return float(value)
    if is_missing(value):
        return None
    if isinstance(value, str | bytes):
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, dt.date | np.datetime64):  # a datetime is a date
        return moment(value)
    if isinstance(value, dt.timedelta | np.timedelta64):
        return float(np.timedelta64(value) / np.timedelta64(1, "s"))
    return _check.number(f"feature {name!r}", value, ALLOWED, lambda _: True)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or isinstance(value, ndarray):
        return value is None
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA is not even different from itself
        return type(value).__name__ == "NAType"


def moment(value: Any) -> np.datetime64:
    """A date in UTC, which is also taken for the zone of one that has none."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def word(value: Any) -> str:
    """The word for a category: a whole number has no decimal point, True is 1."""
    whole = isinstance(value, bool | np.bool_ | float) and value == np.floor(value)
    return str(int(value)) if whole else str(value)
