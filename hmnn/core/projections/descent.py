"""V by gradient descent on the free energy: the paper's projection, made for large batches.

`epochs` holds the loop; here is what the filter asks of a projection.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar, Weights
from hmnn.core import filtering, minibatches, mixtures, noise, objective, prediction
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.cpu.hashing import hashed
from hmnn.core.families import Posterior, rho_of, scale
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections import epochs

FIRST = 2**31 - 1
"""Folded into the key for theta_1; time steps fold in t."""


class Work(NamedTuple):
    """What a descent leaves for the next one."""

    optimiser: PyTree
    rejected: Int[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Descent:
    """How to descend. The first five are numbers, which are traced; the others are compiled in."""

    staged: ClassVar[bool] = True
    """A step is compiled in several programs, which together take less time to compile than one."""

    learning_rate: Scalar = 1e-3
    epochs: Scalar = 100
    temperature: Scalar = 1.0
    """Factor of the KL term; below 1 the result is a cold posterior."""
    initial_scale: Scalar = 0.6931471805599453
    """Standard deviation of lambda_0."""
    start_rho: tuple[Scalar, Scalar] = (-3.0, -2.0)
    """Range of s-tilde of theta_1."""
    optimiser: Callable[[Scalar], optax.GradientTransformation] = field(
        default=optax.sgd, metadata={"static": True}
    )
    minibatch: int | None = field(default=None, metadata={"static": True})
    samples: int = field(default=1, metadata={"static": True})
    """N, draws of the weights for one gradient."""
    kl_weights: str = field(default="uniform", metadata={"static": True})
    source: noise.Source = field(default=hashed, metadata={"static": True})
    gradient: str = field(default="auto", metadata={"static": True})
    """"closed", "autodiff", or "auto": closed where `gradients.applies`."""
    kl_blocks: int | None = field(default=None, metadata={"static": True})
    """In how many blocks of rows the KL term is paid in turn; None: as `epochs.blocks` chooses."""
    patience: int = field(default=10, metadata={"static": True})
    restart: bool = field(default=False, metadata={"static": True})
    """Whether the optimiser forgets its state at every time step."""

    def init(self, parts: Filter, key: Key) -> tuple[Posterior, Work]:
        """pi_0 = lambda_0: independent N(0, initial_scale^2)."""
        zeros = parts.weights()
        rho = jax.tree.map(lambda w: w + rho_of(jnp.asarray(self.initial_scale, w.dtype)), zeros)
        posterior = Posterior(zeros, rho)
        return posterior, Work(
            self.optimiser(self.learning_rate).init(posterior), jnp.zeros((), jnp.int32)
        )

    def prior(self, parts: Filter, posterior: Posterior) -> PyTree:
        """P pi_{t-1}, one mixture per leaf.

        A kernel with centre "previous" pulls to m_{t-1}, as in the paper.
        """
        return _moved(parts, posterior, posterior.location)

    def start(self, parts: Filter, state: State) -> Posterior:
        """theta_{t-1}; theta_1 as long as nothing was learned."""
        if isinstance(state.seen, jax.core.Tracer):
            return jax.lax.cond(
                state.seen == 0, lambda: first_guess(parts, state.key), lambda: state.posterior
            )
        return state.posterior if int(state.seen) else _first_guess(parts, state.key)

    def correct(
        self, parts: Filter, prior: PyTree, start: Posterior, state: State, batch: Batch
    ) -> Corrected:
        """V C_t: where the descent ends."""
        optimiser = (
            self.optimiser(self.learning_rate).init(start) if self.restart else state.work.optimiser
        )
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), 0)
        begin = epochs.Path(start, optimiser, state.work.rejected)
        path, done, undone = epochs.descend(parts, prior, begin, key, state.noise, batch)
        learned = undone < done  # if every epoch was undone nothing was, and theta_1 was a guess
        posterior = jax.tree.map(
            lambda new, old: jnp.where(learned, new, old), path.posterior, state.posterior
        )
        means = (expected(parts, theta) for theta in (state.posterior, posterior))
        found_noise = filtering.noise_after(parts, state, batch, *means)
        return Corrected(
            posterior, Work(path.optimiser, path.rejected), found_noise, undone, learned
        )

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Int[Array, ""]
    ) -> Info:
        """The free energy and its terms at the new posterior, on all the data of the step."""
        theta, prior = after.posterior, self.prior(parts, before.posterior)
        scales = jax.tree.map(scale, theta.rho)
        own = objective.mixture(theta, parts.family)
        likelihood = parts.given(before.noise)
        key = jax.random.fold_in(jax.random.fold_in(before.key, before.t), 1)
        seeds = noise.words(key, theta.location, self.samples)

        def one(i: Array) -> tuple[Array, PyTree, PyTree]:
            epsilon = self.source(seeds[i], i, theta.location, parts.family)
            w = objective.draw_scaled(theta.location, scales, parts.family, epsilon)
            excess = jax.tree.map(
                lambda w, q, p: mixtures.log_prob(q, w) - mixtures.log_prob(p, w), w, own, prior
            )
            jumped = jax.tree.map(lambda w, p: mixtures.widest(p, w), w, prior)
            misfit = minibatches.misfit(parts.apply, likelihood, w, batch, self.minibatch)
            return misfit, *parts.leaf_means(excess, jumped)

        found = jax.lax.map(one, jnp.arange(self.samples))
        misfit, excess, drift = jax.tree.map(lambda a: a.mean(axis=0), found)
        weights = parts.weights()
        divergence = _tree.average(excess, weights) * _tree.size(weights)
        energy = misfit + self.temperature * divergence
        return Info(
            finite=(notes == 0) & jnp.isfinite(energy),
            misfit=misfit,
            free_energy=energy,
            divergence=divergence,
            mean_scale=_tree.average(jax.tree.map(jnp.mean, scales), scales),
            drift=_tree.average(drift, weights),
            drift_by_leaf=drift,
            rejected=notes,
            diverged=after.work.rejected >= self.patience,
        )

    def rest(self, parts: Filter, posterior: Posterior) -> Posterior:
        """The prior, matched by its moments.

        A kernel with centre "previous" pulls to E[w] here: m is larger where means are dropped, and
        pulling to it again and again without data would let it grow without bound.
        """
        moved = _moved(parts, posterior, expected(parts, posterior))
        matched = jax.tree.map(
            lambda _, member, law: member.match(law), posterior.location, parts.family, moved
        )
        return _tree.unzip(posterior.location, matched, Posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """At E[w], at m, or over draws of the weights fixed by (seed, t), the same for all rows."""
        likelihood, theta = parts.given(state.noise), state.posterior
        at_point = None
        if question.point != "sampled":
            weights = theta.location if question.point == "location" else expected(parts, theta)
            at_point = parts.apply(weights, x)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), prediction.DRAWS)
        seeds = noise.words(key, theta.location, question.samples)

        def outputs(i: Array) -> Array:
            epsilon = self.source(seeds[i], i, theta.location, parts.family)
            return parts.apply(objective.draw(theta, parts.family, epsilon), x)

        return prediction.from_draws(likelihood, question, at_point, outputs)


def first_guess(parts: Filter, key: Key) -> Posterior:
    """theta_1: the network's initial weights, s-tilde uniform in a range."""
    location_key, rho_key = jax.random.split(jax.random.fold_in(key, FIRST))
    location = parts.first_weights(location_key)
    how: Any = parts.projection
    low, high = how.start_rho
    draws = _tree.split(jax.random.uniform(rho_key, (_tree.size(location),)), location)
    return Posterior(location, jax.tree.map(lambda u: low + (high - low) * u, draws))


_first_guess = compiled(ONCE)(first_guess)


def expected(parts: Filter, posterior: Posterior) -> Weights:
    """E[w], which is gamma m."""
    laws = objective.mixture(posterior, parts.family)
    return jax.tree.map(lambda _, law: mixtures.mean(law), posterior.location, laws)


def _moved(parts: Filter, posterior: Posterior, previous: Weights) -> PyTree:
    """The kernel's law for every leaf.

    `previous` is what a kernel with centre "previous" pulls to.
    """
    laws, centre = objective.mixture(posterior, parts.family), parts.kernel.centre.at(previous)
    return jax.tree.map(lambda _, law, mu: parts.kernel(law, mu), posterior.location, laws, centre)
