"""The parts of a run side by side: processes with one core and one XLA thread each, or this one; the same bits.

An experiment lists its jobs and calls `jobs.run(jobs, monitor, monitor.workers)`. A job saves its own time steps by
the monitor that it is given, and its result is kept when it ends, so that a run that was stopped does neither again.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection as connections
from multiprocessing import resource_tracker
from typing import Any, NamedTuple

import jax

from hmnn import DivergenceError, _check
from hmnn.experiments.base import Monitor, Quiet
from hmnn.store import leaves

ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "NPROC": "1"}
FOLLOWED = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
    "jax_enable_x64",
)
"""Settings of JAX that a worker takes from its parent."""
PATIENCE = 0.2
"""Seconds between two looks at whether somebody asked to stop."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class JobError(RuntimeError):
    """A job raised, or its process died: one sentence that names it."""


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
    for job in jobs:
        if not job.name or job.name.startswith(".") or "/" in job.name or [j.name for j in jobs].count(job.name) > 1:
            raise _check.fail("job", "named once, without '/' and without a leading dot", job.name)
    monitor.total(sum(job.steps for job in jobs))
    found = {job.name: kept["result"] for job in jobs if (kept := monitor.keeper.kept(job.name))}
    for job in [job for job in jobs if job.name in found]:
        monitor.tick(f"{job.name}: done before", job.steps)
    left = [job for job in jobs if job.name not in found]
    if min(workers, len(left)) > 1:
        found |= _side_by_side(left, monitor, min(workers, len(left)))
    else:
        found |= {job.name: _do(job, monitor.keeper, monitor.tick) for job in left}
    return {job.name: found[job.name] for job in jobs}


def one_thread() -> dict[str, str]:
    """Environment variables for one XLA thread, as far as the user has not chosen; to be set before JAX computes."""
    return {name: value for name, value in ONE_THREAD.items() if name not in os.environ}


def cores() -> int:
    """The cores that this process may use."""
    return len(_cores())


class _Watch:
    """The monitor of one job: its time steps are told to whoever shows them."""

    workers = 0

    def __init__(self, keeper: Quiet, tell: Callable[[str, int], None]) -> None:
        self.keeper, self.tell, self.told = keeper, tell, 0
        self.checkpoint = keeper.checkpoint

    def total(self, steps: int) -> None:
        """Known already: Job.steps."""

    def tick(self, label: str, steps: int = 1) -> None:
        self.told += steps
        self.tell(label, steps)

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        state, results = self.keeper.restore(name, state)
        if results:
            self.tick(f"{name}: t = {len(results)}", len(results))
        return state, results


def _do(job: Job, keeper: Quiet, tell: Callable[[str, int], None]) -> Any:
    """Do a job here, keep its result, and return it in the form in which it would be read back."""
    watch = _Watch(keeper, tell)
    try:
        result = leaves.plain(job.name, *leaves.describe({"result": job.work(job.argument, watch, job.name)}))
        result.setdefault("result", {})
        keeper.keep(job.name, result)
    except Exception as error:
        raise JobError(_sentence(job.name, error)) from error
    tell(f"{job.name}: done", max(job.steps - watch.told, 0))
    return result["result"]


def _sentence(name: str, error: Exception) -> str:
    """What went wrong; for a mistake of ours also where."""
    if isinstance(error, ValueError | OSError | DivergenceError | JobError):
        return f"Job {name!r} failed: {error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}, line {last.lineno}"
    return f"Job {name!r} failed: {type(error).__name__}: {error} ({where})."


class _Worker(NamedTuple):
    """A process, and the line to it."""

    process: Any
    line: Any


