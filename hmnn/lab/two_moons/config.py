"""The settings of the two moons."""

import math
from dataclasses import dataclass, replace


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
