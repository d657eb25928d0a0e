"""What an experiment is: a page with settings, a run, a table and figures; and what lets it go on after a stop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hmnn import store


@runtime_checkable
class Monitor(Protocol):
    """Who watches a run, and keeps what it has done: a progress bar, a log, nobody."""

    def total(self, steps: int) -> None:
        """So many steps are to come."""

    def tick(self, label: str) -> None:
        """One step is done."""

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        """The kept state and results of one part of the run; the state given here and no results if there are none."""

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        """Keep the state and the results of one part of the run, one result per time step."""


class Quiet(NamedTuple):
    """A monitor that shows nothing, and keeps checkpoints if it has a folder."""

    folder: Path | None = None
    about: dict[str, Any] | None = None
    """What the checkpoints say they are of."""

    def total(self, steps: int) -> None:
        """Nobody asks."""

    def tick(self, label: str) -> None:
        """Nobody counts."""

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        """Read the last complete time step; named tuples among the results come back as dictionaries."""
        if self.folder is None or not (self.folder / name).exists():
            return state, []
        kept = store.load(self.folder / name, like={"state": state, "results": ...})
        return kept["state"], kept["results"]

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        """Save after a time step; a kill at any instant costs at most the steps after it."""
        if self.folder is not None:
            config = {**(self.about or {}), "part": name, "t": len(results)}
            store.save({"state": state, "results": results}, self.folder / name, config)


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
