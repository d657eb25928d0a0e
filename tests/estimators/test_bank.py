"""The bank in the estimators: the default, what it keeps, and what switches parts of it off."""

import numpy as np
import pandas as pd
import pytest
from frozen import as_bytes

from hmnn.core import learning, members
from hmnn.core.members import Recent
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
LABELS = (np.median(Y) < Y).astype(int)
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
    assert model.forgetting_.weights[experts].sum() > 0.01
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


# --- on disk --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_was_saved_goes_on_bit_for_bit(kind, taught, tmp_path):
    """With its history, the rows that are kept, all weights and the last target."""
    model, (cls, y) = twin(taught[kind]), KINDS[kind]
    loaded = cls.load(model.save(tmp_path / "a"))
    assert as_bytes(loaded.state_) == as_bytes(model.state_)
    assert len(model.state_.believed) == 7
    more = slice(4 * ROWS, 5 * ROWS)
    said = [told_then_learned(m, X[more], y[more]) for m in (model, loaded)]
    np.testing.assert_array_equal(*said)
    assert as_bytes(loaded.state_) == as_bytes(model.state_)
    np.testing.assert_array_equal(loaded.forgetting_.history, model.forgetting_.history)
    assert as_bytes(taught[kind].state_) != as_bytes(model.state_)


def test_a_history_of_other_members_is_refused(taught, tmp_path):
    model = twin(taught["classifier"])
    model.state_ = model.state_._replace(believed=model.state_.believed[:, 1:])
    with pytest.raises(ValueError, match=r"^path must be a model .*a history of other members"):
        HMNNClassifier.load(model.save(tmp_path / "a"))


def test_a_river_model_that_was_saved_goes_on_bit_for_bit(tmp_path):
    model = door.HMNNRegressor(hidden=(4,), seed=1)

    def learn(some, rows):
        for x, y in zip(X[rows], Y[rows], strict=True):
            some.learn_one(dict(zip("ab", x.tolist(), strict=True)), y)

    question = dict(zip("ab", X[70].tolist(), strict=True))
    learn(model, slice(0, 15))
    model.predict_one(question)
    learn(model, slice(15, 20))
    loaded = door.HMNNRegressor.load(model.save(tmp_path / "a"))
    for some in (model, loaded):
        learn(some, slice(20, 30))
    assert loaded.predict_interval_one(question) == model.predict_interval_one(question)
    assert as_bytes(loaded._learned) == as_bytes(model._learned)
    assert model._learned.last.value == Y[29]
    assert int(model._learned.filter.work.number) == 30


# --- new maps, new columns, new classes -----------------------------------------------------------
def as_last(rows):
    return members.Last(*np.asarray(rows, np.float64)[:, : members.TOLD].T)


def test_the_raw_function_of_a_bank_stands_when_maps_are_held_anew(taught):
    model = twin(taught["regressor"])
    how, before = model._filter(), state_of(model)
    rng = np.random.default_rng(1)
    inputs = Move(np.array([0.6, 1.8]), np.array([0.5, -0.4]))
    output, change = Move(np.array([1.7]), np.array([0.4])), Move(np.array([0.7]), np.array([-0.2]))
    after = carried(how.few, before, inputs, output, change)
    z = rng.normal(size=(8, 2))  # what was z is now ratio z + shift
    new = members.Last(*rng.normal(size=(6, 8)))._replace(unit=np.full(8, 0.6), known=np.ones(8))
    old = new._replace(
        level=output.ratio * new.level + output.shift,
        step=change.ratio * new.step + change.shift,
        unit=output.ratio * new.unit / change.ratio,
    )
    at = output.ratio * new.offset + output.shift
    old = old._replace(offset=at - old.unit * change.shift)
    for last, other in ((None, None), (np.stack(old, 1), np.stack(new, 1))):
        told_before = how.predict(before, inputs.ratio * z + inputs.shift, last=last)
        told_after = how.predict(after, z, last=other)
        mean = output.ratio * told_after.mean + output.shift
        np.testing.assert_allclose(mean, told_before.mean, atol=2e-4)
    wrong = how.predict(before, z, last=other)
    assert np.abs(wrong.mean - mean).max() > 0.05  # the control
    assert isinstance(before.work, Recent)
    count = int(before.work.number)
    kept = [(as_last(s.work.x[:count]), np.array(s.work.y[:count])) for s in (before, after)]
    (first, y), (moved, moved_y) = kept
    np.testing.assert_allclose(output.ratio * moved_y + output.shift, y, atol=1e-5)
    np.testing.assert_allclose(change.ratio * moved.change + change.shift, first.change, atol=1e-5)
    np.testing.assert_allclose(change.ratio * moved.step + change.shift, first.step, atol=1e-5)
    np.testing.assert_allclose(output.ratio * moved.level + output.shift, first.level, atol=1e-5)
    x = [s.work.x[:count, members.TOLD :] for s in (before, after)]
    np.testing.assert_allclose(inputs.ratio * x[1] + inputs.shift, x[0], atol=1e-5)
    # A target is the last one and what was added, under any map.
    sums = [part.offset + part.unit * part.change for part in (first, moved)]
    np.testing.assert_allclose(output.ratio * sums[1] + output.shift, sums[0], atol=1e-5)
    assert 50 < (first.known > 0).sum() < count
    assert carried(how.few, before, None, None, None) is before


