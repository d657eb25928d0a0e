"""Small matrices inverted without a call of LAPACK, which a loop over rows would feel."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BY_HAND = 32
"""Unknowns up to which pivots are taken one after the other, in a loop."""


def inverted(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """(I + S)^-1 for a symmetric S >= 0: every pivot is 1 at least, so none is sought."""
    size = len(matrix)
    whole = matrix + jnp.eye(size, dtype=matrix.dtype)
    if size == 1:
        return 1.0 / whole
    if size == 2:
        (a, b), (_, d) = whole
        return jnp.stack([jnp.stack([d, -b]), jnp.stack([-b, a])]) / jnp.maximum(a * d - b * b, 1.0)
    if size > BY_HAND:
        factor = jax.scipy.linalg.cho_factor(whole, lower=True)
        return jax.scipy.linalg.cho_solve(factor, jnp.eye(size, dtype=matrix.dtype))

    def swept(i: Int[Array, ""], whole: Array) -> Array:
        own = jnp.arange(size) == i
        column, row = whole[:, i], jnp.where(own, 1.0, whole[i])
        row = row / jnp.maximum(whole[i, i], 1.0)  # it is so much at least, but for rounding
        rest = jnp.where(own[None], 0.0, whole) - jnp.outer(column, row)
        return jnp.where(own[:, None], row[None], rest)

    return jax.lax.fori_loop(0, size, swept, whole)
