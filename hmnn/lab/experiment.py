"""What an experiment is: settings, a run, a table and figures; and what lets it resume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hmnn import store
from hmnn.lab.drawing.figure import Draw


@runtime_checkable
class Monitor(Protocol):
    """Who watches a run, and keeps what it has done: a progress bar, a log, nobody."""

    @property
    def workers(self) -> int:
        """How many processes the run may use, for `jobs.run`."""

    @property
    def keeper(self) -> "Quiet":
        """Who keeps the checkpoints; it shows nothing, and can be sent to another process."""

    def total(self, steps: int) -> None:
        """So many steps more are to come."""

    def tick(self, label: str, steps: int = 1) -> None:
        """So many steps are done; with 0, the run only says that it is still there."""

    def note(self, part: str, t: int, values: dict[str, Any]) -> None:
        """Tell those who follow the run the values of time step t of a part, before its tick."""

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        """The kept state and results of a part; the given state and no results if none are kept."""

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        """Keep the state and the results of one part of the run, one result per time step."""


class Quiet(NamedTuple):
    """A monitor that shows nothing, and keeps checkpoints if it has a folder."""

    folder: Path | None = None
    about: dict[str, Any] | None = None
    """What the checkpoints say they are of."""
    workers: int = 0
    """Processes for `jobs.run`; 0: this one."""

    @property
    def keeper(self) -> "Quiet":
        """Itself."""
        return self

    def total(self, steps: int) -> None:
        """Nobody asks."""

    def tick(self, label: str, steps: int = 1) -> None:
        """Nobody counts."""

    def note(self, part: str, t: int, values: dict[str, Any]) -> None:
        """Nobody listens."""

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        """Read the last complete time step; named tuples in results come back as dictionaries."""
        if self.folder is None or not store.exists(self.folder / name):
            return state, []
        like = {"state": state, "results": ...}
        kept = store.load(self.folder / name, like, self._bound(name))
        return kept["state"], kept["results"]

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        """Save after a time step; a kill at any instant costs at most the steps after it."""
        if self.folder is not None:
            config = {**self._bound(name), "t": len(results)}
            store.save({"state": state, "results": results}, self.folder / name, config)

    def kept(self, name: str) -> dict[str, Any] | None:
        """The result of a part that has ended; None if there is none."""
        path = None if self.folder is None else self.folder / f"{name}.result"
        there = path is not None and store.exists(path)
        return store.load(path, config=self._bound(name)) if there else None

    def steps(self, name: str) -> int:
        """How many time steps of a part are kept that has not ended."""
        path = None if self.folder is None else self.folder / name
        return store.inspect(path)["config"]["t"] if path is not None and store.exists(path) else 0

    def keep(self, name: str, result: dict[str, Any]) -> None:
        """Save the result of a part that has ended; unlike a state, it may hold NaN."""
        if self.folder is not None:
            store.save(result, self.folder / f"{name}.result", self._bound(name), finite=False)

    def _bound(self, part: str) -> dict[str, Any]:
        """Which run and part a checkpoint is of: what is of another one is never restored."""
        return {**(self.about or {}), "part": part}


class Outcome(NamedTuple):
    """What a run found: numbers for the record, rows for the table, and what the figures need."""

    metrics: dict[str, Any]
    table: list[dict[str, Any]]
    summary: list[dict[str, Any]] = []
    """Rows for `hmnn reproduce`, as `compared` makes them."""
    chosen: dict[str, Any] = {}
    """Settings chosen by validation, for the record."""
    view: dict[str, Any] = {}
    """What the figures need beside the record: arrays, numbers and strings in dictionaries and
    lists, none of them empty."""


def compared(
    experiment: str, ours: dict[str, float], paper: dict[str, float | None] | None = None
) -> list[dict[str, Any]]:
    """Our numbers beside the paper's, where it has one: rows of a summary."""
    found = paper or {}
    return [
        {"experiment": experiment, "what": what, "ours": value, "paper": found.get(what)}
        for what, value in ours.items()
    ]


Report = Callable[[int, float], None]
"""report(step, value): the score so far; it ends the trial if others did better by then."""


class Search(NamedTuple):
    """How the settings of one method are chosen by validation."""

    grid: dict[str, tuple[Any, ...]]
    """The paper's grid: field of the Config -> values."""
    ranges: dict[str, Any]
    """For random search: field -> (low, high, "log" | "linear" | "int"), or a tuple of choices."""
    score: Callable[[Any, int, Report], float]
    """score(config, seed, report), a function of a module that sees validation data only."""
    direction: str
    """minimize or maximize."""
    halving: int = 0
    """The step of `report` after which the best third of the trials goes on; then 3, 9 .. times it.

    With 0, a trial ends when it is below the median of the earlier ones."""
    fixed: dict[str, Any] = {}
    """Fields that `hmnn run` needs besides a point, so that it chooses nothing itself."""


class Experiment(NamedTuple):
    """One experiment of the paper."""

    title: str
    question: str
    profiles: dict[str, Any]
    """Name of a profile -> frozen Config."""
    run: Callable[[Any, int, Monitor], Outcome]
    """run(config, seed, monitor)."""
    figures: tuple[Draw, ...] = ()
    """What is drawn of a record of this experiment and its view."""
    search: dict[str, Search] = {}
    """Name of a method -> how its settings are chosen, for `hmnn sweep`."""
