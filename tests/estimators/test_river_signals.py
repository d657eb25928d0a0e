"""The river door tells what it believes, as the scikit-learn door does."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from hmnn.estimators import HMNNRegressor
from hmnn.estimators import river as door

SMALL = {"hidden": (4,), "seed": 1}
SIGNALS = ("drift_", "forgetting_", "surprise_")


def rows(n=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 8))
    return x, 2.0 * x[:, 0] + 0.1 * x[:, 1]


def taught(n=60, **settings):
    x, y = rows(n)
    model = door.HMNNRegressor(**SMALL | settings)
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("abcdefgh", row, strict=True)), target)
    return model


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("kind", [door.HMNNClassifier, door.HMNNRegressor])
def test_a_model_that_has_learned_nothing_says_so(kind, name):
    model = kind(**SMALL)
    with pytest.raises(NotFittedError, match=rf"^The model has learned no row yet.*{name}\.$"):
        getattr(model, name)
    assert getattr(model, name, None) is None  # as those ask who do not know the model


def test_rows_that_wait_are_learned_first():
    model = taught()
    assert len(model._waiting) == 60
    believed = model.forgetting_
    assert model._waiting == []
    assert len(model.surprise_) == len(model.drift_) == 60
    assert believed.names[0] == "still, moving level"
    assert believed.weights.sum() == pytest.approx(1.0, abs=1e-5)
    assert believed.steps.tolist() == [0, 10, 20, 30, 40, 50]
    assert believed.history.shape == (6, len(believed.names))
    asked = taught()
    asked.predict_one(dict.fromkeys("abcdefgh", 0.0))  # this learns them too, and changes nothing
    np.testing.assert_allclose(asked.forgetting_.weights, believed.weights, rtol=1e-4)


def test_both_doors_say_the_same():
    x, y = rows()
    ours, other = taught(), HMNNRegressor(hidden=(4,), random_state=0)
    other.n_features_in_ = 8
    other.state_ = door.HMNNRegressor(**SMALL)._now()  # the same first weights
    other.predict_then_fit(x, y)
    np.testing.assert_allclose(ours.surprise_, other.surprise_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.drift_, other.drift_, rtol=1e-2, atol=1e-6)
    ours, other = ours.forgetting_, other.forgetting_
    assert ours.names == other.names
    np.testing.assert_allclose(ours.weights, other.weights, atol=1e-3)
    np.testing.assert_allclose(ours.history, other.history, atol=1e-3)


def test_one_filter_is_believed_alone():
    found = taught(20, forgetting="fixed").forgetting_
    assert found.names == ("yours",)
    assert found.weights == pytest.approx([1.0], abs=1e-5)
    assert found.jumps[0] == pytest.approx(0.007 * np.sqrt(0.5), rel=0.01)


def test_a_loaded_model_tells_the_same(tmp_path):
    model = taught(30)
    model.save(tmp_path / "model")
    again = door.HMNNRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.surprise_, model.surprise_)
    np.testing.assert_array_equal(again.forgetting_.history, model.forgetting_.history)
    once_more = model.surprise_  # now nothing waits
    model.save(tmp_path / "learned")
    again = door.HMNNRegressor.load(tmp_path / "learned")
    np.testing.assert_array_equal(again.surprise_, once_more)
    np.testing.assert_array_equal(again.forgetting_.history, model.forgetting_.history)
