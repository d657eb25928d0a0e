"""What an estimator has learned, as one value that is never changed in place."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import expit

from hmnn.core import normal_mixtures
from hmnn.core.filtering import State
from hmnn.core.prediction import Normals, Prediction
from hmnn.estimators import followed, last_target
from hmnn.estimators.known_columns import Scaler
from hmnn.estimators.last_target import LastTarget

KEPT = 10_000
"""Time steps that `drift_` and `surprise_` go back."""
EVERY = 10
"""Of so many time steps one says how far the members of a bank were believed."""
PAST, FEWEST = 500, 50
"""A surprise is ranked among so many before it, at most and at least."""
STAKE = 0.2
"""The exponent of the bet on a bad rank: smaller is bolder."""
RARE = 20_000.0
"""On a stream that stands still there is one false alarm in so many time steps, or fewer."""


class Learned(NamedTuple):
    """The filter's state, the scalers of both sides, and how surprising each time step was."""

    filter: State
    x: Scaler
    y: Scaler
    last: LastTarget
    surprise: Float[ndarray, " steps"]
    believed: Float[ndarray, "steps members"]
    """How far each member of a bank was believed, at each `EVERY`th time step."""
    steps: int
    """Time steps so far."""
    asked: Float[ndarray, " levels"]
    """Of intervals, so that they cover; see `followed`."""

    def after(
        self,
        state: State,
        x: Scaler,
        y: Scaler,
        surprise: Float[Any, "..."],
        believed: Float[ndarray, "steps members"] | None = None,
        last: LastTarget | None = None,
    ) -> "Learned":
        """The next value, after as many time steps as there are surprises."""
        new = np.asarray(surprise, np.float64).reshape(-1)
        history, steps = self.believed, self.steps + len(new)
        if believed is not None:
            rows = np.arange(self.steps, steps) % EVERY == 0
            if rows.any():
                history = np.concatenate([history, believed[rows]])[-KEPT // EVERY :]
        return Learned(
            state,
            x,
            y,
            last_target.stale(self.last) if last is None else last,
            np.concatenate([self.surprise, new])[-KEPT:],
            history,
            steps,
            self.asked,
        )


def nothing(state: State, x: Scaler, y: Scaler, members: int) -> Learned:
    """Before any data."""
    history = np.zeros((0, members), np.float32)
    return Learned(state, x, y, last_target.unknown(), np.zeros(0), history, 0, followed.first())


def log_density(
    y: Float[ndarray, " rows"], told: Prediction, level: Float[Any, "..."], unit: Float[Any, "..."]
) -> Float[ndarray, " rows"]:
    """The log density of numbers in their own units, under what was said of them."""
    return normal_mixtures.log_density(normals(told), (y - level) / unit) - np.log(unit)


def normals(told: Prediction) -> Normals:
    """The law of one number a row as a mixture of normal laws, which may be one."""
    if told.normals is not None:
        return Normals(*(np.asarray(part, np.float64) for part in told.normals))
    parts: Any = told.mean, told.epistemic + told.aleatoric  # type: ignore[operator]
    mean, variance = (np.asarray(part, np.float64)[:, :1] for part in parts)
    return Normals(np.ones_like(mean), mean, variance)


def drift(surprise: Float[ndarray, " steps"]) -> Float[ndarray, " steps"]:
    """How sure it is, step by step, that the surprises have lately become worse.

    Each surprise has a rank among the `PAST` before it. Worse ranks than chance would give raise a
    bet, good ones lower it, and it never falls below 1 (a conformal test martingale that starts
    again, Volkhonskiy et al., 2017). If surprises are exchangeable, whatever their law, the bet
    passes `RARE` once in `RARE` steps at most. Told is bet / (bet + `RARE`): alarm from 0.5 on.
    """
    ranks, log_bet, result = _ranks(surprise), 0.0, np.zeros(len(surprise))
    gains = np.log(STAKE) + (STAKE - 1.0) * np.log(ranks)
    log_rare = np.log(RARE)
    for i, gain in enumerate(gains.tolist()):
        log_bet = min(max(log_bet, 0.0) + gain, 2.0 * log_rare)
        result[i] = log_bet
    return expit(result - log_rare)


def _ranks(surprise: ndarray) -> ndarray:
    """The share of the surprises before that are not larger, with each of them counted in."""
    padded = np.concatenate([np.full(PAST, np.inf), surprise])
    before = np.lib.stride_tricks.sliding_window_view(padded, PAST)[: len(surprise)]
    number = np.minimum(np.arange(len(surprise)), PAST)
    lower = np.zeros(len(surprise))
    for i in range(0, len(surprise), 1000):  # in bounded memory
        lower[i : i + 1000] = (before[i : i + 1000] <= surprise[i : i + 1000, None]).sum(axis=1)
    return np.where(number < FEWEST, np.exp(-1.0), (1.0 + lower) / (1.0 + number))
