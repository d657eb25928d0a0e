import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from hmnn.data import logistic_drift
from hmnn.data.drift import drifting_weights


def test_the_true_weights_turn_by_five_degrees_from_t_1():
    weights = drifting_weights()
    assert weights.shape == (700, 2)
    np.testing.assert_allclose(weights[0], [10 * np.sin(np.pi / 36), 10 * np.cos(np.pi / 36)])
    np.testing.assert_allclose(weights[17], [10.0, 0.0], atol=1e-12)  # t = 18: 90 degrees
    np.testing.assert_allclose(weights[72:144], weights[:72], atol=1e-9)
    np.testing.assert_allclose(drifting_weights(5, -5.0), weights[:5] * [-1, 1], atol=1e-12)


def test_rows_are_uniform_and_labels_follow_the_weights_of_their_time_step():
    stream = logistic_drift(rows=20000, steps=20, seed=1)
    assert (len(stream), stream.task, stream.made["seed"]) == (20, "classification", 1)
    truth = drifting_weights(20)
    for t in (0, 17):
        x, y = stream[t]
        assert (x.shape, y.shape) == ((20000, 2), (20000,))
        assert stats.kstest(x.ravel(), stats.uniform(-3, 6).cdf).pvalue > 1e-5
        p = expit(x @ truth[t])
        scale = np.sqrt(np.sum(p * (1 - p)))
        assert abs(np.sum(y - p)) < 4.5 * scale
        # The score of the true weights is centred; that of the weights of the next time step is
        # not.
        information = (x * (p * (1 - p))[:, None]).T @ x
        z = np.linalg.solve(np.linalg.cholesky(information), x.T @ (y - p))
        assert np.abs(z).max() < 4.5
        late = expit(x @ truth[t + 1])
        assert (
            np.abs(np.linalg.solve(np.linalg.cholesky(information), x.T @ (y - late))).max() > 4.5
        )


def test_a_stream_gives_the_same_data_at_every_call_and_other_data_at_every_step():
    stream = logistic_drift(rows=50, steps=3, seed=3)
    for first, second in zip(stream, stream, strict=True):
        np.testing.assert_array_equal(first.x, second.x)
        np.testing.assert_array_equal(first.y, second.y)
    assert not np.array_equal(stream[0].x, stream[1].x)
    assert not np.array_equal(stream[0].x, logistic_drift(rows=50, steps=3, seed=4)[0].x)


def test_sizes_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"rows must be a whole number of at least 1. Got 0."):
        logistic_drift(rows=0)
    with pytest.raises(ValueError, match=r"degrees must be a finite number. Got inf."):
        logistic_drift(rows=1, degrees=float("inf"))
