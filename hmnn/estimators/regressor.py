"""The scikit-learn regressor."""

from typing import Any

import jax
import numpy as np
from numpy import ndarray
from sklearn.base import RegressorMixin

from hmnn import _check
from hmnn._types import Number
from hmnn.core import likelihoods, normal_mixtures
from hmnn.core.filtering import Info, State
from hmnn.core.prediction import Prediction
from hmnn.estimators import followed, in_turn, inputs, scaling
from hmnn.estimators.equal_rows import WeightedRows
from hmnn.estimators.known_columns import Move, Scaler
from hmnn.estimators.learned import Learned, log_density, normals
from hmnn.estimators.scikit import StreamEstimator, Uncertainty
from hmnn.estimators.validation import fitting
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
        parts = inputs.parts(self, X, y)
        if len(parts) > 1:
            return _joined([self.predict_then_fit(*part) for part in parts])
        x, y = self._checked(X, y, reset="state_" not in self.__dict__, in_turn=True)
        if self.projection == "gradient":
            return _joined([self._told_then_learned(*row) for row in zip(x, y, strict=True)])
        done = in_turn.taught(self._filter(), self._now(), x, y, self._scaled())
        self.state_ = done.learned
        mean, std = _moments(done.told)
        return done.level + done.unit * mean, done.unit * std

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803 - scikit-learn's name
        """The mean of y in the coming time step, and its standard deviation on request."""
        mean, std = self._in_units(*self._told(X))
        return (mean, std) if return_std else mean

    def predict_interval(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        level: Number = 0.95,
        follow: bool = False,
    ) -> ndarray:
        """The two ends, in two columns, of an interval for y with probability `level`.

        With `follow` it is wider or narrower than the model says, as much as it takes to cover
        with that probability on the rows that came one at a time so far.
        """
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        if type(follow) not in (bool, np.bool_):
            raise _check.fail("follow", "True or False", follow)
        told, learned = self._told(X)
        if follow:
            level = followed.level(learned.asked, level)
        law, (start, unit) = normals(told), self._map(learned.y)
        ends = [normal_mixtures.quantile(law, p) for p in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]
        told_range = likelihoods.mean_range(self._filter().single.likelihood)
        return np.clip(start + unit * np.stack(ends, axis=1), *told_range)

    def forecast(self, X: Any, horizon: Number = 1) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        """Mean and standard deviation `horizon` time steps from now: the farther, the wider."""
        return self._in_units(*self._told(X, _check.count("horizon", horizon)))

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803 - scikit-learn's name
        """The variance of y of each row in its two parts."""
        told, learned = self._told(X)
        square = self._map(learned.y)[1] ** 2
        return Uncertainty(
            *(
                square * np.asarray(part, np.float64)[:, 0]
                for part in (told.epistemic, told.aleatoric)
            )
        )

    def _checked(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        reset: bool,
        in_turn: bool = False,
    ) -> tuple[ndarray, ndarray]:
        x, y = inputs.pairs(self, X, y, reset, in_turn, y_numeric=True)
        y = _numbers(y)
        if not self._scales():
            self._filter().check(y)
        return x, y

    def _scales(self) -> bool:
        """Whether y is standardised: only for the normal likelihood.

        A likelihood of your own wants y as it is.
        """
        return self.likelihood is None

    def _scaled(self) -> tuple[bool, bool]:
        return bool(self.standardise), self._scales()

    def _absorbed(self, scaler: Scaler, y: ndarray, weight: ndarray) -> tuple[Scaler, Move | None]:
        return scaling.absorbed(scaler, y[:, None], weight) if self._scales() else (scaler, None)

    def _target(self, scaler: Scaler, y: ndarray) -> ndarray:
        scaled = scaling.against(scaler, y[:, None])[:, 0] if self._scales() else y
        return scaled.astype(default_float())

    def _surprise(self, info: Info, start: State, scaler: Scaler, rows: WeightedRows) -> Any:
        if not self._scales():
            return info.surprise
        told = jax.tree.map(lambda part: np.asarray(part)[: len(rows.y)], info.expected)
        return np.average(log_density(rows.y, told, *self._map(scaler)), weights=rows.weight)

    def _in_units(self, told: Prediction, learned: Learned) -> tuple[ndarray, ndarray]:
        mean, std = _moments(told)
        level, unit = self._map(learned.y)
        return level + unit * mean, unit * std

    def _map(self, scaler: Scaler) -> tuple[float, float]:
        """What the network says is brought to y's own units by these two."""
        if not self._scales():
            return 0.0, 1.0
        return scaling.level_and_unit(scaler)

    def _told_then_learned(self, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
        """One row, predicted and then learned by descent."""
        before = self.state_ = self._now()
        told = self._in_units(*self._told(x[None], read=True))
        self.state_ = self._learn(x[None], np.atleast_1d(y), None, before)
        return told


def _joined(parts: list[tuple[ndarray, ndarray]]) -> tuple[ndarray, ndarray]:
    mean, std = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, std


def _numbers(y: ndarray) -> ndarray:
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError):
        raise _check.fail("y", "made of numbers", y[:5].tolist()) from None
    _check.finite("y", values)  # None among objects has become NaN
    return fitting("y", values)


def _moments(told: Prediction) -> tuple[ndarray, ndarray]:
    """The mean and the standard deviation of each row."""
    mean, epistemic, aleatoric = (
        np.asarray(part)[:, 0].astype(np.float64)
        for part in (told.mean, told.epistemic, told.aleatoric)
    )
    return mean, np.sqrt(epistemic + aleatoric)
