"""Elastic weight consolidation (Kirkpatrick et al.): one network, held near its old weights where the data needed them.

At time t the loss is -log g + strength / 2 sum_k F_k (w - w_k)^2 over the time steps before. F_k is the diagonal
of the Fisher information of the model itself at w_k (expected over labels, not those that were seen), summed over
the rows. Sums of F_k and of F_k w_k say all of it, so memory does not grow with t.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _check, _tree
from hmnn._types import Key, Number, Scalar, Weights
from hmnn.core import objective, projection
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply, Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, parts
from hmnn.methods.base import Method

STRENGTHS = (10.0, 100.0, 1000.0, 10000.0)
"""The paper's grid for lambda; 1 is Bayes' rule for a quadratic loss."""
ANCHORS = ("each", "latest")
CHUNK = 1
"""Rows whose gradients are held at the same time when the Fisher information is summed; many would not fit a cache."""


class State(NamedTuple):
    """All that the next time step needs."""

    weights: Weights
    fisher: Weights
    """sum_k F_k."""
    anchor: Weights
    """sum_k F_k w_k / sum_k F_k, or the latest w."""
    key: Key
    t: Int[Array, ""]


class Info(NamedTuple):
    """What a person wants to see of a time step."""

    misfit: Float[Array, ""]
    """-log g at the new weights."""
    penalty: Float[Array, ""]
    finite: Bool[Array, ""]


class Plan(NamedTuple):
    """The parts that are compiled in."""

    start: Any
    apply: Apply
    optimiser: Any
    minibatch: int | None
    anchors: str


class Model(NamedTuple):
    """The numbers, which are traced."""

    likelihood: Likelihood
    strength: Scalar
    learning_rate: Scalar
    epochs: Scalar


def ewc(
    network: Any,
    likelihood: Any,
    *,
    strength: Number = 10.0,
    anchors: Any = "each",
    optimiser: Any = "adam",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
) -> Method:
    """Elastic weight consolidation; the optimiser starts anew at every time step.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        strength: lambda >= 0, what the penalty counts; the paper's grid is `STRENGTHS`.
        anchors: "each" keeps one quadratic per time step, each about its own weights (Kirkpatrick et al.); "latest"
            puts them all about the latest weights (Huszar), which for quadratic losses and strength 1 is Bayes' rule.
        optimiser: "adam", "sgd" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step.
        minibatch: rows of a minibatch, or None for all rows at once.
    """
    parts.shapes(network)
    model = Model(
        likelihood=parts.likelihood(likelihood),
        strength=_check.number("strength", strength, "at least 0", lambda v: v >= 0),
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
    )
    plan = Plan(
        start=network.init,
        apply=network.apply,
        optimiser=parts.optimiser(optimiser),
        minibatch=None if minibatch is None else _check.count("minibatch", minibatch),
        anchors=_check.choice("anchors", anchors, ANCHORS),
    )
    return door.method(
        network,
        model.likelihood,
        init=partial(_init, plan),
        step=partial(_step, plan, model),
        advance=lambda state: state._replace(t=state.t + 1),
        predict=partial(_predict, plan, model),
    )


@partial(jax.jit, static_argnums=0)
def _init(plan: Plan, key: Key) -> State:
    weights = plan.start(key)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return State(weights, zeros, weights, key, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=0)
def _step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    weights = _descend(plan, model, state, batch)
    new = fisher(plan.apply, model.likelihood, weights, batch)
    total = jax.tree.map(jnp.add, state.fisher, new)
    anchor = weights if plan.anchors == "latest" else jax.tree.map(_middle, state.anchor, weights, new, total)
    misfit = objective.misfit(plan.apply, model.likelihood, weights, batch=batch)
    penalty = _penalty(model, state, weights)
    finite = _tree.all_finite((weights, total, anchor, misfit, penalty))
    return State(weights, total, anchor, state.key, state.t + 1), Info(misfit, penalty, finite)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    """One network has no posterior: the same answer at every point, and no interval."""
    return Prediction(model.likelihood.mean(plan.apply(state.weights, x)))


def _descend(plan: Plan, model: Model, state: State, batch: Batch) -> Weights:
    """Epochs of shuffled minibatches from the old weights; the penalty counts 1/M in each of M minibatches."""
    optimiser = plan.optimiser(model.learning_rate)
    size = batch.x.shape[0]
    rows = min(plan.minibatch or size, size)
    total = jnp.maximum(1, (batch.rows + rows - 1) // rows)
    key = jax.random.fold_in(state.key, state.t)

    def update(i: Array, carry: tuple[Weights, PyTree], order: Array) -> tuple[Weights, PyTree]:
        weights, memory = carry
        part = projection.minibatch(batch, order, i, rows)

        def loss(w: Weights) -> Array:
            penalty = _penalty(model, state, w)
            return objective.misfit(plan.apply, model.likelihood, w, batch=part) + penalty / total.astype(penalty.dtype)

        with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
            updates, memory = optimiser.update(jax.grad(loss)(weights), memory, weights)
        return optax.apply_updates(weights, updates), memory

    def epoch(i: Array, carry: tuple[Weights, PyTree]) -> tuple[Weights, PyTree]:
        draws = jax.random.bits(jax.random.fold_in(key, i), (size,), jnp.uint32)
        order = projection.shuffled(draws, rows, batch.rows)
        return jax.lax.fori_loop(0, total, lambda j, c: update(j, c, order), carry)

    return jax.lax.fori_loop(0, model.epochs, epoch, (state.weights, optimiser.init(state.weights)))[0]


def _penalty(model: Model, state: State, weights: Weights) -> Float[Array, ""]:
    """strength / 2 sum_k F_k (w - w_k)^2, up to a constant."""
    square = _tree.total(lambda w, f, a: f * (w - a) ** 2, weights, state.fisher, state.anchor)
    return 0.5 * model.strength * square


def _middle(anchor: Array, weights: Array, new: Array, total: Array) -> Array:
    """The mean of the anchors, each counted by its Fisher information; the new weights where there is none at all."""
    share = jnp.where(total > 0, new / jnp.where(total > 0, total, 1.0), 1.0)
    return anchor + share * (weights - anchor)


def fisher(apply: Apply, likelihood: Likelihood, weights: Weights, batch: Batch) -> Weights:
    """The diagonal of J' H J summed over the real rows, with H the curvature of -log g in the outputs.

    For the likelihoods of this package H does not depend on y, and this is the model's own Fisher information.
    """
    size = batch.x.shape[0]
    rows = min(CHUNK, size)
    order = jnp.pad(jnp.arange(size), (0, -size % rows))

    def squared(x: Array, direction: Array) -> Weights:
        """The squared gradient of one row's outputs along a direction."""
        gradient = jax.grad(lambda w: jnp.sum(apply(w, x[None])[0].ravel() * direction))(weights)
        return jax.tree.map(jnp.square, gradient)

    def add(i: Array, sums: Weights) -> Weights:
        part = projection.minibatch(batch, order, i, rows)
        roots = _roots(likelihood, apply(weights, part.x), part.y)
        roots = jnp.where((jnp.arange(rows) < part.rows)[:, None, None], roots, 0.0)

        def along(j: Array, sums: Weights) -> Weights:
            return jax.tree.map(lambda s, g: s + g.sum(axis=0), sums, jax.vmap(squared)(part.x, roots[:, :, j]))

        return jax.lax.fori_loop(0, roots.shape[2], along, sums)

    zeros = jax.tree.map(jnp.zeros_like, weights)
    return jax.lax.fori_loop(0, (batch.rows + rows - 1) // rows, add, zeros)


def _roots(likelihood: Likelihood, outputs: Array, y: Array) -> Float[Array, "rows out out"]:
    """R with R R' = H, row by row."""

    def curvature(output: Array, label: Array) -> Array:
        def loss(flat: Array) -> Array:
            return -likelihood.log_prob(flat.reshape(1, *output.shape), label[None])[0]

        return jax.hessian(loss)(output.ravel())

    values, vectors = jnp.linalg.eigh(jax.vmap(curvature)(outputs, y))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
