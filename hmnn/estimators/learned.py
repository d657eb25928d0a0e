"""What an estimator has learned, as one value that is never changed in place."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.signal import lfilter
from scipy.special import ndtr

from hmnn.core.filtering import State
from hmnn.core.prediction import Prediction
from hmnn.estimators.known_columns import Scaler

KEPT = 10_000
"""Time steps that `drift_` and `surprise_` go back."""
RECENT, PAST = 20, 500
"""About so many time steps the recent surprise and the one it is compared with are means of."""


class Learned(NamedTuple):
    """The filter's state, the scalers of both sides, and how surprising each time step was."""

    filter: State
    x: Scaler
    y: Scaler
    surprise: Float[ndarray, " steps"]

    def after(self, state: State, x: Scaler, y: Scaler, surprise: Float[Any, "..."]) -> "Learned":
        """The next value, after as many time steps as there are surprises."""
        new = np.asarray(surprise, np.float64).reshape(-1)
        return Learned(state, x, y, np.concatenate([self.surprise, new])[-KEPT:])


def nothing(state: State, x: Scaler, y: Scaler) -> Learned:
    """Before any data."""
    return Learned(state, x, y, np.zeros(0))


def log_density(
    y: Float[ndarray, " rows"], told: Prediction, level: Float[Any, "..."], unit: Float[Any, "..."]
) -> Float[ndarray, " rows"]:
    """The log density of numbers in their own units, under what was said of them."""
    parts: Any = told.mean, told.epistemic + told.aleatoric  # type: ignore[operator]
    mean, variance = (np.asarray(part, np.float64)[:, 0] for part in parts)
    z = ((y - level) / unit - mean) / np.sqrt(variance)
    return -0.5 * (z**2 + np.log(2.0 * np.pi * variance)) - np.log(unit)


def drift(surprise: Float[ndarray, " steps"]) -> Float[ndarray, " steps"]:
    """How unusual the latest surprises are.

    Near 1 if they are far worse than those before, about 0.5 if they are not.

    The mean of the last 20 or so is compared with mean and deviation of the 500 or so before; the
    result is the probability that a stream which stands still would have done better.
    """
    recent, past = _running(surprise, RECENT), _running(surprise, PAST)
    spread = np.maximum(_running(surprise**2, PAST) - past**2, 1e-12)
    none = np.full(min(RECENT, len(past)), np.nan)
    lag, width = (np.concatenate([none, a[: max(len(a) - RECENT, 0)]]) for a in (past, spread))
    z = (lag - recent) / np.sqrt(width / (2 * RECENT))
    return np.where(np.isfinite(z), ndtr(z), 0.5)


def _running(values: ndarray, length: int) -> ndarray:
    """The exponentially weighted mean of the values so far."""
    keep = 1.0 - 1.0 / length
    total = lfilter([1.0], [1.0, -keep], values) if len(values) else values
    return total / np.maximum(
        lfilter([1.0], [1.0, -keep], np.ones(len(values))) if len(values) else 1.0, 1e-12
    )
