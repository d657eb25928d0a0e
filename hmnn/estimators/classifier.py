"""The scikit-learn classifier."""

from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import validate_data

from hmnn import _check
from hmnn._types import Number
from hmnn.core.natural import Outlook
from hmnn.estimators import engine, inputs
from hmnn.estimators.scikit import Filter, Uncertainty, fitting, whole


class HMNNClassifier(ClassifierMixin, Filter):
    """A neural network classifier whose weights move in time.

    `fit` starts afresh; each `partial_fit` is one time step. docs/natural.md tells how the defaults were chosen.

    Args:
        hidden: widths of the hidden layers.
        memory: alpha in [0, 1]; how much of the old uncertainty stays from one time step to the next.
        jump_scale: sigma, the standard deviation of a big jump of a weight in one time step.
        shrink: c > 1; a small jump is so many times smaller.
        jump_prob: phi, the probability of a big jump.
        keep: gamma in (0, 1], the probability that the mean of a weight between two hidden layers is kept (gradient
            projection only).
        initial_scale: standard deviation of the weights before any data.
        level_scale: standard deviation of an extra jump of the outputs' biases (natural projection only).
        projection: "natural" (closed form), "gradient" (the paper's descent) or "auto" (by the number of rows).
        epochs: passes over the rows of a time step (gradient projection only).
        learning_rate: of Adam (gradient projection only).
        minibatch: rows of a minibatch (gradient projection only).
        standardise: whether columns are standardised by the rows learned so far.
        random_state: seed of the network's first weights and of the descent's noise.
    """

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Forget everything and take one time step."""
        x, y = self._checked(X, y, reset=True)
        self.classes_ = np.unique(y)
        memory = self._learn(x, self._indices(y), sample_weight, self._start())
        self.memory_ = memory
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:  # noqa: N803
        """Take one time step; `classes` are needed at the first."""
        x, y = self._first_or_next(X, y, classes)
        memory = self.memory_ if hasattr(self, "memory_") else self._start()
        self.memory_ = self._learn(x, self._indices(y), sample_weight, memory)
        return self

    @whole
    def progress(self, X: Any, y: Any, classes: Any = None) -> ndarray:  # noqa: N803 - scikit-learn's name
        """Predict each row and then learn it, every row a time step, in one compiled loop.

        Returns:
            The probabilities of each row, from the rows before it.
        """
        x, y = self._first_or_next(X, y, np.unique(y) if classes is None and not hasattr(self, "classes_") else classes)
        memory = self.memory_ if hasattr(self, "memory_") else self._start()
        scaled, centred = inputs.followed(memory.x, x)
        after, seen = engine.progress(self._engine(), memory, centred if self.standardise else x, self._indices(y))
        self.memory_ = after._replace(x=scaled)
        return self._probabilities(seen)

    def predict(self, X: Any) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The most probable class of each row."""
        p = self.predict_proba(X)
        return self.classes_[np.argmax(p, axis=1)]

    def predict_proba(self, X: Any) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The probability of each class, in the order of `classes_`."""
        return self._probabilities(self._look(X)[0])

    def forecast(self, X: Any, horizon: Number = 1) -> ndarray:  # noqa: N803 - scikit-learn's name
        """Probabilities `horizon` time steps from now: the farther, the less certain."""
        return self._probabilities(self._look(X, _check.count("horizon", horizon))[0])

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803 - scikit-learn's name
        """The variance of each row's class indicators, summed over the classes, in its two parts."""
        seen = self._look(X)[0]
        p, slope = self._probabilities(seen), self._probabilities(seen._replace(spread=np.zeros_like(seen.spread)))
        total = np.sum(p * (1.0 - p), axis=1)
        epistemic = np.minimum(np.sum((slope * (1.0 - slope)) ** 2 * seen.spread, axis=1), total)
        return Uncertainty(epistemic, total - epistemic)

    def _outputs(self) -> int:
        return 1 if len(self.classes_) <= 2 else len(self.classes_)

    def _likelihood(self) -> str:
        return "bernoulli" if len(self.classes_) <= 2 else "categorical"

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[ndarray, ndarray]:  # noqa: N803 - scikit-learn's name
        x, y = validate_data(self, X, y, dtype=np.float64, reset=reset)
        check_classification_targets(y)
        return fitting("X", x), y

    def _first_or_next(self, X: Any, y: Any, classes: Any) -> tuple[ndarray, ndarray]:  # noqa: N803
        x, y = self._checked(X, y, reset=not hasattr(self, "memory_"))
        _check_partial_fit_first_call(self, classes)
        return x, y

    def _indices(self, y: ndarray) -> ndarray:
        unseen = np.setdiff1d(y, self.classes_)
        if len(unseen):
            raise _check.fail("y", f"one of the classes {self.classes_.tolist()}", unseen[:5].tolist())
        return np.searchsorted(self.classes_, y).astype(np.int32)

    def _probabilities(self, seen: Outlook) -> ndarray:
        p = probabilities(seen)
        return np.ones_like(p[:, :1]) if len(self.classes_) == 1 else p


def probabilities(seen: Outlook) -> ndarray:
    """Class probabilities of outlooks, the linearised variance taken in by the probit approximation."""
    logits = np.asarray(seen.outputs, np.float64) / np.sqrt(1.0 + np.pi / 8.0 * np.asarray(seen.spread, np.float64))
    if logits.shape[1] > 1:
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)
    p = expit(logits)
    return np.concatenate([1.0 - p, p], axis=1)
