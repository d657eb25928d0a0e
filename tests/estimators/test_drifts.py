"""Worlds that move: an estimator follows, its intervals cover, and its signal rises."""

import numpy as np

from hmnn.estimators import HMNNClassifier, HMNNRegressor


def test_predict_then_fit_beats_chance_on_a_drift_and_intervals_cover():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    turn = np.linspace(0, 2 * np.pi, 3000)
    level = np.cos(turn) * x[:, 0] + np.sin(turn) * x[:, 1]
    p = HMNNClassifier(hidden=(16,), random_state=0).predict_then_fit(x, (level > 0).astype(int))
    assert np.mean(p.argmax(axis=1) == (level > 0)) > 0.85
    y = 100.0 + 7.0 * level + rng.normal(size=3000)
    mean, std = HMNNRegressor(hidden=(16,), random_state=0).predict_then_fit(x, y)
    assert 0.92 <= np.mean(np.abs(y - mean)[100:] <= 1.96 * std[100:]) <= 0.98
    assert np.abs(y - mean)[500:].mean() < 2.5
