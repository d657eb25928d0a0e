"""The methods in the table of the evolving classifier, and the grids from which their settings are chosen."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.lab.evolving_mnist.config import ABLATION, OURS, OWN, Config
from hmnn.lab.optimisers import optimiser
from hmnn.methods import Method, bbp, ewc, hmnn, kurle, vcl
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
    "ewc": {
        "strength": (10.0, 100.0, 1000.0, 10000.0),
        "ewc_learning_rate": (3e-3, 1e-3, 3e-4, 1e-4),
    },
    "vcl": {"learning_rate": RATES, "initial_scale": (Config.initial_scale, 0.3, 0.1, 0.05)},
}
"""hmnn's, lambda of ewc and three learning rates of vcl are the paper's; the rest makes the grids equally large."""
GRIDS["bbp_once"] = GRIDS["bbp"]
EPOCHS_KEPT = 5
"""Epochs between two checkpoints of bbp_once, if they divide its epochs."""


def tried(config: Config, method: str) -> list[dict[str, float]]:
    """The settings to choose from: this Config's first, then points of the method's grid in an order fixed once."""
    if method not in GRIDS:  # an ablation changes one thing and chooses nothing
        return [{}]
    config, axes = own(config, method), GRIDS[method]
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    order = np.random.default_rng(0).permutation(len(points))
    first = {field: getattr(config, field) for field in axes}
    rest = [points[i] for i in order if not all(math.isclose(points[i][field], first[field]) for field in axes)]
    return [first, *rest][: _check.count("settings", config.settings)]


def build(config: Config, method: str) -> Method:
    """A method by its name in the tables; for bbp_once, with the epochs between two checkpoints."""
    config, method = resolved(config, method)
    network = mlp(784, config.hidden, 10)
    if method == "ewc":
        rule = optimiser("adam", config.schedule, updates(config))
        pace = {
            "learning_rate": config.ewc_learning_rate,
            "epochs": config.epochs,
            "minibatch": config.minibatch,
        }
        return ewc(
            network,
            "categorical",
            strength=config.strength,
            anchors=config.anchors,
            optimiser=rule,
            **pace,
        )
    jumps = {
        "jump_prob": config.jump_prob,
        "jump_scale": config.jump_scale,
        "shrink": config.shrink,
    }
    if method == "hmnn":
        return hmnn(
            network,
            "categorical",
            memory=config.memory,
            keep=config.keep,
            **jumps,
            **_descent(config),
        )
    if method == "kurle":
        law = {"memory": config.kurle_memory, "scale": config.kurle_scale}
        return kurle(network, "categorical", **law, **_descent(config))
    if method == "vcl":
        return vcl(network, "categorical", **_descent(config))
    return bbp(network, "categorical", **jumps, **(_descent(config) if method == "bbp" else _once(config)))


def resolved(config: Config, method: str) -> tuple[Config, str]:
    """For an ablation, HMNN and the Config with its change; else the method and its own Config."""
    _check.choice("method", method, LABELS)
    return (replace(config, **ABLATION[method]), "hmnn") if method in ABLATION else (own(config, method), method)


def own(config: Config, method: str) -> Config:
    """The Config with the recipe of the method, if each is to have its own; what was set otherwise stays as it is."""
    if _check.choice("recipes", config.recipes, ("one", "own")) == "one":
        return config
    found = {
        field: value for field, value in OWN.get(method, {}).items() if getattr(config, field) == getattr(OURS, field)
    }
    return replace(config, recipes="one", **found)


def _descent(config: Config) -> dict[str, Any]:
    return {
        "optimiser": optimiser(config.optimiser, config.schedule, updates(config)),
        "learning_rate": config.learning_rate,
        "epochs": config.epochs,
        "minibatch": config.minibatch,
        "samples": config.samples,
        "temperature": config.temperature,
        "initial_scale": config.initial_scale,
        "start_rho": config.start_rho,
        "restart": config.schedule != "constant",
    }


def _once(config: Config) -> dict[str, Any]:
    """All rows at once; its prior is the same at every step, so that a few epochs can be a step, and kept."""
    whole = updates(replace(config, rows=config.rows * config.steps))
    rule = optimiser(config.optimiser, config.schedule, whole)
    return _descent(config) | {"optimiser": rule, "restart": False, "epochs": epochs_kept(config)}


def epochs_kept(config: Config) -> int:
    """Epochs of bbp_once between two checkpoints."""
    return EPOCHS_KEPT if config.epochs % EPOCHS_KEPT == 0 else 1


def updates(config: Config) -> int:
    """Updates of a time step."""
    return -(-config.rows // config.minibatch) * config.epochs
