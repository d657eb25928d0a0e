"""What every method is, and the door that data go through before they reach compiled code."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from hmnn import _check
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction


class Method(NamedTuple):
    """Three functions; states are immutable, so an error leaves the caller's state as it was."""

    init: Callable[[Any], Any]
    """init(key) -> state, before any data; a whole number is taken as a seed."""
    step: Callable[..., tuple[Any, Any]]
    """step(state, data) -> (state, info): one time step; data is a Dataset, or None when there are none."""
    predict: Callable[..., Prediction]
    """predict(state, x, point="mean", samples=0, level=0.95) -> Prediction."""


def bucket(rows: int) -> int:
    """The padded size of a batch: powers of two, then quarters of them, so that few sizes compile."""
    if rows <= 512:
        return max(8, 1 << (rows - 1).bit_length())
    quarter = 1 << ((rows - 1).bit_length() - 3)
    return -(-rows // quarter) * quarter


def batch(data: Any, t: int) -> Batch:
    """Check the data of time step t and pad them to a bucket."""
    if not isinstance(data, tuple) or len(data) != 2:
        raise _check.fail("data", "a Dataset(x, y) or None", type(data).__name__)
    x, y = inputs(data[0], f" at t = {t}"), array("y", data[1], f" at t = {t}")
    if len(x) == 0 or len(x) != len(y):
        raise ValueError(
            f"x and y must have the same number of rows, at least one, at t = {t}. Got {len(x)} and {len(y)}."
        )
    return Batch(pad(x), pad(y), len(x))


def inputs(x: Any, where: str = "") -> np.ndarray:
    """x as a floating-point array of rows."""
    values = array("x", x, where)
    if values.ndim < 2:
        raise _check.fail("x", f"an array with one row per example{where}", f"shape {values.shape}")
    return values.astype(_float(), copy=False)


def array(name: str, values: Any, where: str) -> np.ndarray:
    """A finite numeric array that JAX will not change silently."""
    try:
        result = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise _check.fail(name, f"an array of numbers{where}", type(values).__name__) from None
    if result.dtype.kind not in "fiub" or result.ndim < 1:
        raise _check.fail(name, f"an array of numbers{where}", f"{result.dtype} of shape {result.shape}")
    _check.finite(name, result, where)
    kind, narrow = ("floating", _float()) if result.dtype.kind == "f" else ("whole", np.dtype("int32"))
    limits = np.finfo(narrow) if kind == "floating" else np.iinfo(narrow)
    if result.size and (result.max() > limits.max or result.min() < limits.min):
        worst = max(result.max(), result.min(), key=lambda v: abs(float(v)))
        raise ValueError(f"{name} must fit in {narrow}{where}. Got {worst}.")
    return result.astype(narrow, copy=False)


def pad(values: np.ndarray) -> np.ndarray:
    """A copy, always, since JAX may read it after the caller goes on, with its first row again up to the bucket.

    A real row, since a network or a likelihood need not be defined at 0: a gradient that is not finite stays so when
    it is counted 0 times.
    """
    padded = np.zeros((bucket(len(values)), *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    padded[len(values) :] = values[0] if len(values) else 0
    return padded


def _float() -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def check_labels(likelihood: Any, outputs: int, y: np.ndarray, t: int) -> None:
    """Refuse labels that the likelihood cannot give."""
    kind, where = type(likelihood).__name__, f" at t = {t}"
    if kind in ("Bernoulli", "Gaussian", "Poisson") and y[0].size != outputs:
        raise _check.fail("y", f"{outputs} numbers per row, as the network's outputs{where}", f"shape {y.shape}")
    if kind == "Categorical" and (y.dtype.kind != "i" or y.ndim != 1 or y.min() < 0 or y.max() >= outputs):
        raise _check.fail("y", f"whole numbers from 0 to {outputs - 1} in one column{where}", np.unique(y)[:5])
    if kind == "Bernoulli" and not ((y == 0) | (y == 1)).all():
        raise _check.fail("y", f"0 or 1{where}", np.unique(y)[:5])
    if kind == "Poisson" and ((y < 0) | (y % 1 != 0)).any():
        raise _check.fail("y", f"counts, whole and not negative{where}", np.unique(y)[:5])


def first_rows(prediction: Prediction, rows: int) -> Prediction:
    """Cut the padding off a prediction; in NumPy, since JAX would compile for every number of rows."""
    return jax.tree.map(lambda a: jax.device_put(np.asarray(a)[:rows]), prediction)
