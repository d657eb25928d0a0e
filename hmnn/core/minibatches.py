"""Shuffled minibatches of a padded batch, of sizes that do not depend on the data."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from hmnn._types import Batch, Scalar, Weights
from hmnn.core import objective
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply


def size_of(batch: Batch, minibatch: int | None) -> int:
    """Rows of a minibatch: all of them if none is asked for."""
    return min(minibatch or batch.x.shape[0], batch.x.shape[0])


def number_of(batch: Batch, size: int) -> Int[Array, ""]:
    """How many minibatches the real rows fill, at least one."""
    return jnp.maximum(1, (batch.rows + size - 1) // size)


def shuffled(draws: UInt32[Array, " size"], minibatch: int, rows: Scalar) -> Int[Array, " padded"]:
    """The rows in random order, padding last, filled up to whole minibatches."""
    size = draws.shape[0]
    order = jnp.argsort(
        jnp.where(jnp.arange(size) < rows, draws >> jnp.uint32(1), jnp.uint32(2**32 - 1))
    )
    return jnp.pad(order, (0, -size % minibatch))


def in_order(batch: Batch, minibatch: int) -> Int[Array, " padded"]:
    """The rows as they come, filled up to whole minibatches."""
    size = batch.x.shape[0]
    return jnp.pad(jnp.arange(size), (0, -size % minibatch))


def taken(batch: Batch, order: Array, i: Array, size: int) -> Batch:
    """Minibatch i of the rows in this order; `order` has the real rows first."""
    places = jax.lax.dynamic_slice(order, (i * size,), (size,))
    real = jnp.arange(size) < batch.rows - i * size
    return Batch(batch.x[places], batch.y[places], jnp.where(real, batch.weight[places], 0.0))


def misfit(
    apply: Apply, likelihood: Likelihood, w: Weights, batch: Batch, minibatch: int | None
) -> Float[Array, ""]:
    """-log g over all rows, minibatch by minibatch, so that a large step needs no large memory."""
    size = size_of(batch, minibatch)
    order = in_order(batch, size)

    def add(i: Array, total: Array) -> Array:
        return total + objective.misfit(apply, likelihood, w, batch=taken(batch, order, i, size))

    zero = jnp.zeros((), jax.tree.leaves(w)[0].dtype)
    return jax.lax.fori_loop(0, (batch.rows + size - 1) // size, add, zero)
