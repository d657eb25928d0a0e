"""The parts of a run side by side, in a few processes or in this one, with the same bits.

An experiment lists its jobs and calls `jobs.run(jobs, monitor, monitor.workers)`. A job saves its
time steps with its monitor, and its result is kept when it ends. A resumed run does neither again.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hmnn import _check
from hmnn.lab import diagnostics
from hmnn.lab import workers as processes
from hmnn.lab.experiment import Monitor, Quiet
from hmnn.lab.workers import Ask, JobError, Task
from hmnn.store import leaves

__all__ = ["Job", "JobError", "run"]
TOLD = 1.0
"""Seconds between two messages that carry notes: many at once cost less than one by one."""
_Noted = tuple[str, int, dict[str, Any]]


class Job(NamedTuple):
    """One part of a run that needs no other part."""

    name: str
    """Unique in its run; also the name of its checkpoint."""
    work: Callable[[Any, Monitor, str], Any]
    """work(argument, monitor, name), a function of a module; `run` says what it may return."""
    argument: Any
    """What the work needs, such as (config, method, seed); it must be picklable."""
    steps: int
    """Ticks that it will make."""


def run(jobs: list[Job], monitor: Monitor, workers: int = 0) -> dict[str, Any]:
    """Do all jobs, and return their results by name, in the order of the list.

    Results come back as dictionaries, lists, NumPy arrays and plain values, wherever the job ran:
    tuples become lists, named tuples dictionaries, and an empty list or dictionary inside vanishes.

    Args:
        jobs: what is to be done.
        monitor: who watches; `total` is told here, so the experiment need not.
        workers: processes at the same time; with 0 or 1, or one job, this process does all.
    """
    _check.count("workers", workers, least=0)
    names = [job.name for job in jobs]
    for name in names:
        if not name or name.startswith(".") or "/" in name or names.count(name) > 1:
            raise _check.fail("job", "named once, without '/' and without a leading dot", name)
    monitor.total(sum(job.steps for job in jobs))
    found = {job.name: kept["result"] for job in jobs if (kept := monitor.keeper.kept(job.name))}
    for job in [job for job in jobs if job.name in found]:
        monitor.tick(f"{job.name}: done before", job.steps)
    left = [Task(job.name, _do, (job, monitor.keeper)) for job in jobs if job.name not in found]

    def last(name: str, message: tuple[str, int, list[_Noted]]) -> None:
        for note in message[2]:
            monitor.note(*note)

    def hear(name: str, message: tuple[str, int, list[_Noted]]) -> None:
        last(name, message)
        monitor.tick(*message[:2])  # last, for here a stop is acted on

    processes.share(
        iter(left),
        min(workers, len(left)),
        hear=hear,
        done=lambda name, kept: found.update({name: kept["result"]}),
        idle=lambda: monitor.tick("", 0),
        last=last,
    )
    return {name: found[name] for name in names}


class _Watch:
    """The monitor of one job, which tells the notes and the tick of a time step in one message."""

    workers = 0

    def __init__(self, keeper: Quiet, ask: Ask) -> None:
        self.keeper, self.ask, self.told = keeper, ask, 0
        self.noted, self.due = list[_Noted](), 0.0

    def total(self, steps: int) -> None:
        """Known already: Job.steps."""

    def tick(self, label: str, steps: int = 1) -> None:
        self.told += steps
        noted = list[_Noted]()
        if self.noted and time.monotonic() >= self.due:
            noted = [(part, t, diagnostics.plain(values)) for part, t, values in self.noted]
            self.noted, self.due = [], time.monotonic() + TOLD
        self.ask((label, steps, noted))

    def note(self, part: str, t: int, values: dict[str, Any]) -> None:
        self.noted.append((part, t, values))

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        self.keeper.checkpoint(name, state, results)
        self.due = 0.0  # tell it with the next tick: what is kept is not done again

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        state, results = self.keeper.restore(name, state)
        if results:
            self.tick(f"{name}: t = {len(results)}", len(results))
        return state, results


def _do(argument: tuple[Job, Quiet], ask: Ask) -> dict[str, Any]:
    """Do a job, keep its result, and return it in the form in which it would be read back."""
    job, keeper = argument
    watch = _Watch(keeper, ask)
    made = {"result": job.work(job.argument, watch, job.name)}
    result = leaves.plain(job.name, *leaves.describe(made))
    result.setdefault("result", {})
    keeper.keep(job.name, result)
    watch.due = 0.0
    watch.tick(f"{job.name}: done", max(job.steps - watch.told, 0))
    return result
