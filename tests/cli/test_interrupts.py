"""Ctrl-C while the command line is still being imported: one line and exit code 130 (G14)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hmnn_command

ROOT = Path(__file__).resolve().parents[2]
CUSTOM = """
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                if "SWALLOWED" not in os.environ:  # as some packages do
                    raise

sys.meta_path.insert(0, Interrupt())
"""


def interrupted(folder, at, program, **environment):
    """A Python that is sent SIGINT when it comes to import a module."""
    (folder / "sitecustomize.py").write_text(CUSTOM)
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment |= {"INTERRUPTED_AT": at, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", program, "list"],
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("at", "swallowed"),
    [("hmnn", False), ("numpy", True), ("jax", False), ("hmnn.lab.commands", True)],
)
def test_ctrl_c_during_imports_is_one_line_and_exit_code_130(tmp_path, at, swallowed):
    command = "from hmnn_command import main; main()"
    done = interrupted(tmp_path, at, command, **({"SWALLOWED": "1"} if swallowed else {}))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hmnn: stopped.\n")


def test_without_the_command_it_is_a_traceback(tmp_path):
    """The negative control."""
    done = interrupted(tmp_path, "numpy", "from hmnn.cli import main; main()")
    assert "Traceback" in done.stderr
    assert done.returncode != 130


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_the_command_itself_hears_what_the_process_heard(monkeypatch, handler):
    """A process that was started to ignore Ctrl-C, as by nohup, goes on to do so."""
    heard = []

    class Cli:
        @staticmethod
        def main():
            heard.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setitem(sys.modules, "hmnn.cli", Cli)
    before = signal.signal(signal.SIGINT, handler)
    try:
        hmnn_command.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [handler]
