"""The methods in the table of the flag, and the grids from which their settings are chosen."""

from functools import cache
from itertools import product
from typing import Any

import jax.numpy as jnp

from hmnn.core.likelihoods import gaussian
from hmnn.lab.flag.config import Config
from hmnn.lab.flag.video import LOOP
from hmnn.methods import Method, bbp, dropconnect, hmnn, lstm, persistence, shrinkage
from hmnn.networks import Network, from_functions, mlp

PAPER = {
    "persistence": 0.2162,
    "lstm": 0.2080,
    "dropconnect": 0.2063,
    "bbp": 0.1932,
    "hmnn_paper": 0.1891,
}
"""M as the paper prints it."""
LABELS = {
    "persistence": "last frame",
    "shrinkage": "shrinkage",
    "loop": f"frame t - {LOOP}",
    "lstm": "LSTM",
    "dropconnect": "DropConnect",
    "bbp": "BBP",
    "hmnn_paper": "HMNN",
    "dropconnect_diagonal": "DropConnect, diagonal",
    "bbp_diagonal": "BBP, diagonal",
    "hmnn_diagonal": "HMNN, diagonal",
}
FIXED = ("persistence", "shrinkage", "loop")
"""Methods without settings and without chance."""
BAYES = ("bbp", "hmnn_paper", "bbp_diagonal", "hmnn_diagonal")


def grid(config: Config, kind: str) -> list[dict[str, Any]]:
    """The settings to choose from: the paper's grid for its network, ours for the diagonal."""
    if kind == "lstm" or kind.startswith("dropconnect"):
        axes: dict[str, Any] = {"learning_rate": config.rates}
    elif kind.endswith("_diagonal"):
        axes = {"jump_scale": config.diagonal_jump_scales}
        axes |= {"memory": config.diagonal_memories, "centre": config.diagonal_centres}
    else:
        axes = {"jump_prob": config.jump_probs, "memory": config.memories, "keep": config.keeps}
    if kind.startswith("bbp"):
        axes = {name: values for name, values in axes.items() if name.startswith("jump")}
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def build(config: Config, kind: str, setting: dict[str, Any], size: int) -> Method:
    """A method by its name in the tables."""
    if kind in FIXED:
        lags = {"persistence": 1, "shrinkage": 2, "loop": LOOP}  # every frame is stored twice
        return (shrinkage if kind == "shrinkage" else persistence)(size, lag=lags[kind])
    if kind == "lstm":
        widths = {"hidden": config.hidden_lstm, "epochs": config.epochs_lstm}
        return lstm(size, size, "gaussian", **widths, **setting)
    diagonal = kind.endswith("_diagonal")
    network = _diagonal(size) if diagonal else mlp(size, config.hidden, size)
    if kind.startswith("dropconnect"):
        rate = setting["learning_rate"] / config.window
        pace = {"learning_rate": rate, "epochs": config.epochs, "keep": config.keep_dropconnect}
        return dropconnect(network, "gaussian", keep_where="all", **pace)
    settings = _ours(config) if diagonal else _printed(config)
    return (hmnn if kind.startswith("hmnn") else bbp)(network, **settings | setting)


def _printed(config: Config) -> dict[str, Any]:
    return {
        "likelihood": "gaussian",
        "jump_scale": config.jump_scale,
        "shrink": config.shrink,
        "learning_rate": config.learning_rate / config.window,
        "epochs": config.epochs,
        "minibatch": None,
        "keep_where": "all",
        "start_rho": config.start_rho,
        "initial_scale": config.initial_scale,
    }


def _ours(config: Config) -> dict[str, Any]:
    return _printed(config) | {
        "likelihood": gaussian(config.diagonal_noise),
        "jump_prob": config.diagonal_jump_prob,
        "optimiser": "adam",
        "learning_rate": config.diagonal_learning_rate,
        "epochs": config.diagonal_epochs,
        "start_rho": config.diagonal_start_rho,
        "initial_scale": config.diagonal_initial_scale,
    }


@cache
def _diagonal(size: int) -> Network:
    """One weight per component, times the last frame; it begins as the last frame."""
    return from_functions(lambda key: jnp.ones(size), lambda weights, x: x * jnp.broadcast_to(weights, x.shape))
