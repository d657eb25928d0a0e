"""V by gradient descent on the free energy: the paper's projection, made for large batches.

Epochs of shuffled minibatches, all in one compiled loop. The number of epochs, of rows and of minibatches are traced,
so a stream compiles once. An epoch that ends with a number that is not finite is undone and counted; after `patience`
such epochs in a row the projection gives up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree, UInt32

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar, Weights
from hmnn.core import filtering, minibatches, mixtures, noise, objective, prediction
from hmnn.core.cpu import gradients, loops
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.cpu.hashing import hashed
from hmnn.core.families import Posterior, rho_of, scale
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Prediction, Question

FIRST = 2**31 - 1
"""Folded into the key for theta_1; time steps fold in t."""
MOST_BLOCKS = 10
"""Of the KL term; it divides the usual widths, 100, 400, 500, as 8 does not."""
KL_WEIGHTS = {
    "uniform": lambda i, total: 1.0 / total,
    # Blundell et al.: 2^(M-i) / (2^M - 1) for i = 1 .. M, written so that it cannot overflow.
    "geometric": lambda i, total: 0.5 ** (i + 1) / (1.0 - 0.5**total),
}
"""What the KL term counts in minibatch i = 0 .. total - 1; the weights of an epoch sum to 1."""


class Path(NamedTuple):
    """Where the descent is."""

    posterior: Posterior
    optimiser: PyTree
    rejected: Int[Array, ""]
    """Epochs undone in a row, up to now."""


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
    optimiser: Callable[[Scalar], optax.GradientTransformation] = field(default=optax.sgd, metadata={"static": True})
    minibatch: int | None = field(default=None, metadata={"static": True})
    samples: int = field(default=1, metadata={"static": True})
    """N, draws of the weights for one gradient."""
    kl_weights: str = field(default="uniform", metadata={"static": True})
    source: noise.Source = field(default=hashed, metadata={"static": True})
    gradient: str = field(default="auto", metadata={"static": True})
    """"closed", "autodiff", or "auto": closed where `gradients.applies`."""
    kl_blocks: int | None = field(default=None, metadata={"static": True})
    """In how many blocks of rows the KL term is paid in turn; None chooses by the number of minibatches."""
    patience: int = field(default=10, metadata={"static": True})
    restart: bool = field(default=False, metadata={"static": True})
    """Whether the optimiser forgets its state at every time step."""

    def init(self, parts: Filter, key: Key) -> tuple[Posterior, Work]:
        """pi_0 = lambda_0: independent N(0, initial_scale^2)."""
        zeros = parts.weights()
        rho = jax.tree.map(lambda w: w + rho_of(jnp.asarray(self.initial_scale, w.dtype)), zeros)
        posterior = Posterior(zeros, rho)
        return posterior, Work(self.optimiser(self.learning_rate).init(posterior), jnp.zeros((), jnp.int32))

    def prior(self, parts: Filter, posterior: Posterior) -> PyTree:
        """P pi_{t-1}, one mixture per leaf; a kernel with centre "previous" pulls to m_{t-1}, as in the paper."""
        return _moved(parts, posterior, posterior.location)

    def start(self, parts: Filter, state: State) -> Posterior:
        """theta_{t-1}; theta_1 as long as nothing was learned."""
        if isinstance(state.seen, jax.core.Tracer):
            return jax.lax.cond(state.seen == 0, lambda: first_guess(parts, state.key), lambda: state.posterior)
        return state.posterior if int(state.seen) else _first_guess(parts, state.key)

    def correct(self, parts: Filter, prior: PyTree, start: Posterior, state: State, batch: Batch) -> Corrected:
        """V C_t: where the descent ends."""
        optimiser = self.optimiser(self.learning_rate).init(start) if self.restart else state.work.optimiser
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), 0)
        begin = Path(start, optimiser, state.work.rejected)
        path, done, undone = descend(parts, prior, begin, key, state.noise, batch)
        learned = undone < done  # if every epoch was undone nothing was, and theta_1 was a guess
        posterior = jax.tree.map(lambda new, old: jnp.where(learned, new, old), path.posterior, state.posterior)
        means = (expected(parts, theta) for theta in (state.posterior, posterior))
        found_noise = filtering.noise_after(parts, state, batch, *means)
        return Corrected(posterior, Work(path.optimiser, path.rejected), found_noise, undone, learned)

    def report(self, parts: Filter, before: State, after: State, batch: Batch, notes: Int[Array, ""]) -> Info:
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
            excess = jax.tree.map(lambda w, q, p: mixtures.log_prob(q, w) - mixtures.log_prob(p, w), w, own, prior)
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

        A kernel with centre "previous" pulls to E[w] here: m is larger where means are dropped, and pulling to it again
        and again without data would let it grow without bound.
        """
        moved = _moved(parts, posterior, expected(parts, posterior))
        matched = jax.tree.map(lambda _, member, law: member.match(law), posterior.location, parts.family, moved)
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
    """The kernel's law for every leaf; `previous` is what a kernel with centre "previous" pulls to."""
    laws, centre = objective.mixture(posterior, parts.family), parts.kernel.centre.at(previous)
    return jax.tree.map(lambda _, law, mu: parts.kernel(law, mu), posterior.location, laws, centre)


