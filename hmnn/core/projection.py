"""V: the member of the family closest to the corrected law, by gradient descent on the free energy.

Epochs of shuffled minibatches, all in one compiled loop. The number of epochs, of rows and of
minibatches are traced, so a stream compiles once. An epoch that ends with a number that is not
finite is undone and counted; after `patience` such epochs in a row the projection gives up.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree, UInt32

from hmnn import _tree
from hmnn._types import Key, Scalar, Weights
from hmnn.core import noise as noises
from hmnn.core import objective
from hmnn.core.cpu import arithmetic, gradients
from hmnn.core.cpu.hashing import hashed
from hmnn.core.families import RHO_FLOOR, Posterior
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply, Batch


class Descent(NamedTuple):
    """How to descend: the parts that are compiled in."""

    apply: Apply
    optimiser: Callable[[Scalar], optax.GradientTransformation] = optax.sgd
    minibatch: int | None = None
    samples: int = 1
    kl_weights: str = "uniform"
    source: noises.Source = hashed
    gradient: str = "auto"
    """"closed", "autodiff", or "auto": closed where `gradients.applies`."""
    kl_blocks: int | None = None
    """In how many blocks of rows the KL term is paid in turn; None chooses by the number of minibatches."""
    patience: int = 10


class Pace(NamedTuple):
    """How to descend: the numbers, which are traced."""

    learning_rate: Scalar = 1e-3
    epochs: Scalar = 100
    temperature: Scalar = 1.0


class Path(NamedTuple):
    """Where the descent is."""

    posterior: Posterior
    optimiser: PyTree
    rejected: Int[Array, ""]
    """Epochs undone in a row, up to now."""


KL_WEIGHTS = {
    "uniform": lambda i, total: 1.0 / total,
    # Blundell et al.: 2^(M-i) / (2^M - 1) for i = 1 .. M, written so that it cannot overflow.
    "geometric": lambda i, total: 0.5 ** (i + 1) / (1.0 - 0.5**total),
}
"""What the KL term counts in minibatch i = 0 .. total - 1; the weights of an epoch sum to 1."""


MOST_BLOCKS = 10
"""Of the KL term; it divides the usual widths, 100, 400, 500, as 8 does not."""


def ready(descent: Descent, family: PyTree, prior: PyTree, weights: Weights) -> PyTree:
    """The prior as the descent reads it: what stays the same during a time step is computed once."""
    return gradients.ready(prior, family, weights) if _closed(descent, family, weights) else prior


def descend(
    key: Key,
    descent: Descent,
    pace: Pace,
    likelihood: Likelihood,
    family: PyTree,
    law: PyTree,
    start: Path,
    batch: Batch,
) -> tuple[Path, Int[Array, ""]]:
    """Minimise the free energy from `start`; also return how many epochs were undone.

    `law` is the prior made `ready`, and paths are `packed`, the given and the returned one.
    """
    optimiser = descent.optimiser(pace.learning_rate)
    size = batch.x.shape[0]
    rows = min(descent.minibatch or size, size)
    dtype = jax.tree.leaves(_unpacked(start.posterior))[0].dtype
    total = jnp.maximum(1, (batch.rows + rows - 1) // rows)

    gradient_of = _gradient(descent, likelihood, family, law, blocks(descent, size))

    def update(i: Array, path: Path, seeds: Array, offset: Array, order: Array | None) -> Path:
        theta = _unpacked(path.posterior)
        part = batch if order is None else minibatch(batch, order, i, rows)
        weight = pace.temperature * KL_WEIGHTS[descent.kl_weights](i.astype(dtype), total.astype(dtype))
        gradient = gradient_of(theta, seeds[i], part, weight, i + offset)
        if any(jnp.ndim(leaf) for leaf in jax.tree.leaves(path.optimiser)):  # each moment would compute it again
            gradient = _unpacked(arithmetic.once(_packed(gradient), weight))
        updates, state = optimiser.update(gradient, path.optimiser, theta)
        return packed(Path(_moved(theta, updates), state, path.rejected))

    def epoch(carry: tuple[Array, Path, Array]) -> tuple[Array, Path, Array]:
        i, path, undone = carry
        order, seeds = _chances(jax.random.fold_in(key, i), descent, path.posterior, size, rows, batch.rows)
        offset = (seeds[0, 0, 0, 0] >> jnp.uint32(12)).astype(jnp.int32)  # the first block's turn is random
        after = jax.lax.fori_loop(0, total, lambda j, p: update(j, p, seeds, offset, order), path)
        good = _tree.all_finite((after.posterior, after.optimiser))
        kept = jax.lax.cond(
            good,
            lambda: after._replace(rejected=jnp.zeros_like(path.rejected)),
            lambda: path._replace(rejected=path.rejected + 1),
        )
        return i + 1, kept, undone + jnp.where(good, 0, 1)

    def going_on(carry: tuple[Array, Path, Array]) -> Array:
        i, path, _ = carry
        return (i < pace.epochs) & (path.rejected < descent.patience)

    zero = jnp.zeros((), jnp.int32)
    _, path, undone = jax.lax.while_loop(going_on, epoch, (zero, start, zero))
    return path, undone


def blocks(descent: Descent, size: int) -> int:
    """In how many blocks the KL term is paid: few minibatches pay all of it, many a tenth each."""
    if descent.kl_blocks is not None:
        return descent.kl_blocks
    minibatches = -(-size // min(descent.minibatch or size, size))
    return max(1, min(MOST_BLOCKS, minibatches // 32)) if descent.kl_weights == "uniform" else 1


def _closed(descent: Descent, family: PyTree, weights: Weights) -> bool:
    return {"closed": True, "autodiff": False, "auto": gradients.applies(family, weights)}[descent.gradient]


def _gradient(
    descent: Descent, likelihood: Likelihood, family: PyTree, law: PyTree, parts: int
) -> Callable[..., Posterior]:
    """The mean over N draws of the gradient of a minibatch's free energy, in closed form where the rule says so."""

    def one(posterior: Posterior, seeds: Array, i: Array, part: Batch, weight: Array, count: Array) -> Posterior:
        epsilon = descent.source(seeds[i], i, posterior.location, family)
        loss = partial(objective.misfit, descent.apply, likelihood, batch=part)
        if _closed(descent, family, posterior.location):
            return gradients.gradient(loss, posterior, family, law, epsilon, weight, gradients.Turn(count, parts))
        return objective.gradient(loss, posterior, family, law, epsilon, weight)

    def mean(posterior: Posterior, seeds: Array, part: Batch, weight: Array, count: Array) -> Posterior:
        if descent.samples == 1:
            return one(posterior, seeds, jnp.zeros((), jnp.int32), part, weight, count)
        zero = jax.tree.map(jnp.zeros_like, _packed(posterior))

        def add(i: Array, sum_: PyTree) -> PyTree:
            return jax.tree.map(jnp.add, sum_, _packed(one(posterior, seeds, i, part, weight, count)))

        sum_ = _unpacked(jax.lax.fori_loop(0, descent.samples, add, zero))
        return jax.tree.map(lambda g: g / descent.samples, sum_)

    return mean


