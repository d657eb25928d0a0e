"""Checks at the door, with one wording: the parameter, what is allowed, what came."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float32).max)


class DivergenceError(RuntimeError):
    """The filter refused every update of a time step because none was finite."""


def fail(name: str, allowed: str, value: Any) -> ValueError:
    """Word an error, in one line: "memory must be in [0, 1]. Got 1.3."."""
    return ValueError(f"{name} must be {allowed}. Got {shown(value)}.")


def shown(value: Any) -> str:
    """A value in one line of at most 500 characters."""
    try:
        words = " ".join(repr(value).split())
    except Exception:  # Python itself does not write out whole numbers of 5000 digits
        words = f"one of the class {type(value).__name__}"
    return words if len(words) <= 500 else f"{words[:497]}..."


def number(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    """Return `value` as a float if it is a finite number for which `holds` is true."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise fail(name, allowed, value)
    try:
        result = float(value) if np.ndim(value) == 0 else math.nan
    except (TypeError, ValueError, OverflowError):
        raise fail(name, allowed, value) from None
    if not math.isfinite(result) or not holds(result):
        raise fail(name, allowed, value)
    if abs(result) > LARGEST:  # JAX would make it infinite without a word
        raise fail(name, f"{allowed} and fit in float32", value)
    return result


def unit(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    return number(name, value, "in [0, 1]", lambda v: 0 <= v <= 1)


def positive(name: str, value: Any) -> float:
    """A positive number."""
    return number(name, value, "a positive number", lambda v: v > 0)


def count(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`."""
    allowed = f"a whole number of at least {least}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise fail(name, allowed, value)
    if value >= 2**31:
        raise fail(name, f"{allowed} and below 2**31", value)
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a list of words."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        raise fail(name, "one of " + ", ".join(repr(w) for w in words), value)
    return value


def path(value: Any) -> Path:
    """A place on disk, without links on the way."""
    try:
        return Path(os.path.realpath(os.fsdecode(value)))
    except (TypeError, ValueError, OSError):
        raise fail("path", "the name of a place on disk", value) from None


def widened(values: Any) -> Any:
    """An array of bfloat16 or its kin, which NumPy's functions refuse, in single precision."""
    kind = getattr(getattr(values, "dtype", None), "type", None)
    ours = getattr(kind, "__module__", None) == "ml_dtypes"
    return np.asarray(values, np.float32) if ours else values


def finite(name: str, value: np.ndarray, where: str = "") -> None:
    """Refuse an array that holds NaN or infinity, saying in which row."""
    if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
        row = int(np.argwhere(~np.isfinite(value))[0][0])
        raise ValueError(
            f"{name} must be finite{where}. Got {value[row].ravel()[:5]} in row {row}."
        )
