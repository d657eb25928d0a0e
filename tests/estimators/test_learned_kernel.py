"""forgetting="learn": one filter that learns how fast its weights move, through both doors."""

import jax
import numpy as np
import pytest

from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators.carrying import _law_moved
from hmnn.estimators.known_columns import Move
from hmnn.estimators.river import HMNNClassifier as Classifier


def stream(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)) * 4.0 + 1.0
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=rows)


def model(kind=HMNNRegressor, **settings):
    return kind(hidden=(6, 5), forgetting="learn", random_state=0, **settings)


@pytest.mark.parametrize("kind", [HMNNRegressor, HMNNClassifier])
def test_it_says_where_the_drift_is(kind):
    x, y = stream()
    m = model(kind)
    m.predict_then_fit(x, y) if kind is HMNNRegressor else m.fit(x, y > 0)
    told = m.forgetting_
    assert list(told.by_layer) == ["layer 1", "layer 2", "layer 3", "level"]
    assert told.names == ("learned",)
    layers = [told.by_layer[f"layer {i}"] for i in (1, 2, 3)]
    assert min(layers) <= told.jumps[0] <= max(layers)
    assert HMNNRegressor(hidden=(4,)).partial_fit(x, y).forgetting_.by_layer is None


def test_killed_and_resumed_is_uninterrupted(tmp_path):
    x, y = stream()
    whole, half = model(), model()
    whole.predict_then_fit(x[:70], y[:70])
    half.predict_then_fit(x[:70], y[:70])
    half = HMNNRegressor.load(half.save(tmp_path / "half"))
    for a, b in zip(*(m.predict_then_fit(x[70:], y[70:]) for m in (whole, half)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.forgetting_.by_layer == half.forgetting_.by_layer
    assert whole.forgetting_.by_layer != model().partial_fit(x[:1], y[:1]).forgetting_.by_layer


def test_fit_says_nothing_of_the_drift():
    x, y = stream(60)
    m = model().fit(x, y)
    assert len({round(m.forgetting_.by_layer[f"layer {i}"], 7) for i in (1, 2, 3)}) == 1
    assert np.corrcoef(m.predict(x), y)[0, 1] > 0.5


def test_tangents_are_carried_as_the_law_is():
    """Under new units the difference of two laws is carried to the difference of what they are."""
    x, y = stream()
    drift = model().partial_fit(x, y).state_.filter.posterior.members[0].posterior
    inputs = Move(np.array([2.0, 0.5, 1.5]), np.array([1.0, -1.0, 0.3]))
    output = Move(np.array([3.0]), np.array([0.7]))
    after = _law_moved(drift, inputs, output)
    for i in range(len(drift.numbers[0])):
        other = jax.tree.map(
            lambda a, t, i=i: np.asarray(a, float) + np.asarray(t[:, i], float),
            drift.law,
            drift.tangents,
        )
        apart = jax.tree.map(
            lambda a, b: a - b, *(_law_moved(law, inputs, output) for law in (other, drift.law))
        )
        told = jax.tree.map(lambda t, i=i: t[:, i], after.tangents)
        for a, b in zip(*map(jax.tree.leaves, (told, apart)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)


def test_late_columns_and_late_classes_keep_what_was_learned():
    x, y = stream()
    m = Classifier(hidden=(6,), forgetting="learn", seed=0)
    for i, (row, label) in enumerate(zip(x[:30], np.digitize(y, [0.0, 1.0]), strict=False)):
        names = "abc" if i > 15 else "ab"
        m.learn_one(dict(zip(names, row, strict=False)), int(label if i > 20 else label > 0))
    assert sum(m.predict_proba_one({"a": 1.0, "c": 0.0}).values()) == pytest.approx(1.0)


@pytest.mark.parametrize("settings", [{"keep": 0.9}, {"projection": "gradient"}])
def test_the_descent_learns_no_kernel(settings):
    with pytest.raises(ValueError, match="forgetting must be 'auto' or 'fixed'"):
        model(**settings).partial_fit(*stream(10))
