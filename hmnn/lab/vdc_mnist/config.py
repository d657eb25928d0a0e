"""The settings of variational DropConnect on MNIST: the Config's own, or those of a search."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hmnn import _check
from hmnn.lab.optimisers import SCHEDULES

EXPERIMENT = "vdc-mnist"
Trials = dict[str, list[dict[str, Any]]]
"""keep as a word -> the trials of its search, as `hmnn sweep` writes them."""


@dataclass(frozen=True)
class Config:
    """Network, split, epochs, minibatch and the search's grids are the paper's; the rest is ours.

    `jump_probs`, `jump_scales`, `shrinks`, `learning_rates` and `samples` have one value for each
    of `keeps`, or a single one for all of them.
    """

    keeps: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    jump_probs: tuple[float, ...] = (0.5,)
    jump_scales: tuple[float, ...] = (math.exp(-1),)
    shrinks: tuple[float, ...] = (math.exp(7),)
    learning_rates: tuple[float, ...] = (1e-3,)
    samples: tuple[int, ...] = (1,)
    """N, draws of the weights for one gradient."""
    trials: int = 12
    """Grid points tried for each keep, whose best replaces the five fields above; or 0."""
    search: str = ""
    """Files search.json of earlier searches, with commas between, instead of a search now."""
    samples_at_most: int = 5
    """N, if a search found a larger one: a run with N = 5 takes five times as long."""
    seeds: int = 3
    train_rows: int = 50000
    validation_rows: int = 10000
    test_rows: int = 10000
    hidden: tuple[int, ...] = (400, 400)
    epochs: int = 600
    search_epochs: int = 18
    """Epochs of a trial that is not ended early."""
    chunk: int = 5
    """Epochs between two checkpoints, where validation is looked at; it divides `epochs`."""
    minibatch: int = 128
    optimiser: str = "sgd"
    schedule: str = "constant"
    """"constant", or "cosine": from the learning rate to 0 within all epochs."""
    start_rho: tuple[float, float] = (-5.0, -4.0)
    temperature: float = 1.0
    """Factor of the KL term; below 1 the result is a cold posterior, not Bayes."""
    draws: int = 100
    """Networks drawn for the sampled scores and for the epistemic uncertainty."""


OURS = replace(
    Config(),
    trials=0,
    jump_scales=(1.0,),
    optimiser="adam",
    schedule="cosine",
    temperature=0.01,
    start_rho=(-4.0, -3.0),
)
"""Found on validation: docs/experiments/vdc-mnist.md says how.

Its KL term counts a hundredth: a cold posterior, not the Bayesian answer.
"""
PROFILES = {
    "smoke": Config(
        keeps=(0.5, 1.0),
        trials=0,
        seeds=2,
        train_rows=512,
        validation_rows=128,
        test_rows=128,
        hidden=(16, 16),
        epochs=20,
        search_epochs=6,
        chunk=5,
        draws=4,
    ),
    "quick": replace(Config(), trials=0, seeds=1, epochs=40),
    "paper": Config(),
    "ours": OURS,
}
GRID: dict[str, tuple[tuple[float, ...], ...]] = {
    "jump_probs": ((0.25,), (0.5,), (0.75,)),
    "jump_scales": ((1.0,), (math.exp(-1),), (math.exp(-2),)),
    "shrinks": ((math.exp(6),), (math.exp(7),), (math.exp(8),)),
    "learning_rates": ((1e-5,), (1e-4,), (1e-3,)),
    "samples": ((1,), (2,), (5,)),
}
"""The paper's grids of phi, sigma, c, the learning rate and N, each value for one keep."""
RECIPE = {
    "optimiser": ("adam",),
    "schedule": ("cosine",),
    "temperature": (0.01, 0.03, 0.1, 0.3, 1.0),
    "start_rho": ((-5.0, -4.0), (-4.0, -3.0)),
    "jump_scales": ((1.0,),),
    "search_epochs": (60,),
}
"""How keep = 0.5 is trained: what `hmnn sweep vdc-mnist --method recipe` tries."""
SEARCH_CHUNK = 2
"""Epochs of a trial between two looks at its validation score; it divides `search_epochs`."""
BEST = 3
"""Trials of a search that are drawn for each keep, as in the paper's figure."""


def check(config: Config) -> None:
    """Refuse settings that do not fit each other."""
    _check.choice("schedule", config.schedule, SCHEDULES)  # jobs would tell too late
    for field in GRID:
        if len(said := getattr(config, field)) not in (1, len(config.keeps)):
            raise _check.fail(field, f"1 or {len(config.keeps)} values, as many as keeps", said)
    steps = {"epochs": _check.count("chunk", config.chunk), "search_epochs": SEARCH_CHUNK}
    for field, step in steps.items():
        if getattr(config, field) % step:
            raise _check.fail(field, f"a multiple of {step}", getattr(config, field))


def refuse_both(config: Config) -> None:
    """Refuse a setting where a search is to find it."""
    for field in GRID if config.trials or config.search else ():
        if (said := getattr(config, field)) != getattr(Config, field):
            allowed = "left to the search, or set together with trials=0 and no search"
            raise _check.fail(field, allowed, said)


def each(config: Config, found: Trials) -> dict[str, Config]:
    """The Config of every keep, by its name in the record ("0.25"); with the best found, if any."""
    check(config)
    made = {}
    for i, keep in enumerate(config.keeps):
        given = {field: getattr(config, field) for field in GRID}
        values: dict[str, Any] = {field: (at[i % len(at)],) for field, at in given.items()}
        if found:
            best = found[str(keep)][0]["settings"]
            values = {field: tuple(value) for field, value in best.items()}
            values["samples"] = (min(*values["samples"], config.samples_at_most),)
        made[str(keep)] = replace(config, keeps=(keep,), search="", **values)
    return made


def read(config: Config) -> Trials:
    """The trials in the files of `search`; nothing if no file is named."""
    found: Trials = {}
    for name in filter(None, config.search.split(",")):
        record = _read(Path(name.strip()))
        if record["method"] in found:
            raise _check.fail("search", f"one file for keep = {record['method']}", config.search)
        found[record["method"]] = record["trials"]
    return ranked(config, found) if found else {}


def ranked(config: Config, found: Trials) -> Trials:
    """Best first: trials that ended by their score, then those that came furthest by their last."""

    def rank(trial: dict[str, Any]) -> tuple[bool, int, float]:
        told = [(int(at), value) for at, value in trial["reports"].items()]
        epoch, last = max(told, default=(0, 0.0))
        ended = trial["state"] == "complete"
        return ended, 0 if ended else epoch, trial["value"] if ended else last

    for keep in map(str, config.keeps):
        if not any(trial["state"] == "complete" for trial in found.get(keep, [])):
            allowed = f"a search with a trial of keep = {keep} that came to its end"
            raise _check.fail("search", allowed, config.search or f"{config.trials} trials")
    return {str(keep): sorted(found[str(keep)], key=rank, reverse=True) for keep in config.keeps}


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
        if record["experiment"] == EXPERIMENT and isinstance(record["trials"], list):
            return record
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise _check.fail("search", f"a search.json of `hmnn sweep {EXPERIMENT}`", str(path))
