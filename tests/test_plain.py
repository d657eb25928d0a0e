"""The plain package, without the extra `lab`: it can be imported and used, and says what it lacks
in one sentence."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import hmnn_command

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SENTENCE = "hmnn's command line needs hmnn[lab]: pip install 'hmnn[lab]'.\n"
WITHOUT = f"""
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hmnn_command.LAB}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
"""Python, as it is where the extra `lab` is not installed."""
USE = """
import numpy as np
import hmnn, hmnn.data, hmnn.estimators, hmnn.evaluate, hmnn.metrics, hmnn.networks, hmnn.store
model = hmnn.estimators.HMNNClassifier(hidden=(4,), random_state=0)
x = np.random.default_rng(0).normal(size=(20, 2))
model.partial_fit(x, (x[:, 0] > 0).astype(int), classes=[0, 1])
print(len(model.predict(x)))
"""


def without_lab(program, **environment):
    command = [sys.executable, "-c", WITHOUT + program]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment or None
    )


def test_the_list_of_modules_is_that_of_the_extra():
    named = {requirement.split(">")[0] for requirement in PROJECT["optional-dependencies"]["lab"]}
    modules = {"PIL" if name == "pillow" else name for name in named}
    assert modules == hmnn_command.LAB
    installed = packages_distributions()
    assert all(installed[m][0].lower() in named for m in modules if m in installed)


def test_the_package_and_the_estimators_need_no_lab():
    done = without_lab(USE)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr


def test_the_command_says_what_it_needs():
    done = without_lab("from hmnn_command import main; main()")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", SENTENCE)
    assert PROJECT["scripts"] == {"hmnn": "hmnn_command:main"}


def test_the_modules_really_are_missing_there():
    done = without_lab("import rich.table")
    assert "ModuleNotFoundError: No module named 'rich'" in done.stderr


def test_another_missing_module_is_not_hidden(monkeypatch):
    def fails():
        raise ModuleNotFoundError("No module named 'jaxlib'", name="jaxlib")

    class Cli:
        main = staticmethod(fails)

    monkeypatch.setitem(sys.modules, "hmnn.cli", Cli)
    with pytest.raises(ModuleNotFoundError, match="jaxlib"):
        hmnn_command.main()


def test_a_download_says_what_it_needs(tmp_path):
    program = """
import hmnn.data
try:
    hmnn.data.elec2()
except FileNotFoundError as error:
    print(error)
"""
    done = without_lab(program, HMNN_CACHE=str(tmp_path), PATH="")
    assert "a download needs Pooch: pip install 'hmnn[lab]'" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) == 1
