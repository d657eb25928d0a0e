"""The two moons of scikit-learn, turning."""

import numpy as np
from sklearn.datasets import make_moons

from hmnn import _check
from hmnn._types import Dataset
from hmnn.data.streams import Stream

MIDDLE = np.array([0.5, 0.25])


def two_moons(
    rows: int = 10000,
    noise: float = 0.1,
    degrees: tuple[float, ...] = (0.0, 45.0, 90.0, 135.0, 180.0),
    seed: int = 0,
) -> Stream:
    """Fresh moons at every time step, turned about their middle, with their own labels.

    Args:
        rows: points of a time step.
        noise: standard deviation of the points about their half circle (0.3 makes them overlap).
        degrees: the angle of each time step.
        seed: of the random numbers.
    """
    _check.count("rows", rows, least=2)
    _check.number("noise", noise, "at least 0", lambda v: v >= 0)

    def at(t: int) -> Dataset:
        state = int(np.random.SeedSequence([seed, t]).generate_state(1)[0])
        points, labels = make_moons(rows, noise=noise, random_state=state)
        angle = np.deg2rad(degrees[t])
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        return Dataset(((points - MIDDLE) @ turn).astype(np.float32), labels.astype(np.int32))

    made = {"rows": rows, "noise": noise, "degrees": list(degrees), "seed": seed}
    return Stream("two-moons", "classification", len(degrees), at, made)
