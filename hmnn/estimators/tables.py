"""What becomes of a table's columns: numbers, NaN where a value is missing.

- Numbers stay as they are.
- A column of words becomes one column of 0 and 1 for each word, for the first 100 words at most;
  all others share one more. A word that comes late is a new column, as if it had been 0 so far.
- A date becomes seconds since 1970 (`dates="number"`), and beside it the sine and the cosine of the
  time of day, of the week and of the year (`dates="calendar"`).

The first value of a column says of which kind it is, for good.
"""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn import _check
from hmnn.estimators import frames
from hmnn.estimators.known_columns import Scaler

MOST_WORDS = 100
"""So many words of a column have columns of their own."""
DATES = ("number", "calendar")
CYCLES = {"day": 86400.0, "week": 604800.0, "year": 365.2425 * 86400.0}
"""In seconds."""

Kinds = Mapping[Any, Any]
"""Of each feature: "number", "date", None as long as all its values are missing, or the columns of
its words, of which that of None is for all other words."""


class Encoded(NamedTuple):
    """A table as columns of numbers."""

    kinds: Kinds
    columns: dict[Any, Float[ndarray, " rows"]]
    first: dict[Any, int]
    """The row in which a column first says something; 0 if the rows have no order."""


def check_dates(dates: Any) -> None:
    """Refuse what is not one of the ways to take dates."""
    if dates is not None:
        _check.choice("dates", dates, DATES)


def encoded(
    kinds: Kinds,
    given: Mapping[Any, ndarray],
    dates: str | None,
    learn: bool = True,
    in_turn: bool = True,
) -> Encoded:
    """Columns as `frames.columns` has them, as numbers.

    Args:
        kinds: of the features seen so far.
        given: the columns.
        dates: "number", "calendar", or None if dates are refused.
        learn: whether new words get columns.
        in_turn: whether rows come one after the other. If not, their order changes nothing.
    """
    result = Encoded(dict(kinds), {}, {})
    for name, values in given.items():
        there = _there(values)
        if not there.any():
            result.kinds.setdefault(name, None)  # type: ignore[attr-defined]
            continue
        start = int(np.argmax(there)) if in_turn else 0
        kind, parts = _parts(name, values, there, kinds.get(name), dates, (learn, in_turn))
        result.kinds[name] = kind  # type: ignore[index]
        result.columns.update(parts)
        result.first.update(dict.fromkeys(parts, start))
        if isinstance(kind, dict) and in_turn:
            new = kind.keys() - (kinds.get(name) or {}).keys()
            result.first.update({kind[w]: int(np.argmax(parts[kind[w]] == 1)) for w in new})
    return result


def _there(values: ndarray) -> ndarray:
    if values.dtype.kind == "O":
        return np.array([value is not None for value in values], bool)
    return ~(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


def _parts(
    name: Any, values: ndarray, there: ndarray, kind: Any, dates: str | None, how: tuple[bool, bool]
) -> tuple[Any, dict[Any, ndarray]]:
    """The kind of a feature, and the columns that it becomes."""
    if isinstance(kind, dict) and values.dtype.kind == "f":  # numbers that are names
        words = [frames.word(v) if known else None for v, known in zip(values, there, strict=True)]
        values = np.array(words, object)
    found = {"f": "number", "M": "date", "O": "word"}[values.dtype.kind]
    known = "word" if isinstance(kind, dict) else kind
    if known not in (None, found):
        allowed = f"a {known} or missing, as it was before"
        raise _check.fail(f"feature {name!r}", allowed, values[there].tolist()[0])
    if found == "number":
        return found, {name: values}
    if found == "date":
        return found, _dates(name, values, dates)
    return _words(name, values, kind or {}, *how)


def _words(
    name: Any, values: ndarray, known: dict[str | None, str], learn: bool, in_turn: bool
) -> tuple[dict[str | None, str], dict[Any, ndarray]]:
    """A column of 0 and 1 for each word."""
    if learn:
        counts = Counter(value for value in values if value is not None and value not in known)
        new = list(counts) if in_turn else sorted(counts, key=lambda word: (-counts[word], word))
        room = max(MOST_WORDS - sum(word is not None for word in known), 0)
        rest = [None] if len(new) > room else []
        known = known | {word: _name(name, word) for word in [*new[:room], *rest]}
    places = {word: i for i, word in enumerate(known)}
    other = places.get(None, -1)
    codes = np.array([-2 if value is None else places.get(value, other) for value in values])
    flags = (np.arange(len(known))[:, None] == codes).astype(np.float64)
    flags[:, codes == -2] = np.nan
    return known, dict(zip(known.values(), flags, strict=True))


def _name(feature: Any, word: str | None) -> str:
    return f"{feature!r} is another" if word is None else f"{feature!r} is {word!r}"


def _dates(name: Any, values: ndarray, dates: str | None) -> dict[Any, ndarray]:
    """Seconds since 1970, and where in the day, the week and the year that is."""
    if dates is None:
        allowed = "a number or a word, unless dates='number' or dates='calendar' is given"
        raise _check.fail(f"feature {name!r}", allowed, str(values[~np.isnat(values)][0]))
    seconds = np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)
    result = {f"{name!r} as a number": seconds}
    for cycle, length in CYCLES.items() if dates == "calendar" else ():
        angle = 2 * math.pi * seconds / length
        result[f"{name!r}, {cycle}, sine"] = np.sin(angle)
        result[f"{name!r}, {cycle}, cosine"] = np.cos(angle)
    return result


def arrivals(found: Encoded, places: Mapping[Any, int]) -> list[tuple[int, list[Any]]]:
    """The columns that have no place yet, by the row in which they come."""
    new = [(row, column) for column, row in found.first.items() if column not in places]
    new.sort(key=lambda pair: (pair[0], repr(pair[1])))
    return [(row, [c for _, c in pairs]) for row, pairs in groupby(new, lambda pair: pair[0])]


def placed(
    found: Mapping[Any, ndarray], places: Mapping[Any, int], shape: tuple[int, int]
) -> Float[ndarray, "rows columns"]:
    """The columns that have places in them, NaN elsewhere."""
    x = np.full(shape, np.nan)
    for column, values in found.items():
        if column in places:
            x[:, places[column]] = values
    return x


def zeros_before(
    scaler: Scaler, kinds: Kinds, before: Mapping[Any, int], after: Mapping[Any, int]
) -> Scaler:
    """The scaler as if the columns of new words had been 0 wherever a word was there."""
    number, recent = scaler.number.copy(), scaler.recent.copy()
    for columns in (kind.values() for kind in kinds.values() if isinstance(kind, dict)):
        old = [before[column] for column in columns if column in before]
        new = [after[column] for column in columns if column in after and column not in before]
        if old and new:
            number[new] = number[old[0]]
            recent[:, new] = 0.0 * recent[:, old[:1]]
    return scaler._replace(number=number, recent=recent)


def plain(kinds: Kinds) -> list[list[Any]]:
    """The kinds as JSON has them."""
    return [[name, list(kind) if isinstance(kind, dict) else kind] for name, kind in kinds.items()]


def from_plain(saved: list[list[Any]]) -> Kinds:
    """The kinds that `plain` wrote."""
    return {
        name: {word: _name(name, word) for word in kind} if isinstance(kind, list) else kind
        for name, kind in saved
    }
