"""Filter both scenarios of the two moons, and measure what the filter knows."""

import math
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn._types import Dataset
from hmnn.data import two_moons
from hmnn.lab import diagnostics, jobs
from hmnn.lab.experiment import Monitor, Outcome, compared
from hmnn.lab.two_moons.config import Config
from hmnn.methods import Method, hmnn
from hmnn.networks import mlp

COLUMNS = ("t", "degrees", "accuracy", "length on data", "length off data")
DOTS = 400
"""Points of each time step that are drawn; all are used for training."""
BUILT: tuple[str, ...] = ("memory", "jump_scale", "shrink", "jump_prob", "centre", "keep")
BUILT += ("keep_where", "optimiser", "learning_rate", "start_rho", "epochs", "minibatch")
"""Fields of the Config that `hmnn.methods.hmnn` takes under the same name."""


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Filter both scenarios and measure accuracy and interval length at every time step."""
    noises = {"separated": config.noise_separated, "overlapping": config.noise_overlapping}
    steps = len(config.degrees)
    work = [jobs.Job(s, _scenario, (config, noise, seed), steps) for s, noise in noises.items()]
    done = jobs.run(work, monitor, monitor.workers)
    rows = {scenario: [row for row, _ in steps] for scenario, steps in done.items()}
    table = [
        {"scenario": scenario, **{column: row[column] for column in COLUMNS}}
        for scenario, steps in rows.items()
        for row in steps
    ]
    found = {scenario: _summary(steps) for scenario, steps in rows.items()}
    small = {s: [_small(p) | diagnostics.signal(row) for row, p in done[s]] for s in done}
    return Outcome(found, table, _rows(found), view=small)


def build(config: Config) -> Method:
    """The filter of both scenarios."""
    settings = {name: getattr(config, name) for name in BUILT}
    return hmnn(mlp(2, config.hidden, 2), "categorical", **settings)


def _scenario(argument: tuple[Config, float, int], monitor: Monitor, scenario: str) -> list[Any]:
    """The scores of every time step, and the prediction over the plane."""
    config, noise, seed = argument
    method = build(config)
    train, test = (two_moons(config.rows, noise, config.degrees, seed + i) for i in range(2))
    state, steps = monitor.restore(scenario, method.init(seed))
    for t in range(len(steps), len(train)):
        state, info = method.step(state, train[t])
        row, panel = _measure(config, method, state, t, train[t], test[t])
        steps.append((row | diagnostics.drift(info), panel))
        scores = {column: row[column] for column in COLUMNS[2:]}
        monitor.note(scenario, t + 1, diagnostics.numbers(info) | scores)
        monitor.checkpoint(scenario, state, steps)
        monitor.tick(f"{scenario}, t = {t}")
    return steps


def _measure(
    config: Config, method: Method, state: Any, t: int, train: Dataset, test: Dataset
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Accuracy on fresh data at the posterior mean; interval lengths on the data and off them."""
    grid, side = metrics.box_grid(train.x, config.grid), (config.grid, config.grid)
    off = metrics.far_from(grid, train.x, config.off_data)
    draws = {"samples": config.draws, "level": config.level}
    fresh, plane = (method.predict(state, x, **draws) for x in (test.x, grid))
    parts = {"probability": plane.mean, "lower": plane.lower, "upper": plane.upper}
    panel = {key: np.asarray(values)[:, 1].reshape(side) for key, values in parts.items()}
    length = (panel["upper"] - panel["lower"]).ravel()[off]
    row = {
        "t": t,
        "degrees": f"{config.degrees[t]:g}",
        "accuracy": metrics.accuracy(np.asarray(fresh.mean), test.y),
        "length on data": float(np.mean((np.asarray(fresh.upper) - np.asarray(fresh.lower))[:, 1])),
        "length off data": float(np.mean(length)) if off.any() else math.nan,
    }
    panel |= {"across": np.unique(grid[:, 0]), "up": np.unique(grid[:, 1])}
    return row, panel | {"x": train.x, "y": train.y, "title": f"{config.degrees[t]:.0f}°"}


def _small(panel: dict[str, Any]) -> dict[str, Any]:
    """A panel for the figures: the points that are drawn, and half precision."""
    small = {k: np.asarray(v).astype(np.float16) for k, v in panel.items() if k != "title"}
    small |= {"x": small["x"][:DOTS], "y": np.asarray(panel["y"])[:DOTS].astype(np.uint8)}
    return small | {"title": panel["title"]}


def _summary(steps: list[dict[str, Any]]) -> dict[str, Any]:
    on, off = ([row[f"length {where} data"] for row in steps] for where in ("on", "off"))
    lengths: dict[str, Any] = {"on_data": float(np.mean(on)), "off_data": float(np.nanmean(off))}
    lengths |= {"on_data_by_t": on, "off_data_by_t": off}
    return {"accuracy": [row["accuracy"] for row in steps], "interval_length": lengths}


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Means over time; the paper prints pictures only."""
    ours: dict[str, float] = {}
    for scenario, summary in found.items():
        ours[f"accuracy, {scenario}"] = float(np.mean(summary["accuracy"]))
        for where in ("on", "off"):
            length = summary["interval_length"][f"{where}_data"]
            ours[f"interval length {where} the data, {scenario}"] = length
    return compared("two-moons", ours)
