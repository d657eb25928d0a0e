"""What the filter asks of a likelihood, and what likelihoods share."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Shaped

from hmnn import _check
from hmnn._types import Batch

Outputs = Float[Array, "rows *out"]
Labels = Shaped[Array, "rows *y"]

EDGE = 1e-6
"""Probabilities, rates and variances are kept this far from 0 where they divide."""


class Curvature(NamedTuple):
    """-log g of one row as a quadratic in its outputs f.

    |root' (f - f_0) + residual|^2 / 2 up to a constant.
    """

    root: Float[Array, "out out"]
    """L with L L' = the generalised Gauss-Newton curvature."""
    residual: Float[Array, " out"]
    """c with L c = the gradient."""


class Noise(NamedTuple):
    """What residuals have said of the noise so far.

    Its variance, and how many there were (at most `WINDOW`).
    """

    variance: Any
    number: Any


@runtime_checkable
class Likelihood(Protocol):
    """The law of y given the network's outputs."""

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """Refuse labels that this law cannot give; `outputs` is the network's number of outputs."""

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """log g of each row."""

    def mean(self, outputs: Outputs) -> Outputs:
        """E[y], or the class probabilities."""

    def variance(self, outputs: Outputs) -> Outputs:
        """Var[y], or that of each class's indicator."""

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """The quadratic that stands for -log g of one row at its outputs."""

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Likelihood", Outputs]:
        """The law of y when the outputs have the variance `spread`.

        A likelihood, and the outputs to give it.
        """

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """The variance of E[y] if the outputs have the variance `spread`, and the rest of y's."""


@runtime_checkable
class Learning(Protocol):
    """A likelihood with a noise that is learned from residuals.

    The filter's state carries what was learned.
    """

    def first_noise(self) -> Noise:
        """Before any residual."""

    def given(self, noise: Noise) -> Likelihood:
        """The likelihood with this noise."""

    def learned(self, noise: Noise, outputs: Outputs, spread: Outputs, batch: Batch) -> Noise:
        """The noise after rows whose outputs and spread were told before the rows were learned."""


@runtime_checkable
class OfClasses(Protocol):
    """A likelihood whose y is one of several classes."""

    def probabilities(self, outputs: Outputs) -> Float[Array, "rows classes"]:
        """The probability of each class."""


def beside(y: Shaped[Array, "..."], outputs: Float[Array, "..."]) -> Float[Array, "..."]:
    """Labels with the shape and the type of the outputs."""
    return y.astype(outputs.dtype).reshape(outputs.shape)


def over_outputs(values: Outputs) -> Float[Array, " rows"]:
    """The sum over the outputs of each row."""
    return values.reshape(values.shape[0], -1).sum(axis=1)


def check_width(y: np.ndarray, outputs: int, where: str) -> None:
    """Refuse labels that are not as many a row as there are outputs."""
    if y[0].size != outputs:
        raise _check.fail(
            "y", f"{outputs} numbers per row, as the network's outputs{where}", f"shape {y.shape}"
        )
