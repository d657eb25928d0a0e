"""Columns, words and classes that come late, and tables that are refused: nothing learned is
lost."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from frozen import as_bytes

import hmnn
from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators import river as door

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SEED = int(np.random.RandomState(0).randint(2**31 - 1))  # what random_state=0 draws
SCIKIT = {"hidden": (4,), "forgetting": "fixed", "projection": "natural", "random_state": 0}
RIVER = {"hidden": (4,), "forgetting": "fixed", "seed": SEED}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(30, 3)), columns=list("abc")).assign(w=["x", "y", "z"] * 10)
Y = np.array([0, *(FRAME["a"][1:] > 0).astype(int)])
MORE = FRAME.assign(**{f"new{i}": RNG.normal(size=30) for i in range(5)}, v=["u", None, "v"] * 10)


def proba(model, table):
    if isinstance(model, HMNNClassifier):
        return model.predict_proba(table)[:, 1]
    return model.predict_proba_many(table)[1].to_numpy()


def test_columns_may_come_and_go_and_change_their_order_alike_in_both_doors():
    model, other = HMNNClassifier(**SCIKIT, columns="grow"), door.HMNNClassifier(**RIVER)
    for frame in (FRAME, MORE[MORE.columns[::-1]], FRAME[["c", "w"]]):
        for i in range(0, 30, 6):
            row, y = frame[i : i + 1], Y[i : i + 1]
            model.partial_fit(row, y, classes=[0, 1])
            other.learn_many(row, pd.Series(y))
        for question in (FRAME, MORE, FRAME[["b"]], MORE.assign(unknown=[[]] * 30)):
            np.testing.assert_allclose(proba(model, question), proba(other, question), atol=1e-6)
    assert model.n_features_in_ == 10
    assert set(model.feature_names_in_) == set(MORE.columns)
    assert model._places.inputs == 16
    assert not np.allclose(proba(model, MORE), proba(model, FRAME))


def test_new_columns_leave_what_was_learned():
    model = HMNNRegressor(**SCIKIT, columns="grow").partial_fit(FRAME, FRAME["a"])
    before = model.predict(FRAME, return_std=True)
    model.partial_fit(MORE[:1], FRAME["a"][:1])
    after = model.predict(FRAME, return_std=True)
    np.testing.assert_allclose(after[0], before[0], atol=0.1)
    np.testing.assert_allclose(after[1], before[1], rtol=0.2)
    straight = HMNNRegressor(**SCIKIT, columns="grow").partial_fit(MORE, FRAME["a"])
    assert np.abs(straight.predict(FRAME) - before[0]).max() > 0.1  # the control


def test_a_model_of_fixed_columns_may_begin_to_grow():
    numbers = FRAME[["a", "b", "c"]]
    model = HMNNRegressor(**SCIKIT).partial_fit(numbers, FRAME["a"])
    before = model.predict(numbers)
    with pytest.raises(ValueError, match=r"^X must be a table with the columns .*'fixed' asks"):
        model.partial_fit(FRAME, FRAME["a"])
    model.set_params(columns="grow").partial_fit(FRAME[:1], FRAME["a"][:1])
    np.testing.assert_allclose(model.predict(numbers), before, atol=0.1)
    with pytest.raises(ValueError, match=r"^X must be a table with names, as columns='grow' asks"):
        model.predict(numbers.to_numpy())


@pytest.mark.parametrize(("old", "new"), [("bd", "abcd"), ("bdf", "abdf")])
def test_late_classes_leave_what_was_learned(old, new):
    number, late = np.arange(30) % len(old), next(c for c in new if c not in old)
    x = FRAME[["a", "b"]].to_numpy() + np.outer(2.0 * number, [1.0, 0.0])
    model = HMNNClassifier(**SCIKIT).fit(x, np.array(list(old))[number])
    before = model.predict_proba(x)
    with pytest.raises(ValueError, match=r"^y must be one of the classes"):
        model.partial_fit(x[:4] + 9.0, [late] * 4)
    model._know(list(new))
    assert model.classes_.tolist() == list(new)
    after = model.predict_proba(x)[:, [new.index(c) for c in old]]
    np.testing.assert_allclose(after / after.sum(axis=1, keepdims=True), before, atol=0.06)
    assert np.ptp(before, axis=0).min() > 0.15  # the control: another order would be seen
    for _ in range(5):
        model.partial_fit(x[:4] + 9.0, [late] * 4, classes=list(new))
    assert (model.predict(x[:4] + 9.0) == late).all()


@pytest.mark.parametrize("new", ["ab", "bc", "abc"])
def test_the_only_class_stays_the_likely_one_when_others_come(new):
    x = FRAME[["a", "b"]].to_numpy()
    model = HMNNClassifier(**SCIKIT).partial_fit(x, ["b"] * 30, classes=["b"])
    model._know(list(new))
    assert (model.predict(x) == "b").all()


def frozen(model):
    kept = {k: repr(v) for k, v in vars(model).items() if k not in ("state_", "_learned", "_built")}
    return kept, as_bytes(getattr(model, "state_", None) or model._learned)


def with_column(values):
    return MORE[:4].assign(b=values)


WHEN = [dt.datetime(2024, 1, 1)] * 4
BAD = {
    "a word among numbers": with_column([1.0, 2.0, "high", 3.0]),
    "words for numbers": with_column(["low", "low", "high", "low"]),
    "dates": with_column(WHEN),
    "a number for a word": with_column(FRAME["b"][:4]).assign(w=WHEN),
    "infinity": with_column([0.0, 1.0, np.inf, 2.0]),
    "too large": with_column([0.0, 1.0, 1e39, 2.0]),
    "complex": with_column([0.0, 1.0, 1j, 2.0]),
    "lists": with_column([[0.0], [1.0], [2.0], [3.0]]),
    "two of one name": MORE[:4][["a", "b", "b", "w"]],
    "lazy": pl.DataFrame({"a": [1.0] * 4}).lazy(),
    "no table": "table",
}


@pytest.mark.parametrize("which", ["scikit", "river"])
def test_a_bad_table_leaves_no_trace_and_the_next_good_one_is_learned(which):
    def fresh():
        if which == "river":
            model = door.HMNNClassifier(**RIVER)
            model.learn_many(FRAME, pd.Series(Y))
            return model, model.learn_many, model.predict_proba_many
        model = HMNNClassifier(**SCIKIT, columns="grow").fit(FRAME, Y)
        return model, model.partial_fit, model.predict_proba

    (model, learn, ask), (straight, learn_too, _) = fresh(), fresh()
    before = frozen(model)
    for name, table in BAD.items():
        with pytest.raises(ValueError, match=r"^(feature '.'|X) must be [^\n]*\.$"):
            learn(table, pd.Series(Y[:4]))
        if name != "two of one name":
            with pytest.raises(ValueError, match=r"^(feature '.'|X) must be [^\n]*\.$"):
                ask(table)
        assert frozen(model) == before, name
    for one in (learn, learn_too):
        one(MORE, pd.Series(Y))
    np.testing.assert_array_equal(proba(model, MORE), proba(straight, MORE))


@pytest.mark.parametrize("settings", [{"columns": "any"}, {"dates": "sometimes"}, {"dates": True}])
def test_other_settings_are_refused(settings):
    name = next(iter(settings))
    with pytest.raises(ValueError, match=f"^{name} must be one of "):
        HMNNClassifier(**SCIKIT, **settings).fit(FRAME, Y)
    if name == "dates":
        with pytest.raises(ValueError, match=r"^dates must be one of "):
            door.HMNNRegressor(**settings)


def test_a_network_of_your_own_does_not_grow():
    model = HMNNClassifier(network=hmnn.linear(6), forgetting="fixed", random_state=0).fit(FRAME, Y)
    assert model._places.inputs == 6  # three numbers, three words
    with pytest.raises(ValueError, match=r"^network must be None where columns or words come late"):
        model.partial_fit(FRAME.assign(w="new"), Y)
    with pytest.raises(ValueError, match=r"^network must be None where classes come late"):
        model.partial_fit(FRAME, Y, classes=[0, 1, 2])


class Meddling:
    """A table at whose reading the model learns, and grows."""

    def __init__(self, learn):
        self.columns, self.learn = list(FRAME.columns), learn

    def __getitem__(self, name):
        if name == "b":
            self.learn()
        return FRAME[name]

    def __len__(self):
        return len(FRAME)


def test_a_prediction_while_the_model_grows_is_of_one_state():
    model = HMNNClassifier(**SCIKIT).fit(FRAME, np.array(list("bd"))[Y])
    expected, labels = model.predict_proba(FRAME), model.predict(FRAME)

    def learn():
        model.partial_fit(FRAME[:3].assign(w=["p", "q", "r"]), list("acb"), classes=list("abcd"))

    said = model.predict(Meddling(learn))
    assert model._places.inputs == 16
    assert len(model.classes_) == 4
    assert (said == labels).all()
    model.fit(FRAME, np.array(list("bd"))[Y])
    np.testing.assert_array_equal(model.predict_proba(Meddling(learn)), expected)
    assert model.predict_proba(FRAME).shape != expected.shape


def test_a_saved_model_of_tables_goes_on_like_the_original(tmp_path):
    frame = FRAME.assign(when=pd.date_range("2024", periods=30, freq="h"))
    model = HMNNRegressor(**SCIKIT, columns="grow", dates="calendar")
    model.partial_fit(frame[:9], frame["a"][:9])
    loaded = HMNNRegressor.load(model.save(tmp_path / "a"))
    for one in (model, loaded):
        one.partial_fit(frame.join(MORE[["v", "new1", "new2"]]), frame["a"])
    np.testing.assert_array_equal(model.predict(frame), loaded.predict(frame))
    assert loaded.n_features_in_ == 8
    assert loaded._places.inputs == 32
    tuples = FRAME.set_axis(pd.MultiIndex.from_product([["p"], FRAME.columns]), axis=1)
    with pytest.raises(ValueError, match=r"^names of columns must be words in a model that is"):
        HMNNRegressor(**SCIKIT).fit(tuples, FRAME["a"]).save(tmp_path / "b")


DAYS = np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]")
LABELS = {
    "dates": DAYS[Y],
    "Python's dates": [day.item() for day in DAYS.astype("datetime64[D]")[Y]],
    "dates with a zone": pd.Series(DAYS[Y]).dt.tz_localize("Europe/Rome"),
    "durations": Y.astype("timedelta64[h]"),
    "truth": Y.astype(bool).tolist(),
    "truth of pandas": pd.Series(Y.astype(bool), dtype="boolean"),
    "numbers of numpy": [np.int32(v) for v in Y],
    "words": np.array(["down", "up"])[Y],
    "categories": pd.Series(np.array(["down", "up"])[Y], dtype="category"),
    "categories of polars": pl.Series(np.array(["down", "up"])[Y]).cast(pl.Categorical),
    "dates of polars": pl.Series(DAYS[Y].astype("datetime64[us]")),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_type_are_classes_also_in_files(tmp_path, kind):
    x, labels = FRAME[["a", "b", "c"]], LABELS[kind]
    model = HMNNClassifier(**SCIKIT).partial_fit(x, labels, classes=labels)
    loaded = HMNNClassifier.load(model.save(tmp_path / "a"))
    assert model.classes_.dtype == loaded.classes_.dtype
    np.testing.assert_array_equal(model.predict(x), loaded.predict(x))
    assert (model.predict(x) == model.classes_[model.predict_proba(x).argmax(axis=1)]).all()
    river, other = door.HMNNClassifier(**RIVER), door.HMNNClassifier(**RIVER)
    river.learn_many(x, labels)
    for row, label in zip(x.to_dict("records"), labels, strict=True):
        other.learn_one(row, label)
    said = river.predict_proba_many(x)
    assert said.shape == (30, 2)
    np.testing.assert_allclose(said, other.predict_proba_many(x), atol=1e-6)
    assert list(said.columns) == list(other.predict_proba_many(x).columns)


def test_missing_labels_are_refused():
    for missing in (None, np.nan, pd.NaT):
        y = np.array([missing, *LABELS["words"][1:]], object)
        with pytest.raises(ValueError, match=r"^y must be labels that are not missing"):
            HMNNClassifier(**SCIKIT).fit(FRAME, y)


def test_names_of_an_earlier_fit_are_forgotten():
    model = HMNNClassifier(**SCIKIT).fit(FRAME, Y)
    assert hasattr(model, "feature_names_in_")
    model.fit(FRAME[["a", "b", "c"]].to_numpy(), Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(FRAME[["a", "b", "c"]].to_numpy()).shape == (30,)
