"""The methods of the evolving classifier, and the grids from which their settings are chosen."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.lab.evolving_mnist.config import ABLATION, OURS, OWN, Config
from hmnn.lab.optimisers import optimiser
from hmnn.methods import Method, bbp, hmnn, kurle, vcl
from hmnn.methods.ewc import ewc
from hmnn.networks import mlp

PAPER = {"bbp_once": 0.503, "vcl": 0.744, "ewc": 0.760, "bbp": 0.780, "kurle": 0.784, "hmnn": 0.786}
"""Mean test accuracy over time, as the paper prints it."""
LABELS = {
    "hmnn": "HMNN",
    "kurle": "Kurle et al.",
    "bbp": "BBP",
    "ewc": "EWC",
    "vcl": "VCL",
    "bbp_once": "BBP (T = 1)",
    **{name: f"HMNN, paper's {name.removeprefix('hmnn_')}" for name in ABLATION},
}
RATES = (1e-3, 1e-4, 1e-5, 3e-4)
"""The paper's grid of VCL, and one more so that every method has 16 settings."""
SCALES = tuple(math.exp(-k) for k in range(4))
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "hmnn": {"memory": (0.25, 0.5, 0.75, 1.0), "keep": (0.25, 0.5, 0.75, 1.0)},
    "kurle": {"kurle_memory": (0.5, 0.75, 0.9, 0.99), "kurle_scale": SCALES},
    "bbp": {"jump_scale": SCALES, "learning_rate": (3e-3, 1e-3, 3e-4, 1e-4)},
    "ewc": {"strength": (1e1, 1e2, 1e3, 1e4), "ewc_learning_rate": (3e-3, 1e-3, 3e-4, 1e-4)},
    "vcl": {"learning_rate": RATES, "initial_scale": (Config.initial_scale, 0.3, 0.1, 0.05)},
}
"""hmnn's, lambda of ewc and three rates of vcl are the paper's; the rest makes all of 16 points."""
GRIDS["bbp_once"] = GRIDS["bbp"]
EPOCHS_KEPT = 5
"""Epochs between two checkpoints of bbp_once, if they divide its epochs."""


def tried(config: Config, method: str) -> list[dict[str, float]]:
    """The settings to choose from: this Config's first, then the method's grid in a fixed order."""
    if method not in GRIDS:  # an ablation changes one thing and chooses nothing
        return [{}]
    config, axes = own(config, method), GRIDS[method]
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    order = np.random.default_rng(0).permutation(len(points))
    first = {field: getattr(config, field) for field in axes}
    given = [all(math.isclose(point[field], first[field]) for field in axes) for point in points]
    rest = [points[i] for i in order if not given[i]]
    return [first, *rest][: _check.count("settings", config.settings)]


def build(config: Config, method: str) -> Method:
    """A method by its name in the tables; for bbp_once, with the epochs between two checkpoints."""
    config, method = resolved(config, method)
    network = mlp(784, config.hidden, 10)
    if method == "ewc":
        settings = _taken(config, "strength", "anchors", "epochs", "minibatch")
        settings["optimiser"] = optimiser("adam", config.schedule, updates(config))
        return ewc(network, "categorical", learning_rate=config.ewc_learning_rate, **settings)
    jumps = _taken(config, "jump_prob", "jump_scale", "shrink")
    if method == "hmnn":
        jumps |= _taken(config, "memory", "keep")
        return hmnn(network, "categorical", **jumps, **_descent(config))
    if method == "kurle":
        law: dict[str, Any] = {"memory": config.kurle_memory, "scale": config.kurle_scale}
        return kurle(network, "categorical", **law, **_descent(config))
    if method == "vcl":
        return vcl(network, "categorical", **_descent(config))
    descent = _descent(config) if method == "bbp" else _once(config)
    return bbp(network, "categorical", **jumps, **descent)


def resolved(config: Config, method: str) -> tuple[Config, str]:
    """For an ablation, HMNN and the Config with its change; else the method and its own Config."""
    _check.choice("method", method, LABELS)
    if method in ABLATION:
        return replace(config, **ABLATION[method]), "hmnn"
    return own(config, method), method


def own(config: Config, method: str) -> Config:
    """The Config with the method's own recipe, if each is to have one; fields set by hand stay."""
    if _check.choice("recipes", config.recipes, ("one", "own")) == "one":
        return config
    best = OWN.get(method, {})
    plain = [field for field in best if getattr(config, field) == getattr(OURS, field)]
    return replace(config, recipes="one", **{field: best[field] for field in plain})


def _descent(config: Config) -> dict[str, Any]:
    pace = _taken(config, "learning_rate", "epochs", "minibatch", "samples", "temperature")
    rule = optimiser(config.optimiser, config.schedule, updates(config))
    restart = config.schedule != "constant"
    start = _taken(config, "initial_scale", "start_rho")
    return pace | start | {"optimiser": rule, "restart": restart}


def _taken(config: Config, *names: str) -> dict[str, Any]:
    return {name: getattr(config, name) for name in names}


def _once(config: Config) -> dict[str, Any]:
    """All rows at once; as the prior never changes, a few epochs can be a step, and be kept."""
    whole = updates(replace(config, rows=config.rows * config.steps))
    rule = optimiser(config.optimiser, config.schedule, whole)
    return _descent(config) | {"optimiser": rule, "restart": False, "epochs": epochs_kept(config)}


def epochs_kept(config: Config) -> int:
    """Epochs of bbp_once between two checkpoints."""
    return EPOCHS_KEPT if config.epochs % EPOCHS_KEPT == 0 else 1


def updates(config: Config) -> int:
    """Updates of a time step."""
    return -(-config.rows // config.minibatch) * config.epochs
