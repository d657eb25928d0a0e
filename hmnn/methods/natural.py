"""The filter with the closed-form projection, for rows that come one at a time or few: assembly and jit."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from hmnn import _check, _tree
from hmnn._types import Key, Number, Scalar, Weights
from hmnn.core import families, filtering, mixtures, natural
from hmnn.core.cpu.compilation import OFTEN, ONCE, compiled
from hmnn.core.families import Posterior
from hmnn.core.filtering import State
from hmnn.core.likelihoods import Bernoulli, Categorical, Likelihood, Poisson
from hmnn.core.natural import Moments, Noise, Outlook, Rows
from hmnn.core.objective import Apply
from hmnn.core.prediction import Prediction
from hmnn.methods import base, parts
from hmnn.methods.base import Method
from hmnn.networks import Network

JOINT = 32
"""How many rows are taken together: one solve of so many unknowns, the network made linear at one point."""


class Plan(NamedTuple):
    """The parts that are compiled in."""

    start: Callable[[Key], Weights]
    apply: Apply
    joint: int = JOINT


class Model(NamedTuple):
    """The numbers, which are traced."""

    kernel: Any
    family: Any
    likelihood: Likelihood
    initial_scale: Scalar
    level_scale: Scalar
    spread: Scalar


class Info(NamedTuple):
    """What a person wants to see of a time step."""

    surprise: Float[Array, ""]
    """Mean log density of the rows' y before they were learned."""
    residual: Float[Array, ""]
    """Mean squared distance of y from the outputs before they were learned."""
    drift: Float[Array, ""]
    """Responsibility of the big jump at the new mean, over all weights; NaN for a kernel without one."""
    finite: Bool[Array, ""]
    mean_scale: Float[Array, ""]


def build(network: Any, likelihood: Any, kernel: Any, **settings: Any) -> Method:
    """Assemble a filter whose projection is one closed-form step; arguments as in `assembled`."""
    return _method(*assembled(network, likelihood, kernel, **settings))


def assembled(
    network: Any,
    likelihood: Any,
    kernel: Any,
    *,
    keep: Any = 1.0,
    keep_where: Any = "internal",
    initial_scale: Number = 0.3,
    level_scale: Number = 0.0,
    spread: Number = 1.0,
    joint: Number = JOINT,
) -> tuple[Plan, Model]:
    """The checked parts of `build`, for who calls the compiled functions below without a door of their own.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        kernel: one of `hmnn.core.kernels`; a mixture of jumps counts by its moments.
        keep: gamma in (0, 1]; a number or a tree.
        keep_where: which weights may be dropped, as in `variational.build`.
        initial_scale: standard deviation of lambda_0 around the network's own initial weights.
        level_scale: standard deviation of an extra jump of the outputs' biases at every time step.
        spread: the share of the outputs' linearised variance that predictions take; 1 is exact for independent weights.
        joint: rows that are taken together; more rows are taken in turn.
    """
    shapes = parts.shapes(network)
    model = Model(
        kernel=parts.kernel(kernel, shapes),
        family=families.assign(shapes, keep, keep_where),
        likelihood=parts.likelihood(likelihood),
        initial_scale=_check.positive("initial_scale", initial_scale),
        level_scale=_check.number("level_scale", level_scale, "at least 0", lambda v: v >= 0),
        spread=_check.unit("spread", spread),
    )
    return Plan(network.init, network.apply, _check.count("joint", joint)), model


@compiled(ONCE, static_argnums=0)
def first(plan: Plan, initial_scale: Scalar, key: Key) -> tuple[Moments, Noise]:
    """lambda_0 around the network's own initial weights, as moments, with unit noise."""
    mean = ravel_pytree(plan.start(jax.random.fold_in(key, filtering.FIRST)))[0]
    variance = jnp.full_like(mean, initial_scale**2)
    return Moments(mean, variance), Noise(jnp.ones((), mean.dtype), jnp.full((), natural.BELIEF, mean.dtype))


@compiled(OFTEN, static_argnums=0)
def rows(plan: Plan, model: Model, law: Moments, noise: Noise, data: Rows) -> tuple[Moments, Noise, Outlook]:
    """Predict and learn row by row; all that a stream of single rows needs."""
    weights = _weights(plan)
    unravel = ravel_pytree(weights)[1]
    motion = _motion(model, weights)
    return natural.stream(plan.apply, model.likelihood, motion, law, noise, unravel, data, model.spread)


@compiled(OFTEN, static_argnums=0)
def take(plan: Plan, model: Model, law: Moments, x: Array, y: Array, weight: Array) -> tuple[Moments, Info]:
    """V C_t P for rows with weights; a row of weight 0 counts nothing."""
    weights = _weights(plan)
    unravel = ravel_pytree(weights)[1]
    before = natural.moved(_motion(model, weights), law)
    seen = natural.outlook(plan.apply, before, unravel, x)
    logs = natural.log_predictive(model.likelihood, seen._replace(spread=model.spread * seen.spread), y)
    after = _taken(plan, model, before, unravel, Rows(x, y, weight, weight > 0.0))
    drift = jnp.mean(mixtures.widest(natural.evolving(_motion(model, weights), law), after.mean))
    total = jnp.sum(weight)
    misses = jnp.mean((y.reshape(y.shape[0], -1).astype(seen.outputs.dtype) - seen.outputs) ** 2, axis=1)
    return after, Info(
        surprise=jnp.sum(weight * logs) / total,
        residual=jnp.sum(weight * misses) / total,
        drift=drift,
        finite=_tree.all_finite(after),
        mean_scale=jnp.mean(jnp.sqrt(after.variance)),
    )


