"""Our own estimators in the same loop: what they say of a row does not depend on its label or on
later rows."""

import numpy as np
import pytest

from hmnn import evaluate
from hmnn.data.tables import blocks
from hmnn.estimators import HMNNClassifier, HMNNRegressor

pytestmark = pytest.mark.usefixtures("compiled_quickly")

ROWS, CUT = 150, 77
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3))
OTHER = np.concatenate([X[: CUT + 1], 5 * RNG.normal(size=(ROWS - CUT - 1, 3))])
LINE = X @ np.array([1.0, -2.0, 0.5])


def said(x, y, task, forgetting="fixed", **options):
    kind = HMNNClassifier if task == "classification" else HMNNRegressor
    model = kind(hidden=(8,), forgetting=forgetting, random_state=0)
    done = evaluate.prequential(model, blocks(x, y, task, classes=["a", "b"], block=64), **options)
    return done.probabilities[:, 1] if task == "classification" else done.mean


@pytest.mark.parametrize(
    ("task", "forgetting"),
    [("classification", "fixed"), ("regression", "fixed"), ("regression", "auto")],
)
def test_the_future_is_not_seen(task, forgetting):
    y = (LINE > 0).astype(int) if task == "classification" else LINE
    other = y.copy()
    other[CUT:] = 1 - y[CUT:] if task == "classification" else -y[CUT:] + 3
    first, second = said(X, y, task, forgetting), said(OTHER, other, task, forgetting)
    np.testing.assert_array_equal(first[: CUT + 1], second[: CUT + 1])
    assert np.abs(first - second)[CUT + 1 :].max() > 0.05


def test_many_rows_in_one_call_are_close_to_one_after_the_other():
    y = (LINE > 0).astype(int)
    fused, single = said(X, y, "classification"), said(X, y, "classification", through="single")
    assert np.abs(fused - single).max() < 0.05
    assert np.mean((fused > 0.5) == y) > 0.8
