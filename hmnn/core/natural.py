"""V for rows that come one at a time or few: a closed-form step of natural gradient.

The network is made linear at the mean of P pi_{t-1}, the likelihood quadratic by its generalised Gauss-Newton
curvature.
For that model the member of the Gaussian family closest to the corrected law is known: its mean is the exact mean, its
precision the diagonal of the exact precision. All weights are one vector here. docs/natural.md has the derivation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from hmnn import _tree
from hmnn._types import Scalar, Weights
from hmnn.core import mixtures, objective
from hmnn.core.families import Posterior
from hmnn.core.kernels import Centre, Kernel
from hmnn.core.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Poisson
from hmnn.core.mixtures import Mixture
from hmnn.core.objective import Apply

LARGEST = 1.0
"""No move makes a variance larger than this, or than it was at the start; with memory 1 it would grow for ever."""
BELIEF = 10.0
"""So many residuals the first guess of the noise counts for: one lucky residual must not make it vanish."""
EDGE = 1e-6
"""Probabilities and rates are kept this far from 0 where they divide."""

Outputs = Float[Array, " out"]


class Moments(NamedTuple):
    """E[w] and Var[w] of every weight, in one vector each."""

    mean: Float[Any, " size"]
    variance: Float[Any, " size"]


class Noise(NamedTuple):
    """What residuals have said so far of the noise of a Gaussian likelihood: its variance and their number."""

    variance: Float[Any, ""] | float
    number: Float[Any, ""] | float


class Motion(NamedTuple):
    """P for vectors: the kernel, its anchor as a vector, and how much faster some weights move."""

    kernel: Kernel
    anchor: Float[Array, " size"]
    extra: Float[Array, " size"]
    """Variance added to each weight at every time step, beyond the kernel's."""
    bound: Scalar
    """No move makes a variance larger than this."""


class Rows(NamedTuple):
    """Rows of data with their weights; a row that is not `kept` is only looked at."""

    x: Shaped[Any, "*rows_and_x"]
    y: Shaped[Any, "*rows_and_y"]
    weight: Float[Any, "*rows"]
    kept: Bool[Any, "*rows"]


class Outlook(NamedTuple):
    """The law of a network's outputs, made linear in the weights: what predictions are made of."""

    outputs: Float[Any, "*rows out"]
    spread: Float[Any, "*rows out"]
    """The outputs' variance over the posterior."""
    noise: Any = None
    """The noise's variance as it was learned up to each row of a stream."""


def moments(posterior: Posterior, family: PyTree) -> Moments:
    """The mean and the variance of every weight, in the order of the leaves."""
    laws = objective.mixture(posterior, family)
    mean = jax.tree.map(lambda _, law: mixtures.mean(law), posterior.location, laws)
    variance = jax.tree.map(lambda m, law: mixtures.variance(law) * jnp.ones_like(m), posterior.location, laws)
    return Moments(ravel_pytree(mean)[0], ravel_pytree(variance)[0])


def member(law: Moments, like: Posterior, family: PyTree) -> Posterior:
    """The members of the families with these moments, shaped as `like`."""
    unravel = ravel_pytree(like.location)[1]
    structure = _tree.structure(like.location)
    means, variances = (structure.flatten_up_to(unravel(v)) for v in law)
    families = structure.flatten_up_to(family)
    matched = [f.match(_single(Moments(m, v))) for f, m, v in zip(families, means, variances, strict=True)]
    return Posterior(*(structure.unflatten(column) for column in zip(*matched, strict=True)))


def motion(kernel: Kernel, weights: Weights, level: Scalar = 0.0, start: Scalar = LARGEST) -> Motion:
    """P for a network's weights; `level` is the standard deviation of an extra jump of the outputs' biases."""
    flat = ravel_pytree(weights)[0]
    anchor = ravel_pytree(Centre(0.0, kernel.centre.anchor).at(weights))[0]
    last = jax.tree.leaves(weights)[-1]
    biases = jnp.arange(flat.size) >= flat.size - (last.size if last.ndim == 1 else 0)
    return Motion(kernel, anchor, jnp.where(biases, level**2, 0.0).astype(flat.dtype), jnp.maximum(LARGEST, start))


def evolving(move: Motion, law: Moments) -> Mixture:
    """P pi_{t-1} as the kernel gives it; a kernel with centre "previous" pulls to E[w]."""
    follow = move.kernel.centre.follow
    return move.kernel(_single(law), follow * law.mean + (1.0 - follow) * move.anchor)


