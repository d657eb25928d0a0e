"""`fit` is a batch learner: as good as an ordinary one, whatever the order of the rows."""

import numpy as np
import pytest
from frozen import as_numbers
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hmnn.estimators import HMNNClassifier, HMNNRegressor


@pytest.mark.parametrize("load", [datasets.load_iris, datasets.load_wine])
def test_data_sorted_by_class_are_learned_as_well_as_by_logistic_regression(load):
    x, y = load(return_X_y=True)
    rival = make_pipeline(StandardScaler(), LogisticRegression())
    ours, theirs = (
        cross_val_score(model, x, y, cv=StratifiedKFold(3)).mean()
        for model in (HMNNClassifier(random_state=0), rival)
    )
    assert ours > theirs - 0.03
    in_turn = HMNNClassifier(forgetting="fixed", random_state=0)
    for i in range(0, len(x), 10):  # as a stream, the classes of old are forgotten
        in_turn.partial_fit(x[i : i + 10], y[i : i + 10], classes=[0, 1, 2])
    assert in_turn.score(x, y) < ours - 0.03


@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
def test_the_order_of_rows_changes_not_a_bit(kind):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(120, 3)), rng.uniform(0.5, 2.0, 120)
    y = (x[:, 0] > 0).astype(int)
    order = rng.permutation(120)
    told = [
        kind(hidden=(8,), forgetting="fixed", random_state=1)
        .fit(x[rows], y[rows], weight[rows])
        .predict(x)
        for rows in (np.arange(120), order)
    ]
    np.testing.assert_array_equal(*told)
    streams = [kind(hidden=(8,), forgetting="fixed", random_state=1) for _ in range(2)]
    for model, rows in zip(streams, (np.arange(120), order), strict=True):
        named = {"classes": [0, 1]} if kind is HMNNClassifier else {}
        model.partial_fit(x[rows], y[rows], **named)
    assert int(streams[0].state_.filter.t) == 1
    laws = [as_numbers(model.state_.filter.posterior.members) for model in streams]
    assert np.abs(laws[0] - laws[1]).max() > 1e-4  # a stream has an order


def smooth(rows, seed=0):
    """A smooth function of five inputs, with noise; and its truth elsewhere."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows + 500, 5))
    truth = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3] ** 2
    return x[:rows], truth[:rows] + 0.1 * rng.normal(size=rows), x[rows:], truth[rows:]


def test_a_smooth_function_is_learned_and_one_row_more_changes_little():
    """R2 with 255, 257 and 1000 rows: the closed form has no other algorithm to switch to."""
    found = {}
    for rows in (255, 257, 1000):
        x, y, new, truth = smooth(rows)
        model = HMNNRegressor(random_state=0).fit(x, y)
        found[rows] = model.score(new, truth)
    assert abs(found[257] - found[255]) < 0.05
    with np.errstate(all="ignore"):
        rival = MLPRegressor(max_iter=2000, random_state=0).fit(x, y).score(new, truth)
    assert found[1000] > rival - 0.02
    epistemic = np.sqrt(model.uncertainty(new).epistemic)
    inside = np.mean(np.abs(model.predict(new) - truth) < 1.96 * epistemic)
    assert inside > 0.85  # rows count once, in however many passes
