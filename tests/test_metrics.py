"""Each metric against an independent answer."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn import metrics as sk

from hmnn import metrics

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 400)
Y = RNG.integers(0, 3, 400)
MEAN, STD, TARGET = RNG.normal(size=50), RNG.uniform(0.2, 3, 50), RNG.normal(size=50) * 3


def test_log_loss_brier_and_accuracy_are_those_of_scikit_learn():
    assert metrics.log_loss(P, Y) == pytest.approx(sk.log_loss(Y, P, labels=[0, 1, 2]), rel=1e-12)
    assert metrics.brier(P, Y) == pytest.approx(
        sk.brier_score_loss(Y, P, labels=[0, 1, 2]), rel=1e-12
    )
    assert metrics.accuracy(P, Y) == sk.accuracy_score(Y, P.argmax(axis=1))


def test_two_classes_have_twice_the_binary_brier_score():
    p, y = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), Y % 2
    assert metrics.brier(p, y) == pytest.approx(2 * sk.brier_score_loss(y, p[:, 1]), rel=1e-12)


def test_a_label_of_probability_zero_costs_the_clipped_loss():
    losses = metrics.log_losses(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 0]))
    np.testing.assert_allclose(losses, [-math.log(1e-15), 0.0], rtol=1e-12)


def test_single_precision_probabilities_are_taken_in_double():
    assert metrics.log_loss(P.astype(np.float32), Y) == pytest.approx(
        metrics.log_loss(P, Y), rel=1e-5
    )


def slow_ece(p, y, bins):
    total = 0.0
    for low in np.arange(bins) / bins:
        rows = [i for i in range(len(y)) if low < p[i].max() <= low + 1 / bins]
        if rows:
            right = np.mean([p[i].argmax() == y[i] for i in rows])
            total += len(rows) / len(y) * abs(right - np.mean([p[i].max() for i in rows]))
    return total


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_ece_is_the_sum_over_bins(bins):
    assert metrics.ece(P, Y, bins) == pytest.approx(slow_ece(P, Y, bins), abs=1e-12)


def test_calibrated_labels_have_a_small_ece_and_overconfident_ones_a_large_one():
    p = np.random.default_rng(1).dirichlet(np.ones(2), 20000)
    y = (np.random.default_rng(2).uniform(size=20000) < p[:, 1]).astype(int)
    assert metrics.ece(p, y) < 0.015
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert metrics.ece(sharp, y) > 0.05
    assert metrics.reliability(p, y).share.sum() == pytest.approx(1)


def test_gaussian_crps_is_its_integral():
    for mean, std, y, found in zip(
        MEAN, STD, TARGET, metrics.crps_gaussian(MEAN, STD, TARGET), strict=True
    ):
        law = stats.norm(mean, std)
        below = integrate.quad(lambda z, law=law: law.cdf(z) ** 2, min(y, mean) - 12 * std, y)[0]
        above = integrate.quad(lambda z, law=law: law.sf(z) ** 2, y, max(y, mean) + 12 * std)[0]
        assert found == pytest.approx(below + above, rel=1e-6)


def test_a_forecast_without_spread_has_its_absolute_error_as_crps():
    np.testing.assert_array_equal(
        metrics.crps_gaussian(MEAN, 0 * STD, TARGET), np.abs(TARGET - MEAN)
    )
    np.testing.assert_allclose(metrics.crps_sample(MEAN[:, None], TARGET), np.abs(TARGET - MEAN))
    np.testing.assert_allclose(
        metrics.crps_gaussian(MEAN, 0 * STD + 1e-9, TARGET), np.abs(TARGET - MEAN), atol=1e-8
    )


def test_sample_crps_is_its_double_sum_and_tends_to_the_gaussian_one():
    draws = MEAN[:, None] + STD[:, None] * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    np.testing.assert_allclose(
        metrics.crps_sample(draws, TARGET),
        metrics.crps_gaussian(MEAN, STD, TARGET),
        rtol=1e-3,
        atol=1e-3,
    )
    few = RNG.normal(size=(50, 7))
    spread = np.abs(few[:, :, None] - few[:, None, :]).mean(axis=(1, 2))
    np.testing.assert_allclose(
        metrics.crps_sample(few, TARGET),
        np.abs(few - TARGET[:, None]).mean(axis=1) - spread / 2,
        rtol=1e-12,
    )


def test_interval_scores_over_all_levels_are_the_crps():
    levels = (np.arange(4000) + 0.5) / 4000
    total = np.zeros(50)
    for level in levels:
        half = stats.norm.ppf(0.5 + level / 2) * STD
        total += (1 - level) / 2 * metrics.interval_scores(MEAN - half, MEAN + half, TARGET, level)
    np.testing.assert_allclose(total / 4000, metrics.crps_gaussian(MEAN, STD, TARGET), rtol=1e-3)


def test_coverage_and_width_of_true_intervals():
    rng = np.random.default_rng(3)
    y = rng.normal(size=40000)
    half = np.full(40000, stats.norm.ppf(0.95))
    assert metrics.coverage(-half, half, y) == pytest.approx(
        0.9, abs=0.007
    )  # about 4.5 standard errors
    assert metrics.width(-half, half) == pytest.approx(2 * 1.6449, abs=1e-4)
    assert metrics.coverage(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([1.0, 1.1])) == 0.5


def test_windowed_and_faded_means_are_their_sums():
    values = RNG.normal(size=30)
    weights = 0.8 ** np.arange(30)
    for i in range(30):
        assert metrics.windowed(values, 7)[i] == pytest.approx(values[max(i - 6, 0) : i + 1].mean())
        expected = (values[i::-1] * weights[: i + 1]).sum() / weights[: i + 1].sum()
        assert metrics.faded(values, 0.8)[i] == pytest.approx(expected)
    np.testing.assert_allclose(metrics.faded(values, 1.0), metrics.windowed(values, 30))


def test_lag_counts_the_rows_of_a_known_recovery():
    losses = np.concatenate([np.zeros(100), np.ones(37), np.zeros(100)])
    assert metrics.lag(losses, 100, 20, 0.0) == 37
    assert (
        metrics.lag(losses, 100, 20, 0.5) == 27
    )  # half of the next twenty rows may still be wrong
    assert metrics.lag(np.zeros(200), 100, 20, 0.0) == 0
    assert metrics.lag(losses[:137], 100, 20, 0.5) == math.inf
    assert metrics.lag(losses[:105], 100, 20, 1.0) == math.inf
