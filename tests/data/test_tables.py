"""A table becomes the arrays that a person would write down, or a sentence says why not."""

from itertools import islice

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hmnn.data.generators import STREAMS, from_river, hyperplane, rbf, sea, trump
from hmnn.data.tables import blocks, table

CSV = """when,size,colour,rating,y
1,1.5,red,3,up
2,,blue,1,down
3,2.5,?,2,up
4,NA,red,,down
"""
X = [[1, 1.5, 0, 1, 3], [2, 1.5, 1, 0, 1], [3, 2.5, 0, 0, 2], [4, 2.5, 0, 1, 2]]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(CSV)
    return path


def whole(stream):
    parts = list(stream)
    return np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts])


def test_a_file_by_hand(path):
    stream = table(path, "y", block=3)
    x, y = whole(stream)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, [1, 0, 1, 0])
    assert (stream.task, len(stream), len(stream[1].y)) == ("classification", 2, 1)
    assert stream.made["features"] == ["when", "size", "colour=blue", "colour=red", "rating"]
    assert stream.made["classes"] == ["down", "up"]
    assert stream.made["missing"] == {"size": 2, "colour": 1, "rating": 1}


def test_frames_are_as_files(path):
    expected = whole(table(path, "y"))
    for frame in (
        pd.read_csv(path, na_values=["?"]),
        pl.read_csv(path, null_values=["?", "NA", ""]),
    ):
        for found, wanted in zip(whole(table(frame, "y")), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_frames_with_types_of_their_own():
    frame = pd.DataFrame(
        {"n": pd.array([1, None, 3], "Int64"), "b": [True, False, True], "y": [0.5, 1.5, 2.5]}
    )
    frame["c"] = pd.Categorical(["u", "v", "u"])
    x, y = whole(table(frame, "y"))
    np.testing.assert_array_equal(x, [[1, 1, 1, 0], [1, 0, 0, 1], [3, 1, 1, 0]])
    np.testing.assert_array_equal(y, [0.5, 1.5, 2.5])
    frame["day"] = pd.to_datetime(["2026-01-01"] * 3)
    with pytest.raises(
        ValueError,
        match=r"column 'day' must be numbers or words; convert it or leave it out. Got '",
    ):
        table(frame, "y")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_delimiters_and_a_byte_order_mark(path, mark):
    path.write_text("\ufeff" + CSV.replace(",", mark), encoding="utf-8")
    np.testing.assert_array_equal(whole(table(path, "y"))[0], X)


def test_ordinal_categories_and_numbers_that_are_names(path):
    x, _ = whole(table(path, "y", encoding="ordinal", categorical=["when"], drop="rating"))
    np.testing.assert_array_equal(x, [[0, 1.5, 1], [1, 1.5, 0], [2, 2.5, -1], [3, 2.5, 1]])
    stream = table(path, "y", categorical="when", drop=["rating", "size", "colour"])
    assert stream.made["features"] == ["when=1", "when=2", "when=3", "when=4"]


def test_a_row_never_depends_on_later_rows(path):
    """But for the list of categories: cut the file anywhere, and the rows before are the same."""
    lines = CSV.splitlines()
    for rows in (3, 4):
        path.write_text("\n".join(lines[: rows + 1]))
        np.testing.assert_array_equal(whole(table(path, "y"))[0], X[:rows])


def test_the_task_is_guessed_and_can_be_said(path):
    assert table(path, "rating").task == "classification"
    assert table(path, "size").task == "regression"
    stream = table(path, "rating", "regression", drop=["y"])
    assert stream.task == "regression"
    np.testing.assert_array_equal(whole(stream)[1], [3, 1, 2])  # the row without target is left out
    assert stream.made["left_out"] == 1
    many = pd.DataFrame({"a": range(50), "y": range(50)})
    assert table(many, "y").task == "regression"
    assert table(many, "y", "classification").made["classes"][:3] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            CSV,
            {"target": "z"},
            "column must be one of 'when', 'size', 'colour', 'rating', 'y'. Got 'z'.",
        ),
        (CSV, {"target": "y", "drop": ["z"]}, "column must be one of"),
        (
            CSV,
            {"target": "y", "missing": "refuse"},
            "column 'size' must be in every row. Got '2 missing'.",
        ),
        (
            CSV,
            {"target": "rating", "missing": "refuse"},
            "target 'rating' must be in every row. Got 'none in row 3'.",
        ),
        (
            CSV,
            {"target": "y", "task": "regression"},
            "target 'y' must be numbers for a regression. Got 'up'.",
        ),
        (CSV, {"target": "y", "task": "clustering"}, "task must be one of"),
        (CSV + "5,1\n", {"target": "y"}, "must be 5 cells long, like the header. Got 2."),
        (
            CSV + "5,inf,red,1,up\n",
            {"target": "y"},
            "column 'size' must be finite. Got 'inf in row 4'.",
        ),
        ("a,a,y\n1,2,3\n", {"target": "y"}, "names of columns must be distinct. Got 'a'."),
        ("a,y\n", {"target": "y"}, "must be a header and at least one row long. Got '1 lines'."),
        ("", {"target": "y"}, "must be a header and at least one row long. Got '0 lines'."),
        (
            "y\n1\n2\n",
            {"target": "y"},
            "the table must be of at least one column beside the target. Got 'y'.",
        ),
        (
            "a,y\n1,u\n2,u\n",
            {"target": "y"},
            "target 'y' must be of at least two classes. Got 'u'.",
        ),
        (
            "a,y\n1,\n2,\n",
            {"target": "y"},
            "target 'y' must be there in at least one row. Got 'none'.",
        ),
        (
            "a,y\n,u\n,v\n",
            {"target": "y"},
            "column 'a' must be there in at least one row, or left out. Got 'none'.",
        ),
        ('a,y\n"1,u\n2,v\n', {"target": "y"}, "must be a CSV file: unexpected end of data"),
    ],
)
def test_what_is_wrong_is_one_sentence(path, text, options, said):
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        table(path, **options)
    assert said in str(error.value)


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="source must be the path of a CSV file, a pandas frame or a polars frame"
    ):
        table([1, 2], "y")
    with pytest.raises(FileNotFoundError):
        table(tmp_path / "nowhere.csv", "y")
    (tmp_path / "bytes.csv").write_bytes(b"a,y\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match=r"must be a text file in UTF-8\."):
        table(tmp_path / "bytes.csv", "y")
    with pytest.raises(
        ValueError, match=r"x and y must be of the same length, at least 1. Got '3 and 2'."
    ):
        blocks(np.ones((3, 1)), np.ones(2), "regression")


def test_a_column_of_names_is_refused_as_one_hot_and_taken_as_ordinal():
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(101)], "y": np.arange(101) / 7})
    with pytest.raises(
        ValueError, match=r"column 'id' must be of at most 100 categories.* Got 101."
    ):
        table(frame, "y")
    assert whole(table(frame, "y", encoding="ordinal"))[0].shape == (101, 1)


