"""scikit-learn's checks of X and y, and of numbers that do not fit."""

from typing import Any

import numpy as np
from numpy import ndarray
from sklearn.utils.validation import validate_data

from hmnn import _check

TOO_LARGE = "X and y must be made of numbers that fit in float32. Got a whole number that does not."


def validated(estimator: Any, X: Any, reset: bool, **settings: Any) -> Any:  # noqa: N803
    """X in double precision, and y if it is given, as scikit-learn checks them."""
    for name, values in {"X": X, "y": settings.get("y")}.items():
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise _check.fail(name, "an array without masked cells", "a masked array")
        if getattr(getattr(values, "dtype", None), "type", object).__module__ == "ml_dtypes":
            settings |= {"y": np.asarray(values, np.float32)} if name == "y" else {}
    try:
        found = validate_data(estimator, X, dtype=np.float64, reset=reset, **settings)
    except OverflowError:
        raise ValueError(TOO_LARGE) from None
    x = found[0] if isinstance(found, tuple) else found
    if not np.abs(x).max() <= _check.LARGEST:  # or NaN somewhere
        fitting("X", x)
    return found


def fitting(name: str, values: ndarray) -> ndarray:
    """Refuse numbers that single precision, in which the network computes, does not have."""
    wrong = np.argwhere(np.abs(values) > _check.LARGEST)
    if len(wrong):
        row = int(wrong[0][0])
        raise ValueError(
            f"{name} must fit in float32. Got {np.ravel(values[row])[:5]} in row {row}."
        )
    return values


def weights(sample_weight: Any, rows: int) -> ndarray:
    """One weight a row, of which one at least is positive."""
    if sample_weight is None:
        return np.ones(rows)
    allowed = f"{rows} numbers that are not negative, one for each row"
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _check.fail("sample_weight", allowed, sample_weight) from None
    if weight.ndim > 1 or weight.shape not in ((), (rows,)):
        raise _check.fail("sample_weight", allowed, f"the shape {weight.shape}")
    weight = np.array(np.broadcast_to(weight, (rows,)))
    if not np.isfinite(weight).all() or (weight < 0).any() or weight.sum() > _check.LARGEST:
        raise _check.fail("sample_weight", f"{allowed}, whose sum fits in float32", weight[:5])
    if not weight.astype(np.float32).any():
        raise _check.fail("sample_weight", "positive for one row at least", "zeros")
    return weight
