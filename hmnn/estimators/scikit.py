"""What the two scikit-learn estimators share: parameters, validation, one immutable memory, files."""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hmnn import _check, store
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.natural import Moments, Noise, Outlook
from hmnn.estimators import batch, engine, inputs
from hmnn.estimators.batch import Batch
from hmnn.estimators.engine import Engine, Memory, Settings
from hmnn.estimators.inputs import Scaler


class Uncertainty(NamedTuple):
    """Two variances for each row."""

    epistemic: ndarray
    """What more data would take away."""
    aleatoric: ndarray
    """What is left for ever."""


def whole(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method leave the estimator as it was if it raises."""

    @wraps(method)
    def safe(self: Any, *args: Any, **named: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **named)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return safe


def fitting(name: str, values: ndarray) -> ndarray:
    """Refuse numbers that single precision, in which the network computes, does not have."""
    if values.size and np.abs(values).max() > _check.LARGEST:
        row = int(np.argwhere(np.abs(values) > _check.LARGEST)[0][0])
        raise ValueError(f"{name} must fit in float32. Got {np.ravel(values[row])[:5]} in row {row}.")
    return values


class Filter(BaseEstimator):
    """The common part of `HMNNClassifier` and `HMNNRegressor`."""

    _kind = "gaussian"
    memory_: Memory

    def __init__(
        self,
        hidden: Any = (64, 64),
        *,
        memory: Number = 0.9999,
        jump_scale: Number = 0.007,
        shrink: Number = kernels.SHRINK,
        jump_prob: Number = 0.5,
        keep: Number = 1.0,
        initial_scale: Number = 0.3,
        level_scale: Number = 0.03,
        projection: Any = "auto",
        epochs: Number = 50,
        learning_rate: Number = 0.01,
        minibatch: Number = 128,
        standardise: Any = True,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.memory = memory
        self.jump_scale = jump_scale
        self.shrink = shrink
        self.jump_prob = jump_prob
        self.keep = keep
        self.initial_scale = initial_scale
        self.level_scale = level_scale
        self.projection = projection
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.minibatch = minibatch
        self.standardise = standardise
        self.random_state = random_state

    @property
    def drift_(self) -> ndarray:
        """The responsibility of the big jump at each time step of `fit` or `partial_fit`, the last 10000 of them."""
        check_is_fitted(self, "memory_")
        return self.memory_.drift.copy()

    @property
    def surprise_(self) -> ndarray:
        """The mean log density of each batch before it was learned, the last 10000 of them."""
        check_is_fitted(self, "memory_")
        return self.memory_.surprise.copy()

    @whole
    def advance(self, steps: Number = 1) -> Any:
        """Let time pass without data: the model grows less certain as its weights move."""
        check_is_fitted(self, "memory_")
        self.memory_ = engine.advance(self._engine(), self.memory_, _check.count("steps", steps))
        return self

    def save(self, path: Any) -> Path:
        """Write the estimator to a directory, whole and verified; nothing in it can run code when loaded."""
        check_is_fitted(self, "memory_")
        parameters = json.dumps({name: _plain(name, value) for name, value in self.get_params(deep=False).items()})
        names = getattr(self, "feature_names_in_", None)
        return store.save(
            {
                "estimator": type(self).__name__,
                "parameters": parameters,
                "features": None if names is None else json.dumps(list(names)),
                "classes": json.dumps(self.classes_.tolist()) if hasattr(self, "classes_") else None,
                "memory": self.memory_,
            },
            path,
        )

    @classmethod
    def load(cls, path: Any) -> Any:
        """Read an estimator that `save` wrote."""
        saved = store.load(path)
        if not isinstance(saved, dict) or saved.get("estimator") != cls.__name__:
            name = saved.get("estimator") if isinstance(saved, dict) else type(saved).__name__
            raise _check.fail("path", f"a directory that {cls.__name__}.save wrote", name)
        parameters = json.loads(saved["parameters"])
        estimator = cls(**parameters | {"hidden": tuple(parameters["hidden"])})
        kinds = {"law": Moments, "noise": Noise, "x": Scaler, "y": Scaler}
        parts = {name: kinds[name](**part) if name in kinds else part for name, part in saved["memory"].items()}
        estimator.memory_ = Memory(**parts)
        estimator.n_features_in_ = len(estimator.memory_.x.number)
        if saved["features"] is not None:
            estimator.feature_names_in_ = np.array(json.loads(saved["features"]), dtype=object)
        if saved["classes"] is not None:
            estimator.classes_ = np.array(json.loads(saved["classes"]))
        return estimator

    def _engine(self) -> Engine:
        names = [name for name in Settings._fields if name in self.__dict__]
        settings = Settings(**{name: getattr(self, name) for name in names})
        if not isinstance(self.standardise, bool | np.bool_):
            raise _check.fail("standardise", "True or False", self.standardise)
        return engine.engine(settings, self.n_features_in_, self._outputs(), self._likelihood())

    def _outputs(self) -> int:
        return 1

    def _likelihood(self) -> str:
        return self._kind

    def _start(self) -> Memory:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return engine.start(self._engine(), seed, self.n_features_in_)

    def _learn(self, x: ndarray, y: ndarray, sample_weight: Any, memory: Memory) -> Memory:
        """One time step with checked rows; y as the network has it, but not standardised."""
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0).any():
            raise _check.fail("sample_weight", "positive for one row at least", "zeros")
        rows = batch.merged(Batch(x, y, weight))
        memory = memory._replace(
            x=inputs.absorbed(memory.x, rows.x, rows.weight), y=self._absorbed(memory.y, rows.y, rows.weight)
        )
        scaled = inputs.against(memory.x, rows.x) if self.standardise else rows.x
        data = batch.written_out(Batch(scaled, self._target(memory.y, rows.y), rows.weight))
        return engine.learn(self._engine(), memory, *data)

    def _absorbed(self, scaler: Scaler, y: ndarray, weight: ndarray) -> Scaler:
        return scaler

    def _target(self, scaler: Scaler, y: ndarray) -> ndarray:
        return y

    def _look(self, X: Any, horizon: int = 0) -> tuple[Outlook, Memory]:  # noqa: N803 - scikit-learn's name
        """The outlook of new rows, and the memory it was made with."""
        check_is_fitted(self, "memory_")
        x = fitting("X", validate_data(self, X, dtype=np.float64, reset=False))
        memory = self.memory_ if horizon == 0 else engine.advance(self._engine(), self.memory_, horizon)
        seen = engine.look(self._engine(), memory, inputs.beside(memory.x, x) if self.standardise else x)
        if not np.isfinite(seen.outputs).all():
            row = int(np.argwhere(~np.isfinite(seen.outputs))[0][0])
            raise _check.fail("X", "such that the network's outputs are finite", f"row {row}, {x[row].ravel()[:5]}")
        return seen, memory


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON has it; searches give NumPy's numbers."""
    try:
        return json.loads(json.dumps(value, default=lambda number: number.item()))
    except (TypeError, ValueError, AttributeError):
        allowed = "None or a whole number" if name == "random_state" else "made of numbers and words"
        raise _check.fail(name, f"{allowed} in a model that is saved", value) from None