def test_sea_is_what_river_says_and_changes_where_it_says():
    stream = sea(400, seed=3, noise=0.0)
    x, y = whole(stream)
    assert stream.made["changes"] == [100, 200, 300]
    thresholds = np.repeat([8, 9, 7, 9.5], 100)
    np.testing.assert_array_equal(y, x[:, 0] + x[:, 1] > thresholds)
    assert not np.array_equal(y, x[:, 0] + x[:, 1] > 8)


def test_moving_clouds_are_those_of_river():
    from river.datasets.synth import RandomRBFDrift

    settings = {
        "n_classes": 5,
        "n_features": 10,
        "n_centroids": 50,
        "n_drift_centroids": 50,
        "change_speed": 0.02,
    }
    expected = list(islice(iter(RandomRBFDrift(seed_model=2, seed_sample=3, **settings)), 80))
    x, y = whole(rbf(80, seed=2, speed=0.02))
    np.testing.assert_allclose(x, [list(row.values()) for row, _ in expected], rtol=1e-12)
    np.testing.assert_array_equal(y, [label for _, label in expected])
    assert not np.allclose(x, whole(rbf(80, seed=2, speed=0.0))[0])


def test_generated_streams_are_the_same_at_every_call_and_differ_by_seed():
    for make in (sea, hyperplane, rbf):
        first, again, other = make(40, seed=1), make(40, seed=1), make(40, seed=2)
        np.testing.assert_array_equal(first[0].x, again[0].x)
        assert not np.array_equal(first[0].x, other[0].x)
    assert set(STREAMS) == {"elec2", "sea", "hyperplane", "rbf", "trump"}


def test_trump_has_its_1001_days():
    x, y = whole(trump())
    assert x.shape == (1001, 6)
    assert y[0] == 43.75505


def test_rows_of_river_with_other_features_are_refused():
    with pytest.raises(ValueError, match=r"row 1 must be of the features \['a'\]. Got \['b'\]."):
        from_river("mine", "regression", [({"a": 1}, 2.0), ({"b": 1}, 2.0)], {})
