"""Arrays in, numbers out."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from numpy import ndarray
from scipy.special import ndtr, stdtrit
from sklearn.neighbors import KDTree

Probabilities = Float[ndarray, "rows classes"]
Labels = Int[ndarray, " rows"]
Numbers = Float[ndarray, " rows"]
CLIP = 1e-15
"""The least probability in a log loss, as in river: no row costs more than 34.54."""


def accuracy(probabilities: Probabilities, y: Labels) -> float:
    """The share of rows whose most probable class is the label."""
    return float(np.mean(np.argmax(probabilities, axis=1) == y))


def far_from(
    points: Float[ndarray, "rows d"], data: Float[ndarray, "n d"], distance: float
) -> ndarray:
    """Which points lie farther than `distance` from every row of the data."""
    return KDTree(data).query(points, k=1)[0][:, 0] > distance


def box_grid(data: Float[ndarray, "n 2"], side: int) -> Float[ndarray, "points 2"]:
    """side x side points over the bounding box of two-dimensional data, row by row."""
    axes = np.linspace(data.min(axis=0), data.max(axis=0), side).T
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2).astype(data.dtype)


def log_losses(probabilities: Probabilities, y: Labels) -> Numbers:
    """-log of the probability of each label, where a probability below `CLIP` counts as `CLIP`."""
    given = probabilities[np.arange(len(y)), y].astype(np.float64)
    return -np.log(np.clip(given, CLIP, 1.0))


def log_loss(probabilities: Probabilities, y: Labels) -> float:
    """The mean of `log_losses`, in nats."""
    return float(np.mean(log_losses(probabilities, y)))


def brier_scores(probabilities: Probabilities, y: Labels) -> Numbers:
    """The squared distance between probabilities and label, summed over classes: from 0 to 2."""
    truth = np.arange(probabilities.shape[1]) == y[:, None]
    return np.sum((probabilities.astype(np.float64) - truth) ** 2, axis=1)


def brier(probabilities: Probabilities, y: Labels) -> float:
    """The mean of `brier_scores`."""
    return float(np.mean(brier_scores(probabilities, y)))


class Reliability(NamedTuple):
    """Rows in bins of equal width by their top probability; empty bins are left out."""

    confidence: Float[ndarray, " bins"]
    """The mean probability of a bin."""
    accuracy: Float[ndarray, " bins"]
    """The share of its rows that were right."""
    share: Float[ndarray, " bins"]
    """Its share of all rows."""


def reliability(probabilities: Probabilities, y: Labels, bins: int = 15) -> Reliability:
    """Confidence against accuracy, in `bins` bins over [0, 1]."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = (np.argmax(probabilities, axis=1) == y).astype(np.float64)
    which = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    rows = np.bincount(which, minlength=bins)
    some = rows > 0
    means = [np.bincount(which, v, bins)[some] / rows[some] for v in (confidence, right)]
    return Reliability(means[0], means[1], rows[some] / len(y))


def ece(probabilities: Probabilities, y: Labels, bins: int = 15) -> float:
    """The expected calibration error: the mean distance between confidence and accuracy."""
    found = reliability(probabilities, y, bins)
    return float(np.sum(found.share * np.abs(found.confidence - found.accuracy)))


