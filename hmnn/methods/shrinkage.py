"""The last value times one number, learnt from what has been seen.

The smallest forecast that learns.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn import _check
from hmnn._types import Batch, Key, Number
from hmnn.core import kernels
from hmnn.core.filtering import Corrected, Filter, State
from hmnn.core.prediction import Prediction, Question
from hmnn.methods.method import Method
from hmnn.methods.persistence import Recent, Remembering, columns
from hmnn.methods.variational import build


class Sums(NamedTuple):
    """The sums whose quotient is the coefficient."""

    product: Float[Array, ""]
    """sum of <y_{s - lag}, y_s>."""
    square: Float[Array, ""]
    """sum of |y_{s - lag}|^2."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shrinking(Remembering):
    """Keep the last targets, and how one follows from another."""

    def init(self, parts: Filter, key: Key) -> tuple[Recent, Sums]:
        """Nothing seen."""
        recent, _ = super().init(parts, key)
        zero = jnp.zeros((), recent.values.dtype)
        return recent, Sums(zero, zero)

    def correct(
        self, parts: Filter, prior: Recent, start: Recent, state: State, batch: Batch
    ) -> Corrected:
        """Add the pairs whose later value is fresh."""
        series, sums = self.series(prior, batch), state.work
        place = jnp.arange(series.shape[0])
        end = self.lag + batch.rows
        first = end - self.news(prior, batch)
        early, late = series[: -self.lag], series[self.lag :]
        later = place[self.lag :]
        known = (later >= first) & (later < end) & (later - self.lag >= first - prior.number)
        old = jnp.where(known[:, None], early, 0.0)
        new = Sums(sums.product + jnp.sum(old * late), sums.square + jnp.sum(old**2))
        return Corrected(self.remember(prior, batch), new, state.noise)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """The row times the coefficient; the row itself before anything is known."""
        product, square = state.work
        return Prediction(
            x * jnp.where(square > 0, product / jnp.where(square > 0, square, 1.0), 1.0)
        )


def shrinkage(outputs: Number, lag: Number = 1, fresh: Number = 1) -> Method:
    """Predict a x, with a the least-squares coefficient of y_s on y_{s - lag} over all targets.

    Args:
        outputs: columns of x and of y, which are values of one series.
        lag: how far apart the values are that the coefficient is learnt from; 2 where every value
            stands twice.
        fresh: as in `persistence`.
    """
    sizes = _check.count("outputs", outputs), _check.count("lag", lag), _check.count("fresh", fresh)
    return build(columns(sizes[0]), "gaussian", kernels.static(), projection=Shrinking(*sizes))
