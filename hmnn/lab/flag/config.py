"""The settings of the flag's experiment."""

import math
from dataclasses import dataclass, replace

from hmnn import _check
from hmnn.lab.flag.video import PROTOCOLS


@dataclass(frozen=True)
class Config:
    """The paper's; `epochs_lstm`, `keep_dropconnect`, the starts and all `diagonal_` are ours."""

    window: int = 36
    validate_from: int = 100
    test_from: int = 150
    last: int = 298
    protocols: tuple[str, ...] = ("paper", "clean")
    seeds: int = 3
    hidden: tuple[int, ...] = (500, 20, 500)
    hidden_lstm: tuple[int, ...] = (500, 500, 500)
    memories: tuple[float, ...] = (0.25, 0.5, 0.75)
    keeps: tuple[float, ...] = (0.3, 0.8, 1.0)
    jump_probs: tuple[float, ...] = (0.25, 0.5, 0.75)
    rates: tuple[float, ...] = (1e-3, 1e-4, 1e-5)
    """Learning rates of the LSTM and of DropConnect."""
    jump_scale: float = math.exp(2)
    shrink: float = math.exp(8)
    learning_rate: float = 1e-4
    """Of SGD on the mean over the window of the squared error, with the KL term divided alike."""
    epochs: int = 150
    epochs_lstm: int = 3
    keep_dropconnect: float = 0.8
    start_rho: tuple[float, float] = (-5.0, -4.0)
    initial_scale: float = math.log1p(math.exp(-4.5))
    diagonal_centres: tuple[str, ...] = ("previous",)
    diagonal_memories: tuple[float, ...] = (0.25, 0.5, 0.75)
    diagonal_jump_scales: tuple[float, ...] = (math.exp(2), 0.1, 0.02, 0.005)
    diagonal_jump_prob: float = 0.75
    diagonal_noise: float = 3.0
    """Standard deviation of a component about its forecast; the paper's loss has 0.71."""
    diagonal_learning_rate: float = 1e-2
    """Of Adam, on the summed loss."""
    diagonal_epochs: int = 50
    diagonal_start_rho: tuple[float, float] = (-3.0, -2.0)
    diagonal_initial_scale: float = 1.0
    draws: int = 50


FEW = Config(seeds=1, memories=(0.75,), keeps=(1.0,), rates=(1e-4,), epochs_lstm=1)
"""One seed, and little to choose from."""
PROFILES = {
    "smoke": replace(
        FEW,
        last=152,
        protocols=("paper",),
        hidden=(8,),
        hidden_lstm=(8,),
        jump_probs=(0.25, 0.75),
        epochs=2,
        diagonal_memories=(0.75,),
        diagonal_jump_scales=(0.02,),
        diagonal_epochs=10,
        draws=4,
    ),
    "quick": replace(FEW, jump_probs=(0.75,), diagonal_memories=(1.0,), epochs=50),
    "paper": Config(),
}


def check(config: Config) -> None:
    """Refuse frames, protocols and seeds that make no run."""
    names = ("window", "validate_from", "test_from", "last")
    window, validate, test, last = (_check.count(name, getattr(config, name)) for name in names)
    if not window < validate < test <= last:
        raise ValueError(
            f"{', '.join(names)} must rise in this order. Got {window}, {validate}, {test}, {last}."
        )
    if "paper" not in config.protocols or not set(config.protocols) <= set(PROTOCOLS):
        raise _check.fail("protocols", "'paper', or 'paper' and 'clean'", config.protocols)
    _check.count("seeds", config.seeds)
