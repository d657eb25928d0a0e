"""Rows as dictionaries: places for features, rows that wait, a network that grows."""

import math
import warnings
from collections.abc import ItemsView, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn import _check, _fork
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.prediction import Prediction
from hmnn.estimators import files, growth, in_turn, known_columns
from hmnn.estimators.learned import Learned, nothing
from hmnn.estimators.whole import whole
from hmnn.methods import method, streams
from hmnn.methods.streams import Settings, StreamFilter

WAITING = 1023
"""So many rows may wait to be learned; with one that is asked they fill a size that is compiled."""


class DictionaryModel:
    """What both models share: parameters, places of features, rows that wait, what was learned.

    What is refused leaves no trace: a row or a table is checked whole before anything of it is
    kept.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (64, 64),
        memory: Number = 0.9999,
        jump_scale: Number = 0.007,
        shrink: Number = kernels.SHRINK,
        jump_prob: Number = 0.5,
        initial_scale: Number = 0.3,
        level_scale: Number = 0.03,
        standardise: bool = True,
        seed: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.memory = memory
        self.jump_scale = jump_scale
        self.shrink = shrink
        self.jump_prob = jump_prob
        self.initial_scale = initial_scale
        self.level_scale = level_scale
        self.standardise = standardise
        self.seed = seed
        self._places: dict[Any, int] = {}
        self._columns = 8
        self._waiting: list[tuple[ndarray, float | int]] = []
        self._learned: Learned | None = None
        self._built = self._build(self._columns, self._targets())  # a bad parameter is told at once
        if not isinstance(standardise, bool | np.bool_):
            raise _check.fail("standardise", "True or False", standardise)
        if seed is not None:
            _check.count("seed", seed, least=0)

    def _build(self, columns: int, targets: tuple[int, str]) -> StreamFilter:
        names = [name for name in Settings._fields if name in self.__dict__]
        settings = Settings(
            **{name: getattr(self, name) for name in names} | {"projection": "natural"}
        )
        return streams.build(settings, columns, *targets)

    def _targets(self) -> tuple[int, str]:
        """Outputs and likelihood of the network."""
        return 1, "learned_gaussian"

    @whole
    def save(self, path: Any) -> Path:
        """Write the model, with the rows that wait, to a directory; loading it runs no code."""
        return files.save_rows(self, path)

    @classmethod
    def load(cls, path: Any) -> Any:
        """Read a model that `save` wrote; it goes on as the saved one does."""
        return files.load_rows(cls, path)

    def __getstate__(self) -> dict[str, Any]:
        if _fork.forked:  # a deep copy computes
            raise _fork.hang()
        return self.__dict__ | {"_built": None}  # compiled programs are made again

    def _filter(self) -> StreamFilter:
        if self._built is None:
            self._built = self._build(self._columns, self._targets())
        return self._built

    def _now(self) -> Learned:
        if self._learned is None:
            seed = (
                int(np.random.default_rng().integers(2**31))
                if self.seed is None
                else int(self.seed)
            )
            state = self._filter().init(seed)
            self._learned = nothing(state, *known_columns.pair(self._columns, self._scaled()))
        return self._learned

    def _row(self, values: dict[Any, float]) -> ndarray:
        """The values in their places, NaN where there is none."""
        row = np.full(self._columns, np.nan)
        row[[self._places[name] for name in values]] = list(values.values())
        return row

    def _admit(self, names: Iterable[Any]) -> None:
        """Give new features their places, in an order that does not depend on the dictionary's.

        No row may wait.
        """
        new = [name for name in names if name not in self._places]
        places = self._places | {
            name: len(self._places) + i for i, name in enumerate(sorted(new, key=repr))
        }
        if len(places) > self._columns:
            self._grow(1 << (len(places) - 1).bit_length(), self._targets())
        self._places = places

    def _grow(self, columns: int, targets: tuple[int, str]) -> None:
        """A wider network: what was learned stays, what is new is as at the start."""
        learned, old, new = self._now(), self._filter(), self._build(columns, targets)
        fresh = method.init(new.few, learned.filter.key)
        law = growth.embedded(old.few, new.few, learned.filter.posterior, fresh.posterior)
        self._columns, self._built = columns, new
        state = learned.filter._replace(posterior=law)
        self._learned = learned._replace(filter=state, x=known_columns.grown(learned.x, columns))

    def _arrive(self, x: Any, new: bool) -> ndarray:
        """A row in its places, ready to wait; `new` says that the row brings more than features."""
        values = {name: number(name, value) for name, value in features(x)}
        strange = not values.keys() <= self._places.keys()
        if new or strange or len(self._waiting) >= WAITING:
            self._flush()
        if strange:
            self._admit(values)
        return self._row(values)

    def _flush(self) -> None:
        """Learn the rows that wait."""
        if self._waiting:
            self._settle(np.zeros((0, self._columns)))

    def _ask(self, x: Any) -> Prediction:
        """Learn the rows that wait, and look at one more without learning it, in one call."""
        known = {name: number(name, value) for name, value in features(x) if name in self._places}
        return self._settle(self._row(known)[None])

    def _settle(self, asked: ndarray) -> Prediction:
        """Learn the rows that wait, then look at others.

        A row whose update is not finite is left out, with a warning: who asks now is not to blame
        for an older row.
        """
        waiting, self._waiting = self._waiting, []
        try:
            return self._take(*_stacked(waiting, self._columns), asked)
        except _check.DivergenceError:
            refused = sum(not self._taken(row) for row in waiting)
        warnings.warn(
            f"The update by {refused} of the last {len(waiting)} rows is not finite; "
            "the model is as without them. Look for outliers in the data.",
            RuntimeWarning,
            stacklevel=4,
        )
        return self._take(np.zeros((0, self._columns)), np.zeros(0), asked)

    def _taken(self, row: tuple[ndarray, float | int]) -> bool:
        """Whether a row could be learned."""
        try:
            self._take(*_stacked([row], self._columns), np.zeros((0, self._columns)))
        except _check.DivergenceError:
            return False
        return True

    def _take(self, x: ndarray, y: ndarray, asked: ndarray) -> Prediction:
        """Learn rows in turn, then look at others: what is said of those."""
        how, now = self._filter(), self._now()
        if not len(x):
            return in_turn.looked_at(how, now, asked, bool(self.standardise))
        done = in_turn.taught(how, now, x, y, self._scaled(), asked)
        self._learned = done.learned
        return Prediction(*(None if part is None else part[len(x) :] for part in done.told))

    def _scaled(self) -> tuple[bool, bool]:
        """Whether x is standardised, and whether y is."""
        return bool(self.standardise), False

    def _learn_table(self, X: Any, targets: list[Any]) -> None:  # noqa: N803 - river's name
        """The rows of a table in turn, after those that wait; all of them or none."""
        columns = _columns(X, table(X).columns)
        if len(targets) != len(X):
            raise _check.fail("y", f"one target for each of {len(X)} rows", len(targets))
        self._flush()
        self._admit(columns)
        self._learn_rows(self._placed(columns, len(targets)), targets)

    def _learn_rows(self, x: ndarray, targets: list[Any]) -> None:
        y = np.array(targets)
        for i in range(0, len(x), WAITING):
            self._take(x[i : i + WAITING], y[i : i + WAITING], x[:0])

    def _look(self, X: Any) -> Prediction:  # noqa: N803 - river's name
        """What is said of each row of a table, none of which is learned."""
        known = [name for name in table(X).columns if name in self._places]
        x = self._placed(_columns(X, known), len(X))
        self._flush()
        return self._take(x[:0], np.zeros(0), x)

    def _placed(self, columns: dict[Any, ndarray], rows: int) -> ndarray:
        x = np.full((rows, self._columns), np.nan)
        for name, values in columns.items():
            x[:, self._places[name]] = values
        return x


def _stacked(waiting: list[tuple[ndarray, float | int]], columns: int) -> tuple[ndarray, ndarray]:
    x = np.full((len(waiting), columns), np.nan)
    for i, (row, _) in enumerate(waiting):
        x[i, : len(row)] = row
    return x, np.array([y for _, y in waiting])


def _columns(X: Any, names: Iterable[Any]) -> dict[Any, ndarray]:  # noqa: N803 - river's name
    """Columns of a table by name, NaN where a value is missing."""
    if not X.columns.is_unique:
        raise _check.fail("X", "a table whose columns have different names", list(X.columns))
    return {name: _column(name, X[name]) for name in names}


def _column(name: Any, column: Any) -> ndarray:
    if column.dtype.kind not in "biuf":
        cells = zip(column.tolist(), column.isna().tolist(), strict=True)
        return np.array(
            [math.nan if missing else number(name, value) for value, missing in cells], np.float64
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.abs(values) > _check.LARGEST
    for value in values[wrong]:
        number(name, value)
    return values


def table(X: Any) -> Any:  # noqa: N803 - river's name
    """A table as pandas has it."""
    if not hasattr(getattr(X, "columns", None), "is_unique"):
        raise _check.fail("X", "a table of pandas", type(X).__name__)
    return X


def listed(y: Any) -> list[Any]:
    """The targets of a table's rows."""
    found = y.tolist() if hasattr(y, "tolist") else y
    if not isinstance(found, list | tuple):
        raise _check.fail("y", "a column of targets", type(y).__name__)
    return list(found)


def features(x: Any) -> ItemsView[Any, Any]:
    """The features of a row, which must be a dictionary."""
    if not isinstance(x, Mapping):
        raise _check.fail("x", "a dictionary of features", type(x).__name__)
    return x.items()


def number(name: Any, value: Any) -> float:
    """A feature's value, NaN if it is missing."""
    if (
        type(value) is float and abs(value) <= _check.LARGEST
    ):  # nearly all values, and a row has many
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if isinstance(value, bool | np.bool_):
        return float(value)
    return _check.number(f"feature {name!r}", value, "a finite number or missing", lambda _: True)


def label(value: Any) -> Any:
    """A class, which must be something that a dictionary can hold and not missing."""
    value = value.item() if isinstance(value, np.generic) else value
    try:
        hash(value)
        missing = value is None or bool(value != value)
    except TypeError:  # a list; or pandas' NA, which is not even different from itself
        missing = True
    if missing:
        raise _check.fail("y", "a label, hashable and not missing", value)
    return value


def target(value: Any) -> float:
    """A number to learn."""
    return _check.number("y", value, "a finite number", lambda _: True)
