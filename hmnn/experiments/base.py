"""What an experiment is: a page with settings, a run, a table and figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable


@runtime_checkable
class Monitor(Protocol):
    """Who watches a run: a progress bar, a log, nobody."""

    def total(self, steps: int) -> None:
        """So many steps are to come."""

    def tick(self, label: str) -> None:
        """One step is done."""


class Outcome(NamedTuple):
    """What a run found: numbers for the record, rows for the table, and what the figures need."""

    metrics: dict[str, Any]
    table: list[dict[str, Any]]
    draw: Callable[[Path], list[Path]]


class Experiment(NamedTuple):
    """One experiment of the paper."""

    question: str
    profiles: dict[str, Any]
    """Name of a profile -> frozen Config."""
    run: Callable[[Any, int, Monitor], Outcome]
    """run(config, seed, monitor)."""