def test_rows_that_are_kept_have_the_new_numbers_of_late_classes(taught):
    model = twin(taught["classifier"])
    count, y = int(state_of(model).work.number), np.array(state_of(model).work.y)
    before, x = model.predict_proba(X[:8]), state_of(model).work.x
    model._know([-1, 0, 1])
    grown = state_of(model)
    np.testing.assert_array_equal(grown.work.y[:count], y[:count] + 1)
    np.testing.assert_array_equal(grown.work.x[:count], x[:count])
    assert set(y[:count]) == {0.0, 1.0}
    np.testing.assert_array_equal(
        model.forgetting_.weights, taught["classifier"].forgetting_.weights
    )
    after = model.predict_proba(X[:8])[:, 1:]
    after = after / after.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(after, before, atol=0.06)
    assert np.ptp(before[:, 0]) > 0.2  # the control: another order would be seen


def test_the_only_class_is_renumbered_too():
    """The same program as for two classes: one logit, which is turned round."""
    model = HMNNClassifier(**SMALL)
    model.predict_then_fit(X[:ROWS], np.full(ROWS, 1), classes=[1])
    model._know([0, 1])
    assert (np.array(state_of(model).work.y)[:ROWS] == 1.0).all()
    assert (model.predict(X[:8]) == 1).all()
    model = HMNNClassifier(**SMALL)
    model.predict_then_fit(X[:ROWS], np.full(ROWS, 0), classes=[0])
    model._know([0, 1])
    assert (np.array(state_of(model).work.y)[:ROWS] == 0.0).all()
    assert (model.predict(X[:8]) == 0).all()


def test_a_third_label_of_river_leaves_the_rows_and_the_predictions():
    model = door.HMNNClassifier(hidden=(4,), seed=1)
    for x in X[:15]:
        model.learn_one({"a": x[0], "b": x[1]}, "u" if x[0] > 0 else "v")
    question = {"a": 1.0, "b": 0.0}
    before, kept = model.predict_proba_one(question), np.array(model._learned.filter.work.y)
    model._index("w")
    after = model.predict_proba_one(question)
    assert after["w"] > 0.05
    share = after["u"] / (after["u"] + after["v"])
    np.testing.assert_allclose(share, before["u"], atol=0.03)
    np.testing.assert_array_equal(model._learned.filter.work.y, kept)
    assert set(kept[:15]) == {0.0, 1.0}


def test_late_columns_leave_predictions_and_are_zero_in_rows_that_are_kept():
    frame = pd.DataFrame(X, columns=list("ab"))
    model = HMNNRegressor(**SMALL, columns="grow")
    model.predict_then_fit(frame[:ROWS], Y[:ROWS])
    how, before = model._filter(), state_of(model)
    question = frame[70:78]
    expected = told(model, question)
    model.partial_fit(frame[16:17].assign(c=1.0), Y[16:17])
    wide = state_of(model).work
    assert wide.x.shape == (500, model._places.inputs + members.TOLD)
    assert how.told == members.TOLD
    inner = before.work.x.shape[1]
    np.testing.assert_array_equal(wide.x[:ROWS, :inner], before.work.x[:ROWS])
    assert (np.asarray(wide.x)[:ROWS, inner:] == 0.0).all()
    assert int(wide.number) == ROWS + 1
    np.testing.assert_allclose(told(model, question)[:, 0], expected[:, 0], atol=0.5)


