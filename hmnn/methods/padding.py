"""The data of a time step, checked and padded to one of a few sizes."""

from typing import Any

import jax
import numpy as np

from hmnn import _check
from hmnn._types import Batch
from hmnn.core.prediction import Prediction


def bucket(rows: int) -> int:
    """The padded size of a batch.

    Powers of two, then quarters of them, so that few sizes compile.
    """
    if rows <= 512:
        return max(8, 1 << (rows - 1).bit_length())
    quarter = 1 << ((rows - 1).bit_length() - 3)
    return -(-rows // quarter) * quarter


def batch(data: Any, t: int) -> tuple[Batch, int]:
    """Check the data of time step t and pad them to a bucket; also, how many rows are real."""
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise _check.fail(
            "data", "a Dataset(x, y), a Batch(x, y, weight) or None", type(data).__name__
        )
    where = f" at t = {t}"
    x, y = inputs(data[0], where), array("y", data[1], where)
    if len(x) == 0 or len(x) != len(y):
        raise ValueError(
            f"x and y must have the same number of rows, at least one, at t = {t}. "
            f"Got {len(x)} and {len(y)}."
        )
    if len(data) == 2:
        return padded(x, y, np.ones(len(x), x.dtype)), len(x)
    weight = array("weight", data[2], where)
    if weight.shape != (len(x),) or (weight < 0).any() or not (weight > 0).any():
        raise _check.fail(
            "weight", f"one number a row, not negative and not all 0{where}", weight[:5]
        )
    real = weight > 0
    return padded(x[real], y[real], weight[real].astype(x.dtype)), int(real.sum())


def padded(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Batch:
    """Rows that were checked before, filled up to their bucket with rows of weight 0."""
    full = np.zeros(bucket(len(x)), weight.dtype)
    full[: len(x)] = weight
    return Batch(pad(x), pad(y), full)


def inputs(x: Any, where: str = "") -> np.ndarray:
    """x as a floating-point array of rows."""
    values = array("x", x, where)
    if values.ndim < 2:
        raise _check.fail("x", f"an array with one row per example{where}", f"shape {values.shape}")
    return values.astype(default_float(), copy=False)


def array(name: str, values: Any, where: str) -> np.ndarray:
    """A finite numeric array that JAX will not change silently."""
    try:
        result = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise _check.fail(name, f"an array of numbers{where}", type(values).__name__) from None
    if result.dtype.kind not in "fiub" or result.ndim < 1:
        raise _check.fail(
            name, f"an array of numbers{where}", f"{result.dtype} of shape {result.shape}"
        )
    _check.finite(name, result, where)
    kind, narrow = (
        ("floating", default_float()) if result.dtype.kind == "f" else ("whole", np.dtype("int32"))
    )
    limits = np.finfo(narrow) if kind == "floating" else np.iinfo(narrow)
    if result.size and (result.max() > limits.max or result.min() < limits.min):
        worst = max(result.max(), result.min(), key=lambda v: abs(float(v)))
        raise ValueError(f"{name} must fit in {narrow}{where}. Got {worst}.")
    return result.astype(narrow, copy=False)


def pad(values: np.ndarray) -> np.ndarray:
    """A copy, always, as JAX may read it later, filled up to the bucket with its first row.

    A real row, since a network or a likelihood need not be defined at 0: a gradient that is not
    finite stays so when it is counted 0 times.
    """
    filled = np.zeros((bucket(len(values)), *values.shape[1:]), values.dtype)
    filled[: len(values)] = values
    filled[len(values) :] = values[0] if len(values) else 0
    return filled


def default_float() -> np.dtype:
    """The floating-point type that JAX computes in."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def first_rows(prediction: Prediction, rows: int) -> Prediction:
    """Cut the padding off a prediction.

    In NumPy, since JAX would compile for every number of rows.
    """
    return jax.tree.map(lambda a: jax.device_put(np.asarray(a)[:rows]), prediction)
