"""The river door: every check of river (row D6), features and classes that come and go, no row
forgotten."""

import numpy as np
import pandas as pd
import pytest
from river import checks, datasets

from hmnn.estimators import HMNNClassifier as ScikitClassifier
from hmnn.estimators import river as door

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SMALL = {"hidden": (4,), "forgetting": "fixed", "seed": 1}


def river_checks():
    for model in (door.HMNNClassifier(**SMALL), door.HMNNRegressor(**SMALL)):
        for check in checks.yield_checks(model):
            yield pytest.param(model, check, id=f"{type(model).__name__}-{check.__name__}")


@pytest.mark.parametrize(("model", "check"), list(river_checks()))
def test_river_checks(model, check):
    check(model.clone())


SOME = ("check_learn_one", "check_pickling", "check_emerging_features")


@pytest.mark.parametrize("kind", [door.HMNNClassifier, door.HMNNRegressor])
def test_some_river_checks_with_the_defaults(kind):
    model = kind(hidden=(4,), seed=1)
    some = {check.__name__: check for check in checks.yield_checks(model)}
    for name in SOME:
        some[name](model.clone())


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01] + [0.0, 5.0, -1.0]
    return [dict(zip("abc", row.tolist(), strict=True)) for row in x], (x[:, 0] > 0).astype(
        int
    ).tolist()


def test_a_prediction_uses_every_row_learned_before_it():
    xs, ys = rows()
    waits, asks = door.HMNNClassifier(**SMALL), door.HMNNClassifier(**SMALL)
    for x, y in zip(xs, ys, strict=True):
        waits.learn_one(x, y)
        asks.learn_one(x, y)
        asks.predict_proba_one(x)
    late, early = waits.predict_proba_one(xs[0]), asks.predict_proba_one(xs[0])
    assert late == pytest.approx(early, rel=1e-4)
    fewer = door.HMNNClassifier(**SMALL)
    for x, y in zip(xs[:-1], ys[:-1], strict=True):
        fewer.learn_one(x, y)
    assert fewer.predict_proba_one(xs[0]) != pytest.approx(late, rel=1e-4)


def test_both_doors_say_the_same():
    xs, ys = rows()
    first = ys.index(0)  # river numbers labels as they come
    xs, ys = xs[first:], ys[first:]
    ours, said = door.HMNNClassifier(**SMALL), []
    other = ScikitClassifier(hidden=(4,), forgetting="fixed")
    other.classes_, other.n_features_in_, other.state_ = np.array([0, 1]), 8, ours._now()
    for x, y in zip(xs, ys, strict=True):
        said.append(ours.predict_proba_one(x).get(1, 0.0))
        ours.learn_one(x, y)
    x = np.pad(
        pd.DataFrame(xs).to_numpy(), ((0, 0), (0, 5))
    )  # river's network has places for eight features
    theirs = other.predict_then_fit(x, ys)[:, 1]
    known = ys.index(1) + 1
    np.testing.assert_allclose(said[known:], theirs[known:], rtol=1e-3)


def test_new_classes_and_features_keep_what_was_learned():
    xs, ys = rows(200)
    model = door.HMNNClassifier(hidden=(8,), forgetting="fixed", seed=1)
    model.learn_many(pd.DataFrame(xs), pd.Series(ys))
    before = model.predict_proba_one(xs[0])
    wide = xs[0] | {f"new{i}": 0.0 for i in range(9)}
    model._admit(wide)
    assert model.predict_proba_one(xs[0]) == pytest.approx(before, rel=1e-5)
    model._index("third")
    after = model.predict_proba_one(xs[0])
    assert set(after) == {0, 1, "third"}
    assert after[1] / (after[0] + after[1]) == pytest.approx(before[1], abs=0.02)
    assert sum(after.values()) == pytest.approx(1.0)


def test_it_makes_no_difference_when_rows_that_wait_are_learned():
    """Also where a new class or a new feature makes the network grow."""
    rng = np.random.default_rng(4)
    asked, quiet = (door.HMNNClassifier(hidden=(4,), forgetting="fixed", seed=0) for _ in range(2))
    for i, (a, b) in enumerate(rng.normal(size=(24, 2)).tolist()):
        row = {"a": a, "b": b} | {f"late{j}": a * b for j in range(9 if i > 15 else 0)}
        for model in (asked, quiet):
            model.learn_one(row, i % 2 if i < 8 else i % 4)
        asked.predict_one(row)
    said, also = (model.predict_proba_one({"a": 0.3, "b": -1.0}) for model in (asked, quiet))
    assert list(said) == list(also)
    assert list(said.values()) == pytest.approx(list(also.values()), abs=1e-5)


def test_missing_values_count_as_absent_and_bad_ones_change_nothing():
    xs, ys = rows(30)
    absent, missing = door.HMNNClassifier(**SMALL), door.HMNNClassifier(**SMALL)
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        gone = {k: v for k, v in x.items() if k != "b" or i % 2 == 0}
        absent.learn_one(gone, y)
        missing.learn_one({"b": None if i % 4 == 1 else float("nan")} | gone, y)
        for bad in (x | {"b": "high"}, x | {"b": float("inf")}, x | {"z": [1.0]}):
            with pytest.raises(ValueError, match="feature"):
                absent.learn_one(bad, 7)
    assert absent.predict_proba_one(xs[3]) == missing.predict_proba_one(xs[3])


def test_nothing_is_said_before_anything_is_learned():
    assert door.HMNNClassifier().predict_proba_one({"a": 1.0}) == {}
    assert door.HMNNClassifier().predict_one({"a": 1.0}) is None
    assert door.HMNNRegressor().predict_one({"a": 1.0}) == 0.0


def test_the_regressor_beats_the_last_mean_and_covers():
    stream = list(datasets.TrumpApproval())
    model, errors, naive, covered, total = door.HMNNRegressor(hidden=(16,), seed=0), [], [], [], 0.0
    for i, (x, y) in enumerate(stream):
        mean, std = model.predict_interval_one(x)
        errors.append(abs(mean - y))
        naive.append(abs(total / max(i, 1) - y))
        covered.append(abs(mean - y) <= 1.96 * std)
        model.learn_one(x, y)
        total += y
    assert np.mean(errors[100:]) < 0.3 * np.mean(naive[100:])
    assert 0.91 <= np.mean(covered) <= 0.98
