"""The variational filter and the methods that are settings of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import optax

from hmnn import _check
from hmnn._types import Number, Scalar
from hmnn.core import kernels, noise
from hmnn.core.cpu.hashing import hashed
from hmnn.core.families import Family
from hmnn.core.filtering import Filter, Projection
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.core.projections.descent import Descent
from hmnn.core.projections.epochs import KL_WEIGHTS
from hmnn.methods import arguments
from hmnn.methods.method import Method, assembled
from hmnn.networks import Network

Optimiser = str | Callable[[Scalar], optax.GradientTransformation]
INITIAL_SCALE = 0.6931471805599453
"""The standard deviation softplus(0) of lambda_0."""


def build(
    network: Network,
    likelihood: str | Likelihood,
    kernel: Kernel,
    *,
    projection: Projection | None = None,
    family: Family | Any = None,
    keep: Any = 1.0,
    keep_where: str | Callable[[str], bool] = "internal",
) -> Method:
    """Assemble a filter from its parts.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        kernel: one of `hmnn.core.kernels`.
        projection: `descent()` (the default), `natural()`, `laplace_projection()`, or one of your
            own.
        family: a family for all leaves of the weights or a tree of them; None lets `keep` and
            `keep_where` say it.
        keep: gamma in (0, 1], the probability that a weight's mean is kept; a number or a tree.
        keep_where: which weights may be dropped: one of `families.WHERE` or a test of the path.
    """
    shapes = arguments.shapes(network)
    law = arguments.likelihood(likelihood)
    how = descent() if projection is None else arguments.projection(projection, shapes, law)
    return assembled(
        Filter(
            first_weights=network.init,
            apply=network.apply,
            kernel=arguments.kernel(kernel, shapes),
            family=arguments.family(family, keep, keep_where, shapes),
            likelihood=law,
            projection=how,
        )
    )


def descent(
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: str = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = INITIAL_SCALE,
    start_rho: tuple[Number, Number] = (-3.0, -2.0),
    restart: bool = False,
    patience: Number = 10,
    source: noise.Source = hashed,
) -> Descent:
    """The paper's projection: gradient descent on the free energy.

    Args:
        optimiser: "sgd", "adam" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step.
        minibatch: rows of a minibatch, or None for all rows at once.
        samples: N, draws of the weights for one gradient.
        kl_weights: "uniform" (1/M each) or "geometric" (Blundell et al.).
        temperature: factor of the KL term; below 1 the result is a cold posterior, not Bayes.
        initial_scale: standard deviation of lambda_0.
        start_rho: range of s-tilde of the first guess.
        restart: whether the optimiser's own state starts anew at every time step.
        patience: epochs that may be undone in a row before `DivergenceError`.
        source: where the noise comes from.
    """
    if not isinstance(restart, bool | np.bool_):
        raise _check.fail("restart", "True or False", restart)
    if not callable(source):
        raise _check.fail("source", "a function such as hmnn.core.noise.random", source)
    return Descent(
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
        temperature=_check.number("temperature", temperature, "at least 0", lambda v: v >= 0),
        initial_scale=_check.positive("initial_scale", initial_scale),
        start_rho=_range(start_rho),
        optimiser=arguments.optimiser(optimiser),
        minibatch=arguments.minibatch(minibatch),
        samples=_check.count("samples", samples),
        kl_weights=_check.choice("kl_weights", kl_weights, KL_WEIGHTS),
        source=source,
        patience=_check.count("patience", patience),
        restart=bool(restart),
    )


def hmnn(
    network: Network,
    likelihood: str | Likelihood,
    *,
    memory: Number = 0.5,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "previous",
    family: Family | Any = None,
    keep: Any = 1.0,
    keep_where: str | Callable[[str], bool] = "internal",
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: str = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = INITIAL_SCALE,
    start_rho: tuple[Number, Number] = (-3.0, -2.0),
    restart: bool = False,
    patience: Number = 10,
    source: noise.Source = hashed,
) -> Method:
    """The hidden Markov neural network of the paper.

    The jump kernel, whose numbers come first (see `kernels.jump`).

    The other arguments are those of `build` and `descent`.
    """
    settings = optimiser, learning_rate, epochs, minibatch, samples, kl_weights, temperature
    start = initial_scale, start_rho, restart, patience, source
    projection, kernel = (
        descent(*settings, *start),
        kernels.jump(memory, jump_scale, shrink, jump_prob, centre),
    )
    return build(
        network,
        likelihood,
        kernel,
        projection=projection,
        family=family,
        keep=keep,
        keep_where=keep_where,
    )


def bbp(
    network: Network,
    likelihood: str | Likelihood,
    *,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    family: Family | Any = None,
    keep: Any = 1.0,
    keep_where: str | Callable[[str], bool] = "internal",
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: str = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = INITIAL_SCALE,
    start_rho: tuple[Number, Number] = (-3.0, -2.0),
    restart: bool = False,
    patience: Number = 10,
    source: noise.Source = hashed,
) -> Method:
    """Bayes by Backprop, warm started: the prior is the same at every time step.

    For T = 1 take one step.

    The other arguments are those of `build` and `descent`.
    """
    settings = optimiser, learning_rate, epochs, minibatch, samples, kl_weights, temperature
    start = initial_scale, start_rho, restart, patience, source
    projection, kernel = descent(*settings, *start), kernels.reset(jump_scale, shrink, jump_prob)
    return build(
        network,
        likelihood,
        kernel,
        projection=projection,
        family=family,
        keep=keep,
        keep_where=keep_where,
    )


def vcl(
    network: Network,
    likelihood: str | Likelihood,
    *,
    family: Family | Any = None,
    keep: Any = 1.0,
    keep_where: str | Callable[[str], bool] = "internal",
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: str = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = INITIAL_SCALE,
    start_rho: tuple[Number, Number] = (-3.0, -2.0),
    restart: bool = False,
    patience: Number = 10,
    source: noise.Source = hashed,
) -> Method:
    """Variational continual learning without a coreset: the static kernel.

    The other arguments are those of `build` and `descent`.
    """
    settings = optimiser, learning_rate, epochs, minibatch, samples, kl_weights, temperature
    start = initial_scale, start_rho, restart, patience, source
    projection, kernel = descent(*settings, *start), kernels.static()
    return build(
        network,
        likelihood,
        kernel,
        projection=projection,
        family=family,
        keep=keep,
        keep_where=keep_where,
    )


def kurle(
    network: Network,
    likelihood: str | Likelihood,
    *,
    memory: Number = 0.9,
    scale: Number = 1.0,
    family: Family | Any = None,
    keep: Any = 1.0,
    keep_where: str | Callable[[str], bool] = "internal",
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: str = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = INITIAL_SCALE,
    start_rho: tuple[Number, Number] = (-3.0, -2.0),
    restart: bool = False,
    patience: Number = 10,
    source: noise.Source = hashed,
) -> Method:
    """The adaptation of Kurle et al.: the Ornstein-Uhlenbeck kernel and a Gaussian family.

    The other arguments are those of `build` and `descent`.
    """
    settings = optimiser, learning_rate, epochs, minibatch, samples, kl_weights, temperature
    start = initial_scale, start_rho, restart, patience, source
    projection, kernel = descent(*settings, *start), kernels.ornstein_uhlenbeck(memory, scale)
    return build(
        network,
        likelihood,
        kernel,
        projection=projection,
        family=family,
        keep=keep,
        keep_where=keep_where,
    )


def _range(bounds: Any) -> tuple[float, float]:
    allowed = "two numbers, the lower first"
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise _check.fail("start_rho", allowed, bounds)
    low, high = (_check.number("start_rho", bound, allowed, lambda _: True) for bound in bounds)
    if low > high:
        raise _check.fail("start_rho", allowed, bounds)
    return low, high
