"""Choosing settings by validation: a grid or random points, in a storage of Optuna.

Many machines can share it. The seed alone fixes the points; Optuna keeps what has been tried and
says which trials to end early. Only this process speaks to the storage: its workers compute scores,
and ask it after each report whether to go on.
"""

import math
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from hmnn import DivergenceError, _check
from hmnn.lab import records, search_points, settings, workers
from hmnn.lab.experiment import Monitor, Search
from hmnn.lab.workers import Ask, Task

JOURNAL = ("search.journal", "search.journal.lock")
"""The files of a study that is kept in a folder."""
FACTOR = 3
"""Of so many trials, successive halving lets one go on."""
STARTUP = 5
"""Trials that end by themselves before the median of their scores ends others."""
STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
"""How a trial ended -> what Optuna calls it."""


class Sweep(NamedTuple):
    """One search: what is tried, and in which study it is kept."""

    search: Search
    grid: str
    config: Any
    seed: int
    trials: int
    study: Any
    alone: bool
    """Whether nobody else can be at work in this storage."""

    def point(self, i: int) -> dict[str, Any]:
        """The settings of the i-th point."""
        return search_points.point(self.search, self.grid, self.seed, i)


def optuna() -> Any:
    """The package Optuna, which the extra `lab` installs."""
    try:
        import optuna
    except ImportError:
        raise ValueError("A search needs Optuna: pip install 'hmnn[lab]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def check(search: Search, grid: str, config: Any) -> None:
    """Refuse a search whose fields the Config does not have."""
    _check.choice("grid", grid, ("paper", "random"))
    settings.check_fields("The search", search_points.space(search, grid), config)


def open_(
    name: str,
    search: Search,
    grid: str,
    config: Any,
    seed: int,
    trials: int,
    storage: str | None,
    folder: Path | None,
) -> Sweep:
    """Open the study of this name; without a storage the folder keeps it, or else nothing does."""
    check(search, grid, config)
    if grid == "paper":
        trials = min(trials, math.prod(map(len, search.grid.values())))
    package, place = optuna(), "its folder" if storage is None else "--storage"
    space = search_points.space(search, grid)
    about = records.plain({"config": asdict(config), "space": space, "seed": seed})
    try:
        study = package.create_study(
            storage=_storage(storage, folder),
            pruner=_pruner(package.pruners, search.halving),
            sampler=package.samplers.RandomSampler(seed=seed),
            study_name=name,
            direction=search.direction,
            load_if_exists=True,
        )
        was = study.user_attrs.get("about")
        if was is None:
            study.set_user_attr("about", about)
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ValueError(f"{place} must be a storage that can be reached. Got {said}") from None
    for key in [key for key in about if was is not None and was.get(key) != about[key]]:
        wanted = f"given the {key} of the search it has, {was[key]!r}"
        raise _check.fail(place, wanted, about[key])
    return Sweep(search, grid, config, seed, trials, study, storage is None)


def run(sweep: Sweep, monitor: Monitor, count: int) -> None:
    """Try every point that has not been tried, in `count` processes."""
    _release(sweep)
    todo = left(sweep)
    monitor.total(sweep.trials)
    if todo < sweep.trials:
        monitor.tick("tried before", sweep.trials - todo)
    at_work: dict[str, Any] = {}

    def hear(name: str, message: tuple[int, float]) -> bool:
        step, value = message
        at_work[name].report(value, step)
        monitor.tick("", 0)  # here a stop is acted on, if the trial runs in this process
        return bool(at_work[name].should_prune())

    def done(name: str, ended: tuple[str, Any]) -> None:
        how, value = ended
        trial = at_work.pop(name)
        if how == "failed":  # by itself: this point is not tried again
            trial.set_user_attr("error", value)
        sweep.study.tell(trial, value if how == "complete" else None, _states()[STATES[how]])
        monitor.tick(f"{name}: {how}")

    try:
        tasks = _tasks(sweep, at_work)
        workers.share(tasks, min(count, todo), hear, done, lambda: monitor.tick("", 0))
    finally:
        for trial in at_work.values():  # it was stopped; whoever goes on tries this point again
            sweep.study.tell(trial, state=_states().FAIL)


def left(sweep: Sweep) -> int:
    """How many points have not been tried."""
    return sweep.trials - len(_tried(sweep.study).intersection(range(sweep.trials)))


def outcome(sweep: Sweep) -> dict[str, Any]:
    """The best settings and all trials, best first; those without a score stand below."""
    known = sweep.study.get_trials(deepcopy=False)
    trials = [_row(sweep, trial) for trial in known if "point" in trial.user_attrs]
    sign = 1 if sweep.search.direction == "minimize" else -1
    complete = [row for row in trials if row["state"] == "complete"]
    complete.sort(key=lambda row: (sign * row["value"], row["number"]))
    rest = [row for row in trials if row["state"] != "complete"]
    best = complete[0] if complete else None
    return {"direction": sweep.search.direction, "best": best, "trials": complete + rest}


def _tasks(sweep: Sweep, at_work: dict[str, Any]) -> Iterator[Task]:
    while trial := _claim(sweep):
        name = f"trial {trial.number}"
        at_work[name] = trial
        config = replace(sweep.config, **sweep.point(trial.user_attrs["point"]))
        yield Task(name, _score, (sweep.search.score, config, sweep.seed))


def _claim(sweep: Sweep) -> Any:
    """A trial of the next point that nobody has tried or is trying; None if there is none."""
    study, package = sweep.study, optuna().distributions
    space = search_points.distributions(sweep.search, sweep.grid, package)
    while open_points := sorted(set(range(sweep.trials)) - _tried(study, running=True)):
        chosen = {k: search_points.label(v) for k, v in sweep.point(open_points[0]).items()}
        study.enqueue_trial(chosen, user_attrs={"point": open_points[0]})
        trial = study.ask(space)
        trial.set_user_attr("host", socket.gethostname())
        trial.set_user_attr("pid", os.getpid())
        number = trial.user_attrs.get("point")
        if number is not None and number not in _tried(study, running=True, before=trial.number):
            return trial
        study.tell(trial, state=_states().FAIL)  # another machine was faster
    return None


def _score(argument: tuple[Any, Any, int], ask: Ask) -> tuple[str, Any]:
    """Compute one score; how the trial ended, and its value or what went wrong."""
    score, config, seed = argument

    def report(step: int, value: float) -> None:
        if ask((int(step), float(value))):
            raise _PrunedError

    try:
        value = float(score(config, seed, report))
    except _PrunedError:
        return "pruned", None
    except DivergenceError as error:
        return "failed", str(error)
    return ("complete", value) if math.isfinite(value) else ("failed", f"The score is {value}.")


class _PrunedError(Exception):
    """Others did better by then."""


def _tried(study: Any, running: bool = False, before: float | int = math.inf) -> set[int]:
    """The points that need no further trial."""
    states = _states()
    ended = (states.COMPLETE, states.PRUNED, *((states.RUNNING,) if running else ()))
    return {
        trial.user_attrs["point"]
        for trial in study.get_trials(deepcopy=False)
        if "point" in trial.user_attrs and trial.number < before
        if trial.state in ended or (trial.state == states.FAIL and "error" in trial.user_attrs)
    }


def _release(sweep: Sweep) -> None:
    """Give up the trials of processes that died, so that their points are tried again."""
    for trial in sweep.study.get_trials(deepcopy=False, states=(_states().RUNNING,)):
        here = trial.user_attrs.get("host") == socket.gethostname()
        if sweep.alone or (here and not _alive(trial.user_attrs.get("pid", os.getpid()))):
            with suppress(ValueError):  # it has just ended
                sweep.study.tell(trial.number, state=_states().FAIL)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _row(sweep: Sweep, trial: Any) -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": "failed" if trial.state == _states().FAIL else trial.state.name.lower(),
        "value": trial.value,
        "settings": sweep.point(trial.user_attrs["point"]),
        "reports": {str(step): value for step, value in trial.intermediate_values.items()},
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "error": trial.user_attrs.get("error"),
    }


def _pruner(pruners: Any, first: int) -> Any:
    if first:
        return pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=FACTOR)
    return pruners.MedianPruner(n_startup_trials=STARTUP)


def _storage(url: str | None, folder: Path | None) -> Any:
    if url is None:
        if folder is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JOURNAL[1]).unlink(missing_ok=True)  # a killed writer's: only we write
        storages, file = optuna().storages, str(folder / JOURNAL[0])
        return storages.JournalStorage(storages.journal.JournalFileBackend(file))
    if "://" not in url:
        such = "a URL such as sqlite:///search.db or postgresql://host/name"
        raise ValueError(f"{such} is needed, not {url!r}.")
    return url


def _states() -> Any:
    return optuna().trial.TrialState
