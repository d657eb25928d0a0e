"""The one type that connects families and kernels: a Gaussian mixture per weight.

A mixture is a product of choices: a mean drawn from `means` and, independently of it, a variance
drawn from `variances`. Four components of the evolving prior are two means and two variances,
and that is how they are stored. Each array has the shape of the leaf or is a scalar.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn._types import Scalar
from hmnn.core.cpu import arithmetic

LOG_2PI = 1.8378770664093453

Share = Scalar | Float[Array, "..."]
"""The weight of a component: one number, or one for each weight of the leaf."""


class Mixture(NamedTuple):
    """sum_ij p_i q_j N(means[i], variances[j]) for every weight of one leaf."""

    means: tuple[Array, ...]
    mean_weights: tuple[Share, ...]
    variances: tuple[Array, ...]
    variance_weights: tuple[Share, ...]


class Jumps(NamedTuple):
    """A mixture of centred Gaussians, widest first."""

    weights: tuple[Scalar, ...]
    variances: tuple[Scalar, ...]


def move(mixture: Mixture, memory: Scalar, centre: Array, jumps: Jumps) -> Mixture:
    """Send w to centre + memory (w - centre) + a jump, for every component (the paper's lemma).

    Args:
        mixture: the law of w.
        memory: alpha.
        centre: mu, of the leaf's shape or a scalar.
        jumps: the law of the jump.
    """
    new = list(zip(jumps.weights, jumps.variances, strict=True))
    old = list(zip(mixture.variance_weights, mixture.variances, strict=True))
    return Mixture(
        means=tuple(centre + memory * (mean - centre) for mean in mixture.means),
        mean_weights=mixture.mean_weights,
        variances=tuple(memory**2 * v + jump for _, jump in new for _, v in old),
        variance_weights=tuple(p * q for p, _ in new for q, _ in old),
    )


def log_prob(mixture: Mixture, w: Float[Array, "..."]) -> Float[Array, "..."]:
    """The log density at w, weight by weight."""
    return _log_sum([log for row in _component_log_probs(mixture, w) for log in row])


def mean(mixture: Mixture) -> Array:
    """The mean of each weight."""
    return _average(mixture.mean_weights, mixture.means)


def within(mixture: Mixture) -> Array:
    """The mean variance inside the components."""
    return _average(mixture.variance_weights, mixture.variances)


def variance(mixture: Mixture) -> Array:
    """The variance of each weight."""
    middle = mean(mixture)
    return within(mixture) + _average(
        mixture.mean_weights, tuple((m - middle) ** 2 for m in mixture.means)
    )


def widest(mixture: Mixture, w: Float[Array, "..."]) -> Float[Array, "..."]:
    """The probability that w came from the first (the widest) variance.

    NaN if there is only one.
    """
    if len(mixture.variances) == 1:
        return jnp.full_like(w, jnp.nan)
    rows = _component_log_probs(mixture, w)
    return arithmetic.exp(
        _log_sum([row[0] for row in rows]) - _log_sum([log for row in rows for log in row])
    )


def _average(weights: tuple[Share, ...], values: tuple[Array, ...]) -> Array:
    terms = [w * v for w, v in zip(weights, values, strict=True)]
    return sum(terms[1:], start=terms[0])


def _component_log_probs(mixture: Mixture, w: Float[Array, "..."]) -> list[list[Array]]:
    """log(p_i q_j N(w; mean_i, variance_j)), a row for each mean."""

    def component(p: Share, m: Array, q: Share, v: Array) -> Array:
        # Divided before it is squared: the gradient in a tiny v would otherwise overflow through
        # v**-2.
        log_density = -0.5 * (((w - m) * jax.lax.rsqrt(v)) ** 2 + arithmetic.log(v) + LOG_2PI)
        return _safe_log(p) + _safe_log(q) + log_density

    means = zip(mixture.mean_weights, mixture.means, strict=True)
    variances = list(zip(mixture.variance_weights, mixture.variances, strict=True))
    return [[component(p, m, q, v) for q, v in variances] for p, m in means]


def _log_sum(logs: list[Array]) -> Array:
    """log(sum(exp)), safe for logs that are -inf as long as one is not."""
    if len(logs) == 1:
        return logs[0]
    top = jax.lax.stop_gradient(reduce(arithmetic.larger, logs))
    return top + arithmetic.log(reduce(jnp.add, [arithmetic.exp(log - top) for log in logs]))


def _safe_log(p: Share) -> Array:
    """log p, which is -inf at 0 without poisoning the gradient."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)