@partial(jax.jit, static_argnums=0)
def move(plan: Plan, model: Model, law: Moments, steps: Scalar) -> Moments:
    """Time steps without data."""
    motion = _motion(model, _weights(plan))
    return jax.lax.fori_loop(0, steps, lambda _, law: natural.moved(motion, law), law)


@partial(jax.jit, static_argnums=0)
def look(plan: Plan, model: Model, law: Moments, x: Array) -> Outlook:
    """The law of the outputs for new rows."""
    seen = natural.outlook(plan.apply, law, ravel_pytree(_weights(plan))[1], x)
    return seen._replace(spread=model.spread * seen.spread)


@compiled(ONCE, static_argnums=0)
def init(plan: Plan, model: Model, key: Key) -> State:
    """pi_0: independent normal laws around the network's own initial weights."""
    location = plan.start(jax.random.fold_in(key, filtering.FIRST))
    rho = jax.tree.map(lambda m: families.rho_of(jnp.full_like(m, model.initial_scale)), location)
    zero = jnp.zeros((), jnp.int32)
    return State(Posterior(location, rho), (), key, zero, zero, zero)


@jax.jit
def moments(model: Model, posterior: Posterior) -> Moments:
    """The moments of a posterior."""
    return natural.moments(posterior, model.family)


@partial(jax.jit, static_argnums=0)
def posterior(plan: Plan, model: Model, law: Moments) -> Posterior:
    """The member of the model's families with these moments."""
    return natural.member(law, Posterior(_weights(plan), None), model.family)


@jax.jit
def log_density(likelihood: Likelihood, seen: Outlook, y: Array) -> Float[Array, " rows"]:
    """The log density of y under outlooks."""
    return natural.log_predictive(likelihood, seen, y)


@jax.jit
def told(likelihood: Likelihood, seen: Outlook, level: Scalar) -> Prediction:
    """What outlooks say of y."""
    return _told(likelihood, seen, level)


def _told(likelihood: Likelihood, seen: Outlook, level: Scalar) -> Prediction:
    mean = likelihood.mean(natural.softened(likelihood, seen))
    epistemic, aleatoric = natural.uncertainty(likelihood, seen)
    reach = jax.scipy.special.ndtri(0.5 + 0.5 * jnp.asarray(level, mean.dtype)) * jnp.sqrt(epistemic)
    low = 0.0 if isinstance(likelihood, Bernoulli | Categorical | Poisson) else -jnp.inf
    high = 1.0 if isinstance(likelihood, Bernoulli | Categorical) else jnp.inf
    return Prediction(mean, jnp.maximum(mean - reach, low), jnp.minimum(mean + reach, high), epistemic, aleatoric)


def _taken(plan: Plan, model: Model, law: Moments, unravel: Callable, data: Rows) -> Moments:
    """Correct by all rows, `joint` of them at a time; the network is made linear anew for each lot."""
    size = data.x.shape[0]
    joint = min(plan.joint, size)
    filled = jax.tree.map(lambda a: jnp.pad(a, [(0, -size % joint)] + [(0, 0)] * (a.ndim - 1)), data)
    lots = jax.tree.map(lambda a: a.reshape(-1, joint, *a.shape[1:]), filled)

    def one(law: Moments, lot: Rows) -> tuple[Moments, None]:
        return natural.corrected(plan.apply, model.likelihood, law, unravel, lot), None

    return jax.lax.scan(one, law, lots)[0]


def _motion(model: Model, weights: Weights) -> natural.Motion:
    return natural.motion(model.kernel, weights, model.level_scale, model.initial_scale**2)


def _weights(plan: Plan) -> Weights:
    """Zeros shaped like the weights: only shapes are read."""
    shapes = jax.eval_shape(plan.start, jax.random.key(0))
    return jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), shapes)


def _method(plan: Plan, model: Model) -> Method:
    width = parts.widths(Network(plan.start, plan.apply))

    def checked_step(state: State, data: Any) -> tuple[State, Info | None]:
        if data is None:
            return moved(state, move(plan, model, moments(model, state.posterior), 1)), None
        t = int(state.t) + 1
        batch = base.batch(data, t)
        base.check_labels(model.likelihood, width(batch.x, f" at t = {t}"), batch.y[: batch.rows], t)
        weight = (np.arange(len(batch.x)) < batch.rows).astype(batch.x.dtype)
        law, info = take(plan, model, moments(model, state.posterior), batch.x, batch.y, weight)
        if not bool(info.finite):
            raise _check.DivergenceError(f"The update at t = {t} is not finite; the state is unchanged.")
        return moved(state, law)._replace(seen=state.seen + 1), info

    def moved(state: State, law: Moments) -> State:
        return state._replace(posterior=posterior(plan, model, law), t=state.t + 1)

    def checked_predict(
        state: State, x: Any, point: Any = "mean", samples: Number = 0, level: Number = 0.95
    ) -> Prediction:
        _check.choice("point", point, ["mean"])  # the linearised predictive has no draws
        _check.count("samples", samples, least=0)
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        values = base.inputs(x)
        width(values)
        seen = look(plan, model, moments(model, state.posterior), base.pad(values))
        return base.first_rows(told(model.likelihood, seen, level), len(values))

    return Method(lambda key: init(plan, model, parts.key(key)), checked_step, checked_predict)
