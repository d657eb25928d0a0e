"""V in closed form, for rows that come one at a time or few: a step of natural gradient.

The network is made linear at the mean of P pi_{t-1}, the likelihood quadratic by its generalised
Gauss-Newton curvature. For that model the normal law with independent weights closest to the
corrected law is known: its mean is the exact mean, its precision the diagonal of the exact
precision. The weights of the last layer may keep their whole covariance: then theirs is exact too,
for one output, and for several but for what it says of two outputs together. docs/natural.md has
the derivation.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar
from hmnn.core import jacobians, kernels, likelihoods, mixtures, prediction
from hmnn.core.corrections import Moments, Seen, gained, of_last, rows_of, spread
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.jacobians import Jacobian
from hmnn.core.kernels import Affine
from hmnn.core.likelihoods import Likelihood
from hmnn.core.mixtures import Mixture
from hmnn.core.prediction import Outlook, Prediction, Question

JOINT = 32
"""How many rows are taken together: one solve of so many unknowns, the network made linear at one
point."""
UNKNOWNS = 1024
"""Rows times outputs of a lot are at most so many, or it is one row: with many outputs fewer rows
are taken together, as memory and time grow with the square and the cube."""
FIRST = 2**31 - 1
"""Folded into the key for the network's own initial weights; time steps fold in t."""
CORRELATIONS = ("none", "last")
SEPARATE = 2
"""Up to so many outputs each has a last-layer covariance of its own; more share one."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Natural:
    """The closed-form projection; all but `joint` and `correlations` are numbers, and traced."""

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
    level_bound: Scalar = jnp.inf
    """The extra jump makes no variance of a bias larger than this."""
    joint: int = field(default=JOINT, metadata={"static": True})
    """Rows that are taken together; more rows are taken in turn."""
    correlations: str = field(default="none", metadata={"static": True})
    """"last": the weights of a last dense layer keep their covariance."""

    def init(self, parts: Filter, key: Key) -> tuple[Moments, tuple[()]]:
        """pi_0: independent normal laws around the network's own initial weights."""
        mean = tuple(jax.tree.leaves(parts.first_weights(jax.random.fold_in(key, FIRST))))
        variance = tuple(jnp.full_like(m, self.initial_scale**2) for m in mean)
        return Moments(mean, variance, self._first_covariance(parts)), ()

    def prior(self, parts: Filter, posterior: Moments) -> Moments:
        """P pi_{t-1}, matched by its moments; a kernel with centre "previous" pulls to E[w]."""
        move = kernels.affine(parts.kernel, posterior.mean, parts.weights())
        return self.displaced(parts, posterior, move)

    def displaced(self, parts: Filter, posterior: Moments, move: Affine) -> Moments:
        """A law moved by the first two moments of a kernel, within the bounds."""
        most = jnp.maximum(self.bound, self.initial_scale**2)
        shrunk = [a**2 * v for a, v in zip(move.memory, posterior.variance, strict=True)]
        gains = [jnp.clip(most - v, 0.0, q) for q, v in zip(move.jump, shrunk, strict=True)]
        if shrunk[-1].ndim == 1:  # the outputs' biases
            room = jnp.maximum(self.level_bound - shrunk[-1] - gains[-1], 0.0)
            gains[-1] = gains[-1] + jnp.minimum(self.level_scale**2, room)
        variance = tuple(v + gain for v, gain in zip(shrunk, gains, strict=True))
        if isinstance(posterior.last, tuple):
            return Moments(move.mean, variance)
        size = of_last(parts.weights())
        memory, gain = (
            rows_of(leaves[-size:], variance[-size:], len(posterior.last))
            for leaves in (move.memory, gains)
        )
        last = memory[:, :, None] * posterior.last * memory[:, None, :]
        last = last + gain[:, :, None] * jnp.eye(gain.shape[1], dtype=gain.dtype)[None]
        return Moments(move.mean, variance, last)

    def start(self, parts: Filter, state: State) -> Moments:
        """The old law: nothing is searched for."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Moments, start: Moments, state: State, batch: Batch
    ) -> Corrected:
        """V C_t by all rows, `joint` of them at a time.

        The network is made linear anew for each lot.
        """
        likelihood = parts.given(state.noise)

        def one(carry: tuple[Moments, Any], lot: Batch) -> tuple[tuple[Moments, Any], Outlook]:
            law, outlook = self._taken(parts, likelihood, carry[0], lot)
            return (law, likelihoods.learned(parts.likelihood, carry[1], outlook, lot)), outlook

        joint = min(self.joint, batch.x.shape[0], at_once(parts, batch.x))
        if batch.x.shape[0] <= joint:
            (law, noise), outlook = one((prior, state.noise), batch)
            return Corrected(law, (), noise, outlook)
        (law, noise), _ = jax.lax.scan(one, (prior, state.noise), cut(batch, joint))
        return Corrected(law, (), noise, self.outlook(parts, prior, batch.x))

    def _taken(
        self, parts: Filter, likelihood: Likelihood, law: Moments, lot: Batch
    ) -> tuple[Moments, Outlook]:
        """The correction by the rows of one lot together, and what was expected of them."""
        outputs, leaves = linearised(parts, law.mean, lot.x)
        roots, residuals = jax.vmap(likelihood.curvature)(outputs, lot.y)
        sized = jnp.sqrt(lot.weight)
        seen = Seen(leaves, sized[:, None, None] * roots, sized[:, None] * residuals)
        law, variances = gained(law, seen, of_last(parts.weights()))
        return law, Outlook(outputs, self.spread * variances)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Outlook
    ) -> Info:
        """How surprising the rows were, and how probable a big jump."""
        likelihood, law_after = parts.given(before.noise), after.posterior
        law, outputs = likelihood.predictive(*notes)
        logs = law.log_prob(outputs, batch.y)
        pairs = zip(moved(parts, before.posterior), law_after.mean, strict=True)
        jumps = [mixtures.widest(mixture, m) for mixture, m in pairs]
        return Info(
            finite=_tree.all_finite((law_after, after.noise)),
            surprise=jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            mean_scale=_mean(jax.tree.map(jnp.sqrt, law_after.variance)),
            drift=_mean(jumps),
            expected=prediction.from_outlook(likelihood, notes, 0.95),
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
        size = of_last(parts.weights())

        def one(row: Array) -> Outlook:
            outputs, leaves = linearised(parts, law.mean, row[None])
            return Outlook(outputs[0], self.spread * spread(law, leaves, size)[0])

        if len(x) == 1:
            return jax.tree.map(lambda a: a[None], one(x[0]))
        return jax.lax.map(one, x, batch_size=min(16, at_once(parts, x)))

    def _first_covariance(self, parts: Filter) -> Any:
        """That of the last layer's weights, one for each of few outputs; () if none is kept."""
        if self.correlations == "none" or parts.derivatives is None:
            return ()
        leaves = jax.tree.leaves(parts.weights())
        outputs, width = leaves[-of_last(parts.weights())].shape
        sets = outputs if outputs <= SEPARATE else 1
        full = self.initial_scale**2 * jnp.eye(width + of_last(parts.weights()) - 1)
        return jnp.broadcast_to(full, (sets, *full.shape)).astype(leaves[-1].dtype)


