"""F3 and the data commands: the command line as a shell sees it."""

import json
import os
import signal
import subprocess
import sys
import time

import jax
import pytest

from hmnn import cli
from hmnn.core.cpu import compilation

MAIN = [sys.executable, "-c", "from hmnn.cli import main; main()"]


@pytest.fixture
def environment(tmp_path):
    """No data, no network, a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HMNN_")}
    return kept | {"HMNN_CACHE": str(tmp_path / "cache"), "HMNN_OFFLINE": "1", "COLUMNS": "120"}


@pytest.fixture
def hmnn(environment, monkeypatch, capsys):
    """The command line in this process, which spares the start of another."""
    for name in [name for name in os.environ if name.startswith("HMNN_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(compilation, "persist", lambda folder: False)

    def run(*arguments, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["hmnn", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


def test_status_of_nothing_and_of_a_wrong_file(hmnn, tmp_path):
    (tmp_path / "vtflag.mpg").write_bytes(b"no film")
    code, out, said = hmnn("data", "status", "--json", HMNN_DATA=str(tmp_path))
    assert (code, said) == (0, "")
    found = {file["name"]: file for file in json.loads(out)}
    assert len(found) == 6
    assert found.pop("vtflag.mpg") == {
        "name": "vtflag.mpg",
        "where": "HMNN_DATA",
        "path": str(tmp_path / "vtflag.mpg"),
        "verified": False,
        "size": 7,
    }
    assert {(file["where"], file["verified"], file["size"]) for file in found.values()} == {
        ("nowhere", False, 0)
    }
    _, table, _ = hmnn("data", "status")
    assert {line.split()[5] for line in table.splitlines() if "vtflag" in line} == {"NO"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "flag",
            "hmnn: vtflag.mpg is not on this machine, and HMNN_OFFLINE is set. Ways to get it: ",
        ),
        (
            "mnist",
            "hmnn: train-images-idx3-ubyte.gz is not on this machine, and "
            "HMNN_OFFLINE is set. Ways to get it: ",
        ),
        ("cifar", "hmnn: data must be one of 'mnist', 'flag', 'elec2', "),
    ],
)
def test_a_file_that_cannot_be_had_is_one_line_and_exit_code_2(name, expected, hmnn):
    code, out, said = hmnn("data", "get", name)
    assert (code, out) == (2, "")
    assert said.startswith(expected)
    assert len(said.splitlines()) == 1


REAL = os.environ.get("HMNN_DATA", "")


@pytest.mark.skipif(not REAL, reason="needs the real files: set HMNN_DATA to their folder")
def test_get_prints_where_the_files_are(hmnn):
    assert hmnn("data", "get", "elec2", HMNN_DATA=REAL) == (
        0,
        f"{REAL}/electricity-normalized.csv\n",
        "",
    )


@pytest.mark.parametrize("arguments", [("list",), ("data", "status", "--json")])
def test_a_reader_that_goes_away_is_no_traceback(arguments, environment):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*MAIN, *arguments], env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=300
    )
    os.close(writing)
    assert done.returncode != 0
    assert done.stderr == b""


def test_ctrl_c_is_one_line_and_exit_code_130(environment, tmp_path):
    command = [*MAIN, "run", "two-moons", "--profile", "smoke", "--out", "moons"]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 200
    while not (tmp_path / "moons").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=200)
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert [
        line.split(";")[0].rstrip(".") for line in said.splitlines() if line.startswith("hmnn:")
    ] == ["hmnn: stopped"]
    assert not (tmp_path / "moons" / "record.json").exists()


COMPILE = """
import sys
import jax, numpy as np, hmnn, hmnn.cli
sys.argv = ["hmnn", "list"]
try:
    hmnn.cli.main()
except SystemExit as end:
    assert end.code == 0
method = hmnn.hmnn(hmnn.linear(2, 1), "bernoulli", epochs=1, minibatch=None)
state, info = method.step(method.init(0), hmnn.Dataset(np.ones((4, 2)), np.ones(4, int)))
assert np.isfinite(info.free_energy)
"""


def compile_once(env):
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    folder = os.path.join(env["HMNN_CACHE"], "xla")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def test_compiled_programs_are_kept_and_found_again(environment):
    first = compile_once(environment)
    assert any("update" in name for name in first)
    again = compile_once(
        environment
    )  # a program that compiles in about a tenth of a second may be kept or not
    assert {name for name in first if "_descend" in name} == {
        name for name in again if "_descend" in name
    }


def test_a_cache_that_is_off_or_blocked_is_not_used(tmp_path, monkeypatch):
    before = jax.config.values["jax_compilation_cache_dir"]
    (tmp_path / "file").write_text("no folder")
    assert not compilation.persist(tmp_path / "file" / "xla")
    monkeypatch.setenv("HMNN_NO_COMPILATION_CACHE", "1")
    assert not compilation.persist(tmp_path / "xla")
    assert not (tmp_path / "xla").exists()
    assert jax.config.values["jax_compilation_cache_dir"] == before