def moved(move: Motion, law: Moments) -> Moments:
    """P pi_{t-1}, matched by its moments."""
    after = evolving(move, law)
    variance = mixtures.variance(after) * jnp.ones_like(law.mean) + move.extra
    bounded = jnp.minimum(variance, jnp.maximum(law.variance, move.bound))
    return Moments(mixtures.mean(after) * jnp.ones_like(law.mean), bounded)


def corrected(apply: Apply, likelihood: Likelihood, law: Moments, unravel: Callable, rows: Rows) -> Moments:
    """V C_t: the correction by all rows together, the network made linear once, at the mean."""
    parts = jax.vmap(lambda x, y, weight: _whitened(apply, likelihood, law, unravel, x, y, weight)[:2])
    a, c = parts(rows.x, rows.y, rows.weight)
    return _gained(law, a.reshape(-1, law.mean.size), c.reshape(-1))


def outlook(apply: Apply, law: Moments, unravel: Callable, x: Float[Array, "rows *x"]) -> Outlook:
    """The outputs at the mean and J v J^T, row by row."""

    def one(row: Array) -> Outlook:
        outputs, pull = _linear(apply, law.mean, unravel, row)
        jacobian = jax.vmap(pull)(jnp.eye(outputs.size, dtype=outputs.dtype))
        return Outlook(outputs, (jacobian**2) @ law.variance)

    return jax.lax.map(one, x, batch_size=16)


def stream(
    apply: Apply,
    likelihood: Likelihood,
    move: Motion,
    law: Moments,
    noise: Noise,
    unravel: Callable,
    rows: Rows,
    share: Scalar = 1.0,
) -> tuple[Moments, Noise, Outlook]:
    """Predict and learn row by row, each row a time step, in one compiled loop.

    `share` is the part of the linearised variance that outlooks take.

    Returns:
        The law and the noise after the last row that was kept, and the outlook for each row before it was learned.
    """

    def one(carry: tuple[Moments, Noise], row: Rows) -> tuple[tuple[Moments, Noise], Outlook]:
        law, noise = carry
        before = moved(move, law)
        g = with_noise(likelihood, noise)
        a, c, seen = _whitened(apply, g, before, unravel, row.x, row.y, row.weight)
        seen = seen._replace(spread=share * seen.spread)
        after = _gained(before, a, c), learned(noise, likelihood, seen, row.y, row.weight)
        return jax.tree.map(lambda new, old: jnp.where(row.kept, new, old), after, carry), seen._replace(
            noise=noise.variance
        )

    (law, noise), seen = jax.lax.scan(one, (law, noise), rows)
    return law, noise, seen


def softened(likelihood: Likelihood, seen: Outlook) -> Float[Array, "*rows out"]:
    """The outputs at which the likelihood's mean is, nearly, the mean over the posterior."""
    if isinstance(likelihood, Bernoulli | Categorical):
        return seen.outputs * jax.lax.rsqrt(1.0 + (jnp.pi / 8.0) * seen.spread)  # the probit approximation
    if isinstance(likelihood, Poisson):
        return seen.outputs + 0.5 * seen.spread  # exact: the mean of a log-normal rate
    return seen.outputs


