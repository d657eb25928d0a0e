"""One file, one experiment of the paper."""

from hmnn.experiments import two_moons
from hmnn.experiments.base import Experiment, Monitor

EXPERIMENTS: dict[str, Experiment] = {"two-moons": two_moons.EXPERIMENT}

__all__ = ["EXPERIMENTS", "Experiment", "Monitor"]
