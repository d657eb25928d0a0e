"""How long a run will take: measured on its own first step, and told before it starts."""

import heapq
import sys
import time
from collections.abc import Callable

from hmnn._types import Dataset
from hmnn.lab.experiment import Monitor, Quiet
from hmnn.lab.jobs import Job
from hmnn.methods import Method

FEW, MORE = 1, 3
"""Epochs of the two steps that are timed; their difference tells what an epoch costs."""


def seconds(build: Callable[[int], Method], data: Dataset, epochs: int) -> float:
    """What a time step of so many epochs will cost here, once compiled.

    Args:
        build: build(epochs) -> Method; epochs are traced, so nothing compiles twice.
        data: the data of a time step.
        epochs: of the steps to come.
    """
    first = build(FEW)
    first.step(first.init(0), data)  # compiles
    few, more = (_timed(build(count), data) for count in (FEW, MORE))
    return few + max(more - few, 0.0) / (MORE - FEW) * (epochs - FEW)


def tell(monitor: Monitor, jobs: list[Job], cost: dict[str, float]) -> float:
    """Say how long the jobs that are left will take; `cost` has each one's seconds on one core."""
    keeper, many = monitor.keeper, max(1, monitor.workers)
    left = [job for job in jobs if keeper.kept(job.name) is None]
    ends = [0.0] * many
    for job in left:  # by the process that is free first
        heapq.heapreplace(ends, ends[0] + cost[job.name] * (1 - keeper.steps(job.name) / job.steps))
    total = max(ends)
    about = f"about {words(total)} with {many} processes"
    say(monitor, f"{len(left)} of {len(jobs)} jobs to do: {about}")
    return total


def say(monitor: Monitor, line: str) -> None:
    """Show a line, and leave it there: the bar's own label is gone with the first time step."""
    monitor.tick(line, 0)
    if not isinstance(monitor, Quiet):
        sys.stderr.write(line + "\n")


def words(total: float) -> str:
    """Seconds as a person says them: "40 s", "12 min", "3 h 05 min"."""
    if total < 90:
        return f"{max(1, round(total))} s"
    minutes = round(total / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _timed(method: Method, data: Dataset) -> float:
    state = method.init(0)
    began = time.perf_counter()
    method.step(state, data)  # it waits for its result: the step looks whether that is finite
    return time.perf_counter() - began
