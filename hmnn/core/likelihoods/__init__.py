"""C: what the data of a time step say about the weights, through the network's outputs.

A likelihood owns everything that depends on the kind of y: which labels are allowed, the density,
the mean and the variance of y, the curvature that closed forms need, and what becomes of it when
the outputs are uncertain. Nothing else in the package asks which likelihood it has. To add one: a
NamedTuple of numbers with the methods of `Likelihood` (docs/howto/likelihood.md writes a negative
binomial).
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn import _check
from hmnn._types import Batch, Number
from hmnn.core.likelihoods.classes import Bernoulli, Categorical
from hmnn.core.likelihoods.numbers import Gaussian, LearnedGaussian, Poisson, check_counts
from hmnn.core.likelihoods.protocol import (
    Curvature,
    Labels,
    Learning,
    Likelihood,
    Noise,
    OfClasses,
    Outputs,
    beside,
    check_width,
    over_outputs,
)
from hmnn.core.likelihoods.scaled import ScaledGaussian, ScaledNoise
from hmnn.core.likelihoods.width import Width

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "Curvature",
    "Gaussian",
    "Labels",
    "LearnedGaussian",
    "Learning",
    "Likelihood",
    "Noise",
    "OfClasses",
    "Outputs",
    "Poisson",
    "ScaledGaussian",
    "ScaledNoise",
    "Width",
    "bernoulli",
    "beside",
    "categorical",
    "check_counts",
    "check_width",
    "first_noise",
    "gaussian",
    "given",
    "learned",
    "learned_gaussian",
    "log_g",
    "mean_range",
    "over_outputs",
    "poisson",
    "scaled_gaussian",
]


def categorical() -> Categorical:
    """Labels 0 .. K-1, one logit each."""
    return Categorical()


def bernoulli() -> Bernoulli:
    """Labels 0 and 1, one logit."""
    return Bernoulli()


def gaussian(scale: Number = 0.7071067811865476) -> Gaussian:
    """Real values with standard deviation `scale`; the default makes -log g the sum of squares."""
    return Gaussian(_check.positive("scale", scale))


def learned_gaussian(scale: Number = 1.0) -> LearnedGaussian:
    """Real values; the standard deviation is learned from residuals, starting from `scale`."""
    return LearnedGaussian(_check.positive("scale", scale))


def scaled_gaussian(scale: Number = 1.0) -> ScaledGaussian:
    """Real values; the network's second output tells how wide rows like this one lie.

    The noise of the mean row is learned from residuals, starting from `scale`.
    """
    return ScaledGaussian(_check.positive("scale", scale))


def poisson() -> Poisson:
    """Counts, the output is the log rate."""
    return Poisson()


LIKELIHOODS: dict[str, Callable[[], Likelihood]] = {
    "categorical": categorical,
    "bernoulli": bernoulli,
    "gaussian": gaussian,
    "learned_gaussian": learned_gaussian,
    "poisson": poisson,
    "scaled_gaussian": scaled_gaussian,
}


def first_noise(likelihood: Likelihood) -> Any:
    """What a state carries for the likelihood before any data.

    Nothing, unless it learns its noise.
    """
    return likelihood.first_noise() if isinstance(likelihood, Learning) else ()


def given(likelihood: Likelihood, noise: Any) -> Likelihood:
    """The likelihood with the noise that a state carries."""
    return likelihood.given(noise) if isinstance(likelihood, Learning) else likelihood


def learned(
    likelihood: Likelihood, noise: Any, outlook: tuple[Outputs, Outputs], batch: Batch
) -> Any:
    """The noise after rows whose outputs and spread were told before the rows were learned."""
    return likelihood.learned(noise, *outlook, batch) if isinstance(likelihood, Learning) else noise


def log_g(likelihood: Likelihood, outputs: Outputs, batch: Batch) -> Float[Array, ""]:
    """log g(w, D): the sum over the rows, each as often as its weight says.

    Padding has weight 0.
    """
    logs = likelihood.log_prob(outputs, batch.y)
    return jnp.sum(jnp.where(batch.weight > 0, batch.weight.astype(logs.dtype) * logs, 0.0))


def mean_range(likelihood: Likelihood) -> tuple[float, float]:
    """Between which numbers the mean of y lies: what the likelihood says, or anywhere."""
    return getattr(likelihood, "range", (-jnp.inf, jnp.inf))
