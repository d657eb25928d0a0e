"""Good and bad input at random, to every public method: is all that is bad refused in one sentence,
and is the model as it was?

`python benchmarks/fuzz.py [--calls 2000] [--door sklearn|river] [--seed 0] [--json]`. About half of
the arguments are good. Counted are raw errors (other than ValueError, TypeError, NotFittedError,
OSError and DivergenceError, of more than one line, or not raised on purpose by hmnn; the words of
scikit-learn's own checks are left to it), NumPy's warnings from our code, answers that are not
finite, models that an error has changed, and good calls that fail. All must be 0, or the exit code
is 1.
"""

import argparse
import hashlib
import json
import linecache
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import odd_values as odd
import pandas as pd
from numpy.random import Generator

from hmnn import DivergenceError
from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators import river as dictionaries

FAULTS = ("raw_errors", "raw_warnings", "not_finite", "changed", "good_calls_failed")
LABELS = ([0, 1], ["a", "b", "c"], None)
SMALL: dict[str, Any] = {"hidden": (4,)}
ALLOWED = (ValueError, TypeError, OSError, DivergenceError)  # NotFittedError is a ValueError
Call = tuple[str, Callable[[], Any]]


class SklearnDoor:
    """A model of the scikit-learn door; without labels it is a regressor."""

    def __init__(self, rng: Generator, folder: Path) -> None:
        self.rng, self.folder, self.labels = rng, folder, odd.pick(rng, LABELS)
        self.model = self.fresh()
        self.good()

    def fresh(self, **settings: Any) -> Any:
        """A model that has learned nothing."""
        kind = HMNNClassifier if self.labels else HMNNRegressor
        given = SMALL | {"projection": "natural", "random_state": 0} | settings
        return kind(**given)

    def good(self) -> Any:
        """Rows and a question that must be taken."""
        x = odd.plain(self.rng, 8)
        first = self.labels and not hasattr(self.model, "classes_")
        classes = {"classes": self.labels} if first else {}
        self.model.partial_fit(x, odd.target(self.rng, 8, self.labels), **classes)
        return self.model.predict(x)

    def content(self) -> tuple[Any, Any]:
        """What was learned, and everything else."""
        names = {k: v for k, v in vars(self.model).items() if k not in ("_built", "state_")}
        return self.model.state_, names

    def call(self) -> Call:
        """A method and its arguments."""
        rng, model, n = self.rng, self.model, odd.pick(self.rng, odd.SIZES)
        x = odd.plain(rng, n)
        table = odd.any_table(rng, x)
        y = odd.any_target(rng, n, self.labels)
        good, weight, number = odd.target(rng, n, self.labels), odd.weight(rng, n), odd.number(rng)
        classes = {"classes": odd.classes(rng, self.labels)} if self.labels else {}
        path = odd.path(rng, self.folder)
        name, value = odd.option(rng, sorted(model.get_params()))
        calls = {
            "fit": lambda: self.fitted(table, y, weight),
            "partial_fit": lambda: model.partial_fit(table, y, sample_weight=weight, **classes),
            "predict_then_fit": lambda: model.predict_then_fit(table, y, **classes),
            "predict": lambda: model.predict(table),
            "uncertainty": lambda: model.uncertainty(table),
            "forecast": lambda: model.forecast(table, number),
            "advance": lambda: model.advance(number),
            "score": lambda: bool(model.score(table, good)),
            "save": lambda: model.save(path),
            "load": lambda: type(model).load(path),
            "surprise_": lambda: (model.surprise_, model.drift_),
            "new model": lambda: self.fresh(**{name: value}).fit(x, good),
            "first batch": lambda: self.fresh().partial_fit(table, y, **classes),
            "not fitted": lambda: self.fresh().predict(table),
            "set_params": lambda: self.with_setting(name, value, x),
        }
        if self.labels:
            calls["predict_proba"] = lambda: model.predict_proba(table)
        else:
            calls["predict_interval"] = lambda: model.predict_interval(table, number)
            calls["predict with std"] = lambda: model.predict(table, return_std=True)
        return odd.pick(rng, calls.items())

    def fitted(self, table: Any, y: Any, weight: Any) -> Any:
        """A prediction after `fit`, which may bring other columns and classes: they go again."""
        answer = self.model.fit(table, y, sample_weight=weight).predict(table)
        self.model = self.fresh()
        return answer

    def with_setting(self, name: str, value: Any, x: np.ndarray) -> Any:
        """A prediction with another parameter, which is put back."""
        old = self.model.get_params()[name]
        try:
            return self.model.set_params(**{name: value}).predict(x)
        finally:
            self.model.set_params(**{name: old})


