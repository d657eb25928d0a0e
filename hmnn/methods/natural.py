"""The closed-form projection, for rows that come one at a time or few."""

import math

from hmnn import _check
from hmnn._types import Number
from hmnn.core.projections.natural import CORRELATIONS, JOINT, Natural


def natural(
    initial_scale: Number = 0.3,
    level_scale: Number = 0.0,
    spread: Number = 1.0,
    bound: Number = math.inf,
    joint: Number = JOINT,
    correlations: str = "none",
    level_bound: Number = math.inf,
) -> Natural:
    """The closed-form projection.

    Args:
        initial_scale: standard deviation of lambda_0 around the network's own initial weights.
        level_scale: standard deviation of an extra jump of the outputs' biases at every time step.
        spread: the share of the outputs' linearised variance that predictions take; 1 is exact for
            independent weights.
        bound: no move makes a variance larger than this, or than it was at the start.
        joint: rows that are taken together; more rows are taken in turn.
        correlations: "none", or "last": the weights of a last dense layer keep their covariance.
        level_bound: the extra jump makes no variance of a bias larger than this.
    """
    return Natural(
        initial_scale=_check.positive("initial_scale", initial_scale),
        level_scale=_check.number("level_scale", level_scale, "at least 0", lambda v: v >= 0),
        spread=_check.unit("spread", spread),
        bound=_bound("bound", bound),
        level_bound=_bound("level_bound", level_bound),
        joint=_check.count("joint", joint),
        correlations=_check.choice("correlations", correlations, CORRELATIONS),
    )


def _bound(name: str, value: Number) -> Number:
    """A positive number, or none."""
    return value if value == math.inf else _check.positive(name, value)
