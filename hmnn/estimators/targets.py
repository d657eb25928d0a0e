"""Targets of every kind: columns of them, labels, numbers."""

import datetime as dt
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.estimators import frames


def listed(y: Any) -> list[Any]:
    """The targets of the rows of a table as a list."""
    for name in ("to_pylist", "to_list"):  # pyarrow; pandas and polars
        if hasattr(y, name):
            return getattr(y, name)()
    if np.ndim(y) != 1:
        raise _check.fail("y", "a column of targets", type(y).__name__)
    return list(y)


def labels(y: Any) -> Any:
    """Classes as NumPy sorts them: dates as datetime64 in UTC, and none of them missing."""
    if hasattr(y, "isna") and hasattr(y.dtype, "numpy_dtype") and not y.isna().any():
        return y.to_numpy(y.dtype.numpy_dtype)  # as an array it would be one of floats
    values = np.asarray(y.to_pylist() if hasattr(y, "to_pylist") else y)
    if values.ndim != 1 or values.dtype.kind not in "OM":
        return y
    for value in values:
        if frames.is_missing(value):
            raise _check.fail("y", "labels that are not missing", value)
    if any(isinstance(value, dt.date) for value in values):
        if not all(isinstance(value, dt.date) for value in values):
            raise _check.fail("y", "labels of one kind", values.tolist()[:5])
        return np.array([frames.moment(value) for value in values])
    return values


def label(value: Any) -> Any:
    """A class, which must be something that a dictionary can hold and not missing."""
    if isinstance(value, np.generic):
        value = value.astype("datetime64[us]").item() if value.dtype.kind == "M" else value.item()
    try:
        hash(value)
        missing = value is None or bool(value != value)
    except TypeError:  # a list; or pandas' NA, which is not even different from itself
        missing = True
    if missing:
        raise _check.fail("y", "a label, hashable and not missing", value)
    return value


def target(value: Any) -> float:
    """A number to learn."""
    return _check.number("y", value, "a finite number", lambda _: True)