class RiverDoor:
    """A model of river's door; without labels it is a regressor."""

    def __init__(self, rng: Generator, folder: Path) -> None:
        self.rng, self.folder, self.labels = rng, folder / "river", odd.pick(rng, LABELS)
        self.folder.mkdir(exist_ok=True)
        self.model = self.fresh()
        self.good()

    def fresh(self, **settings: Any) -> Any:
        """A model that has learned nothing."""
        kind = dictionaries.HMNNClassifier if self.labels else dictionaries.HMNNRegressor
        return kind(**SMALL | {"seed": 0} | settings)

    def good(self) -> Any:
        """A row and a question that must be taken."""
        for value in np.asarray(odd.target(self.rng, 2, self.labels)).tolist():
            self.model.learn_one(odd.row(self.rng, 0.0), value)
        return self.told(odd.row(self.rng, 0.0))

    def told(self, row: Any) -> Any:
        """The prediction of a row, as numbers."""
        if self.labels:
            return list(self.model.predict_proba_one(row).values())
        return self.model.predict_one(row)

    def content(self) -> tuple[Any, Any]:
        """What was learned, and everything else."""
        apart = ("_built", "_learned")
        return self.model._learned, {k: v for k, v in vars(self.model).items() if k not in apart}

    def call(self) -> Call:
        """A method and its arguments."""
        rng, model, n = self.rng, self.model, odd.pick(self.rng, odd.SIZES)
        row, table = odd.row(rng, 0.4), odd.frame(rng, odd.plain(rng, n), 0.4)
        y = odd.any_target(rng, n, self.labels)
        one = y[0] if isinstance(y, list | np.ndarray) and len(y) else y
        column = pd.Series(list(y), dtype=object).infer_objects() if isinstance(y, list) else y
        path = odd.path(rng, self.folder)
        name, value = odd.option(rng, ["hidden", "memory", "shrink", "standardise", "seed"])
        calls = {
            "learn_one": lambda: model.learn_one(row, one),
            "learn_many": lambda: model.learn_many(table, column),
            "predict_one": lambda: bool(model.predict_one(row)),
            "predicted": lambda: self.told(row),
            "predict_many": lambda: len(model.predict_many(table)),
            "new model": lambda: self.fresh(**{name: value}).learn_one(row, one),
            "not fitted": lambda: self.fresh().predict_one(row),
            "save": lambda: model.save(path),
            "load": lambda: type(model).load(path),
        }
        if self.labels:
            calls["predict_proba_many"] = lambda: model.predict_proba_many(table)
        else:
            calls["predict_interval_one"] = lambda: model.predict_interval_one(row)
            calls["predicted many"] = lambda: model.predict_many(table)
        return odd.pick(rng, calls.items())


DOORS = {"sklearn": SklearnDoor, "river": RiverDoor}


def digest(content: tuple[Any, Any]) -> str:
    """All that a model is, in one word."""
    found = hashlib.sha256(repr(content[1]).encode())
    for leaf in jax.tree.leaves(content[0]):
        is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
        found.update(np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes())
    return found.hexdigest()


def is_raw(error: BaseException) -> bool:
    """Whether an error was not meant for who called."""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, ALLOWED):
        return True
    if any("/sklearn/" in frame.filename for frame in frames):
        return False  # its words are known
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    ours = "/hmnn/" in frames[-1].filename and line.startswith("raise")
    return not ours or "\n" in str(error)


def is_finite(answer: Any) -> bool:
    """Whether all numbers of an answer are."""
    parts = answer if isinstance(answer, tuple) else [answer]
    arrays = [np.asarray(part) for part in parts]
    return all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")


def attempt(door: Any, call: Call) -> tuple[list[str], str]:
    """Make one call: what was wrong with it, and where."""
    before, wrong, said = digest(door.content()), [], call[0]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            wrong += [] if is_finite(call[1]()) else ["not_finite"]
        except Exception as error:
            said = f"{call[0]}: {traceback.format_exc() if is_raw(error) else error}"
            wrong += ["refused"] + ["raw_errors"] * is_raw(error)
            wrong += ["changed"] * (digest(door.content()) != before)
    for warning in warned:
        if "/hmnn/" in warning.filename and "encountered" in str(warning.message):
            wrong.append("raw_warnings")
            said += f"\n{warning}"
    try:
        wrong += [] if is_finite(door.good()) else ["not_finite"]
    except Exception:
        wrong.append("good_calls_failed")
        said += "\nand then " + traceback.format_exc()
    return wrong, said


def campaign(door: str, calls: int, seed: int, folder: Path, show: bool = False) -> dict:
    """Many calls; a new model every fifty."""
    rng, counts = np.random.default_rng(seed), Counter(dict.fromkeys(FAULTS, 0))
    for i in range(calls):
        if i % 50 == 0:
            here = DOORS[door](rng, folder)
        wrong, said = attempt(here, here.call())
        counts.update(wrong)
        if show and set(wrong) & set(FAULTS):
            print(f"call {i}, {type(here.model).__name__}, {wrong}: {said}", file=sys.stderr)
            here = DOORS[door](rng, folder)
    return {"door": door, "calls": calls, "refused": counts.pop("refused", 0), **counts}


def main() -> None:
    """Run a campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--door", choices=sorted(DOORS), default="sklearn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="print what was wrong")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = campaign(options.door, options.calls, options.seed, Path(folder), options.show)
    print(
        json.dumps(counts)
        if options.json
        else ", ".join(f"{name} {value}" for name, value in counts.items())
    )
    sys.exit(any(counts[fault] for fault in FAULTS))


if __name__ == "__main__":
    main()
