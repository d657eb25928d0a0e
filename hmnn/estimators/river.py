"""The river door: rows as dictionaries, features and classes that come and go. Needs `hmnn[river]`.

Rows are kept until a prediction is asked for, or a thousand are there, and then learned in one
compiled loop; a prediction always uses every row learned before it. `learn_many` equals `learn_one`
row by row: each row is a time step.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn.core.prediction import Prediction
from hmnn.estimators import scaling
from hmnn.estimators.dictionaries import DictionaryModel, label, listed, table, target
from hmnn.estimators.whole import whole

try:
    import pandas as pd
    from river import base
except ImportError:
    raise ImportError(
        "hmnn.estimators.river needs river and pandas: install hmnn[river]."
    ) from None


class HMNNClassifier(DictionaryModel, base.MiniBatchClassifier):
    """A neural network classifier whose weights move in time, one row at a time.

    Parameters are those of `hmnn.estimators.HMNNClassifier` without those of its descent; `seed` is
    its `random_state`.
    """

    _labels: Mapping[Any, int] = MappingProxyType({})
    _outputs = 1

    @property
    def _multiclass(self) -> bool:
        return True

    def _targets(self) -> tuple[int, str]:
        return self._outputs, "bernoulli" if self._outputs == 1 else "categorical"

    @whole
    def learn_one(self, x: Any, y: Any) -> None:
        """Learn one row; a label not seen before becomes a new class."""
        name = label(y)
        row = self._arrive(x, new=name not in self._labels)
        self._waiting.append((row, self._index(name)))

    @whole
    def learn_many(self, X: Any, y: Any) -> None:  # noqa: N803 - river's name
        """Learn the rows of a table in turn."""
        self._learn_table(X, [label(value) for value in listed(y)])

    def _learn_rows(self, x: ndarray, targets: list[Any]) -> None:
        start = 0
        for i, name in enumerate(targets):
            if name not in self._labels:  # the rows before it are learned before the network grows
                super()._learn_rows(x[start:i], self._indices(targets[start:i]))
                start = i
                self._index(name)
        super()._learn_rows(x[start:], self._indices(targets[start:]))

    @whole
    def predict_proba_one(self, x: Any, **named: Any) -> dict[Any, float]:
        """The probability of each class seen so far."""
        if not self._labels:
            return {}
        return dict(zip(self._labels, self._probabilities(self._ask(x))[0].tolist(), strict=True))

    @whole
    def predict_proba_many(self, X: Any) -> Any:  # noqa: N803 - river's name
        """The probability of each class seen so far, a column for each."""
        if not self._labels:
            return pd.DataFrame(index=table(X).index)
        return pd.DataFrame(
            self._probabilities(self._look(X)), columns=list(self._labels), index=X.index
        )

    def _index(self, name: Any) -> int:
        """The place of a label; a new one may need more outputs, and no row may wait."""
        if name not in self._labels:
            if len(self._labels) >= max(2, self._outputs):
                outputs = 1 << len(self._labels).bit_length()
                self._grow(self._columns, (outputs, "categorical"))
                self._outputs = outputs
            self._labels = {**self._labels, name: len(self._labels)}
        return self._labels[name]

    def _indices(self, names: list[Any]) -> list[int]:
        return [self._labels[name] for name in names]

    def _probabilities(self, told: Prediction) -> ndarray:
        """Probabilities of the classes seen so far: outputs that wait for a class count nothing."""
        p = np.asarray(told.probabilities, np.float64)[:, : len(self._labels)]
        return p / p.sum(axis=1, keepdims=True)


class HMNNRegressor(DictionaryModel, base.MiniBatchRegressor):
    """A neural network regressor whose weights move in time, one row at a time.

    Parameters are those of `hmnn.estimators.HMNNRegressor` without those of its descent; `seed` is
    its `random_state`.
    """

    @whole
    def learn_one(self, x: Any, y: Any) -> None:
        """Learn one row."""
        value = target(y)  # refused before a place is given
        row = self._arrive(x, new=False)  # may empty the list of rows that wait
        self._waiting.append((row, value))

    @whole
    def learn_many(self, X: Any, y: Any) -> None:  # noqa: N803 - river's name
        """Learn the rows of a table in turn."""
        self._learn_table(X, [target(value) for value in listed(y)])

    def predict_one(self, x: Any, **named: Any) -> float:
        """The mean of y; 0 before anything was learned."""
        return self.predict_interval_one(x)[0]

    @whole
    def predict_interval_one(self, x: Any) -> tuple[float, float]:
        """The mean of y and its standard deviation."""
        if self._learned is None and not self._waiting:
            return 0.0, math.inf
        told = self._ask(x)
        mean, unit = self._unit()
        variance = float(np.asarray(told.epistemic).item() + np.asarray(told.aleatoric).item())
        return mean + unit * float(told.mean[0, 0]), unit * math.sqrt(variance)

    @whole
    def predict_many(self, X: Any) -> Any:  # noqa: N803 - river's name
        """The mean of y for each row."""
        if self._learned is None and not self._waiting:
            return pd.Series(0.0, index=table(X).index)
        told = self._look(X)
        mean, unit = self._unit()
        return pd.Series(mean + unit * told.mean[:, 0].astype(np.float64), index=X.index)

    def _unit(self) -> tuple[float, float]:
        return scaling.level_and_unit(self._now().y)

    def _scaled(self) -> tuple[bool, bool]:
        return bool(self.standardise), True
