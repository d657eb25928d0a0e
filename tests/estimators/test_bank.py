"""The bank in the estimators: the default, what it keeps, and what switches parts of it off."""

import numpy as np
import pandas as pd
import pytest
from frozen import as_bytes

from hmnn.core import learning
from hmnn.core.learning import Recent
from hmnn.estimators import HMNNClassifier, HMNNRegressor, last_target
from hmnn.estimators import river as door
from hmnn.estimators.carrying import carried
from hmnn.estimators.in_turn import last_columns
from hmnn.estimators.known_columns import Move

SMALL = {"hidden": (4,), "random_state": 0}
ROWS = 16  # a size that is compiled


def stream(number=80, seed=0):
    """Rows and a number that wanders."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, 2))
    return x, np.sin(x[:, 0]) + np.cumsum(0.3 * rng.normal(size=number))


X, Y = stream()
LABELS = (Y > np.median(Y)).astype(int)
KINDS = {"classifier": (HMNNClassifier, LABELS), "regressor": (HMNNRegressor, Y)}


def told(model, x):
    """What a model says of rows, as columns."""
    if isinstance(model, HMNNClassifier):
        return model.predict_proba(x)
    return np.stack(model.predict(x, return_std=True), axis=1)


def told_then_learned(model, x, y, **named):
    """The same of each row, from those before it."""
    found = model.predict_then_fit(x, y, **named)
    return found if isinstance(model, HMNNClassifier) else np.stack(found, axis=1)


@pytest.fixture(scope="module")
def taught():
    """Models that have learned some rows; nobody changes them."""
    result = {}
    for kind, (cls, y) in KINDS.items():
        result[kind] = cls(**SMALL)
        said = [
            told_then_learned(result[kind], X[i : i + ROWS], y[i : i + ROWS], **known(cls))
            for i in range(0, 4 * ROWS, ROWS)
        ]
        result[kind].said = np.concatenate(said)
    return result


def known(cls):
    return {"classes": [0, 1]} if cls is HMNNClassifier else {}


def twin(model):
    """A model that knows the same."""
    result = type(model)(**model.get_params())
    result.__dict__.update({k: v for k, v in vars(model).items() if k != "said"})
    return result


def state_of(model):
    return model.state_.filter


# --- the same in all ways -------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_one_loop_are_predicted_and_then_learned_one_by_one(kind, taught):
    cls, y = KINDS[kind]
    model, said = cls(**SMALL), []
    model.partial_fit(X[:1], y[:1], **known(cls))
    for i in range(1, 4 * ROWS):
        said.append(told(model, X[i : i + 1]))
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    np.testing.assert_allclose(np.concatenate(said), taught[kind].said[1:], rtol=1e-5, atol=1e-6)
    straight = taught[kind]
    np.testing.assert_allclose(told(model, X[:8]), told(straight, X[:8]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        model.forgetting_.weights, straight.forgetting_.weights, rtol=1e-3, atol=1e-6
    )
    np.testing.assert_allclose(model.surprise_, straight.surprise_, rtol=1e-3, atol=1e-4)


def test_experts_take_part_and_it_matters(taught):
    """The control of all tests with experts: here they are believed, and say something else."""
    model = taught["regressor"]
    experts = [n.startswith("change from") for n in model.forgetting_.names]
    assert model.forgetting_.weights[experts].sum() > 0.2
    one = model.predict(X[70:71])
    assert np.abs(one - model.predict(X[70:72])[:1]).max() > 1e-3


# --- who knows the last target --------------------------------------------------------------------
def test_of_several_rows_none_is_the_next_and_experts_are_silent(taught):
    """What a bank without its experts says: the others share out all weight."""
    model = twin(taught["regressor"])
    several = told(model, X[70:72])
    np.testing.assert_allclose(told(model, X[[70, 75]])[0], several[0], rtol=1e-6)
    assert last_columns(model._filter(), model.state_.last, model.state_.y, 1)[0, 3] == 1.0
    assert not last_columns(model._filter(), model.state_.last, model.state_.y, 2).any(axis=0)[3]
    # Without the last target a row by itself is like a row among others.
    stale = last_target.stale(model.state_.last)
    model.state_ = model.state_._replace(last=stale)
    np.testing.assert_allclose(told(model, X[70:71])[0], several[0], rtol=1e-6)
    law = model.state_.filter.posterior
    silent = np.array(law.log_weights)
    silent[-2 * len(learning.SHARES) :] += 5.0  # whatever experts weigh
    changed = law._replace(log_weights=silent - np.log(np.exp(silent).sum()))
    model.state_ = model.state_._replace(filter=state_of(model)._replace(posterior=changed))
    np.testing.assert_allclose(told(model, X[70:71])[0], several[0], rtol=1e-5)


@pytest.mark.parametrize("way", ["time passes", "rows come together", "a weighted row"])
def test_a_target_that_is_old_is_not_told(way, taught):
    model = twin(taught["regressor"])
    assert np.isfinite(model.state_.last.value)
    if way == "time passes":
        model.advance()
    elif way == "rows come together":
        model.partial_fit(X[64:67], Y[64:67])
    else:
        model.partial_fit(X[64:65], Y[64:65], sample_weight=[0.5])
    assert np.isnan(model.state_.last.value)
    assert np.isnan(model.state_.last.difference)
    one, several = told(model, X[70:71]), told(model, X[70:72])
    np.testing.assert_allclose(one[0], several[0], rtol=1e-6)
    for i in (67, 68):  # one target is not enough: the last difference is an input too
        assert last_columns(model._filter(), model.state_.last, model.state_.y, 1)[0, 3] == 0.0
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    assert last_columns(model._filter(), model.state_.last, model.state_.y, 1)[0, 3] == 1.0


def test_experts_do_not_see_the_target_of_the_row_itself(taught):
    """Another target of a row changes nothing of what was said of it."""
    model, other = (twin(taught["regressor"]) for _ in range(2))
    x, y = X[64:80], Y[64:80].copy()
    said = told_then_learned(model, x, y)
    y[9:] += 50.0
    different = told_then_learned(other, x, y)
    np.testing.assert_allclose(different[:10], said[:10], rtol=1e-5)
    assert np.abs(different[10:] - said[10:]).max() > 0.1  # the control


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_a_stream_goes_on_after_rows_without_an_order(first):
    """However many: maps of targets and of their differences are looked at after the same rows."""
    model = HMNNRegressor(**SMALL)
    getattr(model, first)(X[:10], Y[:10])
    mean, _ = model.predict_then_fit(X[10:74], Y[10:74])  # 74 rows: past the first look
    assert np.isfinite(mean).all()
    learned = model.state_
    assert len(learned.x.recent) == len(learned.y.recent) == len(learned.last.scaler.recent) == 10
    assert learned.x.blocks == learned.y.blocks == learned.last.scaler.blocks == 1
    assert learned.last.value == Y[73]
