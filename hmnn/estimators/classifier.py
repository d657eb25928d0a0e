"""The scikit-learn classifier."""

from typing import Any

import numpy as np
from numpy import ndarray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from hmnn import _check
from hmnn._types import Number
from hmnn.core.prediction import Prediction
from hmnn.estimators import growth, in_turn, inputs, targets
from hmnn.estimators.scikit import StreamEstimator, Uncertainty
from hmnn.estimators.whole import whole


class HMNNClassifier(ClassifierMixin, StreamEstimator):
    """A neural network classifier whose weights move in time.

    `fit` starts afresh; each `partial_fit` is one time step. By default several filters run side by
    side and find out how fast the world moves. docs/natural.md tells how the defaults were chosen.
    The numbers memory, jump_scale, shrink, jump_prob and level_scale are those of one of them.

    Args:
        hidden: widths of the hidden layers.
        memory: alpha in [0, 1]; how much of the old uncertainty stays from one time step to the
            next.
        jump_scale: sigma, the standard deviation of a big jump of a weight in one time step.
        shrink: c > 1; a small jump is so many times smaller.
        jump_prob: phi, the probability of a big jump.
        keep: gamma in (0, 1], the probability that the mean of a weight between two hidden layers
            is kept (gradient projection only).
        initial_scale: standard deviation of the weights before any data.
        level_scale: standard deviation of an extra jump of the outputs' biases (natural projection
            only).
        forgetting: "auto" (a bank of filters that differ in how fast they forget, mixed by what
            they predicted), "fixed" (one filter with your numbers) or "learn" (one filter that
            learns how far the weights of each layer jump). docs/concepts/bank.md tells more.
        replay: so many old rows some filters of a bank learn again after each new row; with 0 none,
            and then the model keeps no rows.
        buffer: of so many latest rows these are drawn; they are kept in the model and in its file.
        experts: whether a bank for numbers has two filters that are told the last target. They
            speak of a row that is asked right after a label was learned; False where labels come
            late.
        correlations: "none" (independent weights), "last" (those of the last layer keep their
            covariance) or "auto" ("last" in a bank, "none" for a fixed filter).
        projection: "natural" (closed form), "gradient" (the paper's descent) or "auto" (closed
            form, but descent from 256 rows on with `keep` below 1 or an own `family`).
        epochs: passes over the rows of a time step (gradient projection only).
        learning_rate: of Adam (gradient projection only).
        minibatch: rows of a minibatch (gradient projection only).
        network: a network of your own instead of `hidden`: one output for two classes, else one a
            class.
        likelihood: a likelihood of your own for classes 0 .. K - 1.
        kernel: a kernel of your own instead of memory, jump_scale, shrink and jump_prob: in a bank
            that of one filter, else of the only one.
        family: a family of your own instead of `keep` (gradient projection only).
        standardise: whether columns are standardised by the rows learned so far.
        columns: "fixed" (the columns of the first table) or "grow" (tables have names, and columns
            may come, go and change their order).
        dates: None (refused), "number" (seconds since 1970) or "calendar" (also the time of the
            day, the week and the year).
        random_state: seed of the network's first weights and of the descent's noise.
    """

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803 - scikit-learn's name
        """Forget everything and learn all rows as one time step, whatever their order."""
        self.__dict__.pop("state_", None)
        x, y = self._checked(X, y, reset=True)
        self.classes_ = np.unique(y)
        self.state_ = self._fitted(x, self._indices(y), sample_weight)
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:  # noqa: N803
        """Take one time step; `classes` are needed at the first, and may be more at a later one."""
        first = "state_" not in self.__dict__
        x, y = self._checked(X, y, first)
        if first or classes is not None:
            self._know(classes)
        self.state_ = self._learn(x, self._indices(y), sample_weight, self._now())
        return self

    @whole
    def predict_then_fit(self, X: Any, y: Any, classes: Any = None) -> ndarray:  # noqa: N803 - scikit-learn's name
        """Predict each row and then learn it, every row a time step, in one compiled loop.

        Returns:
            The probabilities of each row, from the rows before it.
        """
        first = "state_" not in self.__dict__
        parts = inputs.parts(self, X, y)
        if len(parts) > 1:
            classes = np.unique(targets.labels(y)) if first and classes is None else classes
            return np.concatenate([self.predict_then_fit(*part, classes) for part in parts])
        x, y = self._checked(X, y, first, in_turn=True)
        if first or classes is not None:
            self._know(np.unique(y) if classes is None else classes)
        if self.projection == "gradient":
            return np.concatenate(
                [self._told_then_learned(*row) for row in zip(x, self._indices(y), strict=True)]
            )
        done = in_turn.taught(self._filter(), self._now(), x, self._indices(y), self._scaled())
        self.state_ = done.learned
        return self._probabilities(done.told)

    def predict(self, X: Any) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The most probable class of each row."""
        now = object.__new__(type(self))  # there may be more classes in a moment
        now.__dict__.update(self.__dict__)
        best = np.argmax(now.predict_proba(X), axis=1)
        return now.classes_[best]

    def predict_proba(self, X: Any) -> ndarray:  # noqa: N803 - scikit-learn's name
        """The probability of each class in the coming time step, in the order of `classes_`."""
        return self._probabilities(self._told(X)[0])

    def forecast(self, X: Any, horizon: Number = 1) -> ndarray:  # noqa: N803 - scikit-learn's name
        """Probabilities `horizon` time steps from now: the farther, the less certain."""
        return self._probabilities(self._told(X, _check.count("horizon", horizon))[0])

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803 - scikit-learn's name
        """The variance of the class indicators of each row, summed, in its two parts."""
        told, _ = self._told(X)
        # Of two classes one is told, and the other mirrors it.
        indicators = 2.0 if told.mean.shape[1] == 1 else 1.0
        parts = (
            indicators * np.asarray(part, np.float64).sum(axis=1)
            for part in (told.epistemic, told.aleatoric)
        )
        return Uncertainty(*parts)

    def _targets(self) -> tuple[int, str]:
        return (1, "bernoulli") if len(self.classes_) <= 2 else (len(self.classes_), "categorical")

    def _checked(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        reset: bool,
        in_turn: bool = False,
    ) -> tuple[ndarray, ndarray]:
        if type(y) is not ndarray or y.dtype.kind not in "biuf":
            y = targets.labels(y)
        x, y = inputs.pairs(self, X, y, reset, in_turn)
        check_classification_targets(y)
        return x, y

    def _know(self, given: Any) -> None:
        """Take note of the classes; for new ones the network grows, and what was learned stays."""
        if given is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        classes = unique_labels(targets.labels(given))
        if "state_" not in self.__dict__:
            self.classes_ = classes
        elif not np.array_equal(self.classes_, classes):
            self._grow(classes)

    def _grow(self, classes: ndarray) -> None:
        before, places = self.classes_, np.searchsorted(classes, self.classes_).tolist()
        if not np.isin(before, classes).all():
            allowed = f"as on the first call or more, {before.tolist()}"
            raise _check.fail("classes", allowed, classes.tolist())
        if self.network is not None:
            raise _check.fail("network", "None where classes come late", classes.tolist())
        if len(before) == 1:  # its logit also says something of a class that was not there
            places.append(int(places[0] == 0))
        old, self.classes_ = self._filter(), classes
        learned = self.state_
        self.state_ = growth.grown(learned, old, self._filter(), len(learned.x.number), places)

    def _indices(self, y: ndarray) -> ndarray:
        if not len(self.classes_):
            raise _check.fail("classes", "one at least", [])
        try:
            places = np.searchsorted(self.classes_, y)
        except TypeError:  # labels of kinds that have no order
            allowed = f"of the kind of the classes {self.classes_.tolist()}"
            raise _check.fail("y", allowed, y[:5].tolist()) from None
        places[places == len(self.classes_)] = 0
        if (self.classes_[places] != y).any():
            unseen = np.setdiff1d(y, self.classes_)[:5].tolist()
            raise _check.fail("y", f"one of the classes {self.classes_.tolist()}", unseen)
        return places.astype(np.int32)

    def _probabilities(self, told: Prediction) -> ndarray:
        if len(self.classes_) == 1:
            return np.ones((len(told.mean), 1))
        p = np.asarray(told.probabilities, np.float64)
        return p / p.sum(axis=1, keepdims=True)

    def _told_then_learned(self, x: ndarray, y: ndarray) -> ndarray:
        """One row, predicted and then learned by descent."""
        before = self.state_ = self._now()
        told = self._told(x[None], read=True)[0]
        self.state_ = self._learn(x[None], np.atleast_1d(y), None, before)
        return self._probabilities(told)