def moved(parts: Filter, law: Moments) -> list[Mixture]:
    """P pi_{t-1} as the kernel gives it, leaf by leaf."""
    tree = _tree.structure(parts.weights())
    centre = tree.flatten_up_to(parts.kernel.centre.at(tree.unflatten(law.mean)))
    return [
        parts.kernel(Mixture((m,), (1.0,), (v,), (1.0,)), mu)
        for m, v, mu in zip(law.mean, law.variance, centre, strict=True)
    ]


def at_once(parts: Filter, x: Float[Array, "rows *x"]) -> int:
    """How many rows make at most `UNKNOWNS` outputs."""
    outputs = jax.eval_shape(parts.apply, parts.weights(), x[:1])
    return max(1, UNKNOWNS // max(1, outputs.size))


def cut(batch: Batch, joint: int) -> Batch:
    """Lots of rows, the last one filled up with its last row, of weight 0.

    A network need not be defined at 0.
    """
    size = batch.x.shape[0]

    def fill(a: Any, mode: str = "edge") -> Array:
        return jnp.pad(a, [(0, -size % joint)] + [(0, 0)] * (a.ndim - 1), mode=mode)

    filled = Batch(fill(batch.x), fill(batch.y), fill(batch.weight, "constant"))
    return jax.tree.map(lambda a: a.reshape(-1, joint, *a.shape[1:]), filled)


def linearised(
    parts: Filter, leaves: tuple[Array, ...], x: Array
) -> tuple[Array, tuple[Jacobian, ...]]:
    """The outputs of rows at a point of the weights, and their derivatives in each leaf."""
    mean = _tree.structure(parts.weights()).unflatten(leaves)
    found = parts.derivatives or jacobians.differentiated(parts.apply)
    if len(x) == 1:  # cheaper than a loop over one row
        return jax.tree.map(lambda a: a[None], found(mean, x[0]))
    return jax.vmap(lambda row: found(mean, row))(x)


def _mean(leaves: Any) -> Float[Array, ""]:
    """The mean over all weights."""
    return sum(jnp.sum(leaf) for leaf in leaves) / sum(leaf.size for leaf in leaves)
