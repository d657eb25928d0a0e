"""A logistic regression whose weights go round in a circle: does the filter follow them?

`hmnn run logistic-drift` (paper profile, a few minutes). 700 time steps of 10000 rows, weights 10
sin and 10 cos of 5 degrees a step, several runs of every method. The paper prints a figure and no
numbers; its text says that HMNN and the adaptation of Kurle et al. recover the sinusoidal curve.
Scores are those of the two weights after the first 10 steps: the root mean squared error of the
posterior mean, and the root mean square of z = error / posterior standard deviation.
"""

from hmnn.lab.experiment import Experiment
from hmnn.lab.logistic_drift.config import PROFILES, Config
from hmnn.lab.logistic_drift.figures import FIGURES
from hmnn.lab.logistic_drift.procedure import SEARCH, run

EXPERIMENT = Experiment(
    "A logistic regression whose weights go round",
    "Does the filter follow weights that go round in a circle, and does it know how well?",
    PROFILES,
    run,
    FIGURES,
    SEARCH,
)

__all__ = ["EXPERIMENT", "PROFILES", "Config"]