def log_predictive(likelihood: Likelihood, seen: Outlook, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
    """The log density of y before it is learned, row by row."""
    if isinstance(likelihood, Gaussian):
        likelihood = Gaussian(jnp.sqrt(likelihood.scale**2 + seen.spread))
    return likelihood.log_prob(softened(likelihood, seen), y)


def uncertainty(likelihood: Likelihood, seen: Outlook) -> tuple[Float[Array, "*rows out"], Float[Array, "*rows out"]]:
    """The variance of E[y | x, w] over the posterior (epistemic) and the rest of Var[y | x] (aleatoric)."""
    if isinstance(likelihood, Gaussian):
        return seen.spread, jnp.full_like(seen.outputs, likelihood.scale**2)
    if isinstance(likelihood, Poisson):
        rate = jnp.exp(softened(likelihood, seen))
        return rate**2 * jnp.expm1(seen.spread), rate
    total = likelihood.variance(softened(likelihood, seen))
    epistemic = jnp.minimum(likelihood.variance(seen.outputs) ** 2 * seen.spread, total)
    return epistemic, total - epistemic


def with_noise(likelihood: Likelihood, noise: Noise) -> Likelihood:
    """The likelihood with the noise that was learned; only a Gaussian one has any."""
    if isinstance(likelihood, Gaussian):
        return Gaussian(jnp.sqrt(noise.variance))
    return likelihood


def learned(noise: Noise, likelihood: Likelihood, seen: Outlook, y: Array, weight: Array) -> Noise:
    """The noise after one row: a mean of squared residuals, of all rows at first, then of the last hundred or so."""
    if not isinstance(likelihood, Gaussian):
        return noise
    number = jnp.minimum(noise.number + weight, 100.0)
    square = (y.reshape(seen.outputs.shape).astype(seen.outputs.dtype) - seen.outputs) ** 2
    residual = jnp.mean(jnp.maximum(square - seen.spread, 0.1 * square))  # the posterior's part is not noise
    share = weight / jnp.maximum(number, 1.0)
    return Noise(jnp.maximum(noise.variance + share * (residual - noise.variance), EDGE), number)


def _linear(apply: Apply, mean: Array, unravel: Callable, row: Array) -> tuple[Outputs, Callable[[Array], Array]]:
    """The outputs of one row at the mean, and what turns a direction of outputs into one of weights."""
    # By the tree and not by the vector: the transpose of cutting a vector is a sum of padded ones.
    outputs, pull = jax.vjp(lambda w: apply(w, row[None]).reshape(-1), unravel(mean))
    return outputs, lambda direction: ravel_pytree(pull(direction)[0])[0]


def _whitened(
    apply: Apply, likelihood: Likelihood, law: Moments, unravel: Callable, x: Array, y: Array, weight: Array
) -> tuple[Float[Array, "out size"], Outputs, Outlook]:
    """The row as `out` observations with unit noise, c = A (w - m) + noise, and its outlook."""
    outputs, pull = _linear(apply, law.mean, unravel, x)
    root, c = _roots(likelihood, outputs, y)
    sized = jnp.sqrt(weight)
    if outputs.size == 1:
        jacobian = pull(jnp.ones_like(outputs))[None]
        seen = Outlook(outputs, (jacobian**2) @ law.variance)
        return sized * root * jacobian, sized * c, seen
    jacobian = jax.vmap(pull)(jnp.eye(outputs.size, dtype=outputs.dtype))
    return sized * (root.T @ jacobian), sized * c, Outlook(outputs, (jacobian**2) @ law.variance)


def _roots(likelihood: Likelihood, outputs: Outputs, y: Array) -> tuple[Float[Array, "out out"], Outputs]:
    """L with L L^T = the Gauss-Newton curvature H at the outputs, and c with L c = the gradient of -log g."""
    if isinstance(likelihood, Categorical):
        p = jnp.maximum(jax.nn.softmax(outputs), EDGE)
        top = jnp.sqrt(p)
        return jnp.diag(top) - p[:, None] * top[None, :], (p - jax.nn.one_hot(y, p.size, dtype=p.dtype)) / top
    target = y.reshape(outputs.shape).astype(outputs.dtype)
    if isinstance(likelihood, Gaussian):
        root = jnp.ones_like(outputs) / likelihood.scale
        return jnp.diag(root), (outputs - target) * root
    if isinstance(likelihood, Bernoulli):
        p = jnp.clip(jax.nn.sigmoid(outputs), EDGE, 1.0 - EDGE)
        root = jnp.sqrt(p * (1.0 - p))
    elif isinstance(likelihood, Poisson):
        p = jnp.clip(jnp.exp(outputs), EDGE, 1.0 / EDGE)
        root = jnp.sqrt(p)
    else:
        raise TypeError(f"The natural projection knows no curvature of {type(likelihood).__name__}.")
    return jnp.diag(root), (p - target) / root


def _gained(law: Moments, a: Float[Array, "k size"], c: Float[Array, " k"]) -> Moments:
    """The exact mean after c = A (w - m) + noise under independent weights, and the diagonal of the precision."""
    spread = a * law.variance[None]
    if c.size == 1:
        u = c / (1.0 + jnp.sum(spread * a))
        mean = law.mean - u[0] * spread[0]
        return Moments(mean, law.variance / (1.0 + spread[0] * a[0]))
    u = _solved(spread @ a.T + jnp.eye(c.size, dtype=c.dtype), c)
    return Moments(law.mean - u @ spread, law.variance / (1.0 + jnp.sum(spread * a, axis=0)))


def _solved(inner: Float[Array, "k k"], c: Float[Array, " k"]) -> Float[Array, " k"]:
    """(I + S)^{-1} c for S >= 0; two unknowns by hand, as calling LAPACK would cost more than the rest of a row."""
    if c.size != 2:
        return jax.scipy.linalg.solve(inner, c, assume_a="pos")
    lower = inner[1, 0] / inner[0, 0]
    pivot = jnp.maximum(inner[1, 1] - lower * inner[0, 1], 1.0)  # what it is at least, but for rounding
    second = (c[1] - lower * c[0]) / pivot
    return jnp.stack([(c[0] - inner[0, 1] * second) / inner[0, 0], second])


def _single(law: Moments) -> Mixture:
    return Mixture((law.mean,), (1.0,), (law.variance,), (1.0,))
