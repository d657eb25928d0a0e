"""The last value, or the one a fixed lag before the next: what every forecast must beat."""

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from hmnn import _check, _tree
from hmnn._types import Batch, Key, Number
from hmnn.core import kernels
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections.point import OneNetwork
from hmnn.methods.method import Method
from hmnn.methods.variational import build
from hmnn.networks import Network


class Recent(NamedTuple):
    """The last targets, the latest one last, and how many there are."""

    values: Float[Array, "lag outputs"]
    number: Int[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Remembering(OneNetwork):
    """Keep the last targets."""

    outputs: int = field(metadata={"static": True})
    lag: int = field(metadata={"static": True})
    fresh: int = field(metadata={"static": True})

    def init(self, parts: Filter, key: Key) -> tuple[Recent, PyTree]:
        """Nothing seen."""
        dtype = jax.dtypes.canonicalize_dtype(float)
        return Recent(jnp.zeros((self.lag, self.outputs), dtype), jnp.zeros((), jnp.int32)), ()

    def correct(
        self, parts: Filter, prior: Recent, start: Recent, state: State, batch: Batch
    ) -> Corrected:
        """Append the fresh targets."""
        return Corrected(self.remember(prior, batch), (), state.noise)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: PyTree
    ) -> Info:
        """Whether what is remembered is finite."""
        return Info(_tree.all_finite((after.posterior, after.work)))

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """The target that stood `lag` places before.

        The latest one as long as there is none so far back.
        """
        values, number = state.posterior
        return Prediction(
            jnp.broadcast_to(jnp.where(number >= self.lag, values[0], values[-1]), x.shape)
        )

    def remember(self, recent: Recent, batch: Batch) -> Recent:
        """The latest targets: those of this time step that are fresh come last."""
        new, series = self.news(recent, batch), self.series(recent, batch)
        last = jax.lax.dynamic_slice_in_dim(series, batch.rows, self.lag)
        return Recent(last, jnp.minimum(recent.number + new, self.lag).astype(jnp.int32))

    def news(self, recent: Recent, batch: Batch) -> Int[Array, ""]:
        """How many targets were not there before.

        All of the first time step, then the fresh ones.
        """
        return jnp.where(recent.number == 0, batch.rows, jnp.minimum(self.fresh, batch.rows))

    def series(self, recent: Recent, batch: Batch) -> Float[Array, "rows outputs"]:
        """What was remembered, then the targets, so that the fresh ones follow on the old ones.

        Of targets that are not fresh, the last ones stand before the fresh ones: shifted by them,
        the old values end where the fresh ones begin.
        """
        values = recent.values
        targets = batch.y.reshape(batch.y.shape[0], -1).astype(values.dtype)
        place = jnp.arange(self.lag + targets.shape[0])
        first = self.lag + batch.rows - self.news(recent, batch)  # of the fresh ones, in the series
        old = values[jnp.clip(place - (first - self.lag), 0, self.lag - 1)]
        return jnp.where(
            (place < first)[:, None], old, targets[jnp.clip(place - self.lag, 0, len(targets) - 1)]
        )


def persistence(outputs: Number, lag: Number = 1, fresh: Number = 1) -> Method:
    """Predict the target that stood `lag` places before.

    The latest one as long as there is none so far back.

    Args:
        outputs: columns of x and of y, which are values of one series.
        lag: 1 is the last value.
        fresh: rows of a time step that the one before did not have: 1 for a window that slides by
            one. The first time step with data counts whole.
    """
    sizes = _check.count("outputs", outputs), _check.count("lag", lag), _check.count("fresh", fresh)
    return build(columns(sizes[0]), "gaussian", kernels.static(), projection=Remembering(*sizes))


@cache
def columns(outputs: int) -> Network:
    """What the door needs to know of a method without a network.

    As many columns come out as go in, and how many.
    """
    return Network(
        lambda key: jnp.ones(outputs), lambda weights, x: jnp.reshape(x, (len(x), *weights.shape))
    )
