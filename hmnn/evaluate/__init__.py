"""Prequential evaluation: predict, then learn, over any stream and any scikit-learn-like or river-like model."""

from hmnn.evaluate.doors import ModelError, Prequential
from hmnn.evaluate.loop import Classified, Regressed, Tick, prequential
from hmnn.evaluate.reports import Report, compare

__all__ = [
    "Classified",
    "ModelError",
    "Prequential",
    "Regressed",
    "Report",
    "Tick",
    "compare",
    "prequential",
]
