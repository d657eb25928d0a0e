"""Models to compare with: the last label or value, and river's linear models, tree and forest."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from hmnn import _check


class LastLabel:
    """Says the last label again (0 at first): 85 % right on Elec2, where labels come in runs."""

    def __init__(self) -> None:
        self.last: Any = 0

    def predict(self, x: Any) -> Any:
        """The last target, for every row."""
        return np.full(len(x), self.last)

    def partial_fit(self, x: Any, y: Any) -> "LastLabel":
        """Remember the last target."""
        if len(y):
            self.last = y[-1]
        return self


def _river(module: str) -> Any:
    try:
        return import_module(f"river.{module}")
    except ImportError:
        raise ValueError("This model needs river: pip install 'hmnn[river]'.") from None


def _scaled(model: Any) -> Any:
    return _river("preprocessing").StandardScaler() | model


def _logistic(classes: int, seed: int) -> Any:
    linear = _river("linear_model")
    return _scaled(linear.LogisticRegression() if classes == 2 else linear.SoftmaxRegression())


CLASSIFIERS: dict[str, Callable[[int, int], Any]] = {
    "last-label": lambda classes, seed: LastLabel(),
    "logistic": _logistic,
    "hoeffding": lambda classes, seed: _river("tree").HoeffdingAdaptiveTreeClassifier(seed=seed),
    "arf": lambda classes, seed: _river("forest").ARFClassifier(n_models=10, seed=seed),
}
"""Name -> build(number of classes, seed)."""

REGRESSORS: dict[str, Callable[[int, int], Any]] = {
    "last-value": lambda classes, seed: LastLabel(),
    "linear": lambda classes, seed: _scaled(
        _river("linear_model").LinearRegression(intercept_lr=0.1)
    ),
    "hoeffding": lambda classes, seed: _scaled(
        _river("tree").HoeffdingAdaptiveTreeRegressor(seed=seed)
    ),
    "arf": lambda classes, seed: _scaled(_river("forest").ARFRegressor(n_models=10, seed=seed)),
}
"""The same for numbers; the settings are those of river's own examples."""


def build(name: str, task: str, classes: int = 2, seed: int = 0) -> Any:
    """A peer by its name, untrained."""
    known = CLASSIFIERS if task == "classification" else REGRESSORS
    return known[_check.choice("peer", name, known)](classes, seed)
