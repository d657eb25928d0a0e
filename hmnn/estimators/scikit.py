"""What the two scikit-learn estimators share: parameters, validation, one state, files."""

import json
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hmnn import _check, _fork, store
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.filtering import Info, State
from hmnn.core.prediction import Prediction
from hmnn.estimators import equal_rows, files, in_turn, inputs, known_columns, last_target, scaling
from hmnn.estimators.carrying import carried
from hmnn.estimators.equal_rows import WeightedRows
from hmnn.estimators.known_columns import Move, Scaler
from hmnn.estimators.learned import Learned, nothing
from hmnn.estimators.signals import Signals
from hmnn.estimators.validation import weights
from hmnn.estimators.whole import whole
from hmnn.methods import streams
from hmnn.methods.padding import default_float
from hmnn.methods.streams import Settings, StreamFilter

PARTS = ("network", "likelihood", "kernel", "family")
"""Parameters that may hold functions: a file does not keep them, `load` is given them again."""
_settings = attrgetter(*Settings._fields)
FORM = ("hidden", "network", "likelihood")
"""Parameters without which what was learned means nothing."""
_form = attrgetter(*FORM)


class Uncertainty(NamedTuple):
    """Two variances for each row."""

    epistemic: ndarray
    """What more data would take away."""
    aleatoric: ndarray
    """What is left for ever."""


