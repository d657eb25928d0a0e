"""Likelihoods of numbers and of counts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hmnn import _check
from hmnn._types import Batch, Scalar
from hmnn.core.likelihoods.protocol import (
    EDGE,
    Curvature,
    Labels,
    Noise,
    Outputs,
    beside,
    check_width,
    over_outputs,
)

BELIEF = 10.0
"""How many residuals the first guess of the noise counts for: one lucky residual must not make it
vanish."""
TRUSTED = 4.0
"""Residuals of more standard deviations are taken for outliers at first: they say less of the
weights and of the noise, until there are several."""
WINDOW = 100.0
"""The noise is the mean of about so many squared residuals, the latest ones."""


class Gaussian(NamedTuple):
    """Real y around the outputs with a fixed standard deviation."""

    scale: Scalar | Float[Array, "rows *out"]

    @property
    def normal(self) -> bool:
        """Whether the law of y is normal, also where the outputs are uncertain."""
        return True

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """As many numbers a row as the network has outputs."""
        check_width(y, outputs, where)

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """The normal log density, summed over the outputs."""
        z = (beside(y, outputs) - outputs) / self.scale
        return over_outputs(-0.5 * z**2 - jnp.log(self.scale) - 0.9189385332046727)

    def mean(self, outputs: Outputs) -> Outputs:
        """The outputs."""
        return outputs

    def variance(self, outputs: Outputs) -> Outputs:
        """scale^2."""
        return jnp.full_like(outputs, self.scale**2)

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """1 / scale^2."""
        root = jnp.ones_like(outputs) / self.scale
        return Curvature(jnp.diag(root), (outputs - beside(y, outputs)) * root)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Gaussian", Outputs]:
        """The variances add."""
        return Gaussian(jnp.sqrt(self.scale**2 + spread)), outputs

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """The spread and the noise."""
        return spread, self.variance(outputs)


class TrustingGaussian(Gaussian):
    """Real y around the outputs, of which those far away count less.

    In closed-form corrections a row more than `TRUSTED` deviations away has the weight at which it
    pulls as one at that distance (Huber's weight; Duran-Martin et al., 2024, weigh so in filters).
    """

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """1 / scale^2 times the weight of the row."""
        root, residual = super().curvature(outputs, y)
        away = jnp.sqrt(jnp.sum(residual**2))
        half = jnp.sqrt(TRUSTED / jnp.maximum(away, TRUSTED))
        return Curvature(half * root, half * residual)


class LearnedGaussian(Gaussian):
    """Real y around the outputs; their deviation is learned, and `scale` is the first guess."""

    def first_noise(self) -> Noise:
        """As if `BELIEF` residuals of the first guess had been seen."""
        dtype = jax.dtypes.canonicalize_dtype(float)
        return Noise(jnp.asarray(self.scale, dtype) ** 2, jnp.asarray(BELIEF, dtype))

    def given(self, noise: Noise) -> Gaussian:
        """The Gaussian likelihood with this noise, to which rows far away mean less."""
        return TrustingGaussian(jnp.sqrt(noise.variance))

    def learned(self, noise: Noise, outputs: Outputs, spread: Outputs, batch: Batch) -> Noise:
        """A mean of squared residuals less the posterior's part.

        Of all rows at first, then of the latest.
        """
        square = (beside(batch.y, outputs) - outputs) ** 2
        square = jnp.minimum(square, TRUSTED**2 * (noise.variance + spread))
        each = jnp.maximum(square - spread, 0.1 * square).reshape(len(outputs), -1).mean(axis=1)
        total = jnp.sum(batch.weight)
        residual = jnp.sum(batch.weight * each) / jnp.maximum(total, EDGE)
        number = jnp.minimum(noise.number + total, jnp.maximum(WINDOW, total))
        variance = noise.variance + total / jnp.maximum(number, 1.0) * (residual - noise.variance)
        return Noise(jnp.maximum(variance, EDGE), jnp.minimum(number, WINDOW))


class Poisson(NamedTuple):
    """Counts whose log rate is the output."""

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """Counts, one an output."""
        check_counts(y, outputs, where)

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """y log rate - rate - log y!."""
        counts = beside(y, outputs)
        return over_outputs(counts * outputs - jnp.exp(outputs) - jax.lax.lgamma(counts + 1.0))

    def mean(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return jnp.exp(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return jnp.exp(outputs)

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """The rate."""
        rate = jnp.clip(jnp.exp(outputs), EDGE, 1.0 / EDGE)
        root = jnp.sqrt(rate)
        return Curvature(jnp.diag(root), (rate - beside(y, outputs)) / root)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Poisson", Outputs]:
        """At the mean of a log-normal rate, which is exact for the mean."""
        return self, outputs + 0.5 * spread

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """The variance of a log-normal rate, and its mean."""
        rate = jnp.exp(outputs + 0.5 * spread)
        return rate**2 * jnp.expm1(spread), rate

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers the mean lies."""
        return 0.0, jnp.inf


def check_counts(y: np.ndarray, outputs: int, where: str) -> None:
    """Refuse what is no count."""
    check_width(y, outputs, where)
    if ((y < 0) | (y % 1 != 0)).any():
        raise _check.fail("y", f"counts, whole and not negative{where}", np.unique(y)[:5])
