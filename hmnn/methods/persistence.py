"""The last value, or the one a fixed lag before the next: what every forecast must beat."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hmnn import _check
from hmnn._types import Key, Number
from hmnn.core import likelihoods
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, training
from hmnn.methods.base import Method
from hmnn.networks import Network


class State(NamedTuple):
    """The last targets, the latest one last, and how many there have been (at most as many as are kept)."""

    recent: Float[Array, "lag outputs"]
    seen: Int[Array, ""]
    t: Int[Array, ""]


class Info(NamedTuple):
    """Whether what is remembered is finite."""

    finite: Bool[Array, ""]


def persistence(outputs: Number, lag: Number = 1, fresh: Number = 1) -> Method:
    """Predict the target that stood `lag` places before; the latest one as long as there is none so far back.

    Args:
        outputs: columns of x and of y, which are values of one series.
        lag: 1 is the last value.
        fresh: rows of a time step that the one before did not have: 1 for a window that slides by one. The first time
            step with data counts whole.
    """
    outputs, lag, fresh = _check.count("outputs", outputs), _check.count("lag", lag), _check.count("fresh", fresh)

    def predict(state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
        value = state.recent[0] if int(state.seen) >= lag else state.recent[-1]
        return Prediction(jnp.broadcast_to(value, x.shape))

    return door.method(
        columns(outputs),
        likelihoods.gaussian(),
        init=partial(init, outputs, lag),
        step=lambda state, batch: (remember(state, batch, fresh), Info(jnp.array(True))),
        advance=training.advance,
        predict=predict,
    )


@cache
def columns(outputs: int) -> Network:
    """What the door needs to know of a method without a network: as many columns come out as go in, and how many."""
    return Network(lambda key: jnp.ones(outputs), lambda weights, x: jnp.reshape(x, (len(x), *weights.shape)))


def init(outputs: int, lag: int, key: Key) -> State:
    """Nothing seen; the key is checked and not used."""
    zero = jnp.zeros((), jnp.int32)
    return State(jnp.zeros((lag, outputs), jax.dtypes.canonicalize_dtype(float)), zero, zero)


def remember(state: State, batch: Batch, fresh: int) -> State:
    """Append the fresh targets."""
    new = news(state, batch, fresh)
    recent = np.concatenate([np.asarray(state.recent), new])[-len(state.recent) :]
    seen = min(int(state.seen) + len(new), len(recent))
    return State(jnp.asarray(recent), jnp.asarray(seen, jnp.int32), state.t + 1)


def news(state: State, batch: Batch, fresh: int) -> np.ndarray:
    """The targets that were not there before, with one column per output."""
    first = batch.rows if int(state.seen) == 0 else min(fresh, batch.rows)
    targets = batch.y[batch.rows - first : batch.rows]
    return targets.reshape(first, -1).astype(np.asarray(state.recent).dtype)
