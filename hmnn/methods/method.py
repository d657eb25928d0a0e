"""What every method is, and the one door between a user's data and compiled code."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, PyTree

from hmnn import _check, _fork
from hmnn._types import Batch, Number
from hmnn.core import filtering
from hmnn.core.cpu import layout
from hmnn.core.cpu.compilation import OFTEN, ONCE, SELDOM, compiled
from hmnn.core.families import Posterior
from hmnn.core.filtering import Filter, Info, State
from hmnn.core.prediction import POINTS, Prediction, Question
from hmnn.methods import arguments, padding
from hmnn.networks import Network

init = compiled(ONCE)(filtering.init)
step = compiled(OFTEN)(filtering.step)
rows = compiled(OFTEN)(filtering.rows)
rest = jax.jit(filtering.rest)


def _report(parts: Filter, before: State, after: State, batch: Batch, notes: PyTree) -> Info:
    """What a person wants to see of the step from `before` to `after`."""
    return parts.projection.report(parts, before, after, batch, notes)


update, report = compiled(OFTEN)(filtering.update), compiled(SELDOM)(_report)
laid_update = compiled(OFTEN)(layout.as_it_lies(filtering.update))
laid_report = compiled(SELDOM)(layout.as_it_lies(_report))


@partial(jax.jit, static_argnums=(3, 4))
def predict(
    parts: Filter, state: State, x: Array, point: str, samples: int, level: Number
) -> Prediction:
    """What the filter says of new rows."""
    return parts.projection.predict(parts, state, x, Question(point, samples, level))


def in_stages(parts: Filter, state: State, batch: Batch) -> tuple[State, Info]:
    """`filtering.step` in programs of its own: one for all would take longer to compile."""
    start = parts.projection.start(parts, state)
    trees = isinstance(state.posterior, Posterior)
    after, notes = (laid_update if trees else update)(parts, state, batch, start)
    return after, (laid_report if trees else report)(parts, state, after, batch, notes)


class Method(NamedTuple):
    """Three functions and the parts behind them.

    States are immutable, so an error leaves the caller's as it was.
    """

    init: Callable[[Any], State]
    """init(key) -> state, before any data; a whole number is taken as a seed."""
    step: Callable[..., tuple[State, Any]]
    """step(state, data) -> (state, info): one time step; data is a Dataset(x, y), a Batch(x, y,
    weight), or None when there are none."""
    predict: Callable[..., Prediction]
    """predict(state, x, point="mean", samples=0, level=0.95) -> Prediction."""
    parts: Filter
    """The filter, for who wants to take it apart."""


def assembled(parts: Filter, points: tuple[str, ...] = POINTS) -> Method:
    """Put the checks before the compiled functions.

    Args:
        parts: the filter, whose settings have been checked.
        points: where `predict` may look.
    """
    width = arguments.widths(Network(parts.first_weights, parts.apply), parts.likelihood)
    cut = getattr(parts.projection, "cut", lambda batch, rows: batch)
    stepped = in_stages if getattr(parts.projection, "staged", False) else step

    def checked_init(key: Any) -> State:
        if _fork.forked:
            raise _fork.hang()
        return init(parts, arguments.key(key))

    def checked_step(state: State, data: Any) -> tuple[State, Info | None]:
        if _fork.forked:
            raise _fork.hang()
        if data is None:
            return rest(parts, state), None
        t = int(state.t) + 1
        batch, real = padding.batch(data, t)
        where = f" at t = {t}"
        parts.likelihood.check(batch.y[:real], width(batch.x, where), where)
        after, info = stepped(parts, state, cut(batch, real))
        check_progress(info, t, parts)
        return after, info

    def checked_predict(
        state: State, x: Any, point: str = "mean", samples: Number = 0, level: Number = 0.95
    ) -> Prediction:
        if _fork.forked:
            raise _fork.hang()
        _check.choice("point", point, points)
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        samples = _check.count("samples", samples, least=1 if point == "sampled" else 0)
        values = padding.inputs(x)
        width(values)
        return padding.first_rows(
            predict(parts, state, padding.pad(values), point, samples, level), len(values)
        )

    return Method(checked_init, checked_step, checked_predict, parts)


def check_progress(info: Info, t: int, parts: Filter) -> None:
    """Raise or warn if a step came to nothing, or to less than it should."""
    if bool(info.finite):
        return
    if info.rejected is None:
        raise _check.DivergenceError(
            f"The update at t = {t} is not finite; the state is unchanged. "
            "Try a smaller learning rate or initial scale, or look for outliers in the data."
        )
    if bool(info.diverged):
        patience = getattr(parts.projection, "patience", "all")
        raise _check.DivergenceError(
            f"The free energy had no finite gradient in {patience} epochs in a row at t = {t}; "
            "the state is unchanged. Try a smaller learning_rate, or look for outliers in the data."
        )
    undone = int(info.rejected)
    said = f"{undone} epochs at t = {t} were not finite and were undone."
    if undone == 0:
        said = f"The free energy at t = {t} is not finite, although the posterior is."
    warnings.warn(said, RuntimeWarning, stacklevel=3)
