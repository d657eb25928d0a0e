"""Rows as dictionaries: places for features, rows that wait, a network that grows."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn import _check
from hmnn._types import Number
from hmnn.core.natural import Outlook
from hmnn.estimators import engine, growth, inputs
from hmnn.estimators.engine import Engine, Memory, Settings
from hmnn.estimators.inputs import Scaler

WAITING = 1024
"""So many rows may wait to be learned."""


class Rows:
    """What both models share: places of features, rows that wait, the memory."""

    def __init__(
        self,
        hidden: tuple[int, ...],
        memory: Number,
        jump_scale: Number,
        shrink: Number,
        jump_prob: Number,
        initial_scale: Number,
        level_scale: Number,
        standardise: bool,
        seed: int | None,
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
        self._learned: Memory | None = None
        self._machine()  # a bad parameter is told at once

    def _settings(self) -> Settings:
        names = [name for name in Settings._fields if name in self.__dict__]
        return Settings(**{name: getattr(self, name) for name in names}, projection="natural")

    def _shape(self) -> tuple[int, str]:
        """Outputs and likelihood of the network."""
        return 1, "gaussian"

    def _machine(self) -> Engine:
        return engine.engine(self._settings(), self._columns, *self._shape())

    def _now(self) -> Memory:
        if self._learned is None:
            chance = int(np.random.default_rng().integers(2**31))
            seed = chance if self.seed is None else _check.count("seed", self.seed, least=0)
            self._learned = engine.start(self._machine(), seed, self._columns)
        return self._learned

    def _row(self, x: Mapping[Any, Any]) -> ndarray:
        """The values in their places, NaN where there is none; unknown features have no place."""
        row = np.full(self._columns, np.nan)
        for name, value in x.items():
            place = self._places.get(name)
            if place is not None:
                row[place] = number(name, value)
        return row

    def _admit(self, names: Iterable[Any]) -> None:
        """Give new features their places, in an order that does not depend on the dictionary's."""
        new = [name for name in names if name not in self._places]
        if not new:
            return
        places = self._places | {name: len(self._places) + i for i, name in enumerate(sorted(new, key=repr))}
        if len(places) > self._columns:
            self._flush()
            self._grow(1 << (len(places) - 1).bit_length(), self._shape())
        self._places = places

    def _grow(self, columns: int, shape: tuple[int, str]) -> None:
        """A wider network: what was learned stays, what is new is as at the start."""
        memory, old = self._now(), self._machine()
        new = engine.engine(self._settings(), columns, *shape)
        fresh = engine.start(new, memory.seed, columns)
        law = growth.embedded(old, new, memory.law, fresh.law)
        self._columns = columns
        self._learned = memory._replace(law=law, x=inputs.grown(memory.x, columns))

    def _wait(self, row: ndarray, y: float | int) -> None:
        self._waiting.append((row, y))
        if len(self._waiting) >= WAITING:
            self._flush()

    def _flush(self) -> None:
        """Learn the rows that wait."""
        if self._waiting:
            self._take(*self._stacked(), np.zeros((0, self._columns)))

    def _ask(self, x: Mapping[Any, Any]) -> Outlook:
        """Learn the rows that wait, and look at one more without learning it, in one call."""
        seen = self._take(*self._stacked(), self._row(x)[None])
        return Outlook(*(a[-1:] for a in seen))

    def _stacked(self) -> tuple[ndarray, ndarray]:
        x = np.full((len(self._waiting), self._columns), np.nan)
        for i, (row, _) in enumerate(self._waiting):
            x[i, : len(row)] = row
        return x, np.array([y for _, y in self._waiting])

    def _take(self, x: ndarray, y: ndarray, asked: ndarray) -> Outlook:
        """Learn rows in turn, then look at others."""
        memory = self._now()
        learned, scaled, target = x, memory.x, memory.y
        if len(x):
            ran = inputs.running(memory.x, x)
            learned, scaled = ran.centred, ran.after
            y, target = self._target(memory, y)
        rows = np.concatenate([learned, inputs.beside(scaled, asked) if len(asked) else asked])
        if not self.standardise:
            rows = np.nan_to_num(np.concatenate([x, asked]))
        y = self._typed(np.pad(y, (0, len(asked))))
        after, seen = engine.progress(self._machine(), memory, rows, y, np.arange(len(rows)) < len(x))
        self._learned, self._waiting = after._replace(x=scaled, y=target), []
        return seen

    def _target(self, memory: Memory, y: ndarray) -> tuple[ndarray, Scaler]:
        return y, memory.y

    def _typed(self, y: ndarray) -> ndarray:
        return y.astype(np.int32)

    def _table(self, X: Any, admit: bool) -> ndarray:  # noqa: N803 - river's name
        """The rows of a table in their places."""
        if admit:
            self._admit(X.columns)
        known = [name for name in X.columns if name in self._places]
        x = np.full((len(X), self._columns), np.nan)
        x[:, [self._places[name] for name in known]] = X[known].to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(x).any():
            raise _check.fail("X", "finite or missing", "inf")
        return x

    def _learn_rows(self, x: ndarray, y: ndarray) -> None:
        """Rows in turn, after those that wait."""
        self._flush()
        for i in range(0, len(x), WAITING):
            self._take(x[i : i + WAITING], y[i : i + WAITING], x[:0])

    def _look(self, X: Any) -> Outlook:  # noqa: N803 - river's name
        """The outlook of each row of a table, none of which is learned."""
        self._flush()
        x = self._table(X, admit=False)
        return self._take(x[:0], np.zeros(0), x)


def number(name: Any, value: Any) -> float:
    """A feature's value, NaN if it is missing."""
    if type(value) is float and abs(value) <= _check.LARGEST:  # nearly all values, and a row has many
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if isinstance(value, bool | np.bool_):
        return float(value)
    return _check.number(f"feature {name!r}", value, "a finite number or missing", lambda _: True)
