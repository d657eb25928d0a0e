"""Numbers whose noise depends on the row: the network tells the mean and the deviation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hmnn import _check
from hmnn._types import Batch, Scalar
from hmnn.core.likelihoods.numbers import BELIEF, TRUSTED, WINDOW, Gaussian
from hmnn.core.likelihoods.protocol import EDGE, Curvature, Labels, Outputs

Told = Float[Array, "rows told"]

SHARE = 0.3
"""Of what rows say of h so much is taken, so that it does not bend the layers that h shares with
the mean."""
STEEPEST = 3.0
"""The logarithm of a row's deviation is at most so far from that of the mean row."""


class ScaledNoise(NamedTuple):
    """What residuals have said of the noise so far."""

    variance: Any
    """Of the noise of the mean row."""
    number: Any
    """From how many residuals, at most `WINDOW`."""
    claimed: Any
    """The mean variance of y that noise and posterior together have told."""
    excess: Any
    """By how much squared residuals were larger, on average, than what was told in the end."""


class ScaledGaussian(NamedTuple):
    """Real y around the first output; the second one tells how wide rows like this one lie.

    The network's second output h says by which factor exp(h) the residuals of a row are wider
    than noise and posterior together claim. The mean is learned with the noise of the mean row, so
    that quiet rows do not take it over. Rows more than `TRUSTED` deviations away count less, as in
    `TrustingGaussian`.
    """

    scale: Scalar
    """The deviation of the noise of the mean row."""
    claimed: Scalar = 1.0
    """The variance that h is relative to."""
    excess: Scalar = 1.0
    """A factor of the predictive variance."""

    @property
    def normal(self) -> bool:
        """Whether the law of y is normal, also where the outputs are uncertain."""
        return True

    @property
    def targets(self) -> int:
        """How many numbers a row has; the network has one output more."""
        return 1

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """One number a row, for a network of two outputs."""
        if outputs != 2:
            raise _check.fail("network", "one of two outputs, a mean and a log deviation", outputs)
        if y.ndim > 1 and y.shape[1:] != (1,):
            raise _check.fail("y", f"one number per row{where}", f"{y.shape[1]} numbers per row")

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """The normal log density."""
        return Gaussian(jnp.sqrt(self.variance(outputs))).log_prob(outputs[..., :1], y)

    def mean(self, outputs: Outputs) -> Told:
        """The first output."""
        return outputs[..., :1]

    def variance(self, outputs: Outputs) -> Told:
        """That of the mean row times exp(2 h)."""
        return self.scale**2 * _factor(outputs)

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """Of the mean 1 / scale^2, of h a share of Fisher's."""
        gap, scale = outputs[0] - jnp.reshape(y, ()), jnp.reshape(self.scale, ())
        half = jnp.sqrt(TRUSTED / jnp.maximum(jnp.abs(gap / scale), TRUSTED))
        wide = jnp.minimum(
            gap**2 / (jnp.reshape(self.claimed, ()) * _factor(outputs)[0]), TRUSTED**2
        )
        root = jnp.stack([half / scale, jnp.asarray(jnp.sqrt(2.0 * SHARE), outputs.dtype)])
        residual = jnp.stack([half * gap / scale, (1.0 - wide) * jnp.sqrt(SHARE / 2.0)])
        return Curvature(jnp.diag(root), residual)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple[Gaussian, Told]:
        """Noise and posterior add up, and h says how wide such rows lie."""
        return Gaussian(jnp.sqrt(self._total(outputs, spread))), outputs[..., :1]

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Told, Told]:
        """The spread of the first output, and the rest of the variance."""
        total = self._total(outputs, spread)
        epistemic = jnp.minimum(spread[..., :1], 0.9 * total)
        return epistemic, total - epistemic

    def _total(self, outputs: Outputs, spread: Outputs) -> Told:
        """The variance of y, its factor the mean of a log-normal one."""
        factor = _factor(outputs) * jnp.exp(2.0 * jnp.minimum(spread[..., 1:], 1.0))
        return self.excess * (self.scale**2 + spread[..., :1]) * factor

    def first_noise(self) -> ScaledNoise:
        """As if `BELIEF` residuals of the first guess had been seen."""
        dtype = jax.dtypes.canonicalize_dtype(float)
        square = jnp.asarray(self.scale, dtype) ** 2
        return ScaledNoise(square, jnp.asarray(BELIEF, dtype), square, jnp.ones((), dtype))

    def given(self, noise: ScaledNoise) -> "ScaledGaussian":
        """With this noise."""
        return ScaledGaussian(jnp.sqrt(noise.variance), noise.claimed, noise.excess)

    def learned(
        self, noise: ScaledNoise, outputs: Outputs, spread: Outputs, batch: Batch
    ) -> ScaledNoise:
        """Means of squared residuals less the posterior's part, and of what was claimed."""
        known, total = spread[..., :1], jnp.sum(batch.weight)
        square = (jnp.reshape(batch.y, (-1, 1)) - outputs[..., :1]) ** 2
        told = self.given(noise)._replace(excess=1.0)._total(outputs, spread)
        most = TRUSTED**2 * noise.excess
        wide, square = (
            jnp.minimum(square / told, most),
            jnp.minimum(square, TRUSTED**2 * (noise.variance + known)),
        )
        parts = jnp.maximum(square - known, 0.1 * square), noise.variance + known, wide
        number = jnp.minimum(noise.number + total, jnp.maximum(WINDOW, total))
        rate = total / jnp.maximum(number, 1.0)
        before = noise.variance, noise.claimed, noise.excess
        after = [
            old + rate * (jnp.sum(batch.weight * new[:, 0]) / jnp.maximum(total, EDGE) - old)
            for old, new in zip(before, parts, strict=True)
        ]
        variance, claimed, excess = (jnp.maximum(value, EDGE) for value in after)
        return ScaledNoise(variance, jnp.minimum(number, WINDOW), claimed, excess)


def _factor(outputs: Float[Array, "*rows out"]) -> Float[Array, "*rows told"]:
    """exp(2 h), bounded."""
    return jnp.exp(2.0 * jnp.clip(outputs[..., 1:], -STEEPEST, STEEPEST))
