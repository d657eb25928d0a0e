"""A run that is killed, terminated and interrupted ends with the bits of the run that never was
(C2, F3)."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from hmnn.lab.experiment import Quiet
from hmnn.store import inspect

TIMEOUT = 400
PRELUDE = """
import os, signal
from hmnn import store
from hmnn.cli import main
from hmnn.store import checkpoints

signals, calls, save, swap = {signals}, [], store.save, checkpoints._swap

def saving(*arguments, **options):
    calls.append("save")
    if signals.get(len(calls)) == "kill instead":
        os.kill(os.getpid(), signal.SIGKILL)
    save(*arguments, **options)
    if signals.get(len(calls)) == "terminate after":
        os.kill(os.getpid(), signal.SIGTERM)

def swapping(*arguments):
    if signals.get(len(calls)) == "interrupt amid":
        os.kill(os.getpid(), signal.SIGINT)
    swap(*arguments)

store.save, checkpoints._swap = saving, swapping
main()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with the straight run in it; compiled code is shared, so that the other runs are
    quick."""
    folder = tmp_path_factory.mktemp("runs")
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def run(signals, *arguments):
        """Run the command line, which sends itself a signal at its n-th save: {n: what}."""
        command = [
            sys.executable,
            "-c",
            PRELUDE.replace("{signals}", repr(signals)),
            "run",
            "two-moons",
            *arguments,
            "--workers",
            "1",
        ]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )

    straight = run({}, "--profile", "smoke", "--seed", "5", "--out", "straight")
    assert straight.returncode == 0, straight.stderr
    return folder, run


def done(folder):
    """How many time steps are on disk."""
    count = 0
    for scenario in ("separated", "overlapping"):
        with suppress(FileNotFoundError):
            count += inspect(folder / "checkpoints" / scenario)["t"]
    return count


def metrics(folder):
    return json.loads((folder / "record.json").read_text())["metrics"]


def test_killed_terminated_and_interrupted_is_the_straight_run(runs):
    folder, run = runs
    stopped = folder / "stopped"
    killed = run({2: "kill instead"}, "--profile", "smoke", "--seed", "5", "--out", "stopped")
    assert (killed.returncode, done(stopped)) == (-signal.SIGKILL, 1)
    for save, what, code, steps in (
        (1, "terminate after", 143, 2),
        (2, "interrupt amid", 130, 3),
    ):  # the result is one
        halted = run({save: what}, "--resume", "stopped")
        assert (halted.returncode, done(stopped)) == (code, steps), halted.stderr
        assert (
            halted.stderr.splitlines()[-1]
            == "hmnn: stopped; go on with: hmnn run two-moons --resume stopped"
        )
        assert "Traceback" not in halted.stderr
        assert not (stopped / "record.json").exists()
    ended = run({}, "--resume", "stopped")
    assert (ended.returncode, done(stopped)) == (0, 4), ended.stderr
    assert metrics(stopped) == metrics(folder / "straight")
    for name in ("plane.png", "surface.png", "over-time.png"):
        assert (stopped / name).read_bytes() == (folder / "straight" / name).read_bytes()
    assert not [name for name in os.listdir(stopped / "checkpoints") if name.startswith(".")]


def test_a_run_that_was_killed_while_it_replaced_a_checkpoint_goes_on_from_the_old_one(tmp_path):
    keeper, state = Quiet(tmp_path), {"w": np.arange(3.0)}
    keeper.checkpoint("part", state, [1.0, 2.0])
    keeper.keep("part", {"result": {"score": 0.5}})
    for name in ("part", "part.result"):
        (tmp_path / name).rename(tmp_path / f".{name}.old")  # the first of the two renames
    assert keeper.steps("part") == 2
    assert keeper.restore("part", {"w": np.zeros(3)})[1] == [1.0, 2.0]
    assert keeper.kept("part") == {"result": {"score": 0.5}}
    assert keeper.restore("another", state) == (state, [])
    assert (keeper.steps("another"), keeper.kept("another")) == (0, None)


@pytest.fixture
def cli(runs, monkeypatch, capsys):
    """The command line in this process, inside the folder of the runs."""
    from hmnn.cli import main

    def call(*arguments):
        monkeypatch.chdir(runs[0])
        monkeypatch.setattr(sys, "argv", ["hmnn", *arguments])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--resume", "straight", "--seed", "6"),
            "--resume must be given the seed of that run, 5. Got 6.",
        ),
        (
            ("--resume", "straight", "--profile", "quick"),
            "--resume must be given the profile of that run, 'smoke'.",
        ),
        (("--resume", "straight", "--out", "x"), "--resume must stand without --out"),
        (("--resume", "nowhere"), "--resume must be the folder of a run"),
    ],
)
def test_another_run_is_refused_in_one_sentence(cli, arguments, said):
    code, _, errors = cli("run", "two-moons", *arguments)
    assert code == 2
    assert errors.strip().splitlines()[-1].startswith(f"hmnn: {said}")
    assert "Traceback" not in errors


def test_inspect_says_what_is_there_and_refuses_what_is_broken(cli, runs):
    folder, _ = runs
    code, out, _ = cli("inspect", "straight/checkpoints/separated", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["t"], found["verified"], found["config"]["seed"]) == (
        "checkpoint",
        2,
        True,
        5,
    )
    assert sum(array["name"].startswith("['state'].posterior") for array in found["arrays"]) == 12
    code, out, _ = cli("inspect", "straight/checkpoints/separated")
    assert code == 0
    assert "posterior" in out
    shutil.copytree(folder / "straight/checkpoints/separated", folder / "broken")
    with open(folder / "broken/state.safetensors", "r+b") as file:
        file.seek(3000)
        file.write(b"\1\2\3")
    code, _, errors = cli("inspect", "broken", "--json")
    assert code == 2
    assert "SHA-256" in errors
    code, _, errors = cli("inspect", "nowhere")
    assert code == 2
    assert "There is no checkpoint" in errors
