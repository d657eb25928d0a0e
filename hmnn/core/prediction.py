"""What the filter says of new inputs: at one network, or over draws of the posterior."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn._types import Scalar
from hmnn.core import mixtures, noise, objective
from hmnn.core.filtering import Model, Plan, State

DRAWS = 2**20
"""Folded into the key of a time step for predictions; the step itself folds in small numbers."""


class Prediction(NamedTuple):
    """E[y | x] and, when draws were asked for, how far to trust it."""

    mean: Float[Array, "rows *out"]
    lower: Float[Array, "rows *out"] | None = None
    upper: Float[Array, "rows *out"] | None = None
    epistemic: Float[Array, "rows *out"] | None = None
    """Variance over the posterior of E[y | x, w]: it falls with more data."""
    aleatoric: Float[Array, "rows *out"] | None = None
    """Mean over the posterior of Var[y | x, w]: it does not."""


def predict(plan: Plan, model: Model, state: State, x: Array, point: str, samples: int, level: Scalar) -> Prediction:
    """Predict at a point of the posterior, with credible intervals of E[y | x, w] from `samples` draws.

    Args:
        plan: the compiled parts.
        model: the numbers.
        state: the filter's state.
        x: one row per input.
        point: "mean" (the network at E[w]), "location" (at m) or "sampled" (the mean over the draws).
        samples: number of draws; 0 gives no interval.
        level: probability of the interval, in (0, 1).
    """
    at_point = None if point == "sampled" else _at(point, plan, model, state, x)
    if at_point is not None and samples == 0:
        return Prediction(at_point)
    values, variances = _draws(plan, model, state, x, samples)
    tail = 0.5 * (1.0 - level)
    lower, upper = jnp.quantile(values, jnp.stack([tail, 1.0 - tail]).astype(values.dtype), axis=0)
    mean = values.mean(axis=0) if at_point is None else at_point
    return Prediction(mean, lower, upper, values.var(axis=0), variances.mean(axis=0))


def _at(point: str, plan: Plan, model: Model, state: State, x: Array) -> Array:
    """E[y] of the network at m or at E[w]."""
    weights = state.posterior.location
    if point == "mean":
        laws = objective.mixture(state.posterior, model.family)
        weights = jax.tree.map(lambda _, law: mixtures.mean(law), weights, laws)
    return model.likelihood.mean(plan.descent.apply(weights, x))


def _draws(plan: Plan, model: Model, state: State, x: Array, samples: int) -> tuple[Array, Array]:
    """E[y] and Var[y] under draws of the weights fixed by (seed, t), the same for all rows."""
    key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), DRAWS)
    seeds = noise.words(key, state.posterior.location, samples)

    def one(i: Array) -> tuple[Array, Array]:
        epsilon = plan.descent.source(seeds[i], i, state.posterior.location, model.family)
        outputs = plan.descent.apply(objective.draw(state.posterior, model.family, epsilon), x)
        return model.likelihood.mean(outputs), model.likelihood.variance(outputs)

    return jax.lax.map(one, jnp.arange(samples))
