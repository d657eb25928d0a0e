"""How X enters the scikit-learn door: arrays of numbers as they are, all else as tables."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sklearn.utils.validation import check_array, check_X_y

from hmnn import _check
from hmnn.estimators import frames, growth, tables
from hmnn.estimators.tables import Encoded, Kinds
from hmnn.estimators.validation import TOO_LARGE, validated

COLUMNS = ("fixed", "grow")
FEWEST = 8
"""A network that may have to grow has inputs for so many columns at least."""
MISSING = "allow-nan"
NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": MISSING}


class Places(NamedTuple):
    """What the columns of the tables so far have become."""

    kinds: Kinds
    places: Mapping[Any, int]
    inputs: int
    """Of the network; some may wait for a column."""


def pairs(
    model: Any,
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any,
    reset: bool,
    in_turn: bool = False,
    y_numeric: bool = False,
) -> tuple[Float[ndarray, "rows columns"], ndarray]:
    """Rows to learn and their targets; the model gets inputs for what is new in them.

    An array of numbers passes no other function of ours.
    """
    simple = type(X) is ndarray and X.dtype.kind in "biuf"
    simple = simple and type(model.columns) is str and model.columns == "fixed"
    simple = simple and (reset or model.__dict__.get("_places") is None)
    known = None if simple else _known(model, reset)
    given = None if known is None else _columns(model, X, known, learn=True)
    if known is None or given is None:
        x, y = validated(model, X, reset, y=y, y_numeric=y_numeric, ensure_all_finite=MISSING)
        if reset and "_places" in model.__dict__:
            model._places = None
        return x, y
    found = tables.encoded(known.kinds, given, model.dates, in_turn=in_turn)
    after = _after(model, known, found, reset)
    x = tables.placed(found.columns, after.places, (len(X), after.inputs))
    try:
        x, y = check_X_y(x, y, y_numeric=y_numeric, estimator=model, **NUMBERS)
    except OverflowError:
        raise ValueError(TOO_LARGE) from None
    named = frames.names(X) is not None if reset else hasattr(model, "feature_names_in_")
    _keep(model, known, after, reset, named)
    return x, y


def parts(model: Any, X: Any, y: Any) -> list[tuple[Any, Any]]:  # noqa: N803 - scikit-learn's name
    """Rows that come in turn, apart where the network has to grow for a new column."""
    whole = [(X, y)]
    try:
        rows = len(X) if len(X) == len(y) else 0
    except TypeError:  # no table, or no column of targets
        return whole
    if (type(X) is ndarray and X.dtype.kind in "biuf") or model.network is not None:
        return whole
    reset = "state_" not in model.__dict__
    known = _known(model, reset)
    given = _columns(model, X, known, learn=True)
    if given is None or not rows:
        return whole
    found = tables.encoded(known.kinds, given, model.dates)
    if _are_plain(model, found.kinds, reset):
        return whole
    cuts, size, inputs = [0], len(known.places), known.inputs
    for row, new in tables.arrivals(found, known.places):
        size += len(new)
        if size > inputs:
            inputs = _inputs(size)
            cuts += [row] if row > cuts[-1] else []
    if frames.are_rows(X):
        X = [{name: row.get(name) for name in given} for row in X]  # noqa: N806
    ends = [*cuts[1:], rows]
    return [
        (frames.some_rows(X, a, b), frames.some_rows(y, a, b))
        for a, b in zip(cuts, ends, strict=True)
    ]


def questions(model: Any, X: Any) -> Float[ndarray, "rows columns"]:  # noqa: N803 - scikit-learn's name
    """Rows to predict; columns and words that the model does not know say nothing."""
    simple = type(X) is ndarray and X.dtype.kind in "biuf"
    simple = simple and model.__dict__.get("_places") is None
    known = None if simple else _known(model, reset=False)
    given = None if known is None else _columns(model, X, known, learn=False)
    if known is None or given is None:
        return validated(model, X, reset=False, ensure_all_finite=MISSING)
    found = tables.encoded(known.kinds, given, model.dates, learn=False)
    x = tables.placed(found.columns, known.places, (len(X), known.inputs))
    return check_array(x, estimator=model, **NUMBERS)


def _known(model: Any, reset: bool) -> Places:
    """What the model knows of tables; if it has learned numbers only, their columns in order."""
    _check.choice("columns", model.columns, COLUMNS)
    tables.check_dates(model.dates)
    if reset:
        return Places({}, {}, FEWEST)
    if model.__dict__.get("_places") is not None:
        return model._places
    names = getattr(model, "feature_names_in_", [f"x{i}" for i in range(model.n_features_in_)])
    places = {name: i for i, name in enumerate(names)}
    return Places(dict.fromkeys(places, "number"), places, len(places))


def _columns(
    model: Any,
    X: Any,  # noqa: N803 - scikit-learn's name
    known: Places,
    learn: bool,
) -> dict[Any, ndarray] | None:
    """The columns of a table by the names that the model has for them.

    None if there are numbers only, for scikit-learn to check.
    """
    first, fixed = not known.kinds, model.columns == "fixed"
    if fixed and (first or model.__dict__.get("_places") is None) and frames.are_numbers(X):
        return None
    names = frames.names(X)
    if names is None and not fixed:
        raise _check.fail("X", "a table with names, as columns='grow' asks", type(X).__name__)
    table = X if names is not None else frames.unnamed(X)
    names = list(table) if names is None else names
    if not fixed or first:
        return frames.columns(table, [n for n in names if learn or n in known.kinds])
    expected = list(known.kinds)
    if frames.are_rows(X):  # what a row does not have is missing
        if not set(names) <= set(expected):
            raise _check.fail("X", f"rows with the names {expected}", names)
        return frames.columns(table, names)
    by_name = table is X and hasattr(model, "feature_names_in_")
    if len(names) != len(expected) or (by_name and names != expected):
        allowed = f"a table with the columns {expected}, as columns='fixed' asks"
        raise _check.fail("X", allowed, names)
    return dict(zip(expected, frames.columns(table, names).values(), strict=True))


def _after(model: Any, known: Places, found: Encoded, reset: bool) -> Places:
    """The places with those of new columns, in an order that does not depend on the table's.

    A first table of numbers has one input for each column, in its order, unless more may come.
    """
    kinds = found.kinds
    if _are_plain(model, kinds, reset):
        return Places(kinds, {name: i for i, name in enumerate(kinds)}, len(kinds))
    new = [column for _, columns in tables.arrivals(found, known.places) for column in columns]
    places = {**known.places, **{name: len(known.places) + i for i, name in enumerate(new)}}
    inputs = known.inputs if len(places) <= known.inputs else _inputs(len(places))
    if model.network is not None and reset:
        inputs = len(places)
    return Places(kinds, places, inputs)


def _are_plain(model: Any, kinds: Kinds, reset: bool) -> bool:
    fixed = reset and model.columns == "fixed"
    return fixed and all(kind == "number" for kind in kinds.values())


def _inputs(columns: int) -> int:
    return max(FEWEST, 1 << (columns - 1).bit_length())


def _keep(model: Any, known: Places, after: Places, reset: bool, named: bool) -> None:
    """Let the model know its columns, and grow if there are new ones."""
    if not reset:
        if after == known:
            return
        _grow(model, known, after)
    else:
        model._places = None if _are_plain(model, after.kinds, reset) else after
    model.n_features_in_ = len(after.kinds)
    model.__dict__.pop("feature_names_in_", None)
    if named and all(isinstance(name, str) for name in after.kinds):
        model.feature_names_in_ = np.array(list(after.kinds), object)


def _grow(model: Any, known: Places, after: Places) -> None:
    """Inputs for new columns; what was learned stays."""
    wider = after.inputs != known.inputs
    if wider and model.network is not None:
        allowed = "None where columns or words come late"
        raise _check.fail("network", allowed, type(model.network).__name__)
    old, learned = model._filter(), model.state_
    model._places = after
    if wider:
        learned = growth.grown(learned, old, model._filter(), after.inputs)
    scaler = tables.zeros_before(learned.x, after.kinds, known.places, after.places)
    model.state_ = learned._replace(x=scaler)


def written(known: Places | None) -> str | None:
    """The places as JSON; names of features must be words or numbers."""
    if known is None:
        return None
    for name in known.kinds:
        if not isinstance(name, str | int):
            raise _check.fail("names of columns", "words in a model that is saved", name)
    return json.dumps([tables.plain(known.kinds), list(known.places.items()), known.inputs])


def read(saved: str | None) -> Places | None:
    """The places that `written` wrote."""
    if saved is None:
        return None
    kinds, places, inputs = json.loads(saved)
    return Places(tables.from_plain(kinds), dict(places), inputs)
