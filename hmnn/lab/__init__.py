"""The paper's experiments, their reports and their commands: `pip install 'hmnn[lab]'`."""

from hmnn.lab import evolving_mnist, flag, logistic_drift, two_moons, vdc_mnist
from hmnn.lab.experiment import Experiment, Monitor

EXPERIMENTS: dict[str, Experiment] = {
    "two-moons": two_moons.EXPERIMENT,
    "logistic-drift": logistic_drift.EXPERIMENT,
    "flag": flag.EXPERIMENT,
    "evolving-mnist": evolving_mnist.EXPERIMENT,
    "vdc-mnist": vdc_mnist.EXPERIMENT,
}
"""The experiments by name, in the order of the paper."""

__all__ = ["EXPERIMENTS", "Experiment", "Monitor"]
