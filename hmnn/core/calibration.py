"""The output stage of a bank: is the mixture too sure, or not sure enough?

Copies of the mixture, some sharper and some wider, are mixed by what they predicted, as its members
are. For classes a copy raises the probabilities to a power. For numbers it multiplies the
variances by a factor; with a filter of widths half of the copies also take the factor that it
tells for the row, so that noise may depend on the row where that predicts better, and does not
where it does not.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hmnn._types import Scalar
from hmnn.core import likelihoods, mixing, prediction
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Normals, Prediction

TEMPERATURES = (0.8, 1.0, 1.25, 1.6)
"""Powers to which the probabilities of classes are raised."""
SCALES = (0.7, 1.2, 2.2)
"""Factors of the variance of numbers."""
TINY = 1e-30
"""Probabilities are at least so large where their logarithm is taken."""

Copies = Float[Array, "copies _"]


class Said(NamedTuple):
    """What every owner says of rows, and the log density that it gave to their targets."""

    mean: Float[Array, "owners rows out"]
    epistemic: Float[Array, "owners rows out"]
    aleatoric: Float[Array, "owners rows out"]
    probabilities: Float[Array, "owners rows classes"] | None
    density: Float[Array, "owners rows"] | None
    awake: Bool[Array, " owners"]


def size(likelihood: Likelihood, widths: bool) -> int:
    """How many copies there are."""
    if isinstance(likelihood, likelihoods.OfClasses):
        return len(TEMPERATURES)
    return len(SCALES) * (2 if widths else 1) if getattr(likelihood, "normal", False) else 1


def copies(likelihood: Likelihood, widths: Float[Array, " rows"] | None) -> Copies:
    """The power or the factor of each copy, row by row."""
    if isinstance(likelihood, likelihoods.OfClasses):
        return jnp.asarray(TEMPERATURES)[:, None]
    if not getattr(likelihood, "normal", False):
        return jnp.ones((1, 1))
    scales = jnp.asarray(SCALES)[:, None]
    if widths is None:
        return scales
    return jnp.concatenate(
        [jnp.broadcast_to(scales, (len(SCALES), len(widths))), scales * widths[None]]
    )


def squares(owners: mixing.LogWeights, said: Said, y: Array) -> Float[Array, " rows"]:
    """The squares of what the mixture misses, in units of the variance that it tells."""
    weights = jnp.exp(owners)
    mean = _average(weights, said.mean)
    between = _average(weights, (said.mean - mean[None]) ** 2)
    total = _average(weights, said.epistemic + said.aleatoric) + between
    return ((y.reshape(-1, 1) - mean) ** 2 / total)[:, 0]


def densities(owners: mixing.LogWeights, said: Said, numbers: Copies, y: Array) -> Copies:
    """The log density that each copy of the mixture gave to the targets."""
    if said.probabilities is not None:
        logs = jax.nn.log_softmax(_raised(_average(jnp.exp(owners), said.probabilities), numbers))
        return jnp.take_along_axis(logs, y.astype(int).reshape(1, -1, 1), axis=2)[..., 0]
    variance = numbers[:, None] * (said.epistemic + said.aleatoric)[None, ..., 0]
    z = (y.reshape(1, -1) - said.mean[..., 0])[None] / jnp.sqrt(variance)
    logs = -0.5 * (z**2 + jnp.log(2.0 * jnp.pi * variance))
    return jax.nn.logsumexp(owners[None, :, None] + logs, axis=1)


def mixture(
    likelihood: Likelihood,
    owners: mixing.LogWeights,
    stage: mixing.LogWeights,
    said: Said,
    numbers: Copies,
    level: Scalar,
) -> Prediction:
    """What the owners together say, after the output stage."""
    weights, stage = jnp.exp(owners), jnp.exp(stage)
    mean = _average(weights, said.mean)
    between = _average(weights, (said.mean - mean[None]) ** 2)
    within, aleatoric = (_average(weights, part) for part in (said.epistemic, said.aleatoric))
    if said.probabilities is None:
        factor = _average(stage, numbers)[:, None]
        told = prediction.between(
            likelihood, level, mean, factor * within + between, factor * aleatoric
        )
        return told._replace(normals=_normals(weights, said, stage, numbers))
    p = _average(weights, said.probabilities)
    p = _average(stage, jax.nn.softmax(_raised(p, numbers)))
    shown = p[:, 1:] if mean.shape[1] == 1 and p.shape[1] == 2 else p
    mean = shown if shown.shape == mean.shape else mean
    total = mean * (1.0 - mean)
    epistemic = jnp.minimum(within + between, total)
    told = prediction.between(likelihood, level, mean, epistemic, total - epistemic)
    return told._replace(probabilities=p)


def _raised(p: Float[Array, "rows classes"], powers: Copies) -> Float[Array, "copies rows classes"]:
    """The logarithms of probabilities times each power."""
    return powers[..., None] * jnp.log(jnp.maximum(p, TINY))[None]


def _normals(weights: Array, said: Said, stage: Array, numbers: Copies) -> Normals | None:
    """The mixture as normal laws, of one number a row."""
    if said.mean.shape[2] != 1:
        return None
    variance = (said.epistemic + said.aleatoric)[..., 0]
    variances = variance[:, None] * numbers[None]
    shape = (-1, variance.shape[1])
    means = jnp.broadcast_to(said.mean[:, None, :, 0], variances.shape).reshape(shape)
    both = jnp.outer(weights, stage).reshape(1, -1)
    return Normals(jnp.broadcast_to(both, means.T.shape), means.T, variances.reshape(shape).T)


def _average(weights: Array, values: Array) -> Array:
    return jnp.tensordot(weights, values, 1)