# --- what is believed, and what is switched off ---------------------------------------------------
@pytest.mark.parametrize(("kind", "members"), [("classifier", 6), ("regressor", 8)])
def test_what_is_believed_can_be_read(kind, members, taught):
    found = taught[kind].forgetting_
    assert len(found.names) == len(set(found.names)) == len(found.jumps) == members
    assert found.names.count("yours") == 1
    np.testing.assert_allclose(found.weights.sum(), 1.0, rtol=1e-5)
    np.testing.assert_allclose(found.history.sum(axis=1), 1.0, rtol=1e-5)
    assert found.history.shape == (7, members)
    assert found.steps.tolist() == [0, 10, 20, 30, 40, 50, 60]
    np.testing.assert_allclose(found.history[0], 1.0 / members, rtol=1e-5)
    assert np.ptp(found.weights) > 1e-3
    calm = dict(zip(found.names, found.jumps, strict=True))
    assert calm["still, replay"] < calm["yours"] < calm["fast"]


def started(cls=HMNNRegressor, **settings):
    """A model before any data: its filter, and its first state."""
    model = cls(**SMALL, **settings)
    model.n_features_in_ = 2
    if cls is HMNNClassifier:
        model.classes_ = np.array([0, 1])
    return model._filter(), model._start()


@pytest.mark.parametrize("cls", [HMNNClassifier, HMNNRegressor])
def test_without_replay_no_row_is_kept(cls):
    """So none is in the file. The control is the default, which keeps 500."""
    for off in ({"replay": 0}, {"forgetting": "fixed"}):
        assert started(cls, **off)[1].filter.work == ()
    _, learned = started(cls)
    assert learned.filter.work.x.shape[0] == len(learned.filter.work.y) == 500
    assert len(started(cls, buffer=7)[1].filter.work.y) == 7


def test_without_experts_nobody_is_told_and_fixed_is_one_filter():
    how, _ = started()
    assert (how.told, len(how.names)) == (members.TOLD, 8)
    for off in ({"experts": False}, {"forgetting": "fixed"}):
        how, learned = started(**off)
        assert how.told == 0
        assert not any(name.startswith("change") for name in how.names)
        assert last_columns(how, learned.last, learned.y, 1) is None
    assert how.names == ("yours",)
    assert how.jumps == pytest.approx([0.007 / 2**0.5], rel=1e-2)
    assert started(HMNNClassifier)[0].told == 0


BAD = [
    ({"forgetting": "never"}, r"^forgetting must be one of .*Got 'never'\.$"),
    ({"replay": -1}, r"^replay must be .*Got -1\.$"),
    ({"replay": 1.5}, r"^replay must be .*Got 1\.5\.$"),
    ({"buffer": 0}, r"^buffer must be .*Got 0\.$"),
    ({"experts": 1}, r"^experts must be True or False\. Got 1\.$"),
    ({"correlations": "all"}, r"^correlations must be one of .*Got 'all'\.$"),
]


@pytest.mark.parametrize(("bad", "said"), BAD)
def test_what_cannot_be_is_one_sentence_at_both_doors(bad, said):
    started()  # what equals a good value, such as 1 and True, is not taken for it
    with pytest.raises(ValueError, match=said):
        HMNNRegressor(**SMALL, **bad).partial_fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match=said):
        door.HMNNClassifier(hidden=(4,), **bad)


def test_a_number_far_from_zero_has_a_positive_variance(taught):
    """The variance of a mixture is not the difference of two large numbers."""
    rng = np.random.default_rng(2)
    y = 1e6 + rng.normal(size=5 * ROWS)
    model = HMNNRegressor(**SMALL)
    said = [model.predict_then_fit(X[i : i + ROWS], y[i : i + ROWS]) for i in range(0, 80, ROWS)]
    mean, std = np.concatenate(said, axis=1)
    assert (std[1:] > 0.1).all()
    assert np.abs(mean[ROWS:] - 1e6).max() < 4.0
    assert 0.5 < std[-ROWS:].mean() < 2.0
