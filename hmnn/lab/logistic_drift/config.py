"""The settings of the logistic drift."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Config:
    """Rows, steps and degrees are the paper's; phi, c, learning rate and gamma those of its moons.

    The paper prints no other settings for this experiment; the rest is ours.
    """

    rows: int = 10000
    steps: int = 700
    degrees: float = 5.0
    runs: int = 3
    memory: float = 1.0
    jump_prob: float = 0.5
    shrink: float = math.exp(5)
    jump_scale: float = 0.25
    """sigma of hmnn and hmnn_keep, chosen by `hmnn sweep logistic-drift --method hmnn`."""
    full_jump_scale: float = 0.4
    """sigma of hmnn_full, chosen likewise."""
    laplace_jump_scale: float = 0.6
    """sigma of laplace, whose jumps are all big, chosen by the one-step-ahead log predictive."""
    kurle_memory: float = 0.999
    """alpha of kurle, chosen by validation."""
    kurle_scale: float = 7.0
    """Standard deviation to which kurle's weights tend without data: that of the true ones."""
    keep: float = 0.75
    """gamma of hmnn_keep; it is 1 elsewhere."""
    initial_scale: float = 10.0
    optimiser: str = "sgd"
    learning_rate: float = 1e-3
    keep_optimiser: str = "adam"
    keep_learning_rate: float = 0.05
    """Of hmnn_keep: a weight of 10 that is dropped makes gradients that throw plain SGD about."""
    epochs: int = 100
    validation_steps: int = 300


PROFILES = {
    "smoke": Config(rows=1000, steps=14, runs=2, epochs=20, validation_steps=12),
    "quick": replace(Config(), steps=150, validation_steps=50),
    "paper": Config(),
}
