"""What a model says of its own forgetting, if it says anything.

A model may have `forgetting_` (its members, and how far it believes each of them) and `drift_` (an
alarm from 0.5 on). Both look back over the latest time steps only, so they are asked time and again
along a stream, off the clock.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

ASKED = 5000
"""After so many time steps the model is asked, and at the end."""
POINTS = 300
"""A history is told at so many rows at most: means of as many equal parts."""
ALARM = 0.5


class Believed(NamedTuple):
    """Which members of a model were believed along a stream, and where it gave alarm."""

    names: tuple[str, ...]
    jumps: Float[ndarray, " members"]
    weights: Float[ndarray, " members"]
    """Means over the stream."""
    row: Int[ndarray, " points"]
    """The last row of each part of the history."""
    history: Float[ndarray, "points members"]
    """Means over each part."""
    alarms: Int[ndarray, " alarms"]
    """The rows after which `drift_` rose to 0.5."""


class Follower:
    """Asks a model that begins untrained; of any other it learns nothing."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.silent = getattr(model, "forgetting_", None) is not None
        self.rows: list[ndarray] = []
        self.steps, self.asked = 0, 0
        self.looks: list[tuple[ndarray, ndarray]] = []
        self.drift: list[ndarray] = []

    def learned(self, rows: ndarray) -> bool:
        """The model took a time step at each of these rows; whether it should be asked again."""
        self.rows.append(rows)
        self.steps += len(rows)
        return not self.silent and self.steps - self.asked >= ASKED

    def ask(self) -> None:
        """See what the model says of the time steps since it was asked last."""
        said, new = getattr(self.model, "forgetting_", None), self.steps - self.asked
        if self.silent or said is None or not new:
            return
        steps, history = np.asarray(said.steps, int), np.asarray(said.history, np.float64)
        fresh = (steps >= self.asked) & (steps < self.steps)
        self.looks.append((steps[fresh], history[fresh]))
        drift = np.asarray(getattr(self.model, "drift_", np.zeros(0)), np.float64)[-new:]
        self.drift.append(np.concatenate([np.zeros(new - len(drift)), drift]))
        self.asked = self.steps

    def result(self) -> Believed | None:
        """All that was seen; None if the model says nothing."""
        self.ask()
        if not any(len(steps) for steps, _ in self.looks):
            return None
        said, rows = self.model.forgetting_, np.concatenate(self.rows)
        steps, history = (np.concatenate(part) for part in zip(*self.looks, strict=True))
        parts = np.array_split(np.arange(len(steps)), min(POINTS, len(steps)))
        high = np.concatenate(self.drift) >= ALARM
        rises = np.flatnonzero(high & ~np.append(False, high[:-1]))
        return Believed(
            tuple(said.names),
            np.asarray(said.jumps, np.float64),
            history.mean(axis=0),
            rows[steps[[part[-1] for part in parts]]],
            np.stack([history[part].mean(axis=0) for part in parts]),
            rows[rises],
        )
