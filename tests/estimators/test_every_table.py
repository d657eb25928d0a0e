"""Every table that people have, through both doors: the same table says the same."""

import datetime as dt
import math
from functools import cache

import arrow
import numpy as np
import pandas as pd
import polars as pl
import pytest
from frozen import as_bytes

from hmnn.estimators import HMNNClassifier, HMNNRegressor, frames, tables
from hmnn.estimators import river as door

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SEED = int(np.random.RandomState(0).randint(2**31 - 1))  # what random_state=0 draws
SCIKIT = {"hidden": (4,), "forgetting": "fixed", "projection": "natural", "random_state": 0}
RIVER = {"hidden": (4,), "forgetting": "fixed", "seed": SEED}
KINDS = {"classes": (HMNNClassifier, door.HMNNClassifier)}
KINDS |= {"numbers": (HMNNRegressor, door.HMNNRegressor)}


def rows(n=24):
    """Numbers, whole numbers, truth values, words that come late, dates; some of all missing."""
    rng, words = np.random.default_rng(0), ["red", "blue", *(f"grey {i}" for i in range(10))]
    table = []
    for i in range(n):
        word = words[int(rng.integers(1 + i // 2))]  # so many that the network has to grow
        when = dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(rng.integers(2000)))
        row = {"a": float(rng.normal()), "count": int(rng.integers(9)), "flag": i % 3 == 0}
        row |= {"colour": word, "when": when}
        gap = list(row)[i % 7] if i % 7 < 5 and i > 2 else None
        table.append(row | {gap: None} if gap else row)
    return table


ROWS = rows()
Y = [0, *(int(row["colour"] == "red" or row["count"] == 3) for row in ROWS[1:])]


def to_pandas(table):
    frame = pd.DataFrame(table)
    kinds = {"count": "Int64", "flag": "boolean", "colour": "category", "when": "datetime64[ns]"}
    return frame.astype({name: kind for name, kind in kinds.items() if name in frame})


def to_polars(table):
    frame = pl.DataFrame(table, infer_schema_length=None)
    return frame.with_columns(pl.col("colour").cast(pl.Categorical))


def to_pyarrow(table):
    pa = pytest.importorskip("pyarrow")
    found = pa.Table.from_pylist(table)
    return found.set_column(3, "colour", found.column("colour").dictionary_encode())


FORMS = {
    "rows": list,
    "pandas": to_pandas,
    "objects": lambda table: pd.DataFrame(table).astype(object),
    "polars": to_polars,
    "pyarrow": to_pyarrow,
    "like pyarrow": lambda table: arrow.Table(table, ["colour"]),
}


def said(model, table):
    """What a model says of each row, as an array."""
    if isinstance(model, HMNNClassifier):
        return model.predict_proba(table)[:, 1]
    if isinstance(model, door.HMNNClassifier):
        return model.predict_proba_many(table)[1].to_numpy()
    return np.asarray(
        model.predict(table) if hasattr(model, "predict") else model.predict_many(table)
    )


@cache
def expected(kind, leave_out=None):
    """Row by row through the river door."""
    model = KINDS[kind][1](**RIVER, dates="calendar")
    for row, y in zip(ROWS, Y, strict=True):
        model.learn_one({k: v for k, v in row.items() if k != leave_out}, y)
    return said(model, ROWS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_says_the_same_in_both_doors(form, kind):
    table = FORMS[form](ROWS)
    scikit, river = KINDS[kind]
    many = river(**RIVER, dates="calendar")
    many.learn_many(table, pl.Series(Y) if form == "polars" else pd.Series(Y))
    rest = {"classes": [0, 1]} if kind == "classes" else {}
    turns = scikit(**SCIKIT, dates="calendar")
    turns.predict_then_fit(table, Y, **rest)
    for model in (many, turns):
        np.testing.assert_allclose(said(model, table), expected(kind), atol=1e-6)
    assert np.abs(expected(kind, "colour") - expected(kind)).max() > 0.01  # the control


@pytest.mark.parametrize("columns", ["fixed", "grow"])
def test_row_by_row_the_doors_say_the_same(columns):
    model = HMNNClassifier(**SCIKIT, dates="calendar", columns=columns)
    frame = to_pandas(ROWS)
    for i in range(len(Y)):
        model.partial_fit(frame[i : i + 1], Y[i : i + 1], classes=[0, 1] if i == 0 else None)
    np.testing.assert_allclose(said(model, frame), expected("classes"), atol=1e-6)


def test_fit_takes_words_in_any_order_of_rows():
    frame, order = to_pandas(ROWS), np.random.default_rng(1).permutation(len(Y))
    y = np.array(Y)
    straight = HMNNClassifier(**SCIKIT, dates="number").fit(frame, y)
    mixed = HMNNClassifier(**SCIKIT, dates="number").fit(frame.iloc[order], y[order])
    np.testing.assert_array_equal(straight.predict_proba(frame), mixed.predict_proba(frame))
    other = HMNNClassifier(**SCIKIT, dates="number").fit(frame, y[order])
    assert not np.allclose(straight.predict_proba(frame), other.predict_proba(frame))


def test_arrays_and_lists_of_words_are_tables_without_names():
    frame = pd.DataFrame(ROWS)[["a", "colour"]].astype(object).set_axis(["x0", "x1"], axis=1)
    named = HMNNClassifier(**SCIKIT).fit(frame, Y)
    assert named.feature_names_in_.tolist() == ["x0", "x1"]
    for form in (frame.to_numpy(), frame.to_numpy().tolist()):
        model = HMNNClassifier(**SCIKIT).fit(form, Y)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == 2
        for question in (form, frame):
            np.testing.assert_array_equal(said(model, question), said(named, frame))


def test_a_missing_number_sits_at_the_mean_in_both_doors():
    x = np.random.default_rng(0).normal(size=(30, 8)) + 3.0
    x[1::4, 2] = np.nan
    y = (x[:, 0] > 3).astype(int)
    y[0] = 0
    model, other = HMNNClassifier(**SCIKIT), door.HMNNClassifier(**RIVER)
    model.predict_then_fit(x, y)
    table = pd.DataFrame(x, columns=list("abcdefgh"))
    for row, label in zip(table.to_dict("records"), y, strict=True):
        other.learn_one({k: v for k, v in row.items() if not math.isnan(v)}, int(label))
    np.testing.assert_allclose(said(model, x), said(other, table), atol=1e-6)
    gone, mean = x.copy(), x.copy()
    gone[:, 1], mean[:, 1] = np.nan, model.state_.x.mean[1]
    np.testing.assert_allclose(said(model, gone), said(model, mean), atol=1e-6)
    assert not np.allclose(said(model, gone), said(model, x))
    raw = HMNNRegressor(**SCIKIT, standardise=False).partial_fit(x, y)
    np.testing.assert_array_equal(raw.predict(gone), raw.predict(np.nan_to_num(gone)))
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.where(np.isnan(x), np.inf, x), y)
    with pytest.raises(ValueError, match=r"^X must fit in float32"):
        model.partial_fit(np.where(x == x[1, 0], 1e39, x), y)


def test_equal_rows_with_missing_values_are_rows_of_more_weight():
    x = np.array([[1.0, np.nan], [2.0, 1.0], [1.0, -np.nan]])
    twice = HMNNRegressor(**SCIKIT).partial_fit(x, [1.0, 2.0, 1.0])
    heavy = HMNNRegressor(**SCIKIT).partial_fit(x[:2], [1.0, 2.0], sample_weight=[2.0, 1.0])
    assert as_bytes(twice.state_) == as_bytes(heavy.state_)


def codes(kinds, words, **how):
    found = tables.encoded(kinds, {"w": frames.cells("w", words)}, None, **how)
    return found.kinds, {name: values.tolist() for name, values in found.columns.items()}


def test_words_beyond_the_hundredth_share_a_column(monkeypatch):
    monkeypatch.setattr(tables, "MOST_WORDS", 2)
    kinds, found = codes({}, ["x", "y", None, "z", "z"])
    nan = math.nan
    np.testing.assert_equal(
        found,
        {
            "'w' is 'x'": [1, 0, nan, 0, 0],
            "'w' is 'y'": [0, 1, nan, 0, 0],
            "'w' is another": [0, 0, nan, 1, 1],
        },
    )
    assert codes(kinds, ["new", "y"])[1]["'w' is another"] == [1, 0]
    batch, _ = codes({}, ["x", "y", None, "z", "z"], in_turn=False)
    assert list(batch["w"]) == [
        "z",
        "x",
        None,
    ]  # if the order counts for nothing, the most frequent
    few, _ = codes({}, ["x"])
    assert codes(few, ["new"], learn=False)[1] == {"'w' is 'x'": [0]}  # unseen: no word of those


def test_a_late_word_is_as_if_it_had_been_there_with_zeros():
    early, late = door.HMNNClassifier(**RIVER), door.HMNNClassifier(**RIVER)
    for i, row in enumerate(ROWS):
        word = "red" if i < 20 else "late"
        flags = {"'w' is 'late'": float(i >= 20), "'w' is 'red'": float(i < 20)}
        late.learn_one({"a": row["count"], "w": word}, Y[i])
        early.learn_one({"a": row["count"]} | flags, Y[i])
    for model in (early, late):
        model.predict_one({})
    places = early._places.items(), late._places.items()
    old, new = (dict(sorted((n, m) for n, m in found)) for found in places)
    assert old.keys() == new.keys()
    scalers = early._now().x, late._now().x
    for a, b in zip(*scalers, strict=True):
        if np.ndim(a):
            a, b = a[..., list(old.values())], b[..., list(new.values())]
        np.testing.assert_allclose(a, b, atol=1e-12)


MOMENTS = {
    "datetime": dt.datetime(2024, 2, 29, 12),
    "zone": dt.datetime(2024, 2, 29, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "numpy": np.datetime64("2024-02-29T12", "ns"),
    "pandas": pd.Timestamp("2024-02-29T14:00+02:00"),
}


@pytest.mark.parametrize("form", MOMENTS)
def test_dates_are_seconds_and_places_in_cycles(form):
    value = MOMENTS[form]
    seconds = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC).timestamp()
    for column in (frames.cells("d", [value]), frames.column("d", pd.Series([value]))):
        given = {"d": column}
        number = tables.encoded({}, given, "number").columns
        assert {name: values.item() for name, values in number.items()} == {
            "'d' as a number": seconds
        }
        found = tables.encoded({}, given, "calendar").columns
        assert len(found) == 7
        assert found["'d', day, cosine"].item() == pytest.approx(-1)  # noon
        week = math.atan2(found["'d', week, sine"].item(), found["'d', week, cosine"].item())
        assert week / (2 * math.pi) * 7 == pytest.approx(0.5)  # days after 1970 began, a Thursday
        year = math.atan2(found["'d', year, sine"].item(), found["'d', year, cosine"].item())
        assert year / (2 * math.pi) * 365.2425 == pytest.approx(59.5, abs=1)
        with pytest.raises(ValueError, match=r"feature 'd' must be .* dates='calendar' is given"):
            tables.encoded({}, given, None)


def test_durations_are_seconds_and_odd_cells_are_read():
    cells = {"1 h": dt.timedelta(hours=1), "2": np.timedelta64(2, "s"), "3": pd.Timedelta("3s")}
    assert frames.cells("d", list(cells.values())).tolist() == [3600, 2, 3]
    assert frames.column("d", pd.Series(pd.to_timedelta([1, None], "s"))).tolist()[0] == 1
    missing = [None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), np.float32("nan")]
    assert [frames.cell("m", value) for value in missing] == [None] * len(missing)
    words = frames.column("w", pd.Series([2, None, 3], dtype="category"))
    assert words.tolist() == ["2", None, "3"]
    assert frames.cell("b", b"high") == "high"
    kinds, _ = codes({}, ["2", "3"])
    assert codes(kinds, [2.0, None, 3])[1]["'w' is '2'"][0] == 1  # a number that is a name
