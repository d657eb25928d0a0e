"""Elastic weight consolidation (Kirkpatrick et al.).

One network, held near its old weights where the data needed them.

At time t the loss is -log g + strength / 2 sum_k F_k (w - w_k)^2 over the time steps before. F_k is
the diagonal of the Fisher information of the model itself at w_k (expected over labels, not those
that were seen), summed over the rows. Sums of F_k and of F_k w_k say all of it, so memory does not
grow with t.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from hmnn import _check, _tree
from hmnn._types import Batch, Key, Number, Scalar, Weights
from hmnn.core import kernels, minibatches, objective
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply
from hmnn.core.projections import point
from hmnn.core.projections.point import OneNetwork
from hmnn.methods import arguments
from hmnn.methods.method import Method
from hmnn.methods.variational import Optimiser, build
from hmnn.networks import Network

STRENGTHS = (10.0, 100.0, 1000.0, 10000.0)
"""The paper's grid for lambda; 1 is Bayes' rule for a quadratic loss."""
ANCHORS = ("each", "latest")
CHUNK = 1
"""Rows whose gradients are held at the same time when the Fisher information is summed; many would
not fit a cache."""


def ewc(
    network: Network,
    likelihood: str | Likelihood,
    *,
    strength: Number = 10.0,
    anchors: str = "each",
    optimiser: Optimiser = "adam",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
) -> Method:
    """Elastic weight consolidation; the optimiser starts anew at every time step.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        strength: lambda >= 0, what the penalty counts; the paper's grid is `STRENGTHS`.
        anchors: "each" keeps one quadratic per time step, each about its own weights (Kirkpatrick
            et al.); "latest" puts them all about the latest weights (Huszar), which for quadratic
            losses and strength 1 is Bayes' rule.
        optimiser: "adam", "sgd" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step.
        minibatch: rows of a minibatch, or None for all rows at once.
    """
    projection = Consolidation(
        strength=_check.number("strength", strength, "at least 0", lambda v: v >= 0),
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
        optimiser=arguments.optimiser(optimiser),
        minibatch=arguments.minibatch(minibatch),
        anchors=_check.choice("anchors", anchors, ANCHORS),
    )
    return build(network, likelihood, kernels.static(), projection=projection)


class Anchored(NamedTuple):
    """A network, and what holds it."""

    weights: Weights
    fisher: Weights
    """sum_k F_k."""
    anchor: Weights
    """sum_k F_k w_k / sum_k F_k, or the latest w."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Consolidation(OneNetwork):
    """Train one network with a penalty for leaving its old weights."""

    strength: Scalar
    learning_rate: Scalar
    epochs: Scalar
    optimiser: Any = field(metadata={"static": True})
    minibatch: int | None = field(metadata={"static": True})
    anchors: str = field(metadata={"static": True})

    def init(self, parts: Filter, key: Key) -> tuple[Anchored, tuple[()]]:
        """The network's own initial weights, held by nothing."""
        weights = parts.first_weights(key)
        return Anchored(weights, jax.tree.map(jnp.zeros_like, weights), weights), ()

    def correct(
        self, parts: Filter, prior: Anchored, start: Anchored, state: State, batch: Batch
    ) -> Corrected:
        """New weights, and the Fisher information there."""
        weights = self._descend(parts, prior, state, batch)
        new = fisher(parts.apply, parts.likelihood, weights, batch)
        total = jax.tree.map(jnp.add, prior.fisher, new)
        anchor = (
            weights
            if self.anchors == "latest"
            else jax.tree.map(_middle, prior.anchor, weights, new, total)
        )
        return Corrected(Anchored(weights, total, anchor), (), state.noise)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: PyTree
    ) -> Info:
        """-log g at the new weights, and the penalty."""
        weights = after.posterior.weights
        misfit = objective.misfit(parts.apply, parts.likelihood, weights, batch=batch)
        penalty = self._penalty(before.posterior, weights)
        return Info(_tree.all_finite((after.posterior, misfit, penalty)), misfit, penalty=penalty)

    def network(self, parts: Filter, posterior: Anchored, point: str) -> Weights:
        """The weights."""
        return posterior.weights

    def _descend(self, parts: Filter, prior: Anchored, state: State, batch: Batch) -> Weights:
        """Epochs of shuffled minibatches from the old weights.

        The penalty counts 1/M in each of M minibatches.
        """
        optimiser = self.optimiser(self.learning_rate)
        size = minibatches.size_of(batch, self.minibatch)
        total = minibatches.number_of(batch, size)
        key = jax.random.fold_in(state.key, state.t)

        def update(i: Array, carry: tuple[Weights, PyTree], order: Array) -> tuple[Weights, PyTree]:
            part = minibatches.taken(batch, order, i, size)

            def loss(w: Weights) -> Array:
                penalty = self._penalty(prior, w)
                misfit = objective.misfit(parts.apply, parts.likelihood, w, batch=part)
                return misfit + penalty / total.astype(penalty.dtype)

            return point.updated(optimiser, jax.grad(loss)(carry[0]), *carry)

        def epoch(i: Array, carry: tuple[Weights, PyTree]) -> tuple[Weights, PyTree]:
            draws = jax.random.bits(jax.random.fold_in(key, i), (batch.x.shape[0],), jnp.uint32)
            order = minibatches.shuffled(draws, size, batch.rows)
            return jax.lax.fori_loop(0, total, lambda j, c: update(j, c, order), carry)

        return jax.lax.fori_loop(
            0, self.epochs, epoch, (prior.weights, optimiser.init(prior.weights))
        )[0]

    def _penalty(self, prior: Anchored, weights: Weights) -> Float[Array, ""]:
        """strength / 2 sum_k F_k (w - w_k)^2, up to a constant."""
        square = _tree.total(lambda w, f, a: f * (w - a) ** 2, weights, prior.fisher, prior.anchor)
        return 0.5 * self.strength * square


def _middle(anchor: Array, weights: Array, new: Array, total: Array) -> Array:
    """The mean of the anchors, each counted by its Fisher information.

    The new weights where there is none at all.
    """
    share = jnp.where(total > 0, new / jnp.where(total > 0, total, 1.0), 1.0)
    return anchor + share * (weights - anchor)


def fisher(apply: Apply, likelihood: Likelihood, weights: Weights, batch: Batch) -> Weights:
    """The diagonal of J' H J summed over the real rows, H the curvature of -log g in the outputs.

    For the likelihoods of this package H does not depend on y, and this is the model's own Fisher
    information.
    """
    size = batch.x.shape[0]
    rows = min(CHUNK, size)
    order = minibatches.in_order(batch, rows)

    def squared(x: Array, direction: Array) -> Weights:
        """The squared gradient of one row's outputs along a direction."""
        gradient = jax.grad(lambda w: jnp.sum(apply(w, x[None])[0].ravel() * direction))(weights)
        return jax.tree.map(jnp.square, gradient)

    def add(i: Array, sums: Weights) -> Weights:
        part = minibatches.taken(batch, order, i, rows)
        roots = _roots(likelihood, apply(weights, part.x), part.y)
        roots = jnp.sqrt(part.weight)[:, None, None] * roots

        def along(j: Array, sums: Weights) -> Weights:
            return jax.tree.map(
                lambda s, g: s + g.sum(axis=0), sums, jax.vmap(squared)(part.x, roots[:, :, j])
            )

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