class StreamEstimator(Signals, BaseEstimator):
    """The common part of `HMNNClassifier` and `HMNNRegressor`."""

    state_: Learned

    def __init__(
        self,
        hidden: tuple[int, ...] = (64, 64),
        *,
        memory: Number = 0.9999,
        jump_scale: Number = 0.007,
        shrink: Number = kernels.SHRINK,
        jump_prob: Number = 0.5,
        keep: Number = 1.0,
        initial_scale: Number = 0.3,
        level_scale: Number = 0.03,
        forgetting: str = "auto",
        replay: Number = 4,
        buffer: Number = 500,
        experts: bool = True,
        correlations: str = "auto",
        projection: str = "auto",
        epochs: Number = 50,
        learning_rate: Number = 0.01,
        minibatch: Number = 128,
        network: Any = None,
        likelihood: Any = None,
        kernel: Any = None,
        family: Any = None,
        standardise: bool = True,
        columns: str = "fixed",
        dates: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.memory = memory
        self.jump_scale = jump_scale
        self.shrink = shrink
        self.jump_prob = jump_prob
        self.keep = keep
        self.initial_scale = initial_scale
        self.level_scale = level_scale
        self.forgetting = forgetting
        self.replay = replay
        self.buffer = buffer
        self.experts = experts
        self.correlations = correlations
        self.projection = projection
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.minibatch = minibatch
        self.network = network
        self.likelihood = likelihood
        self.kernel = kernel
        self.family = family
        self.standardise = standardise
        self.columns = columns
        self.dates = dates
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    @whole
    def advance(self, steps: Number = 1) -> Any:
        """Let time pass without data: the model grows less certain as its weights move."""
        check_is_fitted(self, "state_")
        later = self._filter().rest(self.state_.filter, _check.count("steps", steps))
        last = last_target.stale(self.state_.last)
        self.state_ = self.state_._replace(filter=later, last=last)
        return self

    def save(self, path: Any) -> Path:
        """Write the estimator to a directory, whole and verified; loading it runs no code."""
        check_is_fitted(self, "state_")
        self._filter()  # refuses parameters that do not fit what was learned
        given = self.get_params(deep=False)
        plain = {name: files.plain(name, given[name]) for name in given if name not in PARTS}
        names, classes = (getattr(self, name, None) for name in ("feature_names_in_", "classes_"))
        kind = None if classes is None else classes.dtype.str
        if classes is not None and classes.dtype.kind in "mM":  # JSON has no dates
            classes = classes.view(np.int64)
        labels = None if classes is None else json.dumps(files.plain("y", classes.tolist()))
        return store.save(
            {
                "estimator": type(self).__name__,
                "parameters": json.dumps(plain),
                "parts": json.dumps([name for name in PARTS if given[name] is not None]),
                "features": None if names is None else json.dumps(names.tolist()),
                "places": inputs.written(self.__dict__.get("_places")),
                "classes": labels,
                "kind_of_class": kind,
                "learned": files.sound(self.state_),
            },
            path,
            finite=False,  # a value that was missing is NaN
        )

    @classmethod
    def load(cls, path: Any, **parts: Any) -> Any:
        """Read an estimator that `save` wrote.

        A network, likelihood, kernel or family of your own is given again.
        """

        def build(saved: dict[str, Any]) -> tuple[Any, Learned]:
            wanted = json.loads(saved["parts"])
            if sorted(parts) != sorted(wanted):
                allowed = f"given the parts of the saved model, {wanted or 'none'}"
                raise _check.fail("load", allowed, sorted(parts))
            parameters = json.loads(saved["parameters"])
            estimator = cls(**parameters | {"hidden": tuple(parameters["hidden"])}, **parts)
            estimator._places = known = inputs.read(saved["places"])
            width = len(saved["learned"]["x"]["number"])
            estimator.n_features_in_ = width if known is None else len(known.kinds)
            if saved["features"] is not None:
                estimator.feature_names_in_ = np.array(json.loads(saved["features"]), dtype=object)
            if saved["classes"] is not None:
                classes = np.array(json.loads(saved["classes"]), saved["kind_of_class"])
                estimator.classes_ = classes
            return estimator, estimator._start()

        estimator, estimator.state_ = files.loaded(path, cls.__name__, build)
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        if _fork.forked:  # a deep copy computes
            raise _fork.hang()
        state = dict(super().__getstate__())
        state.pop("_built", None)  # compiled programs are made again
        return state

    def _filter(self) -> StreamFilter:
        """The filter of these parameters, built again only if one has changed."""
        if type(self.standardise) not in (bool, np.bool_):
            raise _check.fail("standardise", "True or False", self.standardise)
        known = self.__dict__.get("_places")
        columns = self.n_features_in_ if known is None else known.inputs
        wanted = (*_settings(self), columns, *self._targets())
        built = self.__dict__.get("_built")
        try:
            fits = built is not None and built[0] == wanted
        except ValueError:  # an array does not say whether it has changed
            fits = False
        if built is None or not fits:
            self._check_form()
            built = wanted, streams.build(Settings(*wanted[:-3]), *wanted[-3:])
            self._built = built
        return built[1]

    def _check_form(self) -> None:
        """Refuse another network than that of what was learned."""
        if "state_" not in self.__dict__:
            self._learned_by = _form(self)
        for name, old in zip(FORM, self.__dict__.get("_learned_by", ()), strict=False):
            new = getattr(self, name)
            if old is not new and (isinstance(new, ndarray) or old != new):
                allowed = f"{old!r}, as when learning began; `fit` begins anew"
                raise _check.fail(name, allowed, new)

    def _targets(self) -> tuple[int, str]:
        """How many outputs the network needs, and which likelihood."""
        return 1, "learned_gaussian"

    def _now(self) -> Learned:
        """What was learned so far."""
        if "state_" in self.__dict__:
            return self.state_
        return self._start()

    def _start(self) -> Learned:
        """Nothing learned."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        how, scaled, known = self._filter(), self._scaled(), self.__dict__.get("_places")
        forgets = (scaled[0] and how.dense, scaled[1] and how.dense)  # others cannot follow
        columns = self.n_features_in_ if known is None else known.inputs
        return nothing(how.init(seed), *known_columns.pair(columns, forgets), len(how.names))

    def _fitted(self, x: ndarray, y: ndarray, sample_weight: Any) -> Learned:
        """All rows at once, whatever their order, from nothing."""
        weight, order = weights(sample_weight, len(x)), np.lexsort((y, *x.T))
        return self._learn(x[order], y[order], weight[order], self._start(), settle=True)

    def _learn(
        self, x: ndarray, y: ndarray, sample_weight: Any, before: Learned, settle: bool = False
    ) -> Learned:
        """One time step with checked rows; y as the network has it, but not standardised."""
        rows, how = WeightedRows(x, y, weights(sample_weight, len(x))), self._filter()
        if len(x) > 1:
            rows = equal_rows.merged(rows)
        if len(rows.x) == 1 and rows.weight[0] == 1.0 and how.descends_from > 1 and not settle:
            return in_turn.taught(how, before, rows.x, rows.y, self._scaled()).learned
        (x_scaler, move), (y_scaler, y_move) = (
            scaling.absorbed(before.x, rows.x, rows.weight),
            self._absorbed(before.y, rows.y, rows.weight),
        )
        last, change = in_turn.passed(how, before.last, rows)
        scaled = scaling.against(x_scaler, rows.x) if self.standardise else np.nan_to_num(rows.x)
        data = rows._replace(x=scaled, y=self._target(y_scaler, rows.y))
        if len(x) > 1:
            data, rows = equal_rows.written_out(data), equal_rows.written_out(rows)
        kind = default_float()
        values = data.x.astype(kind), data.y, data.weight.astype(kind)
        start = carried(how.few, before.filter, move, y_move, change)
        learn = how.settled if settle and how.descends_from > len(values[0]) else how.learn
        state, info = learn(start, *values)
        surprise = self._surprise(info, start, before.y if y_move is None else y_scaler, rows)
        believed = None if info.believed is None else np.asarray(info.believed)[None]
        return before.after(state, x_scaler, y_scaler, surprise, believed, last)

    def _scaled(self) -> tuple[bool, bool]:
        """Whether x is standardised, and whether y is."""
        return bool(self.standardise), False

    def _absorbed(self, scaler: Scaler, y: ndarray, weight: ndarray) -> tuple[Scaler, Move | None]:
        return scaler, None

    def _target(self, scaler: Scaler, y: ndarray) -> ndarray:
        return y

    def _surprise(self, info: Info, start: State, scaler: Scaler, rows: WeightedRows) -> Any:
        """The mean log density of the rows' targets before they were learned."""
        return info.surprise

    def _told(self, X: Any, ahead: int = 1, read: bool = False) -> tuple[Prediction, Learned]:  # noqa: N803 - scikit-learn's name
        """What is said of new rows, which may have been read before, and what it was said from."""
        if _fork.forked:
            raise _fork.hang()
        if "state_" not in self.__dict__:
            check_is_fitted(self, "state_")
        now = object.__new__(type(self))  # the model may learn, and grow, while it is asked
        now.__dict__.update(self.__dict__)
        x, learned, how = X if read else inputs.questions(now, X), now.state_, now._filter()
        rows = scaling.beside(learned.x, x) if self.standardise else np.nan_to_num(x)
        last = None
        if how.told and ahead == 1:
            last = in_turn.last_columns(how, learned.last, learned.y, len(rows))
        told = how.predict(learned.filter, rows, ahead, last)
        self._built = now._built
        if not np.isfinite(told.mean).all():
            row = int(np.argwhere(~np.isfinite(told.mean))[0][0])
            allowed = "such that the network's outputs are finite"
            raise _check.fail("X", allowed, f"row {row}, {x[row].ravel()[:5]}")
        return told, learned
