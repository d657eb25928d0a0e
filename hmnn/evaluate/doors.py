"""How models are asked and taught: scikit-learn's many rows at once, river's one row at a time.

A door turns rows into what its model takes, asks, reads the answer as arrays, and teaches. Labels
are 0 .. K - 1.
- Before a model has learned anything it may have no answer (river's empty dictionary or None,
  scikit-learn's `NotFittedError`): then all classes are equally probable, and the number is 0.
- A classifier without probabilities gives its label the probability 1, and is marked as `hard`.
- A regressor without standard deviations gives NaN for them.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray
from sklearn.exceptions import NotFittedError

from hmnn import _check


class ModelError(ValueError):
    """A model failed: which, at which row, doing what, and what it said."""


@runtime_checkable
class Prequential(Protocol):
    """A model that can predict and then learn many rows in one call."""

    def predict_then_fit(self, x: Any, y: Any) -> Any:
        """Probabilities, or means and standard deviations, each from the rows before it only."""


class Door(NamedTuple):
    """A model as functions of arrays; only `ask` and `learn` are timed."""

    prepare: Callable[[ndarray], Any]
    """The rows in the model's own form."""
    ask: Callable[[Any], Any]
    """The model's own answer."""
    read: Callable[[Any], Any]
    """The answer as probabilities (rows, K) of a classifier, as (mean, std) of a regressor."""
    learn: Callable[[Any, ndarray], Any]
    hard: Callable[[], bool] = bool
    """Whether the answers so far were labels without probabilities."""


def open_(model: Any, task: str, classes: int, features: list[str]) -> Door:
    """The door of a model: scikit-learn's if it has `partial_fit`, river's if `learn_one`."""
    labels = task == "classification"
    if hasattr(model, "partial_fit"):
        return _scikit(model, classes) if labels else _scikit_regressor(model)
    if hasattr(model, "learn_one"):
        return _river(model, classes, features) if labels else _river_regressor(model, features)
    allowed = "a model with partial_fit and predict, or with learn_one and predict_one"
    raise _check.fail("model", allowed, type(model).__name__)


def fused(model: Prequential, classes: int) -> Callable[[ndarray, ndarray], Any]:
    """Predict and learn in one call; a model that wants to know all classes is told them."""
    told = _told(model.predict_then_fit, classes)

    def progress(x: ndarray, y: ndarray) -> Any:
        found = model.predict_then_fit(x, y, **told)
        return np.asarray(found) if classes else tuple(np.asarray(v, np.float64) for v in found)

    return progress


def _told(learn: Callable[..., Any], classes: int) -> dict[str, Any]:
    takes = classes and "classes" in inspect.signature(learn).parameters
    return {"classes": np.arange(classes)} if takes else {}


def spread(model: Any, found: Any, classes: int) -> ndarray:
    """Probabilities of all classes; 0 for those that are not in the model's `classes_` yet."""
    found = np.asarray(found, np.float64)
    if found.ndim == 2 and found.shape[1] == classes:
        return found
    known = np.asarray(getattr(model, "classes_", []))
    if found.ndim != 2 or found.shape[1] != len(known):
        allowed = f"an array of one column for each of the {classes} classes"
        raise _check.fail("probabilities", allowed, f"the shape {found.shape}")
    full = np.zeros((len(found), classes))
    full[:, known.astype(np.int64)] = found
    return full


def _scikit(model: Any, classes: int) -> Door:
    hard = not hasattr(model, "predict_proba")

    def ask(x: ndarray) -> ndarray:
        try:
            return np.asarray(model.predict(x) if hard else model.predict_proba(x))
        except NotFittedError:
            return np.full((len(x), classes), 1 / classes)

    def read(found: ndarray) -> ndarray:
        found = np.eye(classes)[found.astype(np.int64)] if found.ndim == 1 else found
        return spread(model, found, classes)

    learn = partial(model.partial_fit, **_told(model.partial_fit, classes))
    return Door(np.asarray, ask, read, learn, lambda: hard)


def _scikit_regressor(model: Any) -> Door:
    sure = "return_std" in inspect.signature(model.predict).parameters
    options = {"return_std": True} if sure else {}

    def ask(x: ndarray) -> tuple[ndarray, ...]:
        try:
            found = model.predict(x, **options)
        except NotFittedError:
            found = np.zeros(len(x))
        return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)

    def read(found: tuple[ndarray, ...]) -> tuple[ndarray, ndarray]:
        mean, *std = (np.asarray(part, np.float64).reshape(-1) for part in found)
        return mean, std[0] if std else np.full(len(mean), np.nan)

    return Door(np.asarray, ask, read, model.partial_fit)


def _dictionaries(features: list[str], x: ndarray) -> list[dict[str, float]]:
    names = features or [str(j) for j in range(x.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in x.tolist()]


def _learn_each(model: Any, x: list[dict[str, float]], y: ndarray) -> None:
    for row, target in zip(x, y.tolist(), strict=True):
        model.learn_one(row, target)


def _river(model: Any, classes: int, features: list[str]) -> Door:
    hard = not hasattr(model, "predict_proba_one")

    def ask(x: list[dict[str, float]]) -> list[dict[Any, float]]:
        nonlocal hard
        if not hard:
            try:
                return [model.predict_proba_one(row) for row in x]
            except NotImplementedError:  # what river's classifiers without probabilities inherit
                hard = True
        labels = [model.predict_one(row) for row in x]
        return [{} if label is None else {label: 1.0} for label in labels]

    def read(found: list[dict[Any, float]]) -> ndarray:
        equal = dict.fromkeys(range(classes), 1 / classes)
        return np.array([[(p or equal).get(k, 0.0) for k in range(classes)] for p in found])

    learn = partial(_learn_each, model)
    return Door(partial(_dictionaries, features), ask, read, learn, lambda: hard)


def _river_regressor(model: Any, features: list[str]) -> Door:
    def ask(x: list[dict[str, float]]) -> list[Any]:
        return [model.predict_one(row) for row in x]

    def read(found: list[Any]) -> tuple[ndarray, ndarray]:
        mean = np.array([0.0 if value is None else value for value in found], np.float64)
        return mean, np.full(len(mean), np.nan)

    return Door(partial(_dictionaries, features), ask, read, partial(_learn_each, model))
