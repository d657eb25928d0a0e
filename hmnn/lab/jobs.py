"""The parts of a run side by side, in a few processes or in this one, with the same bits.

An experiment lists its jobs and calls `jobs.run(jobs, monitor, monitor.workers)`. A job saves its own time steps by
the monitor that it is given, and its result is kept when it ends, so that a run that was stopped does neither again.
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
"""Seconds between two messages that carry notes: many at once cost a small part of what they cost one by one."""
_Noted = tuple[str, int, dict[str, Any]]


class Job(NamedTuple):
    """One part of a run that needs no other part."""

    name: str
    """Unique in its run; also the name of its checkpoint."""
    work: Callable[[Any, Monitor, str], Any]
    """work(argument, monitor, name), a function of a module; it returns dictionaries, lists, arrays, plain values."""
    argument: Any
    """What the work needs, such as (config, method, seed); it must be picklable."""
    steps: int
    """Ticks that it will make."""


def run(jobs: list[Job], monitor: Monitor, workers: int = 0) -> dict[str, Any]:
    """Do all jobs, and return their results by name, in the order of the list.

    Results come back as dictionaries, lists, NumPy arrays and plain values, wherever the job ran (tuples become lists,
    named tuples dictionaries, and an empty list or dictionary inside vanishes).

    Args:
        jobs: what is to be done.
        monitor: who watches; `total` is told here, so the experiment need not.
        workers: processes at the same time; with 0 or 1, or one job, everything is done in this process.
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
    processes.share(
        iter(left),
        min(workers, len(left)),
        hear=lambda name, message: _hear(monitor, *message),
        done=lambda name, kept: found.update({name: kept["result"]}),
        idle=lambda: monitor.tick("", 0),
        last=lambda name, message: _note(monitor, message[2]),
    )
    return {name: found[name] for name in names}


def _hear(monitor: Monitor, label: str, steps: int, noted: list[_Noted]) -> None:
    _note(monitor, noted)
    monitor.tick(label, steps)  # last, for here a stop is acted on


def _note(monitor: Monitor, noted: list[_Noted]) -> None:
    for note in noted:
        monitor.note(*note)


class _Watch:
    """The monitor of one job: its time steps are told to whoever shows them, notes and tick in one message."""

    workers = 0

    def __init__(self, keeper: Quiet, ask: Ask) -> None:
        self.keeper, self.ask, self.told = keeper, ask, 0
        self.noted, self.due = list[_Noted](), 0.0

    def total(self, steps: int) -> None:
        """Known already: Job.steps."""

    def tick(self, label: str, steps: int = 1) -> None:
        self.told += steps
        self.ask((label, steps, self._take() if self.noted and time.monotonic() >= self.due else []))

    def note(self, part: str, t: int, values: dict[str, Any]) -> None:
        self.noted.append((part, t, values))

    def _take(self) -> list[_Noted]:
        taken, self.noted = (
            [(part, t, diagnostics.plain(values)) for part, t, values in self.noted],
            [],
        )
        self.due = time.monotonic() + TOLD
        return taken

    def checkpoint(self, name: str, state: Any, results: list[Any]) -> None:
        self.keeper.checkpoint(name, state, results)
        self.due = 0.0  # what is kept is not done again: it is told with the next tick, which may be the last

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        state, results = self.keeper.restore(name, state)
        if results:
            self.tick(f"{name}: t = {len(results)}", len(results))
        return state, results


def _do(argument: tuple[Job, Quiet], ask: Ask) -> dict[str, Any]:
    """Do a job, keep its result, and return it in the form in which it would be read back."""
    job, keeper = argument
    watch = _Watch(keeper, ask)
    result = leaves.plain(job.name, *leaves.describe({"result": job.work(job.argument, watch, job.name)}))
    result.setdefault("result", {})
    keeper.keep(job.name, result)
    watch.due = 0.0
    watch.tick(f"{job.name}: done", max(job.steps - watch.told, 0))
    return result
