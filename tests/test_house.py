"""The rules of the house that no linter checks."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import hmnn

PACKAGE = Path(hmnn.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

BANNED_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal"}
BANNED_NAMES = {"eval", "exec"}
BANNED_CALLS = {
    ("joblib", "load"),
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
}

BAD = """
import pickle
import dill as d
import numpy as np
import yaml as y
from joblib import load as fetch
from pickle import loads
eval("1")
exec("1")
np.load("a.npy", allow_pickle=True)
np.load("a.npy", **options)
y.load("a")
fetch("a")
"""
GOOD = """
import numpy as np
import jax
np.load("a.npy", allow_pickle=False)
np.load("a.npy")
jax.eval_shape(f)
model.eval()
"""


def unsafe(source):
    """The lines of a source that could run code from a file (row C8)."""
    tree, found, alias = ast.parse(source), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            alias |= {a.asname or a.name: a.name for a in node.names}
            modules = {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = (node.module or "").split(".")[0]
            alias |= {a.asname or a.name: f"{origin}.{a.name}" for a in node.names}
            modules = {origin}
        else:
            continue
        if modules & BANNED_MODULES:
            found.add(node.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in BANNED_NAMES:
            found.add(node.lineno)
        if isinstance(node, ast.Call) and _unsafe_call(node, alias):
            found.add(node.lineno)
    return sorted(found)


def _unsafe_call(node, alias):
    function = ast.unparse(node.func)
    head, _, rest = function.partition(".")
    parts = ".".join(filter(None, [alias.get(head, head), rest])).split(".")
    if (parts[0], parts[-1]) in BANNED_CALLS:
        return True
    allows = [k for k in node.keywords if k.arg == "allow_pickle" or (k.arg is None and parts[-1] == "load")]
    return any(not (isinstance(k.value, ast.Constant) and k.value.value is False) for k in allows)


def modules():
    yield hmnn
    for info in pkgutil.walk_packages(hmnn.__path__, "hmnn."):
        yield importlib.import_module(info.name)


def first_line(thing):
    return (inspect.getdoc(thing) or "").split("\n")[0]


def public():
    """Every public function and class, and every public method, where it is defined."""
    for module in modules():
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            if inspect.isclass(thing):
                yield f"{module.__name__}.{name}", thing
                own = [(n, m) for n, m in vars(thing).items() if inspect.isfunction(m) and not n.startswith("_")]
                yield from ((f"{module.__name__}.{name}.{n}", m) for n, m in own)
            elif inspect.isfunction(inspect.unwrap(thing) if callable(thing) else thing):
                yield f"{module.__name__}.{name}", thing


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_nothing_that_could_run_code_from_a_file(file):
    assert unsafe(file.read_text()) == []


def test_the_scan_finds_what_it_is_for():
    lines = [i for i, line in enumerate(BAD.splitlines(), 1) if line]
    harmless = {4, 5, 6}
    assert unsafe(BAD) == [i for i in lines if i not in harmless]
    assert unsafe(GOOD) == []


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_files_are_short_and_annotations_are_real(file):
    source = file.read_text()
    assert len(source.splitlines()) <= 300
    futures = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert futures == []


def test_the_public_list_is_sorted_and_complete():
    # As ruff sorts it: constants, then classes, then the rest.
    kind = {n: 0 if n.isupper() else 1 if n[0].isupper() else 2 for n in hmnn.__all__}
    assert hmnn.__all__ == sorted(hmnn.__all__, key=lambda n: (kind[n], n))
    there = {n for n, thing in vars(hmnn).items() if not n.startswith("_") and not inspect.ismodule(thing)}
    assert set(hmnn.__all__) == there | {"__version__"}


def test_every_public_thing_has_a_sentence():
    found = dict(public())
    assert "hmnn.core.filtering.step" in found
    assert "hmnn.methods.variational.hmnn" in found
    wrong = {name: first_line(thing) for name, thing in found.items() if not first_line(thing).endswith(".")}
    assert wrong == {}
