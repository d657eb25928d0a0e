"""Sequential DropConnect (Wan et al.): one network, trained with weights dropped, used with gamma times them."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from hmnn import _check, _tree
from hmnn._types import Key, Number, Scalar, Weights
from hmnn.core import families, noise, objective
from hmnn.core.cpu.hashing import hashed
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply, Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, parts, training
from hmnn.methods.base import Method
from hmnn.methods.training import Info, State


class Plan(NamedTuple):
    """The parts that are compiled in."""

    start: Any
    apply: Apply
    optimiser: Any


class Model(NamedTuple):
    """The numbers, which are traced."""

    family: PyTree
    likelihood: Likelihood
    learning_rate: Scalar
    epochs: Scalar


def dropconnect(
    network: Any,
    likelihood: Any,
    *,
    keep: Any = 0.8,
    keep_where: Any = "internal",
    optimiser: Any = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
) -> Method:
    """Sequential DropConnect, warm started, on all rows of a time step at once; it has no posterior and no intervals.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        keep: gamma in (0, 1], the probability that a weight is kept; a number or a tree.
        keep_where: which weights may be dropped: one of `families.WHERE` or a test of the path.
        optimiser: "sgd", "adam" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step, with fresh masks in each.
    """
    model = Model(
        family=families.assign(parts.shapes(network), keep, keep_where),
        likelihood=parts.likelihood(likelihood),
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
    )
    plan = Plan(network.init, network.apply, parts.optimiser(optimiser))
    return door.method(
        network,
        model.likelihood,
        init=partial(_init, plan, model),
        step=partial(_step, plan, model),
        advance=training.advance,
        predict=partial(_predict, plan, model),
    )


@partial(jax.jit, static_argnums=0)
def _init(plan: Plan, model: Model, key: Key) -> State:
    weights = plan.start(key)
    return State(weights, plan.optimiser(model.learning_rate).init(weights), key, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=0)
def _step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    key = jax.random.fold_in(state.key, state.t)

    def loss(weights: Weights, i: jax.Array) -> jax.Array:
        seeds = noise.words(jax.random.fold_in(key, i), weights)
        masks = hashed(seeds, i, weights, model.family)
        dropped = jax.tree.map(_dropped, weights, model.family, masks)
        return objective.misfit(plan.apply, model.likelihood, dropped, batch=batch)

    optimiser = plan.optimiser(model.learning_rate)
    weights, memory = training.descend(loss, optimiser, state.weights, state.optimiser, model.epochs)
    misfit = objective.misfit(plan.apply, model.likelihood, _mean(model, weights), batch=batch)
    finite = _tree.all_finite((weights, memory, misfit))
    return State(weights, memory, state.key, state.t + 1), Info(misfit, finite)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    """The network at gamma w; at w itself if `point` is "location"."""
    weights = state.weights if point == "location" else _mean(model, state.weights)
    return Prediction(model.likelihood.mean(plan.apply(weights, x)))


def _dropped(weight: jax.Array, family: families.Family, mask: families.Noise) -> jax.Array:
    return weight if family.keep is None else jnp.where(jnp.asarray(mask.eta), weight, 0.0)


def _mean(model: Model, weights: Weights) -> Weights:
    """gamma w."""
    return jax.tree.map(lambda w, member: w if member.keep is None else member.keep * w, weights, model.family)
