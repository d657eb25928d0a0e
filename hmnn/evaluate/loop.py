"""Predict, then learn: one row at a time, in groups of rows, or through a model's own loop."""

from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from hmnn import _check
from hmnn.data import Stream
from hmnn.evaluate import doors
from hmnn.evaluate.beliefs import Believed, Follower

SUM_TOLERANCE = 1e-4
"""Probabilities of a row that sum to 1 within this are not counted as mended."""
Tick = Callable[[int], None]
"""Called with the number of rows done since the last call."""


class Classified(NamedTuple):
    """What a classifier said before it was told, over a stream."""

    probabilities: Float[ndarray, "rows classes"]
    y: Int[ndarray, " rows"]
    seconds: float
    """Spent in the model, predicting and learning; our own bookkeeping is not counted."""
    cpu_seconds: float
    """The same in processor time of all threads, which other programs do not lengthen."""
    mended: int
    """Rows whose probabilities did not sum to 1 and were divided by their sum (equal, if 0)."""
    hard: bool
    """Whether the model gives labels only; then no score of probabilities means anything."""
    believed: Believed | None = None
    """What the model said of its own forgetting, if it says anything."""


class Regressed(NamedTuple):
    """What a regressor said before it was told, over a stream."""

    mean: Float[ndarray, " rows"]
    std: Float[ndarray, " rows"]
    """NaN for models that give none."""
    y: Float[ndarray, " rows"]
    seconds: float
    cpu_seconds: float
    believed: Believed | None = None


def prequential(
    model: Any,
    stream: Stream,
    *,
    rows: int = 1,
    through: str = "fused",
    name: str = "the model",
    tick: Tick | None = None,
) -> Classified | Regressed:
    """Let a model predict each row and then learn it, over the whole stream.

    Args:
        model: like scikit-learn's (`partial_fit`, `predict`, `predict_proba`) or like river's
            (`learn_one`, `predict_one`, `predict_proba_one`).
        stream: its steps are blocks of rows; `made` may hold names of `features` and `classes`.
        rows: that many rows are predicted before they are learned, at most one block of the stream.
        through: "fused" uses the model's `predict_then_fit` where it has one and `rows` is 1;
            "single" never does.
        name: of the model, in errors.
        tick: is told how many rows are done.

    Raises:
        ModelError: the model raised, or gave what is no prediction.
    """
    _check.count("rows", rows)
    _check.choice("through", through, ("fused", "single"))
    classes = _classes(stream) if stream.task == "classification" else 0
    run = _Run(model, name, stream.task, classes, list(stream.made.get("features", [])))
    fuse = through == "fused" and rows == 1 and isinstance(model, doors.Prequential)
    truth = []
    for x, y in stream:
        x, y = np.asarray(x), np.asarray(y)
        run.fused(x, y) if fuse else run.groups(x, y, rows)
        truth.append(y)
        if tick is not None:
            tick(len(y))
    if not truth:
        raise _check.fail("stream", "at least one time step long", 0)
    return run.result(np.concatenate(truth))


def _classes(stream: Stream) -> int:
    """As many as the stream names, or one more than its largest label."""
    named = len(stream.made.get("classes", []))
    largest = max(_largest(block.y) for block in stream)
    if named and largest >= named:
        raise _check.fail("labels", f"whole numbers from 0 to {named - 1}", largest)
    return named or max(largest + 1, 2)


def _largest(y: Any) -> int:
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) or (len(y) and y.min() < 0):
        got = f"{y.dtype} of shape {y.shape}"
        raise _check.fail("labels", "whole numbers from 0 on, one a row", got)
    return int(y.max(initial=0))


class _Run:
    """One pass of one model: the clock, the predictions so far, and the row that it is at."""

    def __init__(self, model: Any, name: str, task: str, classes: int, features: list[str]) -> None:
        self.model, self.name, self.classes = model, name, classes
        self.door = doors.open_(model, task, classes, features)
        fused = isinstance(model, doors.Prequential)
        self.progress: Any = doors.fused(model, classes) if fused else None
        self.seconds, self.cpu_seconds, self.row = 0.0, 0.0, 0
        self.found: list[Any] = []
        self.follower = Follower(model)

    def timed(self, doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
        began, busy = perf_counter(), process_time()
        try:
            found = function(*arguments)
        except Exception as error:
            raise self.failure(doing, error) from error
        self.seconds += perf_counter() - began
        self.cpu_seconds += process_time() - busy
        return found

    def failure(self, doing: str, error: Exception) -> doors.ModelError:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return doors.ModelError(f"{self.name} failed at row {self.row}, {doing}: {said}")

    def follow(self, rows: range) -> None:
        """The model took a time step at each of these rows; now and then it is asked of them."""
        if self.follower.learned(np.array(rows)):
            self.told(self.follower.ask)

    def told(self, function: Callable[[], Any]) -> Any:
        """What the model says of its own forgetting, off the clock."""
        try:
            return function()
        except Exception as error:
            raise self.failure("telling what it believes", error) from error

    def fused(self, x: ndarray, y: ndarray) -> None:
        found = self.timed("predicting and learning", self.progress, x, y)
        self.keep(doors.spread(self.model, found, self.classes) if self.classes else found, len(y))
        self.follow(range(self.row - len(y), self.row))

    def groups(self, x: ndarray, y: ndarray, rows: int) -> None:
        ready = self.door.prepare(x)
        for start in range(0, len(y), rows):
            group = ready[start : start + rows]
            found = self.timed("predicting", self.door.ask, group)
            self.keep(self.door.read(found), len(group))
            self.timed("learning", self.door.learn, group, y[start : start + rows])
            together = hasattr(self.model, "partial_fit")
            self.follow(range(self.row - (1 if together else len(group)), self.row))

    def keep(self, found: Any, rows: int) -> None:
        """Check and keep the predictions of the next rows."""
        parts = [found] if self.classes else list(found)
        shapes: list[Any] = [(rows, self.classes)] if self.classes else [(rows,)] * 2
        for part, shape in zip(parts, shapes, strict=True):
            if part.shape != shape:
                raise doors.ModelError(
                    f"{self.name} must predict an array of shape {shape}. Got {part.shape}."
                )
        wrong = ~np.isfinite(parts[0]) | (parts[-1] < 0)
        if wrong.any():
            row, allowed = int(np.argwhere(wrong)[0][0]), "finite numbers"
            if self.classes:
                allowed = "probabilities that are finite and not negative"
            got = [np.round(part[row], 6).tolist() for part in parts]
            raise doors.ModelError(
                f"{self.name} must predict {allowed}. Got {got} at row {self.row + row}."
            )
        self.found.append(found)
        self.row += rows

    def result(self, y: ndarray) -> Classified | Regressed:
        believed = self.told(self.follower.result)
        spent = self.seconds, self.cpu_seconds
        if self.classes:
            probabilities, mended = _mend(np.concatenate(self.found))
            return Classified(probabilities, y, *spent, mended, self.door.hard(), believed)
        mean, std = (np.concatenate(part) for part in zip(*self.found, strict=True))
        return Regressed(mean, std, y.astype(np.float64), *spent, believed)


def _mend(probabilities: ndarray) -> tuple[ndarray, int]:
    """Rows that sum to 1, and how many did not before."""
    total = probabilities.sum(axis=1, keepdims=True)
    wrong = int((np.abs(total - 1) > SUM_TOLERANCE).sum())
    equal = np.full_like(probabilities, 1 / probabilities.shape[1])
    return np.divide(probabilities, total, out=equal, where=total > 0), wrong
