"""Every contract check of scikit-learn (row D1) and its tools (row D4)."""

import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from frozen import as_bytes, as_numbers
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import hmnn
from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators.learned import nothing
from hmnn.methods import streams

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@parametrize_with_checks(
    [
        HMNNClassifier(hidden=(8,), forgetting="fixed", projection="natural", random_state=0),
        HMNNRegressor(hidden=(8,), forgetting="fixed", projection="natural", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    monkeypatch.setattr(streams, "PASSES", (10,))  # nothing to choose: fewer programs
    check(estimator)


WITH_THE_BANK = {
    HMNNClassifier: ("check_fit2d_1sample", "check_methods_subset_invariance"),
    HMNNRegressor: ("check_estimators_pickle", "check_dict_unchanged"),
}


@pytest.mark.parametrize("kind", WITH_THE_BANK)
def test_some_checks_with_the_defaults(kind):
    names = []
    for model, check in estimator_checks_generator(kind(hidden=(4,), random_state=0)):
        if check.func.__name__ in WITH_THE_BANK[kind]:
            check(model)
            names.append(check.func.__name__)
    assert set(names) == set(WITH_THE_BANK[kind])


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] - x[:, 1] > 0).astype(int)


SMALL = {"hidden": (4,), "forgetting": "fixed", "projection": "natural", "random_state": 0}


def test_clone_pipeline_grid_and_two_processes():
    x, y = rows(120)
    model = HMNNClassifier(**SMALL | {"hidden": (16,)})
    assert clone(model).get_params() == model.get_params()
    assert make_pipeline(MinMaxScaler(), model).fit(x, y).score(x, y) > 0.7
    search = GridSearchCV(
        HMNNRegressor(**SMALL), {"jump_scale": [0.001, 0.1], "hidden": [(4,), (4, 4)]}, cv=2
    )
    assert set(search.fit(x, x[:, 0]).best_params_) == {"jump_scale", "hidden"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the processes, not ours
        assert len(cross_val_score(model, x, y, cv=2, n_jobs=2)) == 2


def test_a_copy_goes_on_like_the_original():
    x, y = rows()
    model = HMNNRegressor(**SMALL).fit(x, x[:, 0])
    twin = pickle.loads(pickle.dumps(model))
    for copy in (model, twin):
        copy.partial_fit(x[:5], y[:5])
    np.testing.assert_array_equal(model.predict(x), twin.predict(x))


@pytest.mark.parametrize("labels", [[0, 1], ["down", "up"], [1.0, 2.0], [False, True], [3, 5, 9]])
def test_saved_and_loaded_goes_on_like_the_original(tmp_path, labels):
    x, y = rows()
    y = np.array(labels)[np.arange(len(y)) % len(labels) if len(labels) > 2 else y]
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = HMNNClassifier(**SMALL).fit(frame, y)
    model.save(tmp_path / "model")
    loaded = HMNNClassifier.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    for copy in (model, loaded):
        copy.partial_fit(frame[:7], y[:7])
    np.testing.assert_array_equal(model.predict_proba(frame), loaded.predict_proba(frame))
    np.testing.assert_array_equal(model.predict(frame), loaded.predict(frame))
    np.testing.assert_array_equal(model.surprise_, loaded.surprise_)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"HMNNRegressor.save"):
        HMNNRegressor.load(tmp_path / "model")


def test_numbers_of_numpy_are_saved_and_what_cannot_be_is_named(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    settings = {
        "hidden": (np.int64(4),),
        "forgetting": "fixed",
        "epochs": np.int64(20),
        "memory": np.float32(0.5),
        "standardise": np.True_,
    }
    model = HMNNClassifier(**settings, random_state=np.int64(3)).fit(x, y)
    loaded = HMNNClassifier.load(model.save(tmp_path / "a"))
    assert (loaded.hidden, loaded.epochs, loaded.random_state) == ((4,), 20, 3)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    chance = HMNNClassifier(
        hidden=(4,), forgetting="fixed", random_state=np.random.RandomState(0)
    ).fit(x, y)
    with pytest.raises(
        ValueError,
        match=r"^random_state must be None or a whole number in a model that is saved\. Got",
    ):
        chance.save(tmp_path / "b")


def test_both_projections_follow_each_other():
    x, y = rows(400, 1)
    settings = {"hidden": (8,), "forgetting": "fixed", "epochs": 40, "random_state": 0}
    first, second, third = (x[:20], y[:20]), (x[:300], y[:300]), (x[300:320], y[300:320])
    model = HMNNClassifier(**settings).partial_fit(*first, classes=[0, 1])
    few = model.state_.filter.posterior
    closed = HMNNClassifier(**settings, projection="natural").partial_fit(*first, classes=[0, 1])
    assert as_bytes(closed.state_.filter.posterior) == as_bytes(few)  # auto: few rows
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        model.partial_fit(*second, sample_weight=np.linspace(0.5, 1.5, 300))  # auto: descends
        closed.partial_fit(*second)
        laws = [as_numbers(each.state_.filter.posterior) for each in (closed, model)]
        assert np.abs(laws[0] - laws[1]).max() > 1e-3
        model.partial_fit(*third)
    assert model.score(x, y) > 0.8
    assert len(model.drift_) == len(model.surprise_) == 3
    assert np.isfinite(model.drift_).all()
    assert np.isfinite(model.surprise_).all()


def test_time_makes_less_certain():
    x, y = rows(100)
    model = HMNNRegressor(**SMALL, jump_scale=0.1).fit(x, x[:, 0])
    stds = [model.predict(x, return_std=True)[1], model.forecast(x, 2)[1], model.forecast(x, 20)[1]]
    np.testing.assert_array_equal(model.forecast(x, 1)[1], stds[0])  # the coming time step
    assert (stds[0] < stds[1]).all()
    assert (stds[1] < stds[2]).all()
    apart = model.uncertainty(x)
    np.testing.assert_allclose(apart.epistemic + apart.aleatoric, stds[0] ** 2, rtol=1e-5)
    t, seen = int(model.state_.filter.t), int(model.state_.filter.seen)
    np.testing.assert_allclose(model.advance(19).predict(x, return_std=True)[1], stds[2], rtol=1e-5)
    assert (int(model.state_.filter.t), int(model.state_.filter.seen)) == (t + 19, seen)
    low, high = model.predict_interval(x, 0.5).T
    # A mixture of normal laws is narrower in the middle than one normal law of its variance.
    assert (high - low < 2 * 0.6745 * stds[2] * 1.001).all()
    assert (high - low > 0.6745 * stds[2]).all()
    classifier = HMNNClassifier(**SMALL, jump_scale=0.3).fit(x, y)
    now, later = classifier.predict_proba(x).max(axis=1), classifier.forecast(x, 50).max(axis=1)
    assert (later <= now + 1e-6).all()
    assert later.mean() < now.mean() - 0.01
    parts, p = classifier.uncertainty(x), classifier.predict_proba(x)
    assert (parts.epistemic >= 0).all()
    assert (parts.aleatoric >= 0).all()
    np.testing.assert_allclose(sum(parts), (p * (1.0 - p)).sum(axis=1), rtol=1e-4)


def test_surprise_is_the_log_density_before_learning():
    x, y = rows(40)
    model = HMNNClassifier(**SMALL).fit(x[:30], y[:30])
    told = model.forecast(x[30:], 1)[np.arange(10), y[30:]]
    scaled = model.state_.x
    model.partial_fit(x[30:], y[30:])
    assert scaled is not model.state_.x
    assert model.surprise_[-1] == pytest.approx(
        np.log(told).mean(), abs=0.15
    )  # the scaler has moved a little
    assert model.surprise_[-1] > np.log(0.5)


@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
@pytest.mark.parametrize(
    "settings",
    [{}, {"forgetting": "fixed"}, {"projection": "gradient"}],
    ids=["auto", "fixed", "gradient"],
)
def test_predict_then_fit_is_predict_and_partial_fit_row_by_row(kind, settings):
    x, y = rows(30, 3)
    y = y if kind is HMNNClassifier else 5.0 + 3.0 * x[:, 0]
    fused, single = (kind(hidden=(4,), epochs=2, random_state=0, **settings) for _ in range(2))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        for model in (fused, single):
            model.partial_fit(
                x[:10], y[:10], **({"classes": [0, 1]} if kind is HMNNClassifier else {})
            )
        told = fused.predict_then_fit(x[10:], y[10:])
        for i in range(10, 30):
            row = x[i : i + 1]
            if kind is HMNNClassifier:
                np.testing.assert_allclose(told[i - 10], single.predict_proba(row)[0], atol=1e-6)
            else:
                mean, std = single.predict(row, return_std=True)
                np.testing.assert_allclose(
                    [told[0][i - 10], told[1][i - 10]], [mean[0], std[0]], rtol=1e-6, atol=1e-5
                )
            single.partial_fit(row, y[i : i + 1])
    laws = [as_numbers(model.state_.filter.posterior) for model in (fused, single)]
    np.testing.assert_allclose(*laws, atol=1e-6)
    np.testing.assert_allclose(fused.surprise_, single.surprise_, atol=1e-5)
    assert len(fused.drift_) == len(fused.surprise_) == 21


def test_surprise_goes_back_ten_thousand_steps_and_no_further():
    state, x, y = (object() for _ in range(3))
    learned = nothing(state, x, y, 1)
    for part in np.split(np.arange(12_000.0), 3):
        learned = learned.after(state, x, y, part)
    np.testing.assert_array_equal(learned.surprise, np.arange(2_000.0, 12_000.0))


def test_parts_of_your_own_enter_the_estimators(tmp_path):
    x, y = rows(60, 5)
    own = {
        "network": hmnn.mlp(3, (5,), 1, jax.numpy.tanh),
        "kernel": hmnn.ornstein_uhlenbeck(0.99, 0.3),
    }
    model = HMNNClassifier(**own, forgetting="fixed", random_state=0).fit(x, y)
    assert model.score(x, y) > 0.8
    assert clone(model).fit(x, y).score(x, y) == model.score(x, y)
    loaded = HMNNClassifier.load(model.save(tmp_path / "a"), **own)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    with pytest.raises(
        ValueError,
        match=r"^load must be given the parts of the saved model, \['network', 'kernel'\]",
    ):
        HMNNClassifier.load(tmp_path / "a")
    with pytest.raises(
        ValueError,
        match=r"^network must be one of 3 outputs, as these targets need\. Got '1 outputs'\.$",
    ):
        HMNNClassifier(network=own["network"], forgetting="fixed").fit(x, np.arange(60) % 3)
    counts = HMNNRegressor(
        hidden=(4,), forgetting="fixed", likelihood=hmnn.poisson(), random_state=0
    )
    with pytest.raises(ValueError, match=r"^y must be counts, whole and not negative"):
        counts.fit(x, y - 0.5)
    mean, std = counts.fit(x, 3 * y).predict(x, return_std=True)
    assert (mean > 0).all()
    assert (std >= np.sqrt(mean) * 0.99).all()
