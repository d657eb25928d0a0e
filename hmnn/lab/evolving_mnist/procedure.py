"""Choose the settings of every method on validation data, then test them with several seeds."""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hmnn import DivergenceError, _check
from hmnn._types import Dataset
from hmnn.data.streams import Stream
from hmnn.lab import diagnostics, duration, jobs
from hmnn.lab.evolving_mnist import scores
from hmnn.lab.evolving_mnist.config import Config
from hmnn.lab.evolving_mnist.entries import GRIDS, build, epochs_kept, own, resolved, tried
from hmnn.lab.evolving_mnist.evolving_digits import evolving_mnist
from hmnn.lab.experiment import Monitor, Outcome, Report, Search
from hmnn.lab.jobs import Job
from hmnn.lab.optimisers import SCHEDULES


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Choose settings by validation for each method and protocol; then test with several seeds."""
    _check.choice("schedule", config.schedule, SCHEDULES)  # jobs would tell too late
    kinds = list(product(config.protocols, config.methods))
    trials = [job for kind in kinds for job in _trials(config, *kind, 100 * seed)]
    tests = [job for kind in kinds for job in _tests(config, *kind, {}, seed)]
    total = _forecast(config, monitor, trials + tests)
    results = jobs.run(trials, monitor, monitor.workers)
    marks = {name: scores.validation(steps) for name, steps in results.items()}
    chosen = {kind: _best(config, *kind, marks) for kind in kinds}
    tests = [job for kind in kinds for job in _tests(config, *kind, chosen[kind], seed)]
    found = jobs.run(tests, monitor, monitor.workers)
    return scores.outcome(config, found, chosen, marks, total)


def _trials(config: Config, protocol: str, method: str, seed: int) -> list[Job]:
    """One job per setting, which sees validation data only; none if there is nothing to choose."""
    settings, argument = tried(config, method), (protocol, method, seed, ("validation",))
    return [
        _job(config, f"validate-{protocol}-{method}-{i}", setting, argument)
        for i, setting in enumerate(settings)
        if len(settings) > 1
    ]


def _tests(config: Config, protocol: str, method: str, setting: Any, seed: int) -> list[Job]:
    kind, parts = (protocol, method), ("validation", "test")
    return [
        _job(config, f"{protocol}-{method}-{i}", setting, (*kind, 100 * seed + i, parts))
        for i in range(_check.count("seeds", config.seeds))
    ]


def _best(config: Config, protocol: str, method: str, marks: dict[str, float]) -> dict[str, float]:
    """The setting with the highest mean validation accuracy; one that diverged has none."""
    settings, name = tried(config, method), f"validate-{protocol}-{method}"
    values = [marks.get(f"{name}-{i}", 0.0) for i in range(len(settings))]
    return settings[int(np.argmax(np.nan_to_num(values, nan=-1.0)))]


def _job(config: Config, name: str, setting: Any, argument: tuple[str, str, int, Any]) -> Job:
    """The argument is protocol, method, seed and the parts to score."""
    method = argument[1]
    config, once = replace(own(config, method), **setting), method == "bbp_once"
    steps = config.epochs // epochs_kept(config) if once else config.steps
    return Job(name, _once if once else _follow, (config, *argument), steps)


def _follow(argument: Any, monitor: Monitor, name: str) -> list[dict[str, Any]]:
    """Learn one time step after the other, and score the predictions after each on some parts.

    From a time step on at which the method diverges, scores are NaN.
    """
    config, protocol, method, seed, parts = argument
    model, stream = build(config, method), _train(config, protocol, seed)
    state, found = monitor.restore(name, model.init(seed))
    for t in range(len(found), len(stream)):
        try:
            state, info = model.step(state, stream[t])
        except DivergenceError:
            return found + [scores.nothing(parts)] * (len(stream) - t)
        width = {} if info.mean_scale is None else {"mean_scale": float(info.mean_scale)}
        signal = diagnostics.drift(info) if method.startswith("hmnn") else {}
        found.append(scores.at(config, model, state, t, protocol, seed, parts) | width | signal)
        monitor.note(name, t + 1, diagnostics.numbers(info) | scores.noted(found[-1]))
        monitor.checkpoint(name, state, found)
        monitor.tick(f"{name}, t = {t + 1}")
    return found


def _once(argument: Any, monitor: Monitor, name: str) -> list[dict[str, Any]]:
    """Learn the rows of all time steps together, then predict each of them.

    The prior of `bbp` never changes, so that steps of a few epochs are the descent of all epochs.
    """
    config, protocol, method, seed, parts = argument
    model, stream = build(config, method), _train(config, protocol, seed)
    state, found = monitor.restore(name, model.init(seed))
    data = Dataset(*(np.concatenate(column) for column in zip(*stream, strict=True)))
    for i in range(len(found), config.epochs // epochs_kept(config)):
        try:
            state, info = model.step(state, data)
        except DivergenceError:
            return [scores.nothing(parts)] * len(stream)
        found.append(float(info.mean_scale))
        monitor.note(name, epoch := (i + 1) * epochs_kept(config), diagnostics.numbers(info))
        monitor.checkpoint(name, state, found)
        monitor.tick(f"{name}, epoch {epoch}")
    steps = range(len(stream))
    marks = [scores.at(config, model, state, t, protocol, seed, parts) for t in steps]
    return [mark | {"mean_scale": found[-1]} for mark in marks]


def _train(config: Config, protocol: str, seed: int) -> Stream:
    return evolving_mnist("train", protocol, config.rows, config.steps, seed)


def _forecast(config: Config, monitor: Monitor, work: list[Job]) -> float:
    """Measure each method, and say how long all jobs will take."""
    left = {job.argument[2] for job in work if monitor.keeper.kept(job.name) is None}
    cost = {method: config.steps * _seconds(*resolved(config, method)) for method in left}
    return duration.tell(monitor, work, {job.name: cost.get(job.argument[2], 0.0) for job in work})


def _seconds(config: Config, method: str) -> float:
    """What a time step costs; bbp stands for bbp_once, which learns all time steps as one."""
    kind, data = method.removesuffix("_once"), _train(config, config.protocols[0], 0)[0]
    plain = replace(config, schedule="constant")  # a cosine would compile for each number of epochs
    return duration.seconds(
        lambda epochs: build(replace(plain, epochs=epochs), kind), data, config.epochs
    )


def score(method: str, config: Config, seed: int, report: Report) -> float:
    """The mean validation accuracy over time in the first protocol, for `hmnn sweep`."""
    config, protocol, total = replace(config, recipes="one"), config.protocols[0], 0.0
    model, stream = build(config, method), _train(config, protocol, 100 * seed)
    state = model.init(100 * seed)
    for t, data in enumerate(stream):
        state, _ = model.step(state, data)
        found = scores.at(config, model, state, t, protocol, 100 * seed, ("validation",))
        total += found["validation"]["accuracy"]
        report(t, total / (t + 1))
    return total / len(stream)


RECIPE = {
    "optimiser": ("sgd", "adam"),
    "learning_rate": (3e-4, 1e-3, 3e-3),
    "schedule": ("constant", "cosine"),
    "initial_scale": (0.05, 0.1, 0.3, Config.initial_scale),
    "temperature": (0.03, 0.1, 0.3, 1.0),
    "epochs": (20, 50, 100),
    "jump_scale": GRIDS["bbp"]["jump_scale"],
}
"""How HMNN is trained: what `hmnn sweep evolving-mnist --method recipe` tries, points at random."""
_EWC = {
    "ewc_learning_rate": RECIPE["learning_rate"],
    "strength": (0.1, 1.0, 10.0, 100.0),
    "anchors": ("each", "latest"),
    "schedule": RECIPE["schedule"],
    "epochs": RECIPE["epochs"],
}
"""Weaker holds than the paper's too, and on the latest weights alone: labels go out of date."""
_KURLE = {"kurle_scale" if field == "jump_scale" else field: RECIPE[field] for field in RECIPE}
RECIPES = {
    "recipe": ("hmnn", RECIPE),
    "recipe-kurle": ("kurle", _KURLE),
    "recipe-bbp": ("bbp", RECIPE),
    "recipe-vcl": ("vcl", RECIPE),
    "recipe-ewc": ("ewc", _EWC),
}
"""The same 24 points for each variational method, so that none is tuned harder than another."""
_OWN = {method: (method, grid) for method, grid in GRIDS.items() if method != "bbp_once"}
SEARCH = {
    name: Search(
        dict(grid),
        dict(grid),
        partial(score, method),
        "maximize",
        fixed={"methods": (method,), "settings": 1, "recipes": "one"},
    )
    for name, (method, grid) in (_OWN | RECIPES).items()
}
