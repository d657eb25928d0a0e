"""V by Laplace's approximation.

One Gaussian over all weights together, for models with few of them.

P moves mean and covariance as the kernel says, so a kernel with several components is matched by
its moments. C and V together are Newton's method to the mode, and the curvature there (generalised
Gauss-Newton, which is exact for models that are linear in their weights). A law is carried as a
mean and a square root of its covariance: no covariance is ever inverted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar
from hmnn.core import filtering, likelihoods, mixtures, prediction
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.mixtures import Mixture
from hmnn.core.prediction import Prediction, Question

TOLERANCE = 1e-7
"""Newton's method ends when the squared length of a step, in posterior standard deviations, is
below this."""
HALVINGS = 30


class Correlated(NamedTuple):
    """N(mean, root root') over all weights in a row."""

    mean: Float[Array, " size"]
    root: Float[Array, "size size"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Laplace:
    """Newton's method; both numbers are traced."""

    most_weights: ClassVar[int] = 1000
    """Weights that a model may have: a step needs their number cubed."""

    initial_scale: Scalar = 0.6931471805599453
    """Standard deviation of lambda_0."""
    iterations: Scalar = 50
    """Of Newton's method, at most."""

    def init(self, parts: Filter, key: Key) -> tuple[Correlated, tuple[()]]:
        """pi_0 = lambda_0: independent N(0, initial_scale^2)."""
        mean = ravel_pytree(parts.weights())[0]
        return Correlated(mean, self.initial_scale * jnp.eye(mean.size, dtype=mean.dtype)), ()

    def prior(self, parts: Filter, posterior: Correlated) -> Correlated:
        """P pi_{t-1}: the covariance becomes alpha^2 S + the jump's variance on the diagonal.

        A kernel is linear in the weights, so the variances that it gives to variances 0 and 1 tell
        both numbers.
        """
        weights = _tree.split(posterior.mean, parts.weights())
        centre = parts.kernel.centre.at(weights)

        def moved(variance: float) -> tuple[Array, Array]:
            def leaf(m: Array, mu: Array) -> Mixture:
                return parts.kernel(
                    Mixture((m,), (1.0,), (jnp.full_like(m, variance),), (1.0,)), mu
                )

            laws = jax.tree.map(leaf, weights, centre)
            means = jax.tree.map(
                lambda m, law: mixtures.mean(law) + jnp.zeros_like(m), weights, laws
            )
            variances = jax.tree.map(
                lambda m, law: mixtures.variance(law) + jnp.zeros_like(m), weights, laws
            )
            return ravel_pytree(means)[0], ravel_pytree(variances)[0]

        (mean, jump), (_, total) = moved(0.0), moved(1.0)
        memory = jnp.sqrt(jnp.maximum(total - jump, 0.0))
        stacked = jnp.concatenate([(memory[:, None] * posterior.root).T, jnp.diag(jnp.sqrt(jump))])
        return Correlated(mean, jnp.linalg.qr(stacked, mode="r").T)

    def start(self, parts: Filter, state: State) -> Correlated:
        """The old law: Newton's method begins at the prior's mean."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Correlated, start: Correlated, state: State, batch: Batch
    ) -> Corrected:
        """The Gaussian at the mode of C_t P pi_{t-1}.

        With B = I + root' H root its covariance is root B^-1 root'.
        """
        like, likelihood = parts.weights(), parts.given(state.noise)

        def outputs(u: Array) -> Array:
            return parts.apply(_tree.split(prior.mean + prior.root @ u, like), batch.x)

        def loss(out: Array) -> Array:
            return -likelihoods.log_g(likelihood, out, batch)

        found, factor = _mode(loss, outputs, jnp.zeros_like(prior.mean), self.iterations)
        root = jax.scipy.linalg.solve_triangular(factor, prior.root.T, lower=True).T
        evidence = -found.value - jnp.sum(jnp.log(jnp.diag(factor)))
        notes = evidence, loss(outputs(found.u)), found.iteration
        law = Correlated(prior.mean + prior.root @ found.u, root)
        means = (_tree.split(mean, like) for mean in (prior.mean, law.mean))
        return Corrected(law, (), filtering.noise_after(parts, state, batch, *means), notes)

    def report(
        self,
        parts: Filter,
        before: State,
        after: State,
        batch: Batch,
        notes: tuple[Array, Array, Array],
    ) -> Info:
        """The evidence of all rows, one step ahead, and how long the search took."""
        evidence, misfit, iterations = notes
        return Info(
            finite=_tree.all_finite(after.posterior) & jnp.isfinite(evidence),
            misfit=misfit,
            log_evidence=evidence,
            mean_scale=jnp.mean(deviation(after.posterior)),
            iterations=iterations,
        )

    def rest(self, parts: Filter, posterior: Correlated) -> Correlated:
        """The prior itself."""
        return self.prior(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """At the mean or over draws of the weights fixed by (seed, t)."""
        like, likelihood, law = parts.weights(), parts.given(state.noise), state.posterior
        at_mean = parts.apply(_tree.split(law.mean, like), x)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), prediction.DRAWS)
        noise = jax.random.normal(key, (question.samples, law.mean.size), law.mean.dtype)

        def outputs(i: Array) -> Array:
            return parts.apply(_tree.split(law.mean + law.root @ noise[i], like), x)

        return prediction.from_draws(
            likelihood, question, None if question.point == "sampled" else at_mean, outputs
        )


def deviation(law: Correlated) -> Float[Array, " size"]:
    """The standard deviation of each weight."""
    return jnp.sqrt(jnp.sum(law.root**2, axis=1))


class _Search(NamedTuple):
    """Where Newton's method is, in units of the prior: w = mean + root u."""

    u: Array
    value: Array
    decrement: Array
    iteration: Array


def _mode(
    loss: Callable[[Array], Array],
    outputs: Callable[[Array], Array],
    zero: Array,
    iterations: Scalar,
) -> tuple[_Search, Array]:
    """The minimum of the misfit + |u|^2 / 2, and the Cholesky factor of the curvature there."""

    def energy(u: Array) -> Array:
        return loss(outputs(u)) + 0.5 * u @ u

    def newton(search: _Search) -> _Search:
        step, decrement = _newton_step(loss, outputs, search.u)
        u, value = _halved(energy, search, step, decrement)
        return _Search(u, value, decrement, search.iteration + 1)

    def going_on(search: _Search) -> Array:
        return (search.iteration < iterations) & (search.decrement > TOLERANCE)

    first = _Search(zero, energy(zero), jnp.full((), jnp.inf, zero.dtype), jnp.zeros((), jnp.int32))
    found = jax.lax.while_loop(going_on, newton, first)
    return found, jnp.linalg.cholesky(_curvature(loss, outputs, found.u))


def _curvature(
    loss: Callable[[Array], Array], outputs: Callable[[Array], Array], u: Array
) -> Array:
    """I + J' H J, a column at a time; J of the outputs in u, H of the loss in the outputs."""
    out, pull = jax.vjp(outputs, u)

    def column(direction: Array) -> Array:
        tangent = jax.jvp(outputs, (u,), (direction,))[1]
        return direction + pull(jax.jvp(jax.grad(loss), (out,), (tangent,))[1])[0]

    columns = jax.lax.map(column, jnp.eye(u.size, dtype=u.dtype))
    return 0.5 * (columns + columns.T)


def _newton_step(
    loss: Callable[[Array], Array], outputs: Callable[[Array], Array], u: Array
) -> tuple[Array, Float[Array, ""]]:
    """The step to the quadratic's minimum, and its squared length in posterior deviations."""
    gradient = jax.grad(lambda v: loss(outputs(v)))(u) + u
    step = -jax.scipy.linalg.cho_solve(
        (jnp.linalg.cholesky(_curvature(loss, outputs, u)), True), gradient
    )
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
    share, value, _ = jax.lax.while_loop(
        worse, half, (one, energy(search.u + step), jnp.zeros((), jnp.int32))
    )
    return search.u + share * step, value
