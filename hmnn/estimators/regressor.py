"""The scikit-learn regressor."""

from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import ndtri
from sklearn.base import RegressorMixin

from hmnn import _check
from hmnn._types import Number
from hmnn.core.prediction import Prediction
from hmnn.estimators import scaling
from hmnn.estimators.learned import Learned
from hmnn.estimators.scaling import FARTHEST, Scaler
from hmnn.estimators.scikit import StreamEstimator, Uncertainty
from hmnn.estimators.validation import fitting, validated
from hmnn.estimators.whole import whole
from hmnn.methods.padding import default_float


class HMNNRegressor(RegressorMixin, StreamEstimator):
    """A neural network regressor whose weights move in time, with intervals.

    The noise is learned from residuals, y is standardised by the rows learned so far. Parameters
    are those of `HMNNClassifier`; a network of your own has one output.
    """

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Forget everything and learn all rows as one time step, whatever their order."""
        self.__dict__.pop("state_", None)
        x, y = self._checked(X, y, reset=True)
        self.state_ = self._fitted(x, y, sample_weight)
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Take one time step."""
        x, y = self._checked(X, y, reset="state_" not in self.__dict__)
        self.state_ = self._learn(x, y, sample_weight, self._now())
        return self

    @whole
    def predict_then_fit(self, X: Any, y: Any) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        """Predict each row and then learn it, every row a time step, in one compiled loop.

        Returns:
            The mean and the standard deviation of each row, from the rows before it.
        """
        x, y = self._checked(X, y, reset="state_" not in self.__dict__)
        if self.projection == "gradient":
            pairs = [self._told_then_learned(*row) for row in zip(x, y, strict=True)]
            return tuple(np.concatenate(part) for part in zip(*pairs, strict=True))  # type: ignore[return-value]
        before, kind = self._now(), default_float()
        (scaler, centred), target = (
            scaling.followed(before.x, x),
            scaling.running(before.y, y[:, None]),
        )
        rows = (centred if self.standardise else x).astype(kind)
        values = target.centred[:, 0].astype(kind) if self._scales() else y.astype(kind)
        state, info, told = self._filter().rows(before.filter, rows, values, np.ones(len(x), kind))
        self.state_ = before.after(state, scaler, target.after, info, len(x))
        mean, std = _moments(told, len(x))
        if not self._scales():
            return mean, std
        return target.mean[:, 0] + target.deviation[:, 0] * mean, target.deviation[:, 0] * std

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803 - scikit-learn's name
        """The mean of y in the coming time step, and its standard deviation on request."""
        mean, std = self._in_units(*self._told(X))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, level: Number = 0.95) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The two ends, in two columns, of an interval for y with probability `level`."""
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        mean, std = self.predict(X, return_std=True)
        reach = ndtri(0.5 + 0.5 * level) * std
        return np.stack([mean - reach, mean + reach], axis=1)

    def forecast(self, X: Any, horizon: Number = 1) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        """Mean and standard deviation `horizon` time steps from now: the farther, the wider."""
        return self._in_units(*self._told(X, _check.count("horizon", horizon)))

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803 - scikit-learn's name
        """The variance of y of each row in its two parts."""
        told, learned = self._told(X)
        square = self._unit(learned.y) ** 2
        return Uncertainty(
            *(
                square * np.asarray(part, np.float64)[:, 0]
                for part in (told.epistemic, told.aleatoric)
            )
        )

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        x, y = validated(self, X, reset, y=_check.widened(y), y_numeric=True)
        y = fitting("y", _numbers(y))
        if not self._scales():
            self._filter().check(y)
        return fitting("X", x), y

    def _scales(self) -> bool:
        """Whether y is standardised: only for the normal likelihood.

        A likelihood of your own wants y as it is.
        """
        return self.likelihood is None

    def _absorbed(self, scaler: Scaler, y: ndarray, weight: ndarray) -> Scaler:
        return scaling.absorbed(scaler, y[:, None], weight)

    def _target(self, scaler: Scaler, y: ndarray) -> ndarray:
        if self._scales():
            y = np.clip((y - scaler.mean[0]) / self._unit(scaler), -FARTHEST, FARTHEST)
        return y.astype(default_float())

    def _in_units(self, told: Prediction, learned: Learned) -> tuple[ndarray, ndarray]:
        mean, std = _moments(told, len(told.mean))
        if not self._scales():
            return mean, std
        unit = self._unit(learned.y)
        return learned.y.mean[0] + unit * mean, unit * std

    def _unit(self, scaler: Scaler) -> float:
        """The standard deviation of the values learned."""
        if not self._scales():
            return 1.0
        return float(
            scaling.deviations(scaler.squares / np.maximum(scaler.number, 1.0), scaler.mean)[0]
        )

    def _told_then_learned(self, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
        """One row, predicted and then learned by descent."""
        before = self.state_ = self._now()
        told = self._in_units(*self._told(x[None]))
        self.state_ = self._learn(x[None], np.atleast_1d(y), None, before)
        return told


def _numbers(y: ndarray) -> ndarray:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise _check.fail("y", "made of numbers", y[:5].tolist()) from None


def _moments(told: Prediction, rows: int) -> tuple[ndarray, ndarray]:
    """The mean and the standard deviation of the first rows."""
    mean, epistemic, aleatoric = (
        np.asarray(part)[:rows, 0].astype(np.float64)
        for part in (told.mean, told.epistemic, told.aleatoric)
    )
    return mean, np.sqrt(epistemic + aleatoric)
