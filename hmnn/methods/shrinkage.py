"""The last value times one number, learnt from what has been seen: the smallest forecast that learns."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmnn import _check
from hmnn._types import Key, Number
from hmnn.core import likelihoods
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, training
from hmnn.methods.base import Method
from hmnn.methods.persistence import Info, columns, init, news, remember
from hmnn.methods.persistence import State as Recent


class State(NamedTuple):
    """The last targets, and the sums whose quotient is the coefficient."""

    recent: Float[Array, "lag outputs"]
    seen: Int[Array, ""]
    t: Int[Array, ""]
    product: Float[Array, ""]
    """sum of <y_{s - lag}, y_s>."""
    square: Float[Array, ""]
    """sum of |y_{s - lag}|^2."""


def shrinkage(outputs: Number, lag: Number = 1, fresh: Number = 1) -> Method:
    """Predict a x, where a is the least-squares coefficient of y_s on y_{s - lag} over all targets so far.

    Args:
        outputs: columns of x and of y, which are values of one series.
        lag: how far apart the values are that the coefficient is learnt from; 2 where every value stands twice.
        fresh: as in `persistence`.
    """
    outputs, lag, fresh = _check.count("outputs", outputs), _check.count("lag", lag), _check.count("fresh", fresh)

    def predict(state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
        square = float(state.square)
        coefficient = float(state.product) / square if square > 0 else 1.0
        return Prediction(jnp.asarray(x) * coefficient)

    return door.method(
        columns(outputs),
        likelihoods.gaussian(),
        init=partial(_init, outputs, lag),
        step=lambda state, batch: _step(state, batch, fresh),
        advance=training.advance,
        predict=predict,
    )


def _init(outputs: int, lag: int, key: Key) -> State:
    start = init(outputs, lag, key)
    zero = jnp.zeros((), start.recent.dtype)
    return State(*start, zero, zero)


def _step(state: State, batch: Batch, fresh: int) -> tuple[State, Info]:
    lag, seen = len(state.recent), int(state.seen)
    before = Recent(*state[:3])
    series = np.asarray(state.recent)[lag - seen :]
    series = np.concatenate([series, news(before, batch, fresh)]).astype(np.float64)
    old, later = series[: max(len(series) - lag, 0)], series[lag:]
    product, square = float(state.product) + (old * later).sum(), float(state.square) + (old * old).sum()
    with np.errstate(over="ignore"):  # told by `finite`
        sums = np.array([product, square]).astype(state.product.dtype)
    return State(*remember(before, batch, fresh), *jnp.asarray(sums)), Info(jnp.asarray(np.isfinite(sums).all()))
