"""V in closed form, for rows that come one at a time or few: a step of natural gradient.

The network is made linear at the mean of P pi_{t-1}, the likelihood quadratic by its generalised
Gauss-Newton curvature. For that model the normal law with independent weights closest to the
corrected law is known: its mean is the exact mean, its precision the diagonal of the exact
precision. All weights are one vector here. docs/natural.md has the derivation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar, Weights
from hmnn.core import likelihoods, mixtures, prediction
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.kernels import Centre
from hmnn.core.likelihoods import Likelihood
from hmnn.core.mixtures import Mixture
from hmnn.core.objective import Apply
from hmnn.core.prediction import Outlook, Prediction, Question

JOINT = 32
"""How many rows are taken together: one solve of so many unknowns, the network made linear at one
point."""
UNKNOWNS = 1024
"""Rows times outputs of a lot are at most so many, or it is one row: with many outputs fewer rows
are taken together, as memory and time grow with the square and the cube."""
DIRECTIONS = 64
"""Outputs whose gradients are held at the same time in a prediction."""
FIRST = 2**31 - 1
"""Folded into the key for the network's own initial weights; time steps fold in t."""


class Moments(NamedTuple):
    """E[w] and Var[w] of every weight, in one vector each."""

    mean: Float[Any, " size"]
    variance: Float[Any, " size"]


class _Whitened(NamedTuple):
    """A row as observations with unit noise, c = A (w - m) + noise, and its outlook."""

    a: Float[Array, "out size"]
    c: Float[Array, " out"]
    outlook: Outlook


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Natural:
    """The closed-form projection; all but `joint` are numbers, which are traced."""

    initial_scale: Scalar = 0.3
    """Standard deviation of lambda_0 around the network's own initial weights."""
    level_scale: Scalar = 0.0
    """Standard deviation of an extra jump of the outputs' biases at every time step."""
    spread: Scalar = 1.0
    """The share of the outputs' linearised variance that predictions take; 1 is exact for
    independent weights."""
    bound: Scalar = jnp.inf
    """No move makes a variance larger than this, or than it was at the start; with memory 1 it
    grows for ever, as the Kalman filter's does, unless this is finite."""
    joint: int = field(default=JOINT, metadata={"static": True})
    """Rows that are taken together; more rows are taken in turn."""

    def init(self, parts: Filter, key: Key) -> tuple[Moments, tuple[()]]:
        """pi_0: independent normal laws around the network's own initial weights."""
        mean = ravel_pytree(parts.first_weights(jax.random.fold_in(key, FIRST)))[0]
        return Moments(mean, jnp.full_like(mean, self.initial_scale**2)), ()

    def prior(self, parts: Filter, posterior: Moments) -> Moments:
        """P pi_{t-1}, matched by its moments; a kernel with centre "previous" pulls to E[w]."""
        law = moved(parts, posterior)
        variance = mixtures.variance(law) * jnp.ones_like(posterior.mean) + self._level(parts)
        bound = jnp.maximum(posterior.variance, jnp.maximum(self.bound, self.initial_scale**2))
        return Moments(
            mixtures.mean(law) * jnp.ones_like(posterior.mean), jnp.minimum(variance, bound)
        )

    def start(self, parts: Filter, state: State) -> Moments:
        """The old law: nothing is searched for."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Moments, start: Moments, state: State, batch: Batch
    ) -> Corrected:
        """V C_t by all rows, `joint` of them at a time.

        The network is made linear anew for each lot.
        """
        unravel = ravel_pytree(parts.weights())[1]
        likelihood = parts.given(state.noise)

        def one(carry: tuple[Moments, Any], lot: Batch) -> tuple[tuple[Moments, Any], Outlook]:
            law, outlook = self._taken(parts.apply, likelihood, unravel, carry[0], lot)
            return (law, likelihoods.learned(parts.likelihood, carry[1], outlook, lot)), outlook

        if batch.x.shape[0] == 1:
            (law, noise), outlook = one((prior, state.noise), batch)
            return Corrected(law, (), noise, outlook)
        lots = _cut(batch, min(self.joint, batch.x.shape[0], _at_once(parts, batch.x)))
        (law, noise), _ = jax.lax.scan(one, (prior, state.noise), lots)
        return Corrected(law, (), noise, self.outlook(parts, prior, batch.x))

    def _taken(
        self, apply: Apply, likelihood: Likelihood, unravel: Callable, law: Moments, lot: Batch
    ) -> tuple[Moments, Outlook]:
        """The correction by the rows of one lot together, and what was expected of them."""

        def row(x: Array, y: Array, weight: Array) -> _Whitened:
            return _whitened(apply, likelihood, law, unravel, Batch(x, y, weight))

        if len(lot.x) == 1:
            seen = jax.tree.map(lambda a: a[None], row(lot.x[0], lot.y[0], lot.weight[0]))
        else:
            seen = jax.vmap(row)(*lot)
        outlook = seen.outlook._replace(spread=self.spread * seen.outlook.spread)
        return _gained(law, seen.a.reshape(-1, law.mean.size), seen.c.reshape(-1)), outlook

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Outlook
    ) -> Info:
        """How surprising the rows were, and how probable a big jump."""
        law, outputs = parts.given(before.noise).predictive(*notes)
        logs, law_after = law.log_prob(outputs, batch.y), after.posterior
        return Info(
            finite=_tree.all_finite((law_after, after.noise)),
            surprise=jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            mean_scale=jnp.mean(jnp.sqrt(law_after.variance)),
            drift=jnp.mean(mixtures.widest(moved(parts, before.posterior), law_after.mean)),
            outlook=notes,
        )

    def rest(self, parts: Filter, posterior: Moments) -> Moments:
        """The prior itself."""
        return self.prior(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """The linearised predictive; it has no draws."""
        outlook = self.outlook(parts, state.posterior, x)
        return prediction.from_outlook(parts.given(state.noise), outlook, question.level)

    def outlook(self, parts: Filter, law: Moments, x: Float[Array, "rows *x"]) -> Outlook:
        """The outputs at the mean and the share of J v J^T, row by row."""
        unravel = ravel_pytree(parts.weights())[1]

        def one(row: Array) -> Outlook:
            outputs, pull = _linear(parts.apply, law.mean, unravel, row)
            directions = jnp.eye(outputs.size, dtype=outputs.dtype)
            if outputs.size <= DIRECTIONS:
                spread = (jax.vmap(pull)(directions) ** 2) @ law.variance
            else:
                spread = jax.lax.map(
                    lambda d: pull(d) ** 2 @ law.variance, directions, batch_size=DIRECTIONS
                )
            return Outlook(outputs, self.spread * spread)

        return jax.lax.map(one, x, batch_size=min(16, _at_once(parts, x)))

    def _level(self, parts: Filter) -> Float[Array, " size"]:
        """What the variance of the outputs' biases (the last leaf, if a vector) gains extra."""
        weights = parts.weights()
        size, last = _tree.size(weights), jax.tree.leaves(weights)[-1]
        biases = jnp.arange(size) >= size - (last.size if last.ndim == 1 else 0)
        return jnp.where(biases, self.level_scale**2, 0.0).astype(last.dtype)


