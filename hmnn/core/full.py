"""A family with correlations: one Gaussian over all weights together, for models with few of them.

P moves mean and covariance as the kernel says, so a kernel with several components is matched by its
moments. C and V together are Laplace's approximation: Newton's method to the mode, and the curvature
there (generalised Gauss-Newton, which is exact for models that are linear in their weights). A law is
carried as a mean and a square root of its covariance: no covariance is ever inverted.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from hmnn import _tree
from hmnn._types import Key, Scalar, Weights
from hmnn.core import likelihoods, mixtures
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.core.mixtures import Mixture
from hmnn.core.objective import Apply, Batch
from hmnn.core.prediction import DRAWS, Prediction

TOLERANCE = 1e-7
"""Newton's method ends when the squared length of a step, in posterior standard deviations, is below this."""
HALVINGS = 30
MOMENTS = (mixtures.mean, mixtures.variance)


class Law(NamedTuple):
    """N(mean, root root') over all weights in a row."""

    mean: Float[Array, " size"]
    root: Float[Array, "size size"]


class State(NamedTuple):
    """All that the next time step needs."""

    law: Law
    key: Key
    t: Int[Array, ""]


class Info(NamedTuple):
    """What a person wants to see of a time step."""

    log_evidence: Float[Array, ""]
    """Laplace's approximation of log p(D_t | D_1 .. D_{t-1}): the one-step-ahead log predictive of all rows."""
    misfit: Float[Array, ""]
    """-log g at the mode."""
    iterations: Int[Array, ""]
    finite: Bool[Array, ""]


class Plan(NamedTuple):
    """The parts that are compiled in."""

    start: Callable[[Key], Weights]
    apply: Apply


class Model(NamedTuple):
    """The numbers, which are traced."""

    kernel: Kernel
    likelihood: Likelihood
    initial_scale: Scalar
    iterations: Scalar


def init(key: Key, plan: Plan, model: Model) -> State:
    """pi_0 = lambda_0: independent N(0, initial_scale^2)."""
    mean = ravel_pytree(_zeros(plan))[0]
    return State(Law(mean, model.initial_scale * jnp.eye(mean.size, dtype=mean.dtype)), key, jnp.zeros((), jnp.int32))


def step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    """pi_t = V C_t P pi_{t-1}."""
    law, info = correct(plan, model, prior(plan, model.kernel, state.law), batch)
    return State(law, state.key, state.t + 1), info


def advance(plan: Plan, model: Model, state: State) -> State:
    """A time step without data."""
    return state._replace(law=prior(plan, model.kernel, state.law), t=state.t + 1)


def prior(plan: Plan, kernel: Kernel, law: Law) -> Law:
    """P pi_{t-1}: the covariance becomes alpha^2 S + the jump's variance on the diagonal.

    A kernel is linear in the weights, so the variances that it gives to variances 0 and 1 tell both numbers.
    """
    weights = _tree.split(law.mean, _zeros(plan))
    centre = kernel.centre.at(weights)

    def moved(variance: float) -> tuple[Array, Array]:
        laws = jax.tree.map(
            lambda m, mu: kernel(Mixture((m,), (1.0,), (jnp.full_like(m, variance),), (1.0,)), mu), weights, centre
        )
        parts = (jax.tree.map(lambda m, q, f=f: f(q) + jnp.zeros_like(m), weights, laws) for f in MOMENTS)
        mean, variances = (ravel_pytree(part)[0] for part in parts)
        return mean, variances

    (mean, jump), (_, total) = moved(0.0), moved(1.0)
    memory = jnp.sqrt(jnp.maximum(total - jump, 0.0))
    stacked = jnp.concatenate([(memory[:, None] * law.root).T, jnp.diag(jnp.sqrt(jump))])
    return Law(mean, jnp.linalg.qr(stacked, mode="r").T)


class _Search(NamedTuple):
    """Where Newton's method is, in units of the prior: w = mean + root u."""

    u: Array
    value: Array
    decrement: Array
    iteration: Array


