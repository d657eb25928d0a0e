"""How wide rows lie: squares of standardised residuals, whose mean depends on the row."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hmnn import _check
from hmnn.core.likelihoods.numbers import TRUSTED
from hmnn.core.likelihoods.protocol import (
    Curvature,
    Labels,
    Outputs,
    beside,
    check_width,
    over_outputs,
)

STEEPEST = 3.0
"""The output, a log deviation, is taken for at most so large and at least minus that."""


class Width(NamedTuple):
    """Squares z^2 of numbers z ~ N(0, exp(2 h)), where h is the output.

    z is a residual in units of the deviation that was told, so h says by which factor exp(h) rows
    like this one lie wider than was told. Squares beyond `TRUSTED`^2 count as that.
    """

    def check(self, y: np.ndarray, outputs: int, where: str) -> None:
        """Squares, one an output."""
        check_width(y, outputs, where)
        if (y < 0).any():
            raise _check.fail("y", f"squares, not negative{where}", np.unique(y)[:5])

    def log_prob(self, outputs: Outputs, y: Labels) -> Float[Array, " rows"]:
        """The log density of |z|, without its constant."""
        square = jnp.minimum(beside(y, outputs), TRUSTED**2)
        return over_outputs(-0.5 * square / factor(outputs) - outputs)

    def mean(self, outputs: Outputs) -> Outputs:
        """exp(2 h)."""
        return factor(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """2 exp(4 h)."""
        return 2.0 * factor(outputs) ** 2

    def curvature(self, outputs: Float[Array, " out"], y: Shaped[Array, "*y"]) -> Curvature:
        """Fisher's: 2."""
        square = jnp.minimum(beside(y, outputs), TRUSTED**2)
        root = jnp.full_like(outputs, jnp.sqrt(2.0))
        return Curvature(jnp.diag(root), (1.0 - square / factor(outputs)) / root)

    def predictive(self, outputs: Outputs, spread: Outputs) -> tuple["Width", Outputs]:
        """At the mean of a log-normal factor, as far as that is believed."""
        return self, outputs + jnp.minimum(spread, 1.0)

    def uncertainty(self, outputs: Outputs, spread: Outputs) -> tuple[Outputs, Outputs]:
        """The variance of a log-normal factor, and the rest."""
        mean = factor(outputs + jnp.minimum(spread, 1.0))
        return mean**2 * jnp.expm1(4.0 * jnp.minimum(spread, 1.0)), 2.0 * mean**2


def factor(outputs: Outputs) -> Outputs:
    """exp(2 h), bounded."""
    return jax.lax.exp(2.0 * jnp.clip(outputs, -STEEPEST, STEEPEST))
