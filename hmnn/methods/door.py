"""The door of a method that is not a setting of the variational filter: the same checks, in the same words."""

from collections.abc import Callable
from typing import Any

from hmnn import _check
from hmnn._types import Number
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Prediction
from hmnn.methods import base, parts
from hmnn.methods.base import Method
from hmnn.networks import Network


def method(
    network: Network,
    likelihood: Likelihood,
    init: Callable[[Any], Any],
    step: Callable[..., tuple[Any, Any]],
    advance: Callable[[Any], Any],
    predict: Callable[..., Prediction],
) -> Method:
    """Put the checks before compiled functions.

    Args:
        network: the network.
        likelihood: the likelihood.
        init: init(key) -> state.
        step: step(state, batch) -> (state, info); an info that is not `finite` raises, and the state is lost.
        advance: advance(state) -> state, a time step without data.
        predict: predict(state, x, point, samples, level) -> Prediction.
    """
    width = parts.widths(network)

    def checked_step(state: Any, data: Any) -> tuple[Any, Any]:
        if data is None:
            return advance(state), None
        t = int(state.t) + 1
        batch = base.batch(data, t)
        base.check_labels(likelihood, width(batch.x, f" at t = {t}"), batch.y[: batch.rows], t)
        after, info = step(state, batch)
        if not bool(info.finite):
            raise _check.DivergenceError(
                f"The update at t = {t} is not finite; the state is unchanged. "
                "Try a smaller learning rate or initial scale, or look for outliers in the data."
            )
        return after, info

    def checked_predict(
        state: Any, x: Any, point: Any = "mean", samples: Number = 0, level: Number = 0.95
    ) -> Prediction:
        _check.choice("point", point, parts.POINTS)
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        samples = _check.count("samples", samples, least=1 if point == "sampled" else 0)
        rows = base.inputs(x)
        width(rows)
        return base.first_rows(predict(state, base.pad(rows), point, samples, level), len(rows))

    return Method(lambda key: init(parts.key(key)), checked_step, checked_predict)
