"""The points of a search: the paper's grid in a random order, or random draws, by the seed."""

import itertools
from functools import cache
from typing import Any

import numpy as np

from hmnn.lab.experiment import Search

KINDS = ("log", "linear", "int")


def point(search: Search, grid: str, seed: int, i: int) -> dict[str, Any]:
    """The settings of the i-th point."""
    if grid == "paper":
        return _shuffled(tuple(search.grid), tuple(search.grid.values()), seed)[i]
    rng = np.random.default_rng([seed, i])
    return {field: _draw(rng, values) for field, values in search.ranges.items()}


def space(search: Search, grid: str) -> dict[str, Any]:
    """What is searched: field -> values or range."""
    return search.grid if grid == "paper" else search.ranges


def distributions(search: Search, grid: str, d: Any) -> dict[str, Any]:
    """The space in the words of Optuna, whose module `distributions` is given."""
    made: dict[str, Any] = {}
    for field, values in space(search, grid).items():
        if grid == "paper" or not _is_range(values):
            made[field] = d.CategoricalDistribution([label(value) for value in values])
        elif values[2] == "int":
            made[field] = d.IntDistribution(values[0], values[1])
        else:
            made[field] = d.FloatDistribution(values[0], values[1], log=values[2] == "log")
    return made


@cache
def _shuffled(
    fields: tuple[str, ...], values: tuple[tuple[Any, ...], ...], seed: int
) -> list[dict[str, Any]]:
    points = [dict(zip(fields, chosen, strict=True)) for chosen in itertools.product(*values)]
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


def _draw(rng: np.random.Generator, values: Any) -> Any:
    if not _is_range(values):
        return values[rng.integers(len(values))]
    low, high, kind = values
    if kind == "int":
        return int(rng.integers(low, high + 1))
    if kind == "log":
        return float(np.clip(np.exp(rng.uniform(np.log(low), np.log(high))), low, high))
    return float(rng.uniform(low, high))


def _is_range(values: Any) -> bool:
    return len(values) == 3 and values[2] in KINDS and not isinstance(values[0], str)


def label(value: Any) -> Any:
    """A choice as Optuna's storages can hold it."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
