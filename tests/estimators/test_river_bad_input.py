"""What the river door refuses leaves no trace: no feature, no label, no weight, no row that
waits."""

import numpy as np
import pandas as pd
import pytest
from frozen import as_bytes

from hmnn._check import DivergenceError
from hmnn.estimators import river as door

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SMALL = {"hidden": (4,), "forgetting": "fixed", "seed": 1}
X = np.random.default_rng(0).normal(size=(12, 3))
Y = (X[:, 0] > 0).astype(int).tolist()
TABLE = pd.DataFrame(X, columns=list("abc"))
NEW = {f"new{i}": 1.0 for i in range(9)}  # more than there is place for
INF, NAN = float("inf"), float("nan")


def frozen(model):
    """Everything a model is made of, as bytes and numbers."""
    rows = [(row.tobytes(), y) for row, y in model._waiting]
    kept = {
        k: v
        for k, v in vars(model).items()
        if k not in ("_learned", "_waiting", "_places", "_labels")
    }
    places = list(model._places.items()), list(getattr(model, "_labels", {}).items())
    return rows, repr(kept), places, as_bytes(model._learned)


def trained(kind, waiting):
    """A model that has learned some rows, the last of which may wait."""
    model = kind(**SMALL)
    for row, y in zip(TABLE.to_dict("records"), Y, strict=True):
        model.learn_one(row, y)
    if not waiting:
        model.predict_one(row)
    return model


ROWS = {
    "a word": NEW | {"a": "high"},
    "infinity": NEW | {"a": INF},
    "too large": NEW | {"a": 1e39},
    "a list": NEW | {"a": [1.0]},
    "complex": NEW | {"a": 1j},
    "no dictionary": [1.0, 2.0, 3.0],
    "nothing": None,
}
LABELS = {
    "missing": None,
    "NaN": NAN,
    "pandas' NA": pd.NA,
    "a list": [1],
    "a tuple of lists": ([1],),
}
NUMBERS = {
    "missing": None,
    "NaN": NAN,
    "infinity": INF,
    "a word": "high",
    "a list": [1.0],
    "too large": 1e39,
}
KINDS = [door.HMNNClassifier, door.HMNNRegressor]


def with_column(values, name="b"):
    """Four good rows with new columns, and one column that is not good."""
    return TABLE[:4].assign(**NEW, **{name: values})


TABLES = {
    "words": with_column(["1", "2", "high", "3"]),
    "numbers as words": with_column(["1", "2", "3", "4"]),
    "infinity": with_column([0.0, 1.0, INF, 2.0]),
    "too large": with_column([0.0, 1.0, -1e39, 2.0]),
    "complex": with_column([0.0, 1.0, 1j, 2.0]),
    "lists": with_column([[0.0], [1.0], [2.0], [3.0]]),
    "two columns of one name": TABLE[:4][["a", "b", "b"]],
    "a row more": TABLE[:5].assign(**NEW),
    "no table": X[:4],
}


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_leaves_no_trace(kind, waiting):
    model = trained(kind, waiting)
    before = frozen(model)
    good, targets = NEW | {"a": 1.0}, LABELS if kind is door.HMNNClassifier else NUMBERS
    cases = {name: (row, 7) for name, row in ROWS.items()} | {
        f"y: {n}": (good, y) for n, y in targets.items()
    }
    for name, (row, y) in cases.items():
        with pytest.raises(ValueError, match="must be"):
            model.learn_one(row, y)
        assert frozen(model) == before, name
    model.learn_one(good, 7)
    assert frozen(model) != before


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_table_leaves_no_trace(kind, waiting):
    model = trained(kind, waiting)
    before = frozen(model)
    good, targets = TABLE[:4].assign(**NEW), LABELS if kind is door.HMNNClassifier else NUMBERS
    last = {f"y: {n}": (good, pd.Series([7, 8, 9, y], dtype=object)) for n, y in targets.items()}
    for name, (table, y) in (
        {name: (table, pd.Series([7, 8, 9, 7])) for name, table in TABLES.items()} | last
    ).items():
        with pytest.raises((ValueError, AttributeError)):
            model.learn_many(table, y)
        assert frozen(model) == before, name
    model.learn_many(good, pd.Series([7, 8, 9, 7]))
    assert frozen(model) != before


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_question_leaves_no_trace(kind):
    model = trained(kind, waiting=True)
    before = frozen(model)
    for row in (ROWS["a word"], ROWS["infinity"], ROWS["complex"], None):
        with pytest.raises(ValueError, match="must be"):
            model.predict_one(row)
    for table in (TABLES["words"], TABLES["infinity"]):
        with pytest.raises(ValueError, match="feature 'b' must be"):
            model.predict_many(table)
    assert frozen(model) == before


@pytest.mark.parametrize(("name", "value"), [("standardise", "no"), ("seed", -1), ("seed", 0.5)])
def test_a_bad_parameter_is_told_at_once(name, value):
    for kind in (door.HMNNClassifier, door.HMNNRegressor):
        with pytest.raises(ValueError, match=f"^{name} must be "):
            kind(**{name: value})


def test_a_row_that_is_refused_late_is_as_never_seen():
    straight, model = (door.HMNNRegressor(**SMALL, standardise=False) for _ in range(2))
    rows = TABLE.to_dict("records")
    for i, (row, y) in enumerate(zip(rows, Y, strict=True)):
        if i == 5:
            model.learn_one({"a": 1e38, "b": -1e38, "c": 1e38}, y)
        for one in (straight, model):
            one.learn_one(row, y)
    with pytest.warns(
        RuntimeWarning, match="1 of the last 13 rows"
    ):  # no error: who asks is not to blame
        found = model.predict_one(rows[0])
    assert (
        found
        == model.predict_one(rows[0])
        == pytest.approx(straight.predict_one(rows[0]), rel=1e-4)
    )


def test_a_table_that_is_refused_late_leaves_no_trace():
    model = door.HMNNRegressor(**SMALL, standardise=False)
    model.learn_many(TABLE, pd.Series(Y))
    before = frozen(model)
    wild = TABLE.assign(**NEW)
    wild.loc[9, ["a", "b", "c"]] = 1e38, -1e38, 1e38
    with pytest.raises(DivergenceError, match="not finite"):
        model.learn_many(wild, pd.Series(Y))
    assert frozen(model) == before
