"""Rows as dictionaries: places for features, rows that wait, a network that grows."""

import warnings
from collections.abc import ItemsView, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy import ndarray
from sklearn.exceptions import NotFittedError

from hmnn import _check, _fork
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.prediction import Prediction
from hmnn.estimators import files, frames, growth, in_turn, known_columns, tables
from hmnn.estimators.learned import Learned, nothing
from hmnn.estimators.signals import Signals
from hmnn.estimators.whole import whole
from hmnn.methods import streams
from hmnn.methods.streams import Settings, StreamFilter

WAITING = 1023
"""So many rows may wait to be learned; with one that is asked they fill a size that is compiled."""


class DictionaryModel(Signals):
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
        forgetting: str = "auto",
        replay: Number = 4,
        buffer: Number = 500,
        experts: bool = True,
        correlations: str = "auto",
        standardise: bool = True,
        seed: int | None = None,
        dates: str | None = None,
    ) -> None:
        self.hidden = hidden
        self.memory = memory
        self.jump_scale = jump_scale
        self.shrink = shrink
        self.jump_prob = jump_prob
        self.initial_scale = initial_scale
        self.level_scale = level_scale
        self.forgetting = forgetting
        self.replay = replay
        self.buffer = buffer
        self.experts = experts
        self.correlations = correlations
        self.standardise = standardise
        self.seed = seed
        self.dates = dates
        self._kinds: tables.Kinds = {}
        self._places: dict[Any, int] = {}
        self._columns = 8
        self._waiting: list[tuple[ndarray, float | int]] = []
        self._learned: Learned | None = None
        self._built = self._build(self._columns, self._targets())  # a bad parameter is told at once
        if not isinstance(standardise, bool | np.bool_):
            raise _check.fail("standardise", "True or False", standardise)
        if seed is not None:
            _check.count("seed", seed, least=0)
        tables.check_dates(dates)

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
            how = self._filter()
            scalers = known_columns.pair(self._columns, self._scaled())
            self._learned = nothing(how.init(seed), *scalers, len(how.names))
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
        before, places = (
            self._places,
            self._places
            | {name: len(self._places) + i for i, name in enumerate(sorted(new, key=repr))},
        )
        if len(places) > self._columns:
            self._grow(1 << (len(places) - 1).bit_length(), self._targets())
        self._places = places
        if self._learned is not None:
            scaler = tables.zeros_before(self._learned.x, self._kinds, before, places)
            self._learned = self._learned._replace(x=scaler)

    def _grow(self, columns: int, targets: tuple[int, str]) -> None:
        """A wider network: what was learned stays, what is new is as at the start."""
        old, new = self._filter(), self._build(columns, targets)
        if self._learned is not None:
            self._learned = growth.grown(self._learned, old, new, columns)
        self._columns, self._built = columns, new

    def _arrive(self, x: Any, new: bool) -> ndarray:
        """A row in its places, ready to wait; `new` says that the row brings more than features."""
        values = self._values(x, learn=True)
        strange = not values.keys() <= self._places.keys()
        if new or strange or len(self._waiting) >= WAITING:
            self._flush()
        if strange:
            self._admit(values)
        return self._row(values)

    def _values(self, x: Any, learn: bool) -> dict[Any, float]:
        """What is there in a row, as numbers; a word is as many as its feature has words."""
        values, others = {}, {}
        for name, value in features(x):
            found = frames.cell(name, value) if learn or name in self._kinds else None
            if type(found) is float and name in self._places:
                values[name] = found
            elif found is not None:
                others[name] = frames.cells(name, [found])
        if others:
            more = tables.encoded(self._kinds, others, self.dates, learn)
            known = more.columns if learn else more.columns.keys() & self._places.keys()
            values |= {name: float(more.columns[name][0]) for name in known}
            self._kinds = more.kinds if learn else self._kinds
        return values

    @whole
    def _known(self, name: str) -> Learned:
        """What was learned with the rows that wait, for the signal of that name."""
        if self._learned is None and not self._waiting:
            raise NotFittedError(f"The model has learned no row yet, so it has no {name}.")
        self._flush()
        return self._now()

    def _flush(self) -> None:
        """Learn the rows that wait."""
        if self._waiting:
            self._settle(np.zeros((0, self._columns)))

    def _ask(self, x: Any) -> Prediction:
        """Learn the rows that wait, and look at one more without learning it, in one call."""
        return self._settle(self._row(self._values(x, learn=False))[None])

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
        told: Prediction = jax.tree.map(lambda part: part[len(x) :], done.told)
        return told

    def _scaled(self) -> tuple[bool, bool]:
        """Whether x is standardised, and whether y is."""
        return bool(self.standardise), False

    def _learn_table(self, X: Any, targets: list[Any]) -> None:  # noqa: N803 - river's name
        """The rows of a table in turn, after those that wait; all of them or none."""
        found = tables.encoded(self._kinds, frames.columns(X, _names(X)), self.dates)
        if len(targets) != len(X):
            raise _check.fail("y", f"one target for each of {len(X)} rows", len(targets))
        self._flush()
        self._kinds, start = found.kinds, 0
        for row, new in tables.arrivals(found, self._places):
            if len(self._places) + len(new) > self._columns and row > start:
                # The rows before it are learned before the network grows.
                self._learn_rows(self._placed(found, slice(start, row)), targets[start:row])
                start = row
            self._admit(new)
        self._learn_rows(self._placed(found, slice(start, len(X))), targets[start:])

    def _learn_rows(self, x: ndarray, targets: list[Any]) -> None:
        y = np.array(targets)
        for i in range(0, len(x), WAITING):
            self._take(x[i : i + WAITING], y[i : i + WAITING], x[:0])

    def _look(self, X: Any) -> Prediction:  # noqa: N803 - river's name
        """What is said of each row of a table, none of which is learned."""
        known = frames.columns(X, [name for name in _names(X) if name in self._kinds])
        found = tables.encoded(self._kinds, known, self.dates, learn=False)
        x = self._placed(found, slice(0, len(X)))
        self._flush()
        return self._take(x[:0], np.zeros(0), x)

    def _placed(self, found: tables.Encoded, rows: slice) -> ndarray:
        part = {name: values[rows] for name, values in found.columns.items()}
        return tables.placed(part, self._places, (rows.stop - rows.start, self._columns))


def _stacked(waiting: list[tuple[ndarray, float | int]], columns: int) -> tuple[ndarray, ndarray]:
    x = np.full((len(waiting), columns), np.nan)
    for i, (row, _) in enumerate(waiting):
        x[i, : len(row)] = row
    return x, np.array([y for _, y in waiting])


def _names(X: Any) -> list[Any]:  # noqa: N803 - river's name
    found = frames.names(X)
    if found is None:
        raise _check.fail("X", "a table with names, or a list of rows", type(X).__name__)
    return found


def features(x: Any) -> ItemsView[Any, Any]:
    """The features of a row, which must be a dictionary."""
    if not isinstance(x, Mapping):
        raise _check.fail("x", "a dictionary of features", type(x).__name__)
    return x.items()
