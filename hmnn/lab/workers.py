"""Processes that work for this one, with one core and one XLA thread each.

A worker does a task and asks its parent on the way ("this time step is done", "is this trial worth
going on?"). The parent answers, or says that the run is to stop. Signals are for the parent alone,
and no worker outlives it.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import connection as connections
from multiprocessing import resource_tracker
from typing import Any, NamedTuple

import jax

from hmnn import DivergenceError

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "NPROC": "1",
}
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
STOP = "stop"
Ask = Callable[[Any], Any]


class JobError(RuntimeError):
    """A job raised, or its process died: one sentence that names it."""


class Task(NamedTuple):
    """Something to do, here or in another process."""

    name: str
    function: Callable[[Any, Ask], Any]
    """function(argument, ask), of a module; ask(message) returns the parent's answer."""
    argument: Any


class _Worker(NamedTuple):
    """A process, and the line to it."""

    process: Any
    line: Any


def share(
    tasks: Iterator[Task],
    workers: int,
    hear: Callable[[str, Any], Any],
    done: Callable[[str, Any], None],
    idle: Callable[[], None],
    last: Callable[[str, Any], None] = lambda name, message: None,
) -> None:
    """Do all tasks, the next one by whoever is free; on trouble all stop at their next question.

    Args:
        tasks: the next task is asked for when a worker is free.
        workers: processes at the same time; with 0 or 1, everything is done in this process.
        hear: hear(name, message) answers a question of a task.
        done: done(name, result) is told at the end of each.
        idle: called now and then, so that a wish to stop can be raised from it.
        last: last(name, message) is told the question at which a process was stopped.
    """
    if workers > 1:
        _share(tasks, _hire(workers), hear, done, idle, last)
        return
    for task in tasks:
        done(task.name, _call(task, partial(hear, task.name)))


def one_thread() -> dict[str, str]:
    """Environment variables for one XLA thread that the user has not set; JAX reads them early."""
    return {name: value for name, value in ONE_THREAD.items() if name not in os.environ}


def cores() -> list[int | None]:
    """The cores that this process may use; without numbers where the system does not tell them."""
    if not hasattr(os, "sched_getaffinity"):
        return [None] * (os.cpu_count() or 1)
    return [*sorted(os.sched_getaffinity(0))]


def _call(task: Task, ask: Ask) -> Any:
    try:
        return task.function(task.argument, ask)
    except Exception as error:
        raise JobError(_sentence(task.name, error)) from error


def _sentence(name: str, error: Exception) -> str:
    """What went wrong, on one line; for a mistake of ours also where."""
    said = " ".join(str(error).split())
    if isinstance(error, ValueError | OSError | DivergenceError | JobError):
        return f"Job {name!r} failed: {said}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}, line {last.lineno}"
    return f"Job {name!r} failed: {type(error).__name__}: {said} ({where})."


def _share(
    tasks: Iterator[Task], crew: list[_Worker], hear: Any, done: Any, idle: Any, last: Any
) -> None:
    busy: dict[Any, Task] = {}
    try:
        for worker, task in zip(crew, tasks, strict=False):
            busy[worker.line] = _give(worker, task)
        while busy:
            for line in connections.wait(list(busy), PATIENCE):
                worker = next(w for w in crew if w.line is line)
                kind, said = _hear(worker, task := busy.pop(line))
                if kind == "ask":
                    worker.line.send(hear(task.name, said))
                    busy[line] = task
                    continue
                done(task.name, said)
                if following := next(tasks, None):
                    busy[line] = _give(worker, following)
            idle()
    finally:
        _dismiss(crew, busy, last)


def _hire(workers: int) -> list[_Worker]:
    """Start worker processes, born with one thread and deaf to signals: the parent tells them."""
    context, crew, mine = multiprocessing.get_context("spawn"), list[_Worker](), cores()
    config = {name: getattr(jax.config, name) for name in FOLLOWED}
    resource_tracker.ensure_running()  # else its own start would undo the mask
    variables, before = one_thread(), signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.environ.update(variables)
    try:
        for i in range(workers):
            here, there = context.Pipe()
            arguments = there, mine[i % len(mine)], config
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            there.close()
            crew.append(_Worker(process, here))
    finally:
        for name in variables:
            del os.environ[name]
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return crew


def _give(worker: _Worker, task: Task) -> Task:
    try:
        worker.line.send(task)
    except OSError:
        pass  # it died; hearing from it says so
    except Exception as error:
        raise JobError(f"Job {task.name!r} cannot be sent to another process: {error}") from error
    return task


def _hear(worker: _Worker, task: Task) -> tuple[str, Any]:
    """One message of a worker: a question or the result."""
    try:
        kind, said = worker.line.recv()
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode
        end = f"ended with exit code {code}"
        if code < 0:
            end = f"was killed by {signal.Signals(-code).name}"
        raise JobError(f"Job {task.name!r} ended without a result: its process {end}.") from None
    if kind == "failed":
        failure = JobError(said[0])
        failure.add_note(said[1])
        raise failure
    return kind, said


def _dismiss(crew: list[_Worker], busy: dict[Any, Task], last: Any) -> None:
    """Let workers come to their next question, then end all; an interrupt ends them at once."""
    try:
        for line, task in busy.items():
            with suppress(EOFError, OSError):
                kind, said = line.recv()
                if kind == "ask":
                    line.send(STOP)
                    last(task.name, said)
    finally:
        for worker in crew:
            worker.process.kill()
            worker.process.join()
            worker.line.close()


def _work(line: Any, core: int | None, config: dict[str, Any]) -> None:
    """The life of a worker: tasks come, questions and results go, until it is ended."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    if core is not None:
        os.sched_setaffinity(0, {core})
    for name, value in config.items():
        jax.config.update(name, value)

    def ask(message: Any) -> Any:
        line.send(("ask", message))
        if (answer := line.recv()) == STOP:
            raise KeyboardInterrupt
        return answer

    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            line.send(_answer(line, ask))
    os._exit(0)  # all is written; taking JAX down in good order can take longer than the job


def _answer(line: Any, ask: Ask) -> tuple[str, Any]:
    try:
        return "done", _call(line.recv(), ask)
    except (EOFError, OSError):
        raise
    except Exception as error:
        before = "" if isinstance(error, JobError) else "A job cannot be read by its worker: "
        return "failed", (f"{before}{error}", traceback.format_exc())


def _follow_parent() -> None:
    """Die with the parent, at once, so that a resumed run finds nobody writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connections.wait([parent.sentinel])
        os._exit(1)
