"""Variational DropConnect: does dropping means in training make a Bayesian network better?

`hmnn run vdc-mnist`; docs/experiments/vdc-mnist.md says how long it takes. One time step: MNIST,
50000 images to learn, 10000 to validate, 10000 to test once at the end. gamma = 1 is Bayes by
Backprop. The run begins with a search of the settings of every keep by validation; or searches
were made before, perhaps on many machines, by `hmnn sweep vdc-mnist --method 0.25`, and are handed
to it by `--set search=FILE,FILE`.
"""

from hmnn.lab.experiment import Experiment
from hmnn.lab.vdc_mnist.config import PROFILES, Config
from hmnn.lab.vdc_mnist.figures import FIGURES
from hmnn.lab.vdc_mnist.procedure import SEARCH, build, run

EXPERIMENT = Experiment(
    "Variational DropConnect on MNIST",
    "Does dropping means while training make a Bayesian network classify better?",
    PROFILES,
    run,
    FIGURES,
    SEARCH,
)

__all__ = ["EXPERIMENT", "PROFILES", "Config", "build"]