def correct(plan: Plan, model: Model, before: Law, batch: Batch) -> tuple[Law, Info]:
    """The Gaussian at the mode of C_t P pi_{t-1}; with B = I + root' H root its covariance is root B^-1 root'."""
    real = jnp.arange(batch.x.shape[0]) < batch.rows
    like = _zeros(plan)

    def outputs(u: Array) -> Array:
        return plan.apply(_tree.split(before.mean + before.root @ u, like), batch.x)

    def loss(out: Array) -> Array:
        return -likelihoods.log_g(model.likelihood, out, batch.y, real)

    def energy(u: Array) -> Array:
        return loss(outputs(u)) + 0.5 * u @ u

    def newton(search: _Search) -> _Search:
        step, decrement = _newton_step(loss, outputs, search.u)
        u, value = _halved(energy, search, step, decrement)
        return _Search(u, value, decrement, search.iteration + 1)

    def going_on(search: _Search) -> Array:
        return (search.iteration < model.iterations) & (search.decrement > TOLERANCE)

    zero = jnp.zeros_like(before.mean)
    first = _Search(zero, energy(zero), jnp.full((), jnp.inf, zero.dtype), jnp.zeros((), jnp.int32))
    found = jax.lax.while_loop(going_on, newton, first)
    factor = jnp.linalg.cholesky(_curvature(loss, outputs, found.u))
    root = jax.scipy.linalg.solve_triangular(factor, before.root.T, lower=True).T
    after = Law(before.mean + before.root @ found.u, root)
    evidence = -energy(found.u) - jnp.sum(jnp.log(jnp.diag(factor)))
    finite = _tree.all_finite(after) & jnp.isfinite(evidence)
    return after, Info(evidence, loss(outputs(found.u)), found.iteration, finite)


def _curvature(loss: Callable[[Array], Array], outputs: Callable[[Array], Array], u: Array) -> Array:
    """I + J' H J, with J of the outputs in u and H of the loss in the outputs, a column at a time."""
    out, pull = jax.vjp(outputs, u)

    def column(direction: Array) -> Array:
        tangent = jax.jvp(outputs, (u,), (direction,))[1]
        return direction + pull(jax.jvp(jax.grad(loss), (out,), (tangent,))[1])[0]

    columns = jax.lax.map(column, jnp.eye(u.size, dtype=u.dtype))
    return 0.5 * (columns + columns.T)


def _newton_step(
    loss: Callable[[Array], Array], outputs: Callable[[Array], Array], u: Array
) -> tuple[Array, Float[Array, ""]]:
    """The step to the minimum of the quadratic at u, and its squared length in posterior standard deviations."""
    gradient = jax.grad(lambda v: loss(outputs(v)))(u) + u
    step = -jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(_curvature(loss, outputs, u)), True), gradient)
    return step, -step @ gradient


def _halved(
    energy: Callable[[Array], Array], search: _Search, step: Array, decrement: Array
) -> tuple[Array, Float[Array, ""]]:
    """Half the step until the energy falls; a fall that drowns in rounding is believed."""
    slack = 8.0 * jnp.finfo(step.dtype).eps * jnp.abs(search.value)

    def worse(carry: tuple[Array, Array, Array]) -> Array:
        share, value, count = carry
        enough = value <= search.value - 1e-4 * share * decrement + slack  # NaN is not enough
        return ~enough & (count < HALVINGS)

    def half(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        share, _, count = carry
        return 0.5 * share, energy(search.u + 0.5 * share * step), count + 1

    one = jnp.ones((), step.dtype)
    share, value, _ = jax.lax.while_loop(worse, half, (one, energy(search.u + step), jnp.zeros((), jnp.int32)))
    return search.u + share * step, value


def predict(plan: Plan, model: Model, state: State, x: Array, point: str, samples: int, level: Scalar) -> Prediction:
    """Predict at the mean or over draws, as `prediction.predict` does."""
    like = _zeros(plan)
    at_mean = model.likelihood.mean(plan.apply(_tree.split(state.law.mean, like), x))
    if samples == 0:
        return Prediction(at_mean)
    key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), DRAWS)
    noise = jax.random.normal(key, (samples, state.law.mean.size), state.law.mean.dtype)

    def one(xi: Array) -> tuple[Array, Array]:
        out = plan.apply(_tree.split(state.law.mean + state.law.root @ xi, like), x)
        return model.likelihood.mean(out), model.likelihood.variance(out)

    values, variances = jax.lax.map(one, noise)
    tail = 0.5 * (1.0 - level)
    lower, upper = jnp.quantile(values, jnp.stack([tail, 1.0 - tail]).astype(values.dtype), axis=0)
    mean = values.mean(axis=0) if point == "sampled" else at_mean
    return Prediction(mean, lower, upper, values.var(axis=0), variances.mean(axis=0))


def deviation(law: Law) -> Float[Array, " size"]:
    """The standard deviation of each weight."""
    return jnp.sqrt(jnp.sum(law.root**2, axis=1))


def _zeros(plan: Plan) -> Weights:
    """A tree like the weights."""
    shapes = jax.eval_shape(plan.start, jax.random.key(0))
    return jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), shapes)