def crps_gaussian(mean: Numbers, std: Numbers, y: Numbers) -> Numbers:
    """The continuous ranked probability score of normal laws; |y - mean| where std = 0."""
    error = y - mean
    z = np.divide(error, std, out=np.zeros_like(error), where=std > 0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return np.where(std > 0, score, np.abs(error))


def crps_sample(draws: Float[ndarray, "rows draws"], y: Numbers) -> Numbers:
    """The continuous ranked probability score of the law with equal mass on each draw."""
    n = draws.shape[1]
    ranks = 2 * np.arange(1, n + 1) - n - 1
    spread = np.sum(np.sort(draws, axis=1) * ranks, axis=1) / n**2  # half the mean |x - x'|
    return np.mean(np.abs(draws - y[:, None]), axis=1) - spread


def interval_scores(lower: Numbers, upper: Numbers, y: Numbers, level: float) -> Numbers:
    """The width, plus 2 / (1 - level) times how far y lies outside.

    Times (1 - level) / 2 and averaged over all levels, it is the score `crps_gaussian` computes.
    """
    outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return upper - lower + 2 / (1 - level) * outside


def coverage(lower: Numbers, upper: Numbers, y: Numbers) -> float:
    """The share of rows that lie in their interval, ends included."""
    return float(np.mean((lower <= y) & (y <= upper)))


def width(lower: Numbers, upper: Numbers) -> float:
    """The mean width of intervals."""
    return float(np.mean(upper - lower))


def windowed(values: Real[ndarray, " rows"], window: int) -> Numbers:
    """At each row, the mean of the last `window` values up to it, or of as many as there are."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)


def faded(values: Real[ndarray, " rows"], factor: float) -> Numbers:
    """At each row, the mean of all values up to it; the weight of one k rows old is factor**k."""
    means, total, weight = np.empty(len(values)), 0.0, 0.0
    for i, value in enumerate(values.tolist()):
        total, weight = factor * total + value, factor * weight + 1.0
        means[i] = total / weight
    return means


def lag(losses: Real[ndarray, " rows"], change: int, window: int, tolerance: float) -> float:
    """How many rows after a change the loss is back where it was before.

    Back means that the mean loss of the next `window` rows is at most `tolerance` above that of the
    last `window` rows before the change. Infinite if that does not come; pass the rows up to the
    next change only.
    """
    before = np.mean(losses[max(change - window, 0) : change])
    after = losses[change:]
    if len(after) < window:
        return math.inf
    ahead = windowed(after, window)[window - 1 :]
    back = np.flatnonzero(ahead <= before + tolerance)
    return float(back[0]) if len(back) else math.inf


def standardised_rmse(
    errors: Float[ndarray, "rows d"], energy: Numbers, rest: Numbers | float = 0.0
) -> float:
    """The paper's M, eq. (metric): the root of summed squared errors over summed squares of truth.

    Args:
        errors: truth minus prediction.
        energy: |y|^2 of each row, which in other coordinates than y's own is not that of the row.
        rest: squared error of each row that `errors` does not hold.
    """
    squares = np.square(errors, dtype=np.float64).sum(axis=1) + rest
    return float(np.sqrt(squares.sum() / energy.sum()))


def expected_accuracy(
    probabilities: Probabilities,
    labels: Int[ndarray, "rows labels"],
    chances: Float[ndarray, " labels"],
) -> float:
    """The accuracy expected over drawn labels: a row has that of column k with chance chances[k].

    It is `accuracy` without the noise of the draws.
    """
    return float(np.mean((np.argmax(probabilities, axis=1)[:, None] == labels) @ chances))


def adaptation_lags(
    lead: Real[ndarray, " steps"], chance: Float[ndarray, " steps"]
) -> Float[ndarray, " crossings"]:
    """Time steps from each crossing of 1/2 by `chance` until predictions follow, or infinity.

    Args:
        lead: how much more often the first labeller is followed than the second; its sign counts.
        chance: the probability of the first labeller. Where it is 1/2, neither is to be followed.
    """
    side = np.sign(np.round(chance - 0.5, 9))
    decided = np.flatnonzero(side).tolist()
    turns = [b for a, b in pairwise(decided) if side[a] != side[b]]
    lags = []
    for turn, end in pairwise([*turns, len(chance)]):
        follows = np.flatnonzero(np.sign(lead[turn:end]) == side[turn])
        lags.append(float(follows[0]) if len(follows) else math.inf)
    return np.array(lags, np.float64)


def rejection_curve(
    right: Bool[ndarray, " rows"],
    uncertainty: Real[ndarray, " rows"],
    kept: Float[ndarray, " points"],
) -> Float[ndarray, " points"]:
    """The accuracy on the share `kept` of the rows with the least uncertainty, at least one row.

    Rows of the same uncertainty count as in the mean over all their orders.
    """
    _, group, sizes = np.unique(uncertainty, return_inverse=True, return_counts=True)
    best = np.repeat(np.bincount(group, right) / sizes, sizes)
    counts = np.clip(np.round(kept * len(best)).astype(np.int64), 1, len(best))
    return np.cumsum(best)[counts - 1] / counts


class Difference(NamedTuple):
    """The mean of paired differences, and its Student t interval; NaN below two pairs."""

    mean: float
    lower: float
    upper: float
    pairs: int

    def words(self) -> str:
        """For a table: "+0.0031 (-0.0004 to +0.0066)"."""
        interval = "" if math.isnan(self.lower) else f" ({self.lower:+.4f} to {self.upper:+.4f})"
        return f"{self.mean:+.4f}{interval}"


def paired_difference(
    ours: Real[ndarray, " pairs"], theirs: Real[ndarray, " pairs"], level: float = 0.95
) -> Difference:
    """How much more ours is than theirs, pair by pair."""
    differences = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return Difference(mean, math.nan, math.nan, n)
    half = float(stdtrit(n - 1, 0.5 + level / 2) * np.std(differences, ddof=1) / math.sqrt(n))
    return Difference(mean, mean - half, mean + half, n)
