"""One file, one experiment of the paper."""

from hmnn.experiments import evolving_mnist, flag, logistic_drift, two_moons, vdc_mnist
from hmnn.experiments.base import Experiment, Monitor

EXPERIMENTS: dict[str, Experiment] = {
    "two-moons": two_moons.EXPERIMENT,
    "logistic-drift": logistic_drift.EXPERIMENT,
    "flag": flag.EXPERIMENT,
    "evolving-mnist": evolving_mnist.EXPERIMENT,
    "vdc-mnist": vdc_mnist.EXPERIMENT,
}

__all__ = ["EXPERIMENTS", "Experiment", "Monitor"]
