"""Estimators on disk, of both doors: words as JSON, what was learned as arrays, and no code."""

import json
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from hmnn import _check, _fork, _tree, store
from hmnn.estimators import tables
from hmnn.estimators.learned import Learned
from hmnn.methods.streams import Settings
from hmnn.store import checkpoints, leaves

OWN = ("standardise", "seed", "dates")
"""Parameters beside those of the filter."""
WORDS = (str, int, float, bool, NoneType)
"""What a feature or a label may be in a file: what JSON gives back as it was."""


def plain(name: str, value: Any) -> Any:
    """A parameter as JSON has it; searches give NumPy's numbers."""
    try:
        return json.loads(json.dumps(value, default=lambda number: number.item()))
    except (TypeError, ValueError, AttributeError):
        seed = name == "random_state"
        allowed = "None or a whole number" if seed else "made of numbers and words"
        raise _check.fail(name, f"{allowed} in a model that is saved", value) from None


def loaded(
    path: Any, kind: str, build: Callable[[dict[str, Any]], tuple[Any, Learned | None]]
) -> Any:
    """Read an estimator.

    Args:
        path: the directory that it was saved in.
        kind: what the file must say it is.
        build: from what the file says, the estimator and a `Learned` as it has before any data.

    Returns:
        The estimator and what it had learned.
    """
    _fork.refuse_to_hang()  # to build an estimator computes
    place = _check.path(path)
    manifest, arrays = checkpoints.read(place)
    where, tree = f"{str(place)!r}", manifest["tree"]
    saved = leaves.plain(where, tree, arrays)
    found = saved.get("estimator") if isinstance(saved, dict) else type(saved).__name__
    if found != kind:
        raise _check.fail("path", f"a directory that {kind}.save wrote", found)
    try:
        estimator, empty = build(saved)
        if empty is None:
            return estimator, None
        like: dict[str, Any] = dict.fromkeys(saved, ...)
        like["learned"] = _of_any_length(empty)
        return estimator, sound(leaves.fill(where, tree, arrays, like)["learned"])
    except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as error:
        why = f"{type(error).__name__}: {error}"
    except leaves.MisfitError as error:
        why = str(error).rstrip(".")
    version = manifest.get("versions", {}).get("hmnn")
    wanted = f"path must be a model that {kind}.save of this hmnn wrote"
    raise ValueError(f"{wanted}. Got one of hmnn {version} ({why}).")


def save_rows(model: Any, path: Any) -> Path:
    """Write a model that learns row by row, with the rows that wait."""
    _fork.refuse_to_hang()  # to look whether all is finite computes
    waiting = model._waiting
    names = [name for name in (*Settings._fields, *OWN) if name in vars(model)]
    settings = {name: plain(name, getattr(model, name)) for name in names}
    labels = getattr(model, "_labels", None)
    if waiting:
        model._now()  # its first weights may be drawn by chance, and must be the same from now on
    if model._learned is not None:
        sound(model._learned)
    return store.save(
        {
            "estimator": _kind(type(model)),
            "parameters": json.dumps(
                {name: plain(name, getattr(model, name)) for name in settings}
            ),
            "kinds": json.dumps([[_word("feature", n), k] for n, k in tables.plain(model._kinds)]),
            "features": json.dumps([_word("feature", name) for name in model._places]),
            "labels": None if labels is None else json.dumps([_word("label", y) for y in labels]),
            "columns": model._columns,
            "outputs": getattr(model, "_outputs", None),
            "waiting": {
                "x": np.array([row for row, _ in waiting]).reshape(len(waiting), model._columns),
                "y": np.array([y for _, y in waiting]),
            },
            "learned": model._learned,
        },
        path,
        finite=False,  # a feature that was missing is NaN
    )


def load_rows(cls: Any, path: Any) -> Any:
    """Read a model that `save_rows` wrote."""

    def build(saved: dict[str, Any]) -> tuple[Any, Learned | None]:
        parameters = json.loads(saved["parameters"])
        model = cls(**parameters | {"hidden": tuple(parameters["hidden"])})
        model._places = {name: place for place, name in enumerate(json.loads(saved["features"]))}
        model._kinds = tables.from_plain(json.loads(saved["kinds"]))
        model._columns, model._built = saved["columns"], None
        if saved["labels"] is not None:
            labels = json.loads(saved["labels"])
            model._labels = {name: place for place, name in enumerate(labels)}
            model._outputs = saved["outputs"]
        x, y = saved["waiting"]["x"], saved["waiting"]["y"]
        if len(model._places) > model._columns or x.shape != (len(y), model._columns):
            raise TypeError(f"{model._columns} columns, {len(model._places)} features")
        model._waiting = list(zip(np.array(x), y.tolist(), strict=True))
        return model, None if saved["learned"] is None else model._now()

    model, model._learned = loaded(path, _kind(cls), build)
    return model


def _kind(cls: Any) -> str:
    """Not the name alone: both doors have an `HMNNClassifier`."""
    return f"river.{cls.__name__}"


def _word(what: str, value: Any) -> Any:
    word = value.item() if isinstance(value, np.generic) else value
    if type(word) not in WORDS or word != word:
        raise _check.fail(what, "a word, a number, true or false in a model that is saved", value)
    return word


def _of_any_length(empty: Learned) -> Any:
    """Shapes and types that a file must have, but for what grows row by row."""
    scalers = {name: getattr(empty, name)._replace(recent=...) for name in ("x", "y")}
    last = empty.last._replace(scaler=empty.last.scaler._replace(recent=...))  # type: ignore[arg-type]
    return empty._replace(surprise=..., believed=..., last=last, **scalers)  # type: ignore[arg-type]


def sound(learned: Learned) -> Learned:
    """Refuse weights that are not finite, and rows of another width than their columns."""
    if not _tree.all_finite(learned.filter):
        raise ValueError("path must be of a model whose weights are finite. Got others.")
    if any(part.recent.shape[1:] != part.number.shape for part in (learned.x, learned.y)):
        raise leaves.MisfitError("rows of another width")
    return learned