def descend(
    parts: Filter, prior: PyTree, start: Path, key: Key, learned_noise: PyTree, batch: Batch
) -> tuple[Path, Int[Array, ""], Int[Array, ""]]:
    """Minimise the free energy from `start`; also return how many epochs were tried, and how many of them undone."""
    how: Any = parts.projection
    likelihood = parts.given(learned_noise)
    optimiser = how.optimiser(how.learning_rate)
    size = minibatches.size_of(batch, how.minibatch)
    total = minibatches.number_of(batch, size)
    dtype = jax.tree.leaves(start.posterior)[0].dtype
    gradient_of = _gradient(how, parts, likelihood, start.posterior.location, prior, blocks(how, batch.x.shape[0]))

    def update(i: Array, path: Path, seeds: Array, offset: Array, order: Array | None) -> Path:
        part = batch if order is None else minibatches.taken(batch, order, i, size)
        weight = how.temperature * KL_WEIGHTS[how.kl_weights](i.astype(dtype), total.astype(dtype))
        gradient = gradient_of(path.posterior, seeds[i], part, weight, i + offset)
        return Path(*loops.updated(optimiser, path.posterior, path.optimiser, gradient, weight), path.rejected)

    def epoch(carry: tuple[Array, Path, Array]) -> tuple[Array, Path, Array]:
        i, path, undone = carry
        order, seeds = _chances(jax.random.fold_in(key, i), how, path.posterior.location, size, batch)
        offset = (seeds[0, 0, 0, 0] >> jnp.uint32(12)).astype(jnp.int32)  # the first block's turn is random
        after = loops.fori_loop(total, lambda j, path: update(j, path, seeds, offset, order), path)
        good = loops.all_finite(after.posterior, after.optimiser)
        kept = loops.cond(
            good,
            lambda: after._replace(rejected=jnp.zeros_like(path.rejected)),
            lambda: path._replace(rejected=path.rejected + 1),
        )
        return i + 1, kept, undone + jnp.where(good, 0, 1)

    def going_on(carry: tuple[Array, Path, Array]) -> Array:
        i, path, _ = carry
        return (i < how.epochs) & (path.rejected < how.patience)

    zero = jnp.zeros((), jnp.int32)
    done, path, undone = loops.while_loop(going_on, epoch, (zero, start, zero))
    return path, done, undone


def blocks(how: Descent, rows: int) -> int:
    """In how many blocks the KL term is paid: few minibatches pay all of it, many a tenth each."""
    if how.kl_blocks is not None:
        return how.kl_blocks
    number = -(-rows // min(how.minibatch or rows, rows))
    return max(1, min(MOST_BLOCKS, number // 32)) if how.kl_weights == "uniform" else 1


def _gradient(
    how: Descent, parts: Filter, likelihood: Likelihood, weights: Weights, prior: PyTree, turns: int
) -> Callable[..., Posterior]:
    """The mean over N draws of the gradient of a minibatch's free energy, in closed form where the rule says so."""
    slope = gradients.chosen(how.gradient, weights, parts.family, prior, turns)

    def one(theta: Posterior, seeds: Array, i: Array, part: Batch, weight: Array, count: Array) -> Posterior:
        epsilon = how.source(seeds[i], i, theta.location, parts.family)
        loss = partial(objective.misfit, parts.apply, likelihood, batch=part)
        return slope(loss, theta, epsilon, weight, count)

    def mean(theta: Posterior, seeds: Array, part: Batch, weight: Array, count: Array) -> Posterior:
        if how.samples == 1:
            return one(theta, seeds, jnp.zeros((), jnp.int32), part, weight, count)

        def add(i: Array, sum_: Posterior) -> Posterior:
            return jax.tree.map(jnp.add, sum_, one(theta, seeds, i, part, weight, count))

        sum_ = loops.fori_loop(how.samples, add, jax.tree.map(jnp.zeros_like, theta))
        return jax.tree.map(lambda g: g / how.samples, sum_)

    return mean


def _chances(
    key: Key, how: Descent, weights: PyTree, minibatch: int, batch: Batch
) -> tuple[Int[Array, " padded"] | None, UInt32[Array, "minibatches samples leaves 2"]]:
    """All that is random in an epoch, drawn at once: the order of the rows, and two words per leaf and draw.

    They stand side by side, so that neither depends on how far a batch is padded.
    """
    size = batch.x.shape[0]
    shape = (-(-size // minibatch), how.samples, _tree.structure(weights).num_leaves, 2)
    if minibatch == size:
        return None, jax.random.bits(key, shape, jnp.uint32)
    words = math.prod(shape)
    bits = jax.random.bits(key, (max(size, words), 2), jnp.uint32)
    return minibatches.shuffled(bits[:size, 0], minibatch, batch.rows), bits[:words, 1].reshape(shape)
