"""The rules of the house that no linter checks."""

import ast
import importlib
import inspect
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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
    allows = [
        k
        for k in node.keywords
        if k.arg == "allow_pickle" or (k.arg is None and parts[-1] == "load")
    ]
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
                own = [
                    (n, m)
                    for n, m in vars(thing).items()
                    if inspect.isfunction(m) and not n.startswith("_")
                ]
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
    futures = [
        n
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.ImportFrom) and n.module == "__future__"
    ]
    assert futures == []


LATER = {"HMNNClassifier", "HMNNRegressor", "evaluate"}
"""Names that are imported when they are asked for."""


def is_ours(thing):
    """Whether a thing is no module, and not from somewhere else."""
    origin = getattr(thing, "__module__", "hmnn")
    return not inspect.ismodule(thing) and origin.split(".")[0] == "hmnn"


def test_the_public_list_is_sorted_and_complete():
    # As ruff sorts it: constants, then classes, then the rest.
    kind = {n: 0 if n.isupper() else 1 if n[0].isupper() else 2 for n in hmnn.__all__}
    assert hmnn.__all__ == sorted(hmnn.__all__, key=lambda n: (kind[n], n))
    there = {n for n, thing in vars(hmnn).items() if not n.startswith("_") and is_ours(thing)}
    assert set(hmnn.__all__) == there | LATER | {"__version__"}
    assert set(hmnn.__all__) <= set(dir(hmnn))
    assert all(hasattr(hmnn, name) for name in hmnn.__all__)
    with pytest.raises(AttributeError, match="module 'hmnn' has no attribute 'nothing'"):
        hmnn.nothing  # noqa: B018


def test_importing_the_package_imports_no_scikit_learn():
    """The control: asking for an estimator does."""
    program = """
import sys, hmnn
loaded = lambda: any(name.split(".")[0] in ("sklearn", "river") for name in sys.modules)
print(loaded())
print([thing.__name__ for thing in (hmnn.HMNNClassifier, hmnn.HMNNRegressor, hmnn.evaluate)])
print(loaded())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    named = "['HMNNClassifier', 'HMNNRegressor', 'hmnn.evaluate']"
    assert done.stdout.splitlines() == ["False", named, "True"], done.stderr


WRITTEN_OUT = ["build", "descent", "natural", "laplace_projection", *hmnn.METHODS]


def parameters(name):
    return inspect.signature(getattr(hmnn, name)).parameters


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_help_shows_every_argument(name):
    found = parameters(name)
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert not [p for p in found.values() if p.kind in open_ended]
    shown = pydoc.plain(pydoc.render_doc(getattr(hmnn, name)))
    assert all(f"{argument}:" in shown for argument in found)


@pytest.mark.parametrize("name", ["hmnn", "bbp", "vcl", "kurle"])
def test_what_is_written_out_again_has_the_same_defaults(name):
    """Those of `build` and `descent`, but for the parts that the method chooses itself."""
    whole = {**parameters("build"), **parameters("descent")}
    common = {n: p.default for n, p in whole.items() if n not in ("kernel", "projection")}
    assert {n: p.default for n, p in parameters(name).items() if n in common} == common


def test_a_method_and_its_module_do_not_hide_each_other():
    import hmnn.methods.dropconnect as dropconnect
    import hmnn.methods.ewc as ewc
    import hmnn.methods.laplace as laplace
    import hmnn.methods.lstm as lstm
    import hmnn.methods.natural as natural
    import hmnn.methods.persistence as persistence
    import hmnn.methods.shrinkage as shrinkage

    for module in (dropconnect, ewc, laplace, lstm, natural, persistence, shrinkage):
        name = module.__name__.rpartition(".")[2]
        assert isinstance(module, ModuleType)
        assert getattr(hmnn, name) is getattr(module, name)


def classes():
    """The name of every class of the package, once for each time that it is defined."""
    nodes = (node for file in FILES for node in ast.walk(ast.parse(file.read_text())))
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def test_there_is_one_state_one_info_and_one_batch():
    found = classes()
    once = {name: found.count(name) for name in ("State", "Info", "Batch", "Plan", "Model")}
    assert once == {"State": 1, "Info": 1, "Batch": 1, "Plan": 0, "Model": 0}


LIKELIHOODS = {
    "Categorical",
    "Bernoulli",
    "Gaussian",
    "LearnedGaussian",
    "TrustingGaussian",
    "ScaledGaussian",
    "Poisson",
}
ASKS = """
from hmnn.core import likelihoods
from hmnn.core.likelihoods import Gaussian as Normal, Poisson
import hmnn.core.likelihoods.classes as kinds
isinstance(law, Normal)
isinstance(law, (int, likelihoods.Categorical))
issubclass(kind, Poisson | str)
type(law) is kinds.Bernoulli
type(law) == Poisson
match law:
    case likelihoods.LearnedGaussian():
        pass
"""
ASKS_NOT = """
from hmnn.core import likelihoods
from hmnn.core.families import Gaussian
from hmnn.core.likelihoods import Poisson
isinstance(member, Gaussian)
isinstance(law, likelihoods.OfClasses)
law = Poisson()
"""


def asked_kinds(source):
    """The lines of a source that ask which likelihood a thing is."""
    tree, alias = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            alias |= {a.asname or a.name: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            alias |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}

    def is_kind(node):
        head, _, rest = ast.unparse(node).partition(".")
        whole = ".".join(filter(None, [alias.get(head, head), rest]))
        return "likelihoods." in whole and whole.rpartition(".")[2] in LIKELIHOODS

    def asks(node):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                names = (n for n in ast.walk(kinds) if isinstance(n, ast.Name | ast.Attribute))
                return any(map(is_kind, names))
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=kinds):
                return any(map(is_kind, kinds))
            case ast.MatchClass(cls=kind):
                return is_kind(kind)
        return False

    return sorted(node.lineno for node in ast.walk(tree) if asks(node))


def test_only_likelihoods_know_which_likelihood_there_is():
    home = PACKAGE / "core" / "likelihoods"
    outside = [f for f in FILES if home not in f.parents and f != home.with_suffix(".py")]
    assert len(outside) < len(FILES)
    found = {str(file.relative_to(PACKAGE)): asked_kinds(file.read_text()) for file in outside}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert asked_kinds(ASKS) == [5, 6, 7, 8, 9, 11]
    assert asked_kinds(ASKS_NOT) == []


def test_every_public_thing_has_a_sentence():
    found = dict(public())
    assert "hmnn.core.filtering.step" in found
    assert "hmnn.methods.variational.hmnn" in found
    wrong = {
        name: first_line(thing)
        for name, thing in found.items()
        if not first_line(thing).endswith(".")
    }
    assert wrong == {}
