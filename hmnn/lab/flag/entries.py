"""The methods in the table of the flag, and the grids from which their settings are chosen."""

from functools import cache
from itertools import product
from typing import Any

import jax.numpy as jnp

from hmnn.core.likelihoods import gaussian
from hmnn.lab.flag.config import Config
from hmnn.lab.flag.video import LOOP
from hmnn.methods import Method, bbp, hmnn
from hmnn.methods.dropconnect import dropconnect
from hmnn.methods.lstm import lstm
from hmnn.methods.persistence import persistence
from hmnn.methods.shrinkage import shrinkage
from hmnn.networks import Network, from_functions, mlp

PAPER = {"persistence": 0.2162, "lstm": 0.2080, "dropconnect": 0.2063}
PAPER |= {"bbp": 0.1932, "hmnn_paper": 0.1891}
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
        widths: dict[str, Any] = {"hidden": config.hidden_lstm, "epochs": config.epochs_lstm}
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
    names = ("jump_scale", "shrink", "epochs", "start_rho", "initial_scale")
    fixed = {"likelihood": "gaussian", "minibatch": None, "keep_where": "all"}
    rate = {"learning_rate": config.learning_rate / config.window}
    return {name: getattr(config, name) for name in names} | fixed | rate


def _ours(config: Config) -> dict[str, Any]:
    names = ("jump_prob", "learning_rate", "epochs", "start_rho", "initial_scale")
    own = {name: getattr(config, f"diagonal_{name}") for name in names}
    noise = {"likelihood": gaussian(config.diagonal_noise), "optimiser": "adam"}
    return _printed(config) | own | noise


@cache
def _diagonal(size: int) -> Network:
    """One weight per component, times the last frame; it begins as the last frame."""
    return from_functions(
        lambda key: jnp.ones(size), lambda weights, x: x * jnp.broadcast_to(weights, x.shape)
    )
