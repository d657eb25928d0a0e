"""A folder belongs to one run: only what hmnn wrote is overwritten (G8), and only checkpoints of
the same run are resumed (G10)."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from test_progress import WALK

from hmnn import cli, store
from hmnn.core.cpu import compilation
from hmnn.lab import EXPERIMENTS, runs
from hmnn.lab.experiment import Quiet
from hmnn.store import checkpoints

SMOKE = ("--profile", "smoke", "--workers", "1")


@pytest.fixture
def walk(tmp_path, monkeypatch, capsys):
    """`hmnn run walk` in this process."""
    monkeypatch.setitem(EXPERIMENTS, "walk", WALK)
    monkeypatch.setattr(compilation, "persist", lambda folder: False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hmnn", "run", "walk", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, capsys.readouterr().err.strip().splitlines()[-1]

    return run


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def last(folder):
    return json.loads((folder / "record.json").read_text())["metrics"]["walk-1"]["last"]


def test_an_earlier_run_is_overwritten_and_what_stands_beside_it_stays(walk, tmp_path):
    folder = tmp_path / "out"
    assert walk(*SMOKE, "--out", "out")[0] == 0
    first = last(folder)
    (folder / "notes.txt").write_text("dear")
    (folder / "checkpoints/.walk-1.lock").touch()
    (folder / "checkpoints/search.journal").write_text('{"op_code": 0}\n')
    store.save({"w": np.ones(1)}, folder / "checkpoints/of-an-older-hmnn")
    for name in (".walk-2.tmp-0123456789abcdef", ".walk-2.old"):
        (folder / "checkpoints" / name).mkdir()
    assert walk(*SMOKE, "--out", "out", "--seed", "1", "--overwrite")[0] == 0
    assert last(folder) != first
    assert (folder / "notes.txt").read_text() == "dear"
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        *(f"walk-{i}{end}" for i in (1, 2) for end in ("", ".result"))
    ]
    (tmp_path / "stop").touch()
    assert walk(*SMOKE, "--out", "out", "--overwrite")[0] == 143  # and one that was stopped
    assert walk(*SMOKE, "--out", "out", "--overwrite")[0] == 0
    assert last(folder) == first


def foreign(path, content="dear"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


OTHERS = {
    "record.json": lambda folder: foreign(folder / "record.json", '{"versions": {"torch": "2"}}'),
    "run.json": lambda folder: foreign(folder / "run.json", "[]"),
    "progress.jsonl": lambda folder: foreign(folder / "progress.jsonl", '{"loss": 1}\n'),
    "view": lambda folder: (shutil.rmtree(folder / "view", True), foreign(folder / "view/a.csv")),
    "checkpoints/best.pt": lambda folder: foreign(folder / "checkpoints/best.pt"),
    "checkpoints/epoch-1": lambda folder: foreign(folder / "checkpoints/epoch-1/weights"),
    "checkpoints/empty": lambda folder: (folder / "checkpoints/empty").mkdir(parents=True),
    "checkpoints/hub": lambda folder: foreign(folder / "checkpoints/hub/state.safetensors"),
    "checkpoints/sealed": lambda folder: foreign(folder / "checkpoints/sealed/manifest.json"),
    "checkpoints/search.journal": lambda folder: foreign(folder / "checkpoints/search.journal"),
    "checkpoints/walk-1": lambda folder: foreign(folder / "checkpoints/walk-1/notes"),
    "checkpoints/link": lambda folder: (folder / "checkpoints/link").symlink_to("walk-1"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_somebody_else_wrote_is_never_removed(walk, tmp_path, name):
    folder = tmp_path / "out"
    assert walk(*SMOKE, "--out", "out")[0] == 0
    OTHERS[name](folder)
    before = contents(folder)
    said = f"--overwrite must be given the folder of a run of hmnn. Got 'out' with '{name}', which"
    assert walk(*SMOKE, "--out", "out", "--overwrite") == (2, f"hmnn: {said} hmnn did not write.")
    assert contents(folder) == before


def test_a_folder_that_was_never_a_run_is_not_overwritten(walk, tmp_path):
    foreign(tmp_path / "out/plane.png")
    code, said = walk(*SMOKE, "--out", "out", "--overwrite")
    assert code == 2
    assert said.endswith("Got 'out' without run.json and record.json.")
    assert os.listdir(tmp_path / "out") == ["plane.png"]


def test_checkpoints_is_a_folder_and_removing_asks_again(tmp_path):
    foreign(tmp_path / "checkpoints")
    foreign(tmp_path / "run.json", '{"versions": {"hmnn": "0"}}')
    with pytest.raises(ValueError, match="with 'checkpoints', which hmnn did not write"):
        runs.fresh(tmp_path, overwrite=True)
    for path in (tmp_path / "checkpoints", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="path must be a checkpoint"):
            checkpoints.remove(path)
    with pytest.raises(ValueError, match="path must be a checkpoint"):
        runs.open_(tmp_path, {}, 0, new=True)
    assert (tmp_path / "checkpoints").read_text() == "dear"


@pytest.fixture
def stopped(walk, tmp_path):
    """Two runs that were stopped after two time steps, of other seeds; how the first resumes."""
    for seed in ("5", "6"):
        (tmp_path / "stop").touch()
        assert walk(*SMOKE, "--seed", seed, "--out", seed)[0] == 143
    return lambda: walk("--resume", "5", "--workers", "1")


def test_the_run_itself_is_resumed_and_so_is_a_copy_of_all_of_it(walk, stopped, tmp_path):
    shutil.copytree(tmp_path / "5", tmp_path / "copy")
    assert stopped()[0] == 0
    assert walk("--resume", "copy", "--workers", "1")[0] == 0
    assert last(tmp_path / "5") == last(tmp_path / "copy")


def test_checkpoints_of_another_seed_are_refused(stopped, tmp_path):
    shutil.rmtree(tmp_path / "5/checkpoints")
    shutil.copytree(tmp_path / "6/checkpoints", tmp_path / "5/checkpoints")
    code, said = stopped()
    assert code == 2
    assert "must have been saved with the seed 5. Got 6." in said
    assert not (tmp_path / "5/record.json").exists()


def test_checkpoints_of_another_run_with_the_same_settings_are_refused(walk, stopped, tmp_path):
    (tmp_path / "stop").touch()
    assert walk(*SMOKE, "--seed", "5", "--out", "again")[0] == 143
    shutil.rmtree(tmp_path / "5/checkpoints")
    shutil.copytree(tmp_path / "again/checkpoints", tmp_path / "5/checkpoints")
    code, said = stopped()
    assert code == 2
    assert "must have been saved with the run " in said


def test_a_checkpoint_is_bound_to_its_part(tmp_path):
    keeper, state = Quiet(tmp_path, {"seed": 5, "config": {"hidden": (4, 4)}}), {"w": np.ones(2)}
    keeper.checkpoint("one", state, [1.0])
    keeper.keep("one", {"result": 1})
    assert keeper.restore("one", state)[1] == [1.0]  # a tuple is a list in JSON, and still the same
    for end in ("", ".result"):
        (tmp_path / f"one{end}").rename(tmp_path / f"two{end}")
    for look in (lambda: keeper.restore("two", state), lambda: keeper.kept("two")):
        with pytest.raises(ValueError, match=r"saved with the part 'two'\. Got 'one'"):
            look()


def test_results_of_another_run_are_refused(walk, tmp_path):
    for seed in ("5", "6"):
        assert walk(*SMOKE, "--seed", seed, "--out", seed)[0] == 0
    shutil.rmtree(tmp_path / "5/checkpoints/walk-1.result")
    shutil.copytree(
        tmp_path / "6/checkpoints/walk-1.result", tmp_path / "5/checkpoints/walk-1.result"
    )
    code, said = walk("--resume", "5", "--workers", "1")
    assert code == 2
    assert said.endswith("must have been saved with the seed 5. Got 6.")


def test_a_run_of_before_runs_had_names_is_resumed(stopped, tmp_path):
    """Its run.json and its checkpoints say nothing of a name."""
    about = json.loads((tmp_path / "5/run.json").read_text())
    name = about.pop("run")
    assert len(name) == 16
    (tmp_path / "5/run.json").write_text(json.dumps(about))
    assert stopped()[0] == 0
