"""Labels that evolve: does a filter follow them, better than methods made to remember?

`hmnn run evolving-mnist`; docs/experiments/evolving-mnist.md says how long it takes. 19 time steps
of 10000 digits, each named by its label or by the next one with a probability that moves from 1 to
0 and back. Six methods, settings chosen by their mean accuracy over time on validation data,
tested on data that the choice never sees.
"""

from hmnn.lab.evolving_mnist.config import PROFILES, Config
from hmnn.lab.evolving_mnist.entries import build
from hmnn.lab.evolving_mnist.figures import FIGURES
from hmnn.lab.evolving_mnist.procedure import SEARCH, run
from hmnn.lab.experiment import Experiment

EXPERIMENT = Experiment(
    "Labels that evolve",
    "Does a filter follow labels that evolve, better than methods made to remember or start anew?",
    PROFILES,
    run,
    FIGURES,
    SEARCH,
)

__all__ = ["EXPERIMENT", "PROFILES", "Config", "build"]
