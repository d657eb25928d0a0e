"""The logistic regression whose weights turn in a circle."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn import _check
from hmnn._types import Dataset
from hmnn.data.streams import Stream

RADIUS, EDGE = 10.0, 3.0


def logistic_drift(
    rows: int = 10000, steps: int = 700, degrees: float = 5.0, seed: int = 0
) -> Stream:
    """Labels of a logistic regression with w_t = 10 (sin a t, cos a t), and x uniform in [-3, 3]^2.

    Args:
        rows: points of a time step.
        steps: how many time steps, t = 1 .. steps; the stream counts them from 0.
        degrees: a, how far the weights turn in a time step.
        seed: of the random numbers.
    """
    _check.count("rows", rows)
    _check.count("steps", steps)
    truth = drifting_weights(steps, degrees)

    def at(t: int) -> Dataset:
        rng = np.random.default_rng([seed, t])
        x = rng.uniform(-EDGE, EDGE, (rows, 2)).astype(np.float32)
        label = rng.random(rows) * (1.0 + np.exp(-(x @ truth[t]))) < 1.0  # below the sigmoid
        return Dataset(x, label.astype(np.int32))

    made = {"rows": rows, "steps": steps, "degrees": degrees, "seed": seed}
    return Stream("logistic-drift", "classification", steps, at, made)


def drifting_weights(steps: int = 700, degrees: float = 5.0) -> Float[ndarray, "steps 2"]:
    """The true weights, a row for each time step t = 1 .. steps."""
    degrees = _check.number("degrees", degrees, "a finite number", lambda _: True)
    angle = np.deg2rad(degrees) * np.arange(1, steps + 1)
    return RADIUS * np.stack([np.sin(angle), np.cos(angle)], axis=1)