def moved(parts: Filter, law: Moments) -> Mixture:
    """P pi_{t-1} as the kernel gives it."""
    follow = parts.kernel.centre.follow
    anchor = ravel_pytree(Centre(0.0, parts.kernel.centre.anchor).at(parts.weights()))[0]
    return parts.kernel(_single(law), follow * law.mean + (1.0 - follow) * anchor)


def weights_of(parts: Filter, law: Moments) -> tuple[Weights, Weights]:
    """The means and the variances as trees like the weights."""
    unravel = ravel_pytree(parts.weights())[1]
    return unravel(law.mean), unravel(law.variance)


def _at_once(parts: Filter, x: Float[Array, "rows *x"]) -> int:
    """How many rows make at most `UNKNOWNS` outputs."""
    outputs = jax.eval_shape(parts.apply, parts.weights(), x[:1])
    return max(1, UNKNOWNS // max(1, outputs.size))


def _cut(batch: Batch, joint: int) -> Batch:
    """Lots of rows, the last one filled up with its last row, of weight 0.

    A network need not be defined at 0.
    """
    size = batch.x.shape[0]

    def fill(a: Any, mode: str = "edge") -> Array:
        return jnp.pad(a, [(0, -size % joint)] + [(0, 0)] * (a.ndim - 1), mode=mode)

    filled = Batch(fill(batch.x), fill(batch.y), fill(batch.weight, "constant"))
    return jax.tree.map(lambda a: a.reshape(-1, joint, *a.shape[1:]), filled)


def _linear(
    apply: Apply, mean: Array, unravel: Callable, row: Array
) -> tuple[Float[Array, " out"], Callable[[Array], Array]]:
    """The outputs of a row at the mean, and what pulls their directions back to weights."""
    # By the tree and not by the vector: the transpose of cutting a vector is a sum of padded ones.
    outputs, pull = jax.vjp(lambda w: apply(w, row[None]).reshape(-1), unravel(mean))
    return outputs, lambda direction: ravel_pytree(pull(direction)[0])[0]


def _whitened(
    apply: Apply, likelihood: Likelihood, law: Moments, unravel: Callable, row: Batch
) -> _Whitened:
    """The row as observations with unit noise."""
    outputs, pull = _linear(apply, law.mean, unravel, row.x)
    root, residual = likelihood.curvature(outputs, row.y)
    sized = jnp.sqrt(row.weight)
    if outputs.size == 1:
        jacobian = pull(jnp.ones_like(outputs))[None]
        return _Whitened(
            sized * root * jacobian,
            sized * residual,
            Outlook(outputs, (jacobian**2) @ law.variance),
        )
    jacobian = jax.vmap(pull)(jnp.eye(outputs.size, dtype=outputs.dtype))
    outlook = Outlook(outputs, (jacobian**2) @ law.variance)
    return _Whitened(sized * (root.T @ jacobian), sized * residual, outlook)


def _gained(law: Moments, a: Float[Array, "k size"], c: Float[Array, " k"]) -> Moments:
    """The exact mean after c = A (w - m) + noise, and the diagonal of the precision."""
    spread = a * law.variance[None]
    if c.size == 1:
        u = c / (1.0 + jnp.sum(spread * a))
        mean = law.mean - u[0] * spread[0]
        return Moments(mean, law.variance / (1.0 + spread[0] * a[0]))
    u = _solved(spread @ a.T + jnp.eye(c.size, dtype=c.dtype), c)
    return Moments(law.mean - u @ spread, law.variance / (1.0 + jnp.sum(spread * a, axis=0)))


def _solved(inner: Float[Array, "k k"], c: Float[Array, " k"]) -> Float[Array, " k"]:
    """(I + S)^{-1} c for S >= 0; two unknowns by hand, which is cheaper than LAPACK."""
    if c.size != 2:
        return jax.scipy.linalg.solve(inner, c, assume_a="pos")
    lower = inner[1, 0] / inner[0, 0]
    pivot = jnp.maximum(
        inner[1, 1] - lower * inner[0, 1], 1.0
    )  # what it is at least, but for rounding
    second = (c[1] - lower * c[0]) / pivot
    return jnp.stack([(c[0] - inner[0, 1] * second) / inner[0, 0], second])


def _single(law: Moments) -> Mixture:
    return Mixture((law.mean,), (1.0,), (law.variance,), (1.0,))
