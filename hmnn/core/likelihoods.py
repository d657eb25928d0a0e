"""C: what the data of a time step say about the weights, through the network's outputs.

`log_prob` is per row; `log_g` sums it over the rows that are real. `mean` and `variance` are those of y.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from hmnn import _check
from hmnn._types import Number, Scalar

Outputs = Float[Array, "rows *out"]


@runtime_checkable
class Likelihood(Protocol):
    """The law of y given the network's outputs."""

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """log g of each row."""

    def mean(self, outputs: Outputs) -> Outputs:
        """E[y], or the class probabilities."""

    def variance(self, outputs: Outputs) -> Outputs:
        """Var[y], or that of each class's indicator."""


class Categorical(NamedTuple):
    """Labels 0 .. K-1 from K logits."""

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """Minus the cross-entropy."""
        logs = jax.nn.log_softmax(outputs)
        return jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0]

    def mean(self, outputs: Outputs) -> Outputs:
        """Class probabilities."""
        return jax.nn.softmax(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """p (1 - p)."""
        p = jax.nn.softmax(outputs)
        return p * (1.0 - p)


class Bernoulli(NamedTuple):
    """Labels 0 and 1 from one logit."""

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """log sigmoid of the logit, signed by the label."""
        target = y.astype(outputs.dtype).reshape(outputs.shape)
        return _over_outputs(target * jax.nn.log_sigmoid(outputs) + (1.0 - target) * jax.nn.log_sigmoid(-outputs))

    def mean(self, outputs: Outputs) -> Outputs:
        """P(y = 1)."""
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """p (1 - p)."""
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)


class Gaussian(NamedTuple):
    """Real y around the outputs with a fixed standard deviation."""

    scale: Scalar

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """The normal log density, summed over the outputs."""
        z = (y.astype(outputs.dtype).reshape(outputs.shape) - outputs) / self.scale
        return _over_outputs(-0.5 * z**2 - jnp.log(self.scale) - 0.9189385332046727)

    def mean(self, outputs: Outputs) -> Outputs:
        """The outputs."""
        return outputs

    def variance(self, outputs: Outputs) -> Outputs:
        """scale^2."""
        return jnp.full_like(outputs, self.scale**2)


class Poisson(NamedTuple):
    """Counts whose log rate is the output."""

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """y log rate - rate - log y!."""
        counts = y.astype(outputs.dtype).reshape(outputs.shape)
        return _over_outputs(counts * outputs - jnp.exp(outputs) - jax.lax.lgamma(counts + 1.0))

    def mean(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return jnp.exp(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return jnp.exp(outputs)


def categorical() -> Categorical:
    """Labels 0 .. K-1, one logit each."""
    return Categorical()


def bernoulli() -> Bernoulli:
    """Labels 0 and 1, one logit."""
    return Bernoulli()


def gaussian(scale: Number = 0.7071067811865476) -> Gaussian:
    """Real values with standard deviation `scale`; the default makes -log g the sum of squares."""
    return Gaussian(_check.positive("scale", scale))


def poisson() -> Poisson:
    """Counts, the output is the log rate."""
    return Poisson()


LIKELIHOODS: dict[str, Callable[[], Likelihood]] = {
    "categorical": categorical,
    "bernoulli": bernoulli,
    "gaussian": gaussian,
    "poisson": poisson,
}


def log_g(
    likelihood: Likelihood, outputs: Outputs, y: Shaped[Array, "rows *y"], real: Bool[Array, " rows"]
) -> Float[Array, ""]:
    """log g(w, D) summed over the real rows; padded rows count nothing."""
    return jnp.sum(jnp.where(real, likelihood.log_prob(outputs, y), 0.0))


def _over_outputs(values: Outputs) -> Float[Array, " rows"]:
    return values.reshape(values.shape[0], -1).sum(axis=1)
