"""The drift signal alarms when the world changes, and seldom when it does not."""

import numpy as np
import pytest

from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators.learned import RARE, drift


def alarms(signal):
    """How often it rises to 0.5."""
    high = signal >= 0.5
    return int(high[0]) + int((high[1:] & ~high[:-1]).sum())


@pytest.mark.parametrize("law", ["normal", "heavy", "ties"])
def test_a_stream_that_stands_still_seldom_alarms(law):
    """5 alarms are expected at most in 100000 steps; 20 come with a probability below 1e-6."""
    rng = np.random.default_rng(0)
    draws = {
        "normal": lambda n: rng.normal(size=n),
        "heavy": lambda n: -np.abs(rng.standard_cauchy(size=n)),
        "ties": lambda n: np.log(rng.choice([0.9, 0.1], p=[0.9, 0.1], size=n)),
    }[law](100_000)
    assert alarms(drift(draws)) < 20
    assert RARE == 20_000
    worse = np.concatenate([draws[:600], draws[600:700] - 100.0])  # the control
    assert drift(worse)[600:].max() > 0.9


def test_it_needs_a_past():
    assert len(drift(np.zeros(0))) == 0
    assert drift(np.linspace(0.0, -50.0, 50)).max() < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_swapped_labels_alarm_within_fifty_rows_and_nothing_before(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1200, 3))
    y = (x[:, 0] + 0.3 * rng.normal(size=1200) > 0).astype(int)
    y[1000:] = 1 - y[1000:]
    model = HMNNClassifier(hidden=(8,), forgetting="fixed", random_state=seed)
    model.predict_then_fit(x, y)
    signal = model.drift_
    assert signal[:1000].max() < 0.5
    assert signal[1000:1050].max() >= 0.5


def test_a_rule_that_changes_alarms_for_numbers_too():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1200, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=1200)
    y[1000:] += 2.0 * x[1000:, 1]
    model = HMNNRegressor(hidden=(8,), forgetting="fixed", random_state=0)
    model.predict_then_fit(x, y)
    assert model.drift_[:1000].max() < 0.5
    assert model.drift_[1000:1050].max() >= 0.5


def test_the_drift_signal_rises_when_the_labels_are_swapped_and_not_before():
    x = np.random.default_rng(4).normal(size=(1500, 3))
    y = (x[:, 0] > x[:, 1]).astype(int)
    y = np.where(np.arange(1500) < 1200, y, 1 - y)
    model = HMNNClassifier(hidden=(8,), forgetting="fixed", random_state=0)
    model.predict_then_fit(x, y)
    assert model.drift_[1200:1230].max() > 0.9999
    assert model.drift_[500:1200].max() < 0.9999