def _side_by_side(jobs: list[Job], monitor: Monitor, workers: int) -> dict[str, Any]:
    """Give the jobs to workers, the next one to whoever is free; on any trouble all stop after their time step."""
    crew = _hire(workers, monitor.keeper)
    busy: dict[Any, Job] = {}
    waiting, found = iter(jobs), dict[str, Any]()
    try:
        for worker, job in zip(crew, waiting, strict=False):
            busy[worker.line] = _give(worker, job)
        while busy:
            for line in connections.wait(list(busy), PATIENCE):
                worker = next(w for w in crew if w.line is line)
                done = _hear(worker, busy[line], monitor)
                if done is None:
                    continue
                found[busy.pop(line).name] = done["result"]
                if job := next(waiting, None):
                    busy[line] = _give(worker, job)
            monitor.tick("", 0)
        return found
    finally:
        _dismiss(crew)


def _hire(workers: int, keeper: Quiet) -> list[_Worker]:
    """Start worker processes; signals are for the parent, which tells them, so they are born deaf to both."""
    context, crew = multiprocessing.get_context("spawn"), []
    config = {name: getattr(jax.config, name) for name in FOLLOWED}
    resource_tracker.ensure_running()  # else its own start would undo the mask
    with _environment(one_thread()), _deaf():
        for i in range(workers):
            here, there = context.Pipe()
            core = _cores()[i % cores()]
            process = context.Process(target=_work, args=(there, core, keeper, config), name=f"hmnn-{i}", daemon=True)
            process.start()
            there.close()
            crew.append(_Worker(process, here))
    return crew


def _give(worker: _Worker, job: Job) -> Job:
    try:
        worker.line.send(job)
    except OSError:
        pass  # it died; hearing from it says so
    except Exception as error:
        raise JobError(f"Job {job.name!r} cannot be sent to another process: {error}") from error
    return job


def _hear(worker: _Worker, job: Job, monitor: Monitor) -> dict[str, Any] | None:
    """Pass on one message of a worker; its result, if that is what it sent."""
    try:
        kind, said, more = worker.line.recv()
    except (EOFError, OSError):
        worker.process.join()
        raise JobError(f"Job {job.name!r} ended without a result: its process {_end(worker.process)}.") from None
    if kind == "done":
        return said
    if kind == "failed":
        failure = JobError(said)
        failure.add_note(more)
        raise failure
    monitor.tick(said, more)
    return None


def _end(process: Any) -> str:
    code = process.exitcode
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _dismiss(crew: list[_Worker]) -> None:
    """Let the workers end after their time step; who interrupts this ends them at once."""
    try:
        for worker in crew:
            with suppress(OSError):
                worker.line.send(None)
        for worker in crew:
            with suppress(EOFError, OSError):
                while True:
                    worker.line.recv()  # a message under way would block it
    finally:
        for worker in crew:
            worker.process.kill()
            worker.process.join()
            worker.line.close()


def _work(line: Any, core: int | None, keeper: Quiet, config: dict[str, Any]) -> None:
    """The life of a worker: jobs come, ticks and results go, until there is nothing more or the parent has gone."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    if core is not None:
        os.sched_setaffinity(0, {core})
    for name, value in config.items():
        jax.config.update(name, value)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while (reply := _answer(line, keeper)) is not None:
            line.send(reply)
    os._exit(0)  # all is written; taking JAX down in good order can take longer than the job


def _answer(line: Any, keeper: Quiet) -> tuple[str, Any, str] | None:
    def tell(label: str, steps: int) -> None:
        line.send(("tick", label, steps))
        if line.poll():  # amid a job the only message is: stop
            raise KeyboardInterrupt

    try:
        job = line.recv()
        return None if job is None else ("done", {"result": _do(job, keeper, tell)}, "")
    except (EOFError, OSError):
        raise
    except Exception as error:
        said = str(error) if isinstance(error, JobError) else f"A job cannot be read by its worker: {error}"
        return "failed", said, traceback.format_exc()


def _follow_parent() -> None:
    """Die with the parent, at once, so that a resumed run finds nobody writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connections.wait([parent.sentinel])
        os._exit(1)


def _cores() -> list[int | None]:
    if not hasattr(os, "sched_getaffinity"):
        return [None] * (os.cpu_count() or 1)
    return [*sorted(os.sched_getaffinity(0))]


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


@contextmanager
def _deaf() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
