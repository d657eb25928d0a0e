"""Likelihoods of classes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hmnn import _check
from hmnn.core.likelihoods.protocol import (
    EDGE,
    Curvature,
    Labels,
    Outputs,
    beside,
    check_width,
    over_outputs,
)

MOST_AT_ONCE = 32
"""Classes of which all pairs are looked at together; more go one by one, to save memory."""


class Categorical(NamedTuple):
    """Labels 0 .. K-1 from K logits."""

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """Whole numbers, one a row, one of the K."""
        if y.dtype.kind != "i" or y.ndim != 1 or y.min() < 0 or y.max() >= outputs:
            raise _check.fail(
                "y", f"whole numbers from 0 to {outputs - 1} in one column{where}", np.unique(y)[:5]
            )

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """Minus the cross-entropy."""
        logs = jax.nn.log_softmax(outputs)
        return jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]

    def mean(self, outputs: Outputs) -> Outputs:
        """Class probabilities."""
        return jax.nn.softmax(outputs)

    def probabilities(self, outputs: Outputs) -> Float[Array, "rows classes"]:
        """Class probabilities."""
        return jax.nn.softmax(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """p (1 - p)."""
        p = jax.nn.softmax(outputs)
        return p * (1.0 - p)

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """diag(p) - p p' and its root diag(sqrt p) - p sqrt(p)'."""
        p = jnp.maximum(jax.nn.softmax(outputs), EDGE)
        top = jnp.sqrt(p)
        residual = (p - jax.nn.one_hot(y, p.size, dtype=p.dtype)) / top
        return Curvature(jnp.diag(top) - p[:, None] * top[None, :], residual)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Categorical", Outputs]:
        """The probit approximation, pair by pair: 1 / p_k = sum_j 1 / P(k rather than j).

        Of two classes it is that of `Bernoulli`, and a common shift of the logits changes nothing.
        """

        def against_all(own: Array, wide: Array) -> Array:
            apart = own[..., None] - outputs
            return -jax.nn.logsumexp(-_probit(apart, wide[..., None] + spread), axis=-1)

        if outputs.shape[-1] <= MOST_AT_ONCE:
            return self, jax.vmap(against_all, -1, -1)(outputs, spread)
        columns = jnp.moveaxis(outputs, -1, 0), jnp.moveaxis(spread, -1, 0)
        return self, jnp.moveaxis(jax.lax.map(lambda pair: against_all(*pair), columns), 0, -1)

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """p_k^2 sum_j ([j = k] - p_j)^2 spread_j, at most the variance, and what is left of it."""
        p = self.mean(outputs)
        others = jnp.sum(p**2 * spread, axis=-1, keepdims=True)
        return _split(self, p**2 * (others + (1.0 - 2.0 * p) * spread), outputs, spread)

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers the mean lies."""
        return 0.0, 1.0


class Bernoulli(NamedTuple):
    """Labels 0 and 1 from one logit."""

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """0 or 1, one a logit."""
        check_width(y, outputs, where)
        if not ((y == 0) | (y == 1)).all():
            raise _check.fail("y", f"0 or 1{where}", np.unique(y)[:5])

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """log sigmoid of the logit, signed by the label."""
        target = beside(y, outputs)
        logs = target * jax.nn.log_sigmoid(outputs) + (1.0 - target) * jax.nn.log_sigmoid(-outputs)
        return over_outputs(logs)

    def mean(self, outputs: Outputs) -> Outputs:
        """P(y = 1)."""
        return jax.nn.sigmoid(outputs)

    def probabilities(self, outputs: Outputs) -> Float[Array, "rows classes"]:
        """P(y = 0) and P(y = 1)."""
        return jnp.concatenate([jax.nn.sigmoid(-outputs), jax.nn.sigmoid(outputs)], axis=1)

    def variance(self, outputs: Outputs) -> Outputs:
        """p (1 - p)."""
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """p (1 - p)."""
        p = jnp.clip(jax.nn.sigmoid(outputs), EDGE, 1.0 - EDGE)
        root = jnp.sqrt(p * (1.0 - p))
        return Curvature(jnp.diag(root), (p - beside(y, outputs)) / root)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Bernoulli", Outputs]:
        """The probit approximation."""
        return self, _probit(outputs, spread)

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """(p (1 - p))^2 times the spread, at most the whole variance, and what is left of it."""
        return _split(self, self.variance(outputs) ** 2 * spread, outputs, spread)

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers the mean lies."""
        return 0.0, 1.0


def _probit(outputs: Outputs, spread: Outputs) -> Outputs:
    return outputs * jax.lax.rsqrt(1.0 + (jnp.pi / 8.0) * spread)


def _split(
    likelihood: Bernoulli | Categorical, first_order: Outputs, outputs: Outputs, spread: Outputs
) -> tuple[Outputs, Outputs]:
    """The variance of the mean to first order, at most the whole variance, and what is left."""
    law, softened = likelihood.predictive(outputs, spread)
    total = law.variance(softened)
    epistemic = jnp.minimum(first_order, total)
    return epistemic, total - epistemic
