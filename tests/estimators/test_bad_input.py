"""Rows D2, D3 and D5: bad input is refused and leaves no trace; nobody else's arrays are kept."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from frozen import as_bytes
from scipy import sparse

from hmnn.estimators import HMNNClassifier, HMNNRegressor

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SMALL = {"hidden": (4,), "forgetting": "fixed", "projection": "natural", "random_state": 0}


def rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] > 0).astype(int)


def frozen(model):
    """Everything an estimator is made of, as bytes."""
    return as_bytes(model.state_), sorted(model.__dict__), model.n_features_in_


X, Y = rows()
GOOD = X[:8], Y[:8]


def with_cell(value):
    x = X[:8].copy()
    x[3, 1] = value
    return x


BAD = {
    "a column more": (np.ones((8, 4)), Y[:8]),
    "a column less": (np.ones((8, 2)), Y[:8]),
    "no rows": (np.ones((0, 3)), Y[:0]),
    "infinity in x": (with_cell(np.inf), Y[:8]),
    "1e300 in x": (with_cell(1e300), Y[:8]),
    "1e39 in x": (with_cell(1e39), Y[:8]),
    "NaN in y": (X[:8], np.where(np.arange(8) == 2, np.nan, Y[:8])),
    "None in y": (X[:8], [*Y[:7].tolist(), None]),
    "None among objects in y": (X[:8], np.array([None, *Y[1:8].tolist()], object)),
    "another length": (X[:8], Y[:7]),
    "y with two columns": (X[:8], np.stack([Y[:8]] * 2, axis=1)),
    "sparse": (sparse.csr_matrix(X[:8]), Y[:8]),
    "complex": (X[:8] * 1j, Y[:8]),
    "strings": (np.full((8, 3), "high"), Y[:8]),
    "one dimension": (X[0], Y[:1]),
}


@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_batch_leaves_no_trace(kind, bad):
    model, straight = kind(**SMALL).fit(X, Y), kind(**SMALL).fit(X, Y)
    before = frozen(model)
    for method in (model.partial_fit, model.predict_then_fit):
        with pytest.raises((ValueError, TypeError)):
            method(*BAD[bad])
    assert frozen(model) == before
    np.testing.assert_array_equal(
        model.partial_fit(*GOOD).predict(X), straight.partial_fit(*GOOD).predict(X)
    )


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
def test_a_question_with_numbers_that_single_precision_has_not_is_refused(kind, standardise):
    model = kind(**SMALL, standardise=standardise).fit(X, Y)
    with pytest.raises(ValueError, match=r"^X must fit in float32\. Got .* in row 3\.$"):
        model.predict(with_cell(1e300))
    if not standardise:
        state = model.state_.filter
        (member,) = state.posterior.members
        mean = tuple(1e9 * m for m in member.posterior.mean)
        large = member._replace(posterior=member.posterior._replace(mean=mean))
        large = state.posterior._replace(members=(large,))
        model.state_ = model.state_._replace(filter=state._replace(posterior=large))
        with pytest.raises(
            ValueError,
            match=r"^X must be such that the network's outputs are finite\. Got 'row 3, ",
        ):
            model.predict(with_cell(3e38))
    assert np.isfinite(model.predict(X[:1])).all()


def test_targets_that_single_precision_has_not_are_refused():
    model = HMNNRegressor(**SMALL).fit(X, Y)
    before = frozen(model)
    for learn in (model.partial_fit, model.predict_then_fit):
        with pytest.raises(
            ValueError, match=r"^y must fit in float32\. Got \[1\.e\+155\] in row 2\.$"
        ):
            learn(X[:8], np.where(np.arange(8) == 2, 1e155, Y[:8]))
    assert frozen(model) == before


def test_a_count_is_checked_whatever_was_built_before():
    HMNNClassifier(**SMALL, epochs=50).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"^epochs must be a whole number of at least 1\. Got 50\.0\.$"
    ):
        HMNNClassifier(**SMALL, epochs=50.0).fit(X, Y)
    with pytest.raises(
        ValueError,
        match=r"^keep must be 1 with projection='natural', which drops nothing\. Got 0\.5\.$",
    ):
        HMNNClassifier(**SMALL, keep=0.5).fit(X, Y)


def test_labels_must_be_known():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        HMNNClassifier(**SMALL).partial_fit(*GOOD)
    model = HMNNClassifier(**SMALL).partial_fit(*GOOD, classes=[0, 1])
    before = frozen(model)
    with pytest.raises(ValueError, match=r"y must be one of the classes \[0, 1\]. Got \[7\]."):
        model.partial_fit(X[:8], np.full(8, 7))
    with pytest.raises(ValueError, match=r"classes must be as on the first call or more, \[0, 1\]"):
        model.partial_fit(*GOOD, classes=[1, 2])
    for weight in (np.full(8, -1.0), np.full(7, 1.0), np.zeros(8), np.full(8, np.nan)):
        with pytest.raises(ValueError, match="weight"):
            model.partial_fit(*GOOD, sample_weight=weight)
    assert frozen(model) == before
    fresh = HMNNClassifier(**SMALL)
    with pytest.raises(ValueError, match="y must be one of"):
        fresh.partial_fit(X[:8], np.full(8, 7), classes=[0, 1])
    assert fresh.__dict__ == HMNNClassifier(**SMALL).__dict__


def test_names_of_columns_are_checked():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = HMNNClassifier(**SMALL).fit(frame, Y)
    before = frozen(model)
    for wrong in (frame[["b", "a", "c"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="feature names"):
            model.partial_fit(wrong, Y)
    assert frozen(model) == before


@pytest.mark.parametrize(
    "form",
    [
        lambda x: pd.DataFrame(x, columns=["a", "b", "c"]),
        lambda x: pl.DataFrame(x, schema=["a", "b", "c"]),
        lambda x: x.tolist(),
        lambda x: x.astype(np.float32).astype(object),
        np.asfortranarray,
        lambda x: np.broadcast_to(x, (1, *x.shape))[0],
    ],
    ids=["pandas", "polars", "lists", "objects", "columns first", "read-only"],
)
def test_every_form_of_a_table_is_the_same_table(form):
    x = X.astype(np.float32).astype(np.float64)
    expected = HMNNRegressor(**SMALL).fit(x, Y).predict(x)
    given = form(x)
    np.testing.assert_allclose(
        HMNNRegressor(**SMALL).fit(given, Y).predict(given), expected, rtol=1e-6
    )


def test_half_precision_is_converted():
    half = X.astype(np.float16)
    expected = (
        HMNNClassifier(**SMALL)
        .fit(half.astype(np.float64), Y)
        .predict_proba(half.astype(np.float64))
    )
    np.testing.assert_array_equal(
        HMNNClassifier(**SMALL).fit(half, Y).predict_proba(half), expected
    )


def test_the_caller_may_do_what_he_likes_with_his_arrays():
    for kind in (HMNNClassifier, HMNNRegressor):
        x, y = rows()
        model = kind(**SMALL).fit(x, y)
        probe = X.copy()
        before, said = frozen(model), model.predict(probe)
        x[:], y[:] = 1e9, 0
        assert frozen(model) == before
        told = model.predict(probe)
        np.testing.assert_array_equal(told, said)
        told[:] = 0
        np.testing.assert_array_equal(model.predict(X), said)


@pytest.mark.parametrize(
    "name", ["memory", "jump_scale", "shrink", "jump_prob", "keep", "initial_scale", "level_scale"]
)
@pytest.mark.parametrize("value", [np.nan, -1.0, "much", None, [0.5]])
def test_numbers_out_of_their_domain_are_named(name, value):
    with pytest.raises(
        ValueError, match=rf"{name} must be .*\. Got " if value != [0.5] else "must be"
    ):
        HMNNClassifier(**SMALL | {name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 1.3),
        ("hidden", 64),
        ("hidden", (0,)),
        ("hidden", ("a",)),
        ("projection", "exact"),
        ("epochs", 0),
        ("epochs", 1.5),
        ("learning_rate", 0.0),
        ("minibatch", -3),
        ("standardise", "yes"),
        ("random_state", "seed"),
    ],
)
def test_other_settings_out_of_their_domain_are_named(name, value):
    with pytest.raises(ValueError, match=name if name != "random_state" else "seed"):
        HMNNRegressor(**SMALL | {name: value}).fit(X, Y)


def test_an_outlier_is_survived():
    for kind in (HMNNClassifier, HMNNRegressor):
        model = kind(**SMALL).fit(X, Y)
        model.partial_fit(np.full((1, 3), 1e30), [1])
        model.partial_fit(*GOOD)
        assert np.isfinite(model.predict(X)).all()
    model = HMNNRegressor(**SMALL).fit(X, Y.astype(float))
    model.partial_fit(X[:1], [1e6])
    assert np.isfinite(model.predict(X[:1])).all()
