"""What a law of the weights says of new inputs: at one network, over draws, or linearised."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn._types import Scalar
from hmnn.core import likelihoods
from hmnn.core.likelihoods import Likelihood

DRAWS = 2**20
"""Folded into the key of a time step for predictions; the step itself folds in small numbers."""
POINTS = ("mean", "location", "sampled")


class Question(NamedTuple):
    """How a prediction is wanted.

    At which point of the law, from how many draws, with which interval.
    """

    point: str
    samples: int
    level: Scalar


class Normals(NamedTuple):
    """The law of one number a row as a mixture of normal ones."""

    weights: Float[Any, "rows components"]
    means: Float[Any, "rows components"]
    variances: Float[Any, "rows components"]


class Prediction(NamedTuple):
    """E[y | x] and, when draws were asked for, how far to trust it."""

    mean: Float[Any, "rows *out"]
    lower: Float[Any, "rows *out"] | None = None
    upper: Float[Any, "rows *out"] | None = None
    epistemic: Float[Any, "rows *out"] | None = None
    """Variance over the posterior of E[y | x, w]: it falls with more data."""
    aleatoric: Float[Any, "rows *out"] | None = None
    """Mean over the posterior of Var[y | x, w]: it does not."""
    probabilities: Float[Any, "rows classes"] | None = None
    """The probability of each class; None where y is no class."""
    normals: Normals | None = None
    """The law of y, where it is a mixture of normal laws and not one of them."""


class Outlook(NamedTuple):
    """The law of a network's outputs, made linear in the weights.

    What closed-form predictions are made of.
    """

    outputs: Float[Any, "*rows out"]
    spread: Float[Any, "*rows out"]
    """The outputs' variance over the posterior."""


def from_draws(
    likelihood: Likelihood,
    question: Question,
    at_point: Array | None,
    outputs: Callable[[Array], Array],
) -> Prediction:
    """Predict with credible intervals of E[y | x, w] from draws of the weights.

    Args:
        likelihood: the likelihood.
        question: 0 samples give no interval.
        at_point: the outputs at the point of the law that was asked for; None takes the mean over
            the draws.
        outputs: the network's outputs under draw i.
    """
    if at_point is not None and question.samples == 0:
        return Prediction(likelihood.mean(at_point), probabilities=_classes(likelihood, at_point))

    def one(i: Array) -> tuple[Array, Array, Array | None]:
        drawn = outputs(i)
        return likelihood.mean(drawn), likelihood.variance(drawn), _classes(likelihood, drawn)

    values, variances, classes = jax.lax.map(one, jnp.arange(question.samples))
    tail = 0.5 * (1.0 - question.level)
    lower, upper = jnp.quantile(values, jnp.stack([tail, 1.0 - tail]).astype(values.dtype), axis=0)
    if at_point is None:
        mean, classes = values.mean(axis=0), None if classes is None else classes.mean(axis=0)
    else:
        mean, classes = likelihood.mean(at_point), _classes(likelihood, at_point)
    return Prediction(mean, lower, upper, values.var(axis=0), variances.mean(axis=0), classes)


def from_outlook(likelihood: Likelihood, outlook: Outlook, level: Scalar) -> Prediction:
    """Predict from the linearised law of the outputs; the interval is that of E[y | x, w]."""
    law, outputs = likelihood.predictive(*outlook)
    mean, (epistemic, aleatoric) = law.mean(outputs), likelihood.uncertainty(*outlook)
    told = between(likelihood, level, mean, epistemic, aleatoric)
    return told._replace(probabilities=_classes(law, outputs))


def between(
    likelihood: Likelihood, level: Scalar, mean: Array, epistemic: Array, aleatoric: Array
) -> Prediction:
    """A prediction with the interval of E[y | x, w] that a normal law has, where y can be."""
    reach = jax.scipy.special.ndtri(0.5 + 0.5 * jnp.asarray(level, mean.dtype)) * jnp.sqrt(
        epistemic
    )
    low, high = likelihoods.mean_range(likelihood)
    ends = jnp.maximum(mean - reach, low), jnp.minimum(mean + reach, high)
    return Prediction(mean, *ends, epistemic, aleatoric)


def _classes(likelihood: Likelihood, outputs: Array) -> Array | None:
    return (
        likelihood.probabilities(outputs) if isinstance(likelihood, likelihoods.OfClasses) else None
    )
