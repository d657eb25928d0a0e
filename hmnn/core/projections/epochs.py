"""The loop of the descent: epochs of shuffled minibatches, all in one compiled loop.

The number of epochs, of rows and of minibatches are traced, so a stream compiles once. An epoch
that ends with a number that is not finite is undone and counted; after `patience` such epochs in a
row the descent gives up. `how` is the projection, a `Descent`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree, UInt32

from hmnn import _tree
from hmnn._types import Batch, Key, Weights
from hmnn.core import minibatches, objective
from hmnn.core.cpu import gradients, loops
from hmnn.core.families import Posterior
from hmnn.core.filtering import Filter
from hmnn.core.likelihoods import Likelihood

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


def descend(
    parts: Filter, prior: PyTree, start: Path, key: Key, learned_noise: PyTree, batch: Batch
) -> tuple[Path, Int[Array, ""], Int[Array, ""]]:
    """Minimise the free energy from `start`; tell also how many epochs were tried and undone."""
    how: Any = parts.projection
    likelihood = parts.given(learned_noise)
    optimiser = how.optimiser(how.learning_rate)
    size = minibatches.size_of(batch, how.minibatch)
    total = minibatches.number_of(batch, size)
    dtype = jax.tree.leaves(start.posterior)[0].dtype
    gradient_of = _gradient(
        how, parts, likelihood, start.posterior.location, prior, blocks(how, batch.x.shape[0])
    )

    def update(i: Array, path: Path, seeds: Array, offset: Array, order: Array | None) -> Path:
        part = batch if order is None else minibatches.taken(batch, order, i, size)
        weight = how.temperature * KL_WEIGHTS[how.kl_weights](i.astype(dtype), total.astype(dtype))
        gradient = gradient_of(path.posterior, seeds[i], part, weight, i + offset)
        return Path(
            *loops.updated(optimiser, path.posterior, path.optimiser, gradient, weight),
            path.rejected,
        )

    def epoch(carry: tuple[Array, Path, Array]) -> tuple[Array, Path, Array]:
        i, path, undone = carry
        order, seeds = _chances(
            jax.random.fold_in(key, i), how, path.posterior.location, size, batch
        )
        # Which block comes first is random.
        offset = (seeds[0, 0, 0, 0] >> jnp.uint32(12)).astype(jnp.int32)
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


def blocks(how: Any, rows: int) -> int:
    """In how many blocks the KL term is paid: few minibatches pay all of it, many a tenth each."""
    if how.kl_blocks is not None:
        return how.kl_blocks
    number = -(-rows // min(how.minibatch or rows, rows))
    return max(1, min(MOST_BLOCKS, number // 32)) if how.kl_weights == "uniform" else 1


def _gradient(
    how: Any, parts: Filter, likelihood: Likelihood, weights: Weights, prior: PyTree, turns: int
) -> Callable[..., Posterior]:
    """The gradient of a minibatch's free energy, a mean over N draws of the weights."""
    slope = gradients.chosen(how.gradient, weights, parts.family, prior, turns)

    def one(
        theta: Posterior, seeds: Array, i: Array, part: Batch, weight: Array, count: Array
    ) -> Posterior:
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
    key: Key, how: Any, weights: PyTree, minibatch: int, batch: Batch
) -> tuple[Int[Array, " padded"] | None, UInt32[Array, "minibatches samples leaves 2"]]:
    """All that is random in an epoch: the order of the rows, and two words per leaf and draw.

    They stand side by side, so that neither depends on how far a batch is padded.
    """
    size = batch.x.shape[0]
    shape = (-(-size // minibatch), how.samples, _tree.structure(weights).num_leaves, 2)
    if minibatch == size:
        return None, jax.random.bits(key, shape, jnp.uint32)
    words = math.prod(shape)
    bits = jax.random.bits(key, (max(size, words), 2), jnp.uint32)
    order = minibatches.shuffled(bits[:size, 0], minibatch, batch.rows)
    return order, bits[:words, 1].reshape(shape)
