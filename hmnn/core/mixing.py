"""Several predictions made one, each believed as far as it has predicted well.

Fixed share (Herbster and Warmuth, 1998): after a row every weight is multiplied by the density
that its owner gave to y, and then gives away a small share of itself, equally to all. So the
weights follow when another owner becomes the best one. Owners who said nothing of a row keep what
they have.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hmnn._types import Scalar

LogWeights = Float[Array, " _"]


def equal(owners: int) -> LogWeights:
    """Nothing known of who is good."""
    return jnp.full(owners, -jnp.log(float(owners)))


def among(log_weights: LogWeights, awake: Bool[Array, " owners"]) -> LogWeights:
    """The weights of those who speak, which sum to one."""
    kept = jnp.where(awake, log_weights, -jnp.inf)
    return kept - jax.nn.logsumexp(kept)


def after(
    log_weights: LogWeights,
    densities: Float[Array, " owners"],
    share: Scalar,
    awake: Bool[Array, " owners"],
) -> LogWeights:
    """The weights after a row to which the owners gave these log densities.

    With share 0 it is the rule of Bayes.
    """
    whole = jax.nn.logsumexp(jnp.where(awake, log_weights, -jnp.inf))
    found = jnp.where(awake, log_weights + densities, -jnp.inf)
    found = found - jax.nn.logsumexp(found) + whole
    equally = jnp.log(share) + whole - jnp.log(jnp.sum(awake))
    return jnp.where(awake, jnp.logaddexp(found + jnp.log1p(-share), equally), log_weights)


def density(
    log_weights: LogWeights, densities: Float[Array, "rows owners"]
) -> Float[Array, " rows"]:
    """The log density of the mixture, row by row."""
    return jax.nn.logsumexp(log_weights[None] + densities, axis=-1)
