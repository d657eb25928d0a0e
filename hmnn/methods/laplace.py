"""The filter with correlations between weights, for small models: logistic regression and its kin."""

from functools import partial
from typing import Any

import jax

from hmnn import _check
from hmnn._types import Key, Number
from hmnn.core import full, kernels
from hmnn.core.full import Info, Model, Plan, State
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, parts
from hmnn.methods.base import Method

INITIAL_SCALE = 0.6931471805599453
"""That of `variational.build`."""
LARGEST = 1000
"""Weights that a model may have: a step needs their number cubed."""


def build(
    network: Any, likelihood: Any, kernel: Any, *, initial_scale: Number = INITIAL_SCALE, iterations: Number = 50
) -> Method:
    """Assemble a Laplace filter from a network, a likelihood and a kernel.

    Args:
        network: see `hmnn.networks`; of at most 1000 weights.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        kernel: one of `hmnn.core.kernels`.
        initial_scale: standard deviation of lambda_0.
        iterations: of Newton's method, at most.
    """
    shapes = parts.shapes(network)
    if (size := sum(leaf.size for leaf in jax.tree.leaves(shapes))) > LARGEST:
        raise _check.fail("network", f"one of at most {LARGEST} weights, as all their correlations are kept", size)
    model = Model(
        kernel=parts.kernel(kernel, shapes),
        likelihood=parts.likelihood(likelihood),
        initial_scale=_check.positive("initial_scale", initial_scale),
        iterations=_check.count("iterations", iterations),
    )
    plan = Plan(network.init, network.apply)
    return door.method(
        network,
        model.likelihood,
        init=partial(_init, plan, model),
        step=partial(_step, plan, model),
        advance=partial(_advance, plan, model),
        predict=partial(_predict, plan, model),
    )


def laplace(
    network: Any,
    likelihood: Any,
    *,
    memory: Number = 1.0,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "previous",
    initial_scale: Number = INITIAL_SCALE,
    iterations: Number = 50,
) -> Method:
    """The paper's jump kernel, matched by its moments, with a Gaussian over all weights together."""
    kernel = kernels.jump(memory, jump_scale, shrink, jump_prob, centre)
    return build(network, likelihood, kernel, initial_scale=initial_scale, iterations=iterations)


@partial(jax.jit, static_argnums=0)
def _init(plan: Plan, model: Model, key: Key) -> State:
    return full.init(key, plan, model)


@partial(jax.jit, static_argnums=0)
def _step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    return full.step(plan, model, state, batch)


@partial(jax.jit, static_argnums=0)
def _advance(plan: Plan, model: Model, state: State) -> State:
    return full.advance(plan, model, state)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    return full.predict(plan, model, state, x, point, samples, level)
