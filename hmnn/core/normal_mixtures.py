"""What a mixture of normal laws says of one number a row, in NumPy and double precision."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp, ndtr

from hmnn.core.prediction import Normals

HALVINGS = 60
FARTHEST = 40.0
"""Quantiles are sought so many deviations away from each component at most."""


def log_density(law: Normals, y: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """The log density at y."""
    z = np.clip((y[:, None] - law.means) / np.sqrt(law.variances), -1e150, 1e150)
    logs = -0.5 * (z**2 + np.log(2.0 * np.pi * law.variances))
    return logsumexp(logs, axis=1, b=law.weights)


def below(law: Normals, y: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """The probability of a number below y."""
    return np.sum(law.weights * ndtr((y[:, None] - law.means) / np.sqrt(law.variances)), axis=1)


def quantile(law: Normals, probability: float) -> Float[ndarray, " rows"]:
    """The number below which a number lies with this probability, by bisection."""
    reach = FARTHEST * np.sqrt(law.variances)
    low, high = (law.means - reach).min(axis=1), (law.means + reach).max(axis=1)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        under = below(law, middle) < probability
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return 0.5 * (low + high)
