"""Two moons that turn: where does the filter know, and where does it say "I do not know"?

`hmnn run two-moons` (paper profile, about a minute). Two scenarios, five time steps: half circles
that are apart (noise 0.1) or overlap (noise 0.3), turned by 45 degrees a step. The paper prints no
numbers here; its text says that the intervals are long where classes overlap, and near 1 between
the moons and off the data.
"""

from hmnn.lab.experiment import Experiment
from hmnn.lab.two_moons.config import PROFILES, Config
from hmnn.lab.two_moons.figures import FIGURES
from hmnn.lab.two_moons.procedure import build, run

EXPERIMENT = Experiment(
    "Two moons that turn",
    "Where does the filter know, and where does it say that it does not?",
    PROFILES,
    run,
    FIGURES,
)

__all__ = ["EXPERIMENT", "PROFILES", "Config", "build"]
