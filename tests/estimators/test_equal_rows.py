"""Weights of rows: a row of weight k is k equal rows, by both projections and in many lots."""

import jax
import numpy as np
import pytest
from frozen import as_bytes, as_numbers

from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators.equal_rows import MOST, WeightedRows, merged, written_out

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] - x[:, 1] > 0).astype(int), rng.integers(0, 4, n)


def learned(kind, steps, projection):
    model = kind(hidden=(4,), forgetting="fixed", projection=projection, epochs=2, random_state=0)
    named = {"classes": [0, 1]} if kind is HMNNClassifier else {}
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        for x, y, weight in steps:
            model.partial_fit(x, y, sample_weight=weight, **named)
    return model.state_


@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
@pytest.mark.parametrize("projection", ["natural", "gradient"])
def test_weight_k_is_k_equal_rows_bit_for_bit(kind, projection):
    steps = [rows(100, seed) for seed in range(2)]  # more than a lot
    one = learned(kind, steps, projection)
    other = learned(
        kind, [(x.repeat(w, axis=0), y.repeat(w), None) for x, y, w in steps], projection
    )
    assert as_bytes(one) == as_bytes(other)
    unweighted = learned(kind, [(x, y, None) for x, y, _ in steps], projection)
    laws = [as_numbers(state.filter.posterior) for state in (one, unweighted)]
    assert np.abs(laws[0] - laws[1]).max() > 1e-3


def test_the_order_of_few_rows_is_without_influence():
    x, y, weight = rows(30)
    order = np.random.default_rng(1).permutation(30)
    for kind in (HMNNClassifier, HMNNRegressor):
        one, other = (kind(hidden=(4,), forgetting="fixed", random_state=0) for _ in range(2))
        one.fit(x, y, sample_weight=weight + 1)
        other.fit(x[order], y[order], sample_weight=weight[order] + 1)
        assert as_bytes(one.state_.filter.posterior) == as_bytes(other.state_.filter.posterior)


def test_equal_rows_are_one_and_no_weight_is_lost():
    x = np.array([[1.0, 0.0], [1.0, -0.0], [2.0, 0.0], [1.0, 0.0], [3.0, 3.0]])
    set_ = merged(WeightedRows(x, np.array([0, 0, 0, 1, 1]), np.array([1.0, 2.0, 0.5, 4.0, 0.0])))
    found = {
        (*row, label): w
        for row, label, w in zip(set_.x.tolist(), set_.y.tolist(), set_.weight, strict=True)
    }
    assert found == {(1.0, 0.0, 0): 3.0, (2.0, 0.0, 0): 0.5, (1.0, 0.0, 1): 4.0}


def test_heavy_rows_are_written_out_and_no_weight_is_lost():
    data = WeightedRows(np.eye(3), np.arange(3), np.array([1.0, 2.0, 9.0]))
    out = written_out(data)
    assert len(out.x) == 12
    np.testing.assert_allclose([out.weight[out.y == k].sum() for k in range(3)], data.weight)
    assert len(written_out(data._replace(weight=np.full(3, 1e300))).x) <= MOST
    assert len(written_out(data._replace(weight=np.full(3, 1e-300))).x) == 3
