"""The waving flag: can a filter forecast the next frame of a video while it watches it?

`hmnn run flag`; docs/experiments/flag.md says how many minutes it takes. At every frame each
method learns from the last 36 pairs of frames and forecasts the next one. Settings are chosen on
frames 100 to 148, and the paper's M is taken on frames 150, 152, ..., 298. Rows marked "diagonal"
are ours: a network with one weight per component, times the last frame.
"""

from hmnn.lab.experiment import Experiment
from hmnn.lab.flag.config import PROFILES, Config
from hmnn.lab.flag.figures import FIGURES
from hmnn.lab.flag.procedure import SEARCH, run

EXPERIMENT = Experiment(
    "The waving flag",
    "Can a filter forecast the next frame of a video while it watches it?",
    PROFILES,
    run,
    FIGURES,
    SEARCH,
)

__all__ = ["EXPERIMENT", "PROFILES", "Config"]
