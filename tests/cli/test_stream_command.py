"""hmnn stream: a record, a table and figures; one sentence for what is wrong, and nothing left
behind."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

from hmnn import evaluate
from hmnn.cli import app
from hmnn.evaluate import peers
from hmnn.lab.commands.display import StoppedError


def stream(*arguments):
    app(["stream", *map(str, arguments)], standalone_mode=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        f"{a:.4f},{'xyz'[b]},{a + b + 0.1 * e:.4f},{'up' if a + b > 1 else 'down'}"
        for a, b, e in zip(
            rng.normal(size=120), rng.integers(0, 3, 120), rng.normal(size=120), strict=True
        )
    ]
    (tmp_path / "mine.csv").write_text("a,b,value,side\n" + "\n".join(rows))
    return tmp_path


def test_a_generated_stream(folder, capsys):
    stream("sea", "--rows", 400, "--models", "last-label,logistic", "--window", 50, "--out", "out")
    record = json.loads((folder / "out/record.json").read_text())
    found = record["metrics"]["logistic"]
    assert {"accuracy", "log_loss", "ece", "brier", "seconds", "lag"} <= set(found)
    assert found["lag"]["changes"] == [100, 200, 300]
    assert 0.6 < found["accuracy"] < 1
    assert record["metrics"]["last-label"]["log_loss"] is None
    assert record["versions"]["river"]
    assert record["made"]["rows"] == 400
    assert len(record["curves"]["logistic"]["accuracy"]) == 8
    for name in ("curves", "reliability"):
        assert np.ptp(imread(folder / f"out/{name}.png")) > 0.5
    shown = capsys.readouterr().out
    assert "last-label" in shown
    assert "out/curves.png" in shown
    before = (folder / "out/record.json").read_bytes()
    with pytest.raises(ValueError, match="--out must be a new or empty folder"):
        stream("sea", "--rows", 400, "--models", "last-label", "--out", "out")
    assert (folder / "out/record.json").read_bytes() == before


def test_a_file_of_ones_own(folder):
    stream(
        "mine.csv", "--target", "side", "--drop", "value", "--models", "logistic", "--out", "class"
    )
    record = json.loads((folder / "class/record.json").read_text())
    assert record["task"] == "classification"
    assert record["made"]["features"] == ["a", "b=x", "b=y", "b=z"]
    assert record["metrics"]["logistic"]["accuracy"] > 0.7
    stream(
        "mine.csv",
        "--target",
        "value",
        "--drop",
        "side",
        "--models",
        "linear,last-value",
        "--out",
        "number",
    )
    found = json.loads((folder / "number/record.json").read_text())["metrics"]
    assert {"mae", "crps", "coverage", "width", "seconds"} <= set(found["linear"])
    assert found["linear"]["mae"] < found["last-value"]["mae"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("nowhere.csv", "--target", "y"),
            "source must be one of elec2, sea, hyperplane, rbf, trump, or a CSV file.",
        ),
        (("mine.csv",), "--target must name the column of the file to predict."),
        (
            ("mine.csv", "--target", "z"),
            "column must be one of 'a', 'b', 'value', 'side'. Got 'z'.",
        ),
        (
            ("mine.csv", "--target", "side", "--models", "lstm"),
            "--models for classification must be one of 'hmnn',",
        ),
        (
            ("trump", "--models", "logistic"),
            "--models for regression must be one of 'hmnn', 'last-value',",
        ),
        (
            ("trump", "--target", "y"),
            "--missing must be left out: they are for a file, and trump has its own columns.",
        ),
        (
            ("elec2", "--drop", "day"),
            "--target, --task, --drop, --categorical, --encoding, --missing must be left out",
        ),
        (
            ("sea", "--encoding", "nonsense"),
            "must be left out: they are for a file, and sea has its own columns.",
        ),
        (
            ("sea", "--models", "last-label", "--rows", "50", "--level", "2"),
            "--level must be above 0 and below 1",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(folder, arguments, said):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        stream(*arguments)
    assert said in str(error.value)
    assert [path.name for path in folder.iterdir()] == ["mine.csv"]


def test_a_model_that_fails_is_said_at_the_end_and_the_others_are_kept(folder, monkeypatch):
    class Broken(peers.LastLabel):
        def predict(self, x):
            raise RuntimeError("out of order")

    monkeypatch.setitem(peers.CLASSIFIERS, "broken", lambda classes, seed: Broken())
    with pytest.raises(ValueError, match=r"^broken failed at row 0, predicting: out of order$"):
        stream("mine.csv", "--target", "side", "--models", "broken,last-label", "--out", "out")
    record = json.loads((folder / "out/record.json").read_text())
    assert list(record["metrics"]) == ["last-label"]
    assert list(record["failed"]) == ["broken"]


def test_a_stream_that_is_stopped_says_how_to_begin_again(folder, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "compare", stopped)
    monkeypatch.setattr("sys.argv", ["hmnn", "stream", "sea", "--out", "a b"])
    with pytest.raises(StoppedError) as ended:
        stream("sea", "--rows", "50", "--models", "last-label", "--out", "a b")
    assert ended.value.args[0] == "stopped; begin again with: hmnn stream sea --out 'a b'"
