"""Settings that change after learning began, likelihoods that do not fit, numbers of bfloat16."""

import ml_dtypes
import numpy as np
import pytest
from frozen import as_bytes

import hmnn
from hmnn.estimators import HMNNClassifier, HMNNRegressor

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
KINDS = [HMNNClassifier, HMNNRegressor]
OTHER = {
    "hidden": (4, 4),  # as many weights as before
    "network": hmnn.mlp(3, (5,), 1),
    "likelihood": hmnn.bernoulli(),
}


def begun(kind, x=X[:8], y=Y[:8]):
    """A model that has learned eight rows."""
    classes = {"classes": [0, 1]} if kind is HMNNClassifier else {}
    return kind(hidden=(8,), forgetting="fixed", random_state=0).partial_fit(x, y, **classes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OTHER)
def test_another_network_after_learning_began_is_refused(kind, name, tmp_path):
    model = begun(kind)
    before, said = as_bytes(model.state_), model.predict(X[:8])
    old = model.get_params()[name]
    model.set_params(**{name: OTHER[name]})
    calls = [
        lambda: model.predict(X[:8]),
        lambda: model.uncertainty(X[:8]),
        lambda: model.partial_fit(X[:8], Y[:8]),
        lambda: model.predict_then_fit(X[:8], Y[:8]),
        lambda: model.advance(2),
        lambda: model.save(tmp_path / "model"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"^{name} must be .*, as when learning began; `fit`"):
            call()
    assert as_bytes(model.state_) == before
    assert not (tmp_path / "model").exists()
    model.set_params(**{name: old})
    np.testing.assert_array_equal(model.predict(X[:8]), said)
    model.partial_fit(X[:8], Y[:8])
    model.set_params(**{name: OTHER[name]}).fit(X[:8], Y[:8])
    assert np.isfinite(model.predict(X[:8])).all()


def test_a_loaded_model_knows_its_network(tmp_path):
    begun(HMNNRegressor).save(tmp_path / "model")
    model = HMNNRegressor.load(tmp_path / "model").set_params(hidden=(4, 4))
    with pytest.raises(ValueError, match=r"^hidden must be \(8,\), as when learning began"):
        model.predict(X[:8])


def test_other_settings_may_change():
    model = begun(HMNNRegressor)
    said = model.predict_interval(X[:8])
    model.set_params(jump_scale=0.5)
    assert (np.diff(model.predict_interval(X[:8])) > np.diff(said)).all()


@pytest.mark.parametrize("likelihood", ["poisson", "gaussian", "categorical"])
def test_a_classifier_needs_a_likelihood_of_its_classes(likelihood):
    """Two classes have one output, of which "categorical" makes one class; three are right."""
    with pytest.raises(
        ValueError, match=r"^likelihood must be one of 2 classes from 1 outputs\. Got "
    ):
        HMNNClassifier(hidden=(4,), forgetting="fixed", likelihood=likelihood).fit(X[:8], Y[:8])
    if likelihood == "categorical":
        labels = np.arange(40) % 3
        model = HMNNClassifier(hidden=(4,), forgetting="fixed", likelihood=likelihood).fit(
            X, labels
        )
        assert model.predict_proba(X).shape == (40, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_converted(kind):
    x, y = X[:8].astype(ml_dtypes.bfloat16), Y[:8].astype(ml_dtypes.bfloat16)
    ours, wide = begun(kind, x, y), begun(kind, x.astype(float), y.astype(float))
    np.testing.assert_array_equal(ours.predict(x), wide.predict(x.astype(float)))
    weight = np.full(8, 2, ml_dtypes.bfloat16)
    ours.partial_fit(x, y, sample_weight=weight)
    assert np.isfinite(ours.predict(x)).all()


def test_bfloat16_through_a_method_is_one_sentence():
    method = hmnn.hmnn(hmnn.linear(3, 2), "categorical", epochs=1)
    with pytest.raises(ValueError, match=r"^x must be an array of numbers\. Got 'bfloat16 of "):
        method.predict(method.init(0), X.astype(ml_dtypes.bfloat16))
