"""Models that are saved and loaded: the river door goes on bit for bit, with the rows that wait;
files of other versions and other models are one sentence."""

import json
import threading
from collections import namedtuple
from datetime import date

import numpy as np
import pytest
from frozen import as_bytes

import hmnn
from hmnn import store
from hmnn.estimators import HMNNClassifier as ScikitClassifier
from hmnn.estimators import river as door
from hmnn.store import manifests

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SMALL = {"hidden": (4,), "forgetting": "fixed", "seed": 1}
KINDS = {"classifier": door.HMNNClassifier, "regressor": door.HMNNRegressor}


NAMES = ["a", 2, 0.5, None, True, "7", "", "naïve \ud83d", 9]


def rows(count):
    """Features that come and go, of all kinds of names; the ninth makes the network grow."""
    chance = np.random.default_rng(0)
    for i in range(count):
        x = dict(zip(NAMES, chance.normal(size=9).tolist(), strict=True))
        if i < 36:
            x.pop(9)
        if i % 3 == 0:
            x.pop("a")
        yield x, i


def taught(model, some, kind):
    """Learn rows, with more and more labels; a prediction now and then."""
    said = []
    for x, i in some:
        known = ("up", 1, 2.5, False)[: 2 + i // 24]
        model.learn_one(x, known[i % len(known)] if kind == "classifier" else 3.0 + x[2])
        if i % 12 == 11:
            said.append(model.predict_one(x))
    return said


def insides(model):
    """Everything a model is made of, as bytes and numbers."""
    waiting = [(row.tobytes(), type(y), y) for row, y in model._waiting]
    words = [model._places, vars(model).get("_labels", {})]
    words = [[(type(name), name, place) for name, place in d.items()] for d in words]
    parameters = {k: v for k, v in vars(model).items() if not k.startswith("_")}
    return waiting, words, parameters, model._columns, as_bytes(model._learned)


@pytest.mark.parametrize(
    ("after", "kind", "forgetting"),
    [(after, kind, "fixed") for after in (1, 10, 12, 50) for kind in KINDS]
    + [(30, "classifier", "fixed"), (30, "regressor", "auto")],
)
def test_a_river_model_that_was_saved_goes_on_like_the_one_that_was_not(
    tmp_path, kind, after, forgetting
):
    stream, settings = list(rows(60)), SMALL | {"forgetting": forgetting}
    straight, saved = KINDS[kind](**settings), KINDS[kind](**settings)
    for model in (straight, saved):
        taught(model, stream[:after], kind)
    assert bool(saved._waiting) == (after != 12)
    assert saved.save(tmp_path / "a") == tmp_path / "a"
    loaded = KINDS[kind].load(tmp_path / "a")
    assert insides(loaded) == insides(saved)
    said = [taught(model, stream[after:], kind) for model in (straight, saved, loaded)]
    assert said[0] == said[1] == said[2]
    assert [type(a) for a in said[2]] == [type(a) for a in said[0]]
    assert insides(straight) == insides(saved) == insides(loaded)


def test_the_comparison_sees_a_row_that_is_lost():
    model = door.HMNNRegressor(**SMALL)
    taught(model, rows(10), "regressor")
    before = insides(model)
    model._waiting = model._waiting[:-1]
    assert insides(model) != before


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_that_chance_draws_are_the_same_in_the_file(tmp_path, kind):
    model = KINDS[kind](hidden=(4,), forgetting="fixed")
    taught(model, rows(3), kind)
    loaded = KINDS[kind].load(model.save(tmp_path / "a"))
    x = next(rows(1))[0]
    assert loaded.predict_one(x) == model.predict_one(x)
    assert insides(loaded) == insides(model)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_has_learned_nothing_is_saved_as_such(tmp_path, kind):
    model = KINDS[kind](**SMALL | {"memory": np.float32(0.5), "standardise": np.False_})
    loaded = KINDS[kind].load(model.save(tmp_path / "a"))
    assert (loaded.memory, loaded.standardise, loaded.hidden) == (0.5, False, (4,))
    assert loaded.predict_one({"a": 1.0}) == model.predict_one({"a": 1.0})
    assert model._learned is None


def test_nothing_acknowledged_is_lost_when_threads_learn_while_it_is_saved(tmp_path):
    model, counts, ended = door.HMNNRegressor(**SMALL), [], threading.Event()

    def save():
        while not ended.is_set():
            model.save(tmp_path / "a")
            counts.append(count(door.HMNNRegressor.load(tmp_path / "a")))

    def count(model):
        return len(model._waiting) + (0 if model._learned is None else int(model._learned.filter.t))

    saver = threading.Thread(target=save)
    saver.start()
    for i, (x, _) in enumerate(rows(200)):
        model.learn_one(x, float(i))
        if i % 50 == 0:
            model.predict_one(x)
    ended.set()
    saver.join()
    model.save(tmp_path / "a")
    assert counts == sorted(counts)
    assert count(door.HMNNRegressor.load(tmp_path / "a")) == count(model) == 200


@pytest.mark.parametrize("name", [("a", "b"), date(2026, 1, 1), np.datetime64("2026-01-01"), b"a"])
def test_a_name_that_a_file_cannot_give_back_is_one_sentence(tmp_path, name):
    for kind, row in (("feature", ({name: 1.0}, 1)), ("label", ({"a": 1.0}, name))):
        model = door.HMNNClassifier(**SMALL)
        model.learn_one(*row)
        before = insides(model)
        with pytest.raises(ValueError, match=f"^{kind} must be a word, a number, true or false in"):
            model.save(tmp_path / "a")
        assert insides(model) == before
    assert not (tmp_path / "a").exists()


def test_names_of_numpy_become_plain_ones(tmp_path):
    model = door.HMNNClassifier(**SMALL)
    model.learn_one({np.str_("a"): 1.0, np.int64(3): 2.0}, np.int64(7))
    loaded = door.HMNNClassifier.load(model.save(tmp_path / "a"))
    assert [(type(name), name) for name in loaded._places] == [(int, 3), (str, "a")]
    assert loaded._labels == {7: 0}


@pytest.fixture
def models(tmp_path):
    """A folder with one model of each door and kind."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    ScikitClassifier(hidden=(4,), forgetting="fixed", random_state=0).fit(x, x[:, 0] > 0).save(
        tmp_path / "scikit"
    )
    for kind, cls in KINDS.items():
        model = cls(**SMALL)
        taught(model, rows(10), kind)
        model.save(tmp_path / kind)
    hmnn.save({"w": np.ones(2)}, tmp_path / "state")
    hmnn.save(np.ones(2), tmp_path / "bare")
    return tmp_path


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (door.HMNNClassifier, "scikit"),
        (door.HMNNClassifier, "regressor"),
        (door.HMNNRegressor, "classifier"),
        (ScikitClassifier, "classifier"),
        (ScikitClassifier, "state"),
        (door.HMNNRegressor, "bare"),
    ],
)
def test_another_model_is_one_sentence(models, cls, name):
    with pytest.raises(
        ValueError, match=r"^path must be a directory that .*HMNN\w+\.save wrote\. "
    ):
        cls.load(models / name)


def as_version_010(path):
    """What 0.1.0 wrote: parameters, features, classes, and a memory of moments and scalers."""
    scaler = {name: np.zeros(2) for name in ("number", "mean", "squares")}
    law = {"mean": np.zeros(17, np.float32), "variance": np.ones(17, np.float32)}
    parameters = {"hidden": [4], "memory": 0.9999, "random_state": 0}
    memory = {"law": law, "noise": {"variance": 1.0}, "x": scaler, "y": scaler, "t": 3}
    return store.save(
        {
            "estimator": "HMNNClassifier",
            "parameters": json.dumps(parameters),
            "features": None,
            "classes": "[0, 1]",
            "memory": memory,
        },
        path,
    )


def test_a_model_of_an_older_version_is_one_sentence(tmp_path, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(manifests, "_versions", lambda: {"hmnn": "0.1.0"})
        path = as_version_010(tmp_path / "old")
    said = (
        r"^path must be a model that HMNNClassifier\.save of this hmnn wrote\. Got one of hmnn 0\.1"
    )
    with pytest.raises(ValueError, match=said):
        ScikitClassifier.load(path)


def without(parts, name):
    """A named tuple of the same name that lacks a field."""
    fields = {key: value for key, value in parts._asdict().items() if key != name}
    return namedtuple(type(parts).__name__, fields)(**fields)


CHANGES = {
    "no columns": lambda saved: saved.pop("columns"),
    "other columns": lambda saved: saved.update(columns=16),
    "fewer columns": lambda saved: saved.update(columns=2),
    "no JSON": lambda saved: saved.update(features="["),
    "an unknown parameter": lambda saved: saved.update(parameters='{"hidden": [4], "colour": 1}'),
    "another network": lambda saved: saved.update(parameters='{"hidden": [5]}'),
    "a field less": lambda saved: change(saved, x=without(saved["learned"].x, "mean")),
    "rows of another width": lambda saved: change(
        saved, y=saved["learned"].y._replace(recent=np.ones((2, 3)))
    ),
    "no rows": lambda saved: change(saved, x=without(saved["learned"].x, "recent")),
    "another number of rows": lambda saved: saved["waiting"].update(y=np.ones(99)),
}


def change(saved, **parts):
    saved["learned"] = saved["learned"]._replace(**parts)


@pytest.fixture(scope="module")
def trees():
    """What a model of each kind gives to the store."""
    found, save = {}, store.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "save", lambda tree, path, **_: found.update({path: tree}))
        for kind, cls in KINDS.items():
            model = cls(**SMALL)
            taught(model, rows(14), kind)
            model.save(kind)
    assert store.save is save
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_does_not_fit_is_one_sentence(trees, tmp_path, kind):
    store.save(trees[kind], tmp_path / "a", finite=False)
    assert KINDS[kind].load(tmp_path / "a").predict_one({"a": 1.0}) is not None
    for name, act in CHANGES.items():
        tree = {k: dict(v) if isinstance(v, dict) else v for k, v in trees[kind].items()}
        act(tree)
        store.save(tree, tmp_path / name, finite=False)
        said = r"^path must be a model that river\.HMNN\w+\.save of this hmnn wrote\. Got one of hm"
        with pytest.raises(ValueError, match=said):
            KINDS[kind].load(tmp_path / name)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_not_finite_are_refused(trees, tmp_path, kind):
    state = trees[kind]["learned"].filter
    (member,) = state.posterior.members
    first, *others = member.posterior.mean
    first = np.array(first)
    first[0, 3, 1] = np.nan
    law = member.posterior._replace(mean=(first, *others))
    law = state.posterior._replace(members=(member._replace(posterior=law),))
    tree = dict(trees[kind])
    change(tree, filter=state._replace(posterior=law))
    store.save(tree, tmp_path / "a", finite=False)
    with pytest.raises(ValueError, match="must be of a model whose weights are finite"):
        KINDS[kind].load(tmp_path / "a")