def _chances(
    key: Key, descent: Descent, weights: PyTree, size: int, minibatch: int, rows: Scalar
) -> tuple[Int[Array, " padded"] | None, UInt32[Array, "minibatches samples leaves 2"]]:
    """All that is random in an epoch, drawn at once: the order of the rows, and two words per leaf and draw.

    They stand side by side, so that neither depends on how far a batch is padded.
    """
    shape = (-(-size // minibatch), descent.samples, _tree.structure(weights).num_leaves, 2)
    if minibatch == size:
        return None, jax.random.bits(key, shape, jnp.uint32)
    words = math.prod(shape)
    bits = jax.random.bits(key, (max(size, words), 2), jnp.uint32)
    return shuffled(bits[:size, 0], minibatch, rows), bits[:words, 1].reshape(shape)


def shuffled(draws: UInt32[Array, " size"], minibatch: int, rows: Scalar) -> Int[Array, " padded"]:
    """The rows in random order, padding last, filled up to whole minibatches."""
    size = draws.shape[0]
    order = jnp.argsort(jnp.where(jnp.arange(size) < rows, draws >> jnp.uint32(1), jnp.uint32(2**32 - 1)))
    return jnp.pad(order, (0, -size % minibatch))


def minibatch(batch: Batch, order: Array, i: Array, rows: int) -> Batch:
    """Minibatch i of the rows in this order; `order` has the real rows first."""
    taken = jax.lax.dynamic_slice(order, (i * rows,), (rows,))
    real = jnp.clip(batch.rows - i * rows, 0, rows)
    return Batch(batch.x[taken], batch.y[taken], real)


def packed(path: Path) -> Path:
    """The path with m + i s-tilde: a loop of XLA:CPU fills one array, so that both are updated in one pass."""
    return path._replace(posterior=_packed(path.posterior))


def unpacked(path: Path) -> Path:
    """The path with m and s-tilde."""
    return path._replace(posterior=_unpacked(path.posterior))


def _packed(pair: Posterior) -> PyTree:
    return jax.tree.map(jax.lax.complex, pair.location, pair.rho)


def _unpacked(both: PyTree) -> Posterior:
    return Posterior(jax.tree.map(jnp.real, both), jax.tree.map(jnp.imag, both))


def _moved(posterior: Posterior, updates: Posterior) -> Posterior:
    """Apply the updates; s-tilde stays above its floor, where its gradient lives."""
    moved = optax.apply_updates(posterior, updates)
    return moved._replace(rho=jax.tree.map(lambda rho: arithmetic.larger(RHO_FLOOR, rho), moved.rho))
