import json
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from hmnn.cli import main
from hmnn.lab.commands import display


def hmnn(*arguments, cwd):
    """Run the command line as a user does."""
    command = [sys.executable, "-c", "from hmnn.cli import main; main()", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "120"},
    )


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    """Two moons, smoke profile, run once."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, hmnn(
        "run", "two-moons", "--profile", "smoke", "--seed", "3", "--out", "moons", cwd=folder
    )


def test_a_run_leaves_a_record_and_its_figures(moons):
    folder, done = moons
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "moons/record.json").read_text())
    assert {"experiment", "profile", "config", "seed", "versions", "metrics", "seconds"} <= set(
        record
    )
    assert (record["experiment"], record["profile"], record["seed"]) == ("two-moons", "smoke", 3)
    for scenario in ("separated", "overlapping"):
        assert len(record["metrics"][scenario]["accuracy"]) == len(record["config"]["degrees"])
        assert {"on_data", "off_data"} <= set(record["metrics"][scenario]["interval_length"])
    for name in ("plane", "surface", "over-time", "drift"):
        assert np.ptp(imread(folder / f"moons/{name}.png")) > 0.5
        assert f"moons/{name}.png" in done.stdout


def test_an_existing_folder_is_not_written_to(moons):
    folder, _ = moons
    before = (folder / "moons/record.json").read_bytes()
    done = hmnn("run", "two-moons", "--profile", "smoke", "--out", "moons", cwd=folder)
    assert done.returncode == 2
    assert (
        done.stderr.strip().splitlines()[-1].startswith("hmnn: --out must be a new or empty folder")
    )
    assert (folder / "moons/record.json").read_bytes() == before


MISTAKES = [
    (("run", "three-moons"), "experiment must be one of 'two-moons'"),
    (
        ("run", "two-moons", "--profile", "huge"),
        "profile must be one of 'smoke', 'quick', 'paper'. Got 'huge'.",
    ),
    (("run", "two-moons", "--seed", "many"), "Invalid value for '--seed'"),
    (("run", "two-moons", "--colour"), "No such option"),
    (("fly",), "No such command 'fly'"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    arguments, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    here = {"COLUMNS": "120", "HMNN_NO_COMPILATION_CACHE": "1"}
    monkeypatch.setattr(os, "environ", os.environ | here)
    monkeypatch.setattr(sys, "argv", ["hmnn", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said in shown
    assert "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_list_names_the_experiments(tmp_path):
    assert "two-moons" in hmnn("list", cwd=tmp_path).stdout


def test_a_table_keeps_its_numbers_whole_on_a_narrow_screen(capsys, monkeypatch):
    row = {f"column {i}": 0.1234 + i / 1e4 for i in range(10)} | {
        "difference": "+0.0031 (-0.0004 to +0.0066)"
    }
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        display.print_table("narrow", [row])
        shown = capsys.readouterr().out
        assert "…" not in shown
        assert all(f"{value:.4f}" in shown for value in row.values() if isinstance(value, float))
