"""The filter with correlations between weights, for small models.

Logistic regression and its kin.
"""

from typing import Any

from hmnn import _check
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.likelihoods import Likelihood
from hmnn.core.projections.laplace import Laplace
from hmnn.methods.method import Method
from hmnn.methods.variational import INITIAL_SCALE, build
from hmnn.networks import Network


def laplace_projection(initial_scale: Number = INITIAL_SCALE, iterations: Number = 50) -> Laplace:
    """Laplace's approximation, all correlations kept.

    Args:
        initial_scale: standard deviation of lambda_0.
        iterations: of Newton's method, at most.
    """
    return Laplace(
        _check.positive("initial_scale", initial_scale), _check.count("iterations", iterations)
    )


def laplace(
    network: Network,
    likelihood: str | Likelihood,
    *,
    memory: Number = 1.0,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "previous",
    initial_scale: Number = INITIAL_SCALE,
    iterations: Number = 50,
) -> Method:
    """The jump kernel, matched by its moments, and one Gaussian over all (at most 1000) weights."""
    kernel = kernels.jump(memory, jump_scale, shrink, jump_prob, centre)
    projection = laplace_projection(initial_scale, iterations)
    return build(network, likelihood, kernel, projection=projection)
