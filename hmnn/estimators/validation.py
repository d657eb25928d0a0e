"""scikit-learn's checks of X and y, and of numbers that do not fit."""

from typing import Any

import numpy as np
from numpy import ndarray
from sklearn.utils.validation import validate_data

from hmnn import _check


def validated(estimator: Any, X: Any, reset: bool, **settings: Any) -> Any:  # noqa: N803
    """X in double precision, and y if it is given, as scikit-learn checks them."""
    for name, values in {"X": X, "y": settings.get("y")}.items():
        if np.ma.is_masked(values):  # NumPy would take what stands under the mask
            raise _check.fail(name, "an array without masked cells", "a masked array")
    try:
        return validate_data(estimator, X, dtype=np.float64, reset=reset, **settings)
    except OverflowError:
        raise ValueError("X and y must be made of numbers that fit in float32.") from None


def fitting(name: str, values: ndarray) -> ndarray:
    """Refuse numbers that single precision, in which the network computes, does not have."""
    if values.size and np.abs(values).max() > _check.LARGEST:
        row = int(np.argwhere(np.abs(values) > _check.LARGEST)[0][0])
        raise ValueError(
            f"{name} must fit in float32. Got {np.ravel(values[row])[:5]} in row {row}."
        )
    return values
