"""A run that is killed, terminated and interrupted ends with the bits of the run that never was (C2, F3)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from hmnn.store import CorruptError, inspect

TIMEOUT = 400


def command(*arguments):
    return [sys.executable, "-c", "from hmnn.cli import main; main()", *arguments]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with the straight run in it; compiled code is shared, so that the other runs are quick."""
    folder = tmp_path_factory.mktemp("runs")
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "COLUMNS": "120",
    }

    def start(*arguments):
        return subprocess.Popen(
            command(*arguments), cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    straight = start("run", "two-moons", "--profile", "smoke", "--seed", "5", "--out", "straight")
    _, errors = straight.communicate(timeout=TIMEOUT)
    assert straight.returncode == 0, errors
    return folder, start


def done(folder):
    """How many time steps are on disk."""
    count = 0
    for scenario in ("separated", "overlapping"):
        with suppress(FileNotFoundError, CorruptError):
            count += inspect(folder / "checkpoints" / scenario)["t"]
    return count


def stop_after(process, folder, steps, number):
    """Send a signal as soon as so many time steps are on disk; return what the process said."""
    began = time.monotonic()
    while done(folder) < steps:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() - began < TIMEOUT
        time.sleep(0.02)
    process.send_signal(number)
    return process.communicate(timeout=TIMEOUT)[1]


def metrics(folder):
    return json.loads((folder / "record.json").read_text())["metrics"]


def test_killed_terminated_and_interrupted_is_the_straight_run(runs):
    folder, start = runs
    stopped = folder / "stopped"
    process = start("run", "two-moons", "--profile", "smoke", "--seed", "5", "--out", "stopped")
    stop_after(process, stopped, 1, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    for steps, number, code in ((2, signal.SIGTERM, 143), (3, signal.SIGINT, 130)):
        process = start("run", "two-moons", "--resume", "stopped")
        said = stop_after(process, stopped, steps, number)
        assert process.returncode == code, said
        assert said.splitlines()[-1] == "hmnn: stopped; go on with: hmnn run two-moons --resume stopped"
        assert "Traceback" not in said
        assert not (stopped / "record.json").exists()
    process = start("run", "two-moons", "--resume", "stopped")
    assert process.communicate(timeout=TIMEOUT)[1] is not None
    assert process.returncode == 0
    assert metrics(stopped) == metrics(folder / "straight")
    for name in ("data.png", "interval-length.png", "surface.png"):
        assert (stopped / name).read_bytes() == (folder / "straight" / name).read_bytes()


def cli(runs, *arguments):
    _, start = runs
    process = start(*arguments)
    out, errors = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume", "straight", "--seed", "6"), "--resume must be given the seed of that run, 5. Got 6."),
        (("--resume", "straight", "--profile", "quick"), "--resume must be given the profile of that run, 'smoke'."),
        (("--resume", "straight", "--out", "x"), "--resume must stand without --out"),
        (("--resume", "nowhere"), "--resume must be the folder of a run"),
    ],
)
def test_another_run_is_refused_in_one_sentence(runs, arguments, said):
    code, _, errors = cli(runs, "run", "two-moons", *arguments)
    assert code == 2
    assert errors.strip().splitlines()[-1].startswith(f"hmnn: {said}")
    assert "Traceback" not in errors


def test_inspect_says_what_is_there_and_refuses_what_is_broken(runs):
    folder, _ = runs
    code, out, _ = cli(runs, "inspect", "straight/checkpoints/separated", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["t"], found["verified"], found["config"]["seed"]) == ("checkpoint", 2, True, 5)
    assert sum(array["name"].startswith("['state'].posterior") for array in found["arrays"]) == 12
    code, out, _ = cli(runs, "inspect", "straight/checkpoints/separated")
    assert code == 0
    assert "['state'].posterior.location.layers[0].weight" in out
    shutil.copytree(folder / "straight/checkpoints/separated", folder / "broken")
    with open(folder / "broken/state.safetensors", "r+b") as file:
        file.seek(3000)
        file.write(b"\1\2\3")
    code, _, errors = cli(runs, "inspect", "broken", "--json")
    assert code == 2
    assert "SHA-256" in errors
    code, _, errors = cli(runs, "inspect", "nowhere")
    assert code == 2
    assert "There is no checkpoint" in errors
