"""Predict, then learn, over any stream, with any model like scikit-learn's or river's."""

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
