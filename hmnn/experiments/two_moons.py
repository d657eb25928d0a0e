"""Two moons that turn: where does the filter know, and where does it say "I do not know"?

`hmnn run two-moons` (paper profile, about a minute). Two scenarios, five time steps: half circles that are
apart (noise 0.1) or overlap (noise 0.3), turned by 45 degrees a step. The paper prints no numbers here; its
text says that the intervals are long where classes overlap, and near 1 between the moons and off the data.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn._types import Dataset
from hmnn.data import two_moons
from hmnn.experiments import jobs, notes, views
from hmnn.experiments.base import Experiment, Monitor, Outcome
from hmnn.methods import Method, hmnn
from hmnn.networks import mlp
from hmnn.report import moons


@dataclass(frozen=True)
class Config:
    """The paper's settings; sizes where its text is silent are ours."""

    rows: int = 10000
    degrees: tuple[float, ...] = (0.0, 45.0, 90.0, 135.0, 180.0)
    noise_separated: float = 0.1
    noise_overlapping: float = 0.3
    hidden: tuple[int, ...] = (50, 50)
    memory: float = 0.5
    keep: float = 0.75
    keep_where: str = "internal_weights"
    jump_prob: float = 0.5
    jump_scale: float = math.exp(-2)
    shrink: float = math.exp(5)
    centre: str = "zero"
    optimiser: str = "sgd"
    learning_rate: float = 1e-3
    start_rho: tuple[float, float] = (-8.0, -7.0)
    epochs: int = 100
    minibatch: int = 256
    draws: int = 200
    level: float = 0.95
    grid: int = 50
    off_data: float = 0.2
    """Grid points farther than this from every training point are off the data."""


PROFILES = {
    "smoke": Config(rows=300, degrees=(0.0, 45.0), epochs=3, draws=20, grid=20),
    "quick": replace(Config(), rows=4000, epochs=60),
    "paper": Config(),
}


COLUMNS = ("t", "degrees", "accuracy", "length on data", "length off data")


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Filter both scenarios and measure accuracy and interval length at every time step."""
    noises = {"separated": config.noise_separated, "overlapping": config.noise_overlapping}
    work = [jobs.Job(s, _scenario, (config, noise, seed), len(config.degrees)) for s, noise in noises.items()]
    done = jobs.run(work, monitor, monitor.workers)
    panels = {scenario: [moons.Panel(**panel) for _, panel in steps] for scenario, steps in done.items()}
    rows = {scenario: [row for row, _ in steps] for scenario, steps in done.items()}
    table = [
        {"scenario": scenario, **{column: row[column] for column in COLUMNS}}
        for scenario, steps in rows.items()
        for row in steps
    ]
    found = {scenario: _summary(steps) for scenario, steps in rows.items()}
    view = {s: [moons.view(p) | views.signal(row) for p, row in zip(panels[s], rows[s], strict=True)] for s in panels}
    return Outcome(found, table, lambda folder: moons.draw(panels, folder), _rows(found), view=view)


def build(config: Config) -> Method:
    """The filter of both scenarios."""
    return hmnn(
        mlp(2, config.hidden, 2),
        "categorical",
        memory=config.memory,
        jump_scale=config.jump_scale,
        shrink=config.shrink,
        jump_prob=config.jump_prob,
        centre=config.centre,
        keep=config.keep,
        keep_where=config.keep_where,
        optimiser=config.optimiser,
        learning_rate=config.learning_rate,
        start_rho=config.start_rho,
        epochs=config.epochs,
        minibatch=config.minibatch,
    )


def _scenario(
    argument: tuple[Config, float, int], monitor: Monitor, scenario: str
) -> list[tuple[dict[str, Any], moons.Panel]]:
    config, noise, seed = argument
    method = build(config)
    train = two_moons(config.rows, noise, config.degrees, seed)
    test = two_moons(config.rows, noise, config.degrees, seed + 1)
    state, kept = monitor.restore(scenario, method.init(seed))
    steps = [(row, moons.Panel(**panel)) for row, panel in kept]
    for t in range(len(steps), len(train)):
        state, info = method.step(state, train[t])
        row, panel = _measure(config, method, state, t, train[t], test[t])
        steps.append((row | views.drift(info), panel))
        monitor.note(scenario, t + 1, notes.of(info) | {column: steps[-1][0][column] for column in COLUMNS[2:]})
        monitor.checkpoint(scenario, state, steps)
        monitor.tick(f"{scenario}, t = {t}")
    return steps


def _measure(
    config: Config, method: Method, state: Any, t: int, train: Dataset, test: Dataset
) -> tuple[dict[str, Any], moons.Panel]:
    """Accuracy on fresh data at the posterior mean; interval lengths on the data and off them."""
    grid = metrics.box_grid(train.x, config.grid)
    off = metrics.far_from(grid, train.x, config.off_data)
    on_data = method.predict(state, test.x, samples=config.draws, level=config.level)
    on_grid = method.predict(state, grid, samples=config.draws, level=config.level)
    probability, lower, upper = (
        np.asarray(a)[:, 1].reshape(config.grid, config.grid) for a in (on_grid.mean, on_grid.lower, on_grid.upper)
    )
    lengths = np.asarray(on_data.upper)[:, 1] - np.asarray(on_data.lower)[:, 1]
    row = {
        "t": t,
        "degrees": f"{config.degrees[t]:g}",
        "accuracy": metrics.accuracy(np.asarray(on_data.mean), test.y),
        "length on data": float(np.mean(lengths)),
        "length off data": float(np.mean((upper - lower).ravel()[off])) if off.any() else math.nan,
    }
    across, up = np.unique(grid[:, 0]), np.unique(grid[:, 1])
    title = f"{config.degrees[t]:.0f}°"
    return row, moons.Panel(title, train.x, train.y, across, up, probability, lower, upper)


def _summary(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "accuracy": [row["accuracy"] for row in steps],
        "interval_length": {
            "on_data": float(np.mean([row["length on data"] for row in steps])),
            "off_data": float(np.nanmean([row["length off data"] for row in steps])),
            "on_data_by_t": [row["length on data"] for row in steps],
            "off_data_by_t": [row["length off data"] for row in steps],
        },
    }


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Means over time; the paper prints pictures only."""
    return [
        {"experiment": "two-moons", "what": f"{what}, {scenario}", "ours": value, "paper": None}
        for scenario, summary in found.items()
        for what, value in (
            ("accuracy", float(np.mean(summary["accuracy"]))),
            ("interval length on the data", summary["interval_length"]["on_data"]),
            ("interval length off the data", summary["interval_length"]["off_data"]),
        )
    ]


EXPERIMENT = Experiment("Where does the filter know, and where does it say that it does not?", PROFILES, run)
