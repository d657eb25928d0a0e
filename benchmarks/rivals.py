"""Models to stand beside ours, each a function of a whole stream that predicts every row before it
learns it; `benchmarks/streams.py` and `benchmarks/rows.py` use them.

A model is `run(x, y, classes, seed)`: `classes` is 0 for numbers. It returns probabilities, or
means and standard deviations, NaN from those that have none.
- arf: river's adaptive random forest of ten trees.
- moa: MOA's forest of ten trees, through CapyMOA; it needs Java.
- lightgbm: LightGBM with its own defaults, fitted anew to the last `WINDOW` rows every `EVERY`
  rows, and twice before.
- last: the last label (certain of it) or value.
"""

import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np

WINDOW, EVERY, EARLY = 2000, 100, (20, 50)
TREES = 10


def last(x, y, classes: int, seed: int):
    """The last label or value."""
    return _through("last-label" if classes else "last-value", x, y, classes, seed)


def arf(x, y, classes: int, seed: int):
    """river's forest."""
    return _through("arf", x, y, classes, seed)


def _through(name: str, x, y, classes: int, seed: int):
    from hmnn import evaluate
    from hmnn.data.tables import blocks
    from hmnn.evaluate import peers

    task = "classification" if classes else "regression"
    model = peers.build(name, task, classes, seed)
    found = evaluate.prequential(model, blocks(x, y, task, classes=range(classes)), name=name)
    return found.probabilities if classes else (found.mean, found.std)


def lightgbm(x, y, classes: int, seed: int):
    """Fitted anew on one thread.

    Before the first fit all classes are equally probable, or the last value is repeated. A class
    that the window does not hold has the probability 0.
    """
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if classes else LGBMRegressor
    found = np.full((len(y), classes), 1 / classes) if classes else np.append(0.0, y[:-1])
    starts = [start for start in (*EARLY, *range(EVERY, len(y), EVERY)) if start < len(y)]
    for start, end in pairwise([*starts, len(y)]):
        seen, ahead = slice(max(start - WINDOW, 0), start), slice(start, end)
        present = np.unique(y[seen]) if classes else ()
        if len(present) == 1:  # LightGBM wants two classes
            found[ahead] = np.eye(classes)[present[0]]
            continue
        model = kind(random_state=seed, n_jobs=1, verbosity=-1).fit(x[seen], y[seen])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that the columns do not have
            if classes:
                found[ahead] = 0.0
                found[ahead, present] = model.predict_proba(x[ahead])
            else:
                found[ahead] = model.predict(x[ahead])
    return found if classes else (found, np.full(len(y), np.nan))


def moa(x, y, classes: int, seed: int):
    """MOA's forest, row by row from Python."""
    from capymoa.core import LabeledInstance, RegressionInstance

    schema, model = _forest(x.shape[1], classes, seed)
    kind = LabeledInstance if classes else RegressionInstance
    said = []
    for row, target in zip(x, y.tolist(), strict=True):
        instance = kind.from_array(schema, row, target)
        said.append(model.predict_proba(instance) if classes else model.predict(instance))
        model.train(instance)
    if classes:
        equal = np.full(classes, 1 / classes)
        return np.array([equal if p is None else p for p in said])
    return np.nan_to_num(np.array(said, float)), np.full(len(y), np.nan)


def moa_alone(x, y, classes: int, seed: int, folder: str) -> Callable[[], None]:
    """MOA's forest over a file of these rows in MOA's own loop, in which Python has no part."""
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import ARFFStream

    path = os.path.join(folder, f"{classes}.arff")
    kinds = ["numeric"] * x.shape[1]
    kinds += ["{" + ",".join(map(str, range(classes))) + "}" if classes else "numeric"]
    with open(path, "w") as file:
        file.write("@relation rows\n")
        file.writelines(f"@attribute c{i} {kind}\n" for i, kind in enumerate(kinds))
        file.write("@data\n")
        for row, target in zip(x.tolist(), y.tolist(), strict=True):
            file.write(f"{','.join(map(repr, row))},{target}\n")

    def run() -> None:
        stream = ARFFStream(path)
        _, model = _forest(x.shape[1], classes, seed, stream.get_schema())
        prequential_evaluation(stream, model, window_size=len(y))

    return run


def _forest(columns: int, classes: int, seed: int, schema=None):
    from capymoa.classifier import AdaptiveRandomForestClassifier
    from capymoa.regressor import AdaptiveRandomForestRegressor
    from capymoa.stream import Schema

    names = [f"c{i}" for i in range(columns + 1)]
    labels = {names[-1]: [str(label) for label in range(classes)]} if classes else {}
    schema = schema or Schema.from_custom(names, names[-1], labels)
    kind = AdaptiveRandomForestClassifier if classes else AdaptiveRandomForestRegressor
    return schema, kind(schema, random_seed=seed + 1, ensemble_size=TREES)


MODELS: dict[str, Callable] = {"last": last, "lightgbm": lightgbm, "moa": moa, "arf": arf}
SURE = ("last", "lightgbm")
"""Models without random numbers: one seed is enough."""
_PACKAGES = {"arf": "river", "moa": "capymoa", "lightgbm": "lightgbm"}


def missing(name: str) -> str:
    """Why a model cannot run here, in words; empty if it can."""
    package = _PACKAGES.get(name)
    if package and importlib.util.find_spec(package) is None:
        extra = "river" if package == "river" else "peers"
        return f"{package} is not installed: pip install 'hmnn[{extra}]'"
    if name == "moa" and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "Java is not installed"
    return ""
