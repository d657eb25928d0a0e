"""The scikit-learn regressor."""

from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from hmnn import _check
from hmnn._types import Number
from hmnn.core.natural import Outlook
from hmnn.estimators import engine, inputs
from hmnn.estimators.engine import Memory
from hmnn.estimators.inputs import Scaler
from hmnn.estimators.scikit import Filter, Uncertainty, fitting, whole


class HMNNRegressor(RegressorMixin, Filter):
    """A neural network regressor whose weights move in time, with intervals.

    The noise is learned from residuals, y is standardised by the rows learned so far. Parameters are those of
    `HMNNClassifier`.
    """

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Forget everything and take one time step."""
        x, y = self._checked(X, y, reset=True)
        self.memory_ = self._learn(x, y, sample_weight, self._start())
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Take one time step."""
        fresh = not hasattr(self, "memory_")
        x, y = self._checked(X, y, reset=fresh)
        self.memory_ = self._learn(x, y, sample_weight, self._start() if fresh else self.memory_)
        return self

    @whole
    def progress(self, X: Any, y: Any) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        """Predict each row and then learn it, every row a time step, in one compiled loop.

        Returns:
            The mean and the standard deviation of each row, from the rows before it.
        """
        fresh = not hasattr(self, "memory_")
        x, y = self._checked(X, y, reset=fresh)
        memory = self._start() if fresh else self.memory_
        (scaled, centred), target = inputs.followed(memory.x, x), inputs.running(memory.y, y[:, None])
        after, seen = engine.progress(self._engine(), memory, centred if self.standardise else x, target.centred[:, 0])
        self.memory_ = after._replace(x=scaled, y=target.after)
        mean = target.mean[:, 0] + target.deviation[:, 0] * seen.outputs[:, 0]
        return mean, target.deviation[:, 0] * np.sqrt(seen.spread[:, 0] + seen.noise)

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803 - scikit-learn's name
        """The mean of y for each row, with its standard deviation if asked for."""
        mean, std = self._told(*self._look(X))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, level: Number = 0.95) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The lower and the upper end, in two columns, of an interval for y with probability `level`."""
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        mean, std = self.predict(X, return_std=True)
        reach = ndtri(0.5 + 0.5 * level) * std
        return np.stack([mean - reach, mean + reach], axis=1)

    def forecast(self, X: Any, horizon: Number = 1) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        """Mean and standard deviation `horizon` time steps from now: the farther, the wider."""
        return self._told(*self._look(X, _check.count("horizon", horizon)))

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803 - scikit-learn's name
        """The variance of y of each row in its two parts."""
        seen, memory = self._look(X)
        square = _unit(memory.y) ** 2
        noise = square * float(memory.noise.variance)
        return Uncertainty(square * seen.spread[:, 0], np.full(len(seen.outputs), noise))

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        return fitting("X", x), fitting("y", y.astype(np.float64))

    def _absorbed(self, scaler: Scaler, y: ndarray, weight: ndarray) -> Scaler:
        return inputs.absorbed(scaler, y[:, None], weight)

    def _target(self, scaler: Scaler, y: ndarray) -> ndarray:
        return (y - scaler.mean[0]) / _unit(scaler)

    def _told(self, seen: Outlook, memory: Memory) -> tuple[ndarray, ndarray]:
        unit = _unit(memory.y)
        std = np.sqrt(seen.spread[:, 0].astype(np.float64) + float(memory.noise.variance))
        return memory.y.mean[0] + unit * seen.outputs[:, 0].astype(np.float64), unit * std


def _unit(scaler: Scaler) -> float:
    """The standard deviation of the values learned."""
    return float(inputs.deviations(scaler.squares / np.maximum(scaler.number, 1.0), scaler.mean)[0])
