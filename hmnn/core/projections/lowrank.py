"""V in closed form with the strongest correlations between all weights, for rows that come few.

The precision of the weights is diag(1 / v) + W W', with `rank` columns in W: what rows said of
sums of weights stays said of sums (LO-FI, Chang et al., 2023). The network is made linear and the
likelihood quadratic as in `natural`.

P is exact: a kernel that multiplies weights by a and adds independent jumps of variance q leads
from such a law to such a law,

    v- = a^2 v + q,   W- = diag(a v / v-) W K^{-1/2},   K = I + W' diag(q v / v-) W.

C is exact too: a row adds the columns J' L to W. V keeps the `rank` directions in which W says
most beside v (a singular value decomposition of diag(v)^{1/2} W), and of the others what they say
of each weight by itself, in v. So while no more than `rank` numbers were observed since a kernel
last added noise, or where there are no more than `rank` weights, nothing is lost.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn import _tree
from hmnn._types import Batch, Key, Outer, Scalar
from hmnn.core import jacobians, kernels, likelihoods, prediction
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.jacobians import Jacobian
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Outlook, Prediction, Question
from hmnn.core.projections import natural

RANK = 10
"""Of the low-rank part, unless another is asked for."""
TINY = 1e-30
"""Variances are at least so large where they divide."""
FEWER = 16
"""So many times fewer rows than in `natural` are taken together at most, as the time of a lot grows
with the cube of its rows times outputs."""


class Factored(NamedTuple):
    """E[w] and the precision diag(1 / v) + W W' of the weights, an array for each leaf."""

    mean: tuple[Array, ...]
    variance: tuple[Array, ...]
    """v: the variance of each weight if W said nothing."""
    factors: tuple[Array, ...]
    """The columns of W, each shaped like the leaf; they are the first axis."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRank:
    """The closed-form projection onto laws of low rank; all but `joint` and `rank` are traced."""

    initial_scale: Scalar = 0.3
    """Standard deviation of lambda_0 around the network's own initial weights."""
    level_scale: Scalar = 0.0
    """Standard deviation of an extra jump of the outputs' biases at every time step."""
    spread: Scalar = 1.0
    """The share of the outputs' linearised variance that predictions take."""
    bound: Scalar = jnp.inf
    """No move makes a v larger than this, or than it was at the start."""
    level_bound: Scalar = jnp.inf
    """The extra jump makes no v of a bias larger than this."""
    joint: int = field(default=32, metadata={"static": True})
    """Rows that are taken together, if there are not too many outputs."""
    rank: int = field(default=RANK, metadata={"static": True})
    """The columns of W."""

    def init(self, parts: Filter, key: Key) -> tuple[Factored, tuple[()]]:
        """pi_0: independent normal laws around the network's own initial weights."""
        law, work = natural.Natural(self.initial_scale).init(parts, key)
        factors = tuple(jnp.zeros((self.rank, *m.shape), m.dtype) for m in law.mean)
        return Factored(law.mean, law.variance, factors), work

    def prior(self, parts: Filter, posterior: Factored) -> Factored:
        """P pi_{t-1}, matched by its moments; exact for the law that is kept."""
        move = kernels.affine(parts.kernel, posterior.mean, parts.weights())
        closed = natural.Natural(
            self.initial_scale, self.level_scale, bound=self.bound, level_bound=self.level_bound
        )
        old = posterior.variance
        moved = closed.displaced(parts, natural.Moments(posterior.mean, old), move)
        kept = [
            a * v / jnp.maximum(new, TINY)
            for a, v, new in zip(move.memory, old, moved.variance, strict=True)
        ]
        lost = [  # q v / v- with q = v- - a^2 v, the jump within the bounds
            v * jnp.maximum(1.0 - a * k, 0.0)
            for a, v, k in zip(move.memory, old, kept, strict=True)
        ]
        loose = _products(posterior.factors, posterior.factors, lost)
        root = jnp.linalg.cholesky(loose + jnp.eye(self.rank, dtype=loose.dtype))
        inverse = jax.scipy.linalg.solve_triangular(
            root, jnp.eye(self.rank, dtype=root.dtype), lower=True
        )
        factors = [
            jnp.tensordot(inverse, k[None] * w, 1)
            for k, w in zip(kept, posterior.factors, strict=True)
        ]
        return Factored(moved.mean, moved.variance, tuple(factors))

    def start(self, parts: Filter, state: State) -> Factored:
        """The old law: nothing is searched for."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Factored, start: Factored, state: State, batch: Batch
    ) -> Corrected:
        """V C_t by all rows, lot by lot; the network is made linear anew for each lot."""
        likelihood = parts.given(state.noise)

        def one(carry: tuple[Factored, Any], lot: Batch) -> tuple[tuple[Factored, Any], Outlook]:
            law, outlook = self._taken(parts, likelihood, carry[0], lot)
            return (law, likelihoods.learned(parts.likelihood, carry[1], outlook, lot)), outlook

        rows = batch.x.shape[0]
        joint = min(self.joint, rows, max(1, natural.at_once(parts, batch.x) // FEWER))
        if rows <= joint:
            (law, noise), outlook = one((prior, state.noise), batch)
            return Corrected(law, (), noise, outlook)
        (law, noise), _ = jax.lax.scan(one, (prior, state.noise), natural.cut(batch, joint))
        return Corrected(law, (), noise, self.outlook(parts, prior, batch.x))

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Outlook
    ) -> Info:
        """How surprising the rows were, and how wide the law is."""
        likelihood = parts.given(before.noise)
        law, outputs = likelihood.predictive(*notes)
        logs = law.log_prob(outputs, batch.y)
        deviations = jnp.concatenate([jnp.sqrt(v).ravel() for v in variances(after.posterior)])
        return Info(
            finite=_tree.all_finite((after.posterior, after.noise)),
            surprise=jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            mean_scale=jnp.mean(deviations),
            expected=prediction.from_outlook(likelihood, notes, 0.95),
            outlook=notes,
        )

    def rest(self, parts: Filter, posterior: Factored) -> Factored:
        """The prior itself."""
        return self.prior(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """The linearised predictive; it has no draws."""
        outlook = self.outlook(parts, state.posterior, x)
        return prediction.from_outlook(parts.given(state.noise), outlook, question.level)

    def outlook(self, parts: Filter, law: Factored, x: Float[Array, "rows *x"]) -> Outlook:
        """The outputs at the mean and the share of J S J', row by row."""
        said = _inside(law)

        def one(row: Array) -> Outlook:
            outputs, leaves = natural.linearised(parts, law.mean, row[None])
            return Outlook(outputs[0], self.spread * _spread(law, said, leaves)[0])

        if len(x) == 1:
            return jax.tree.map(lambda a: a[None], one(x[0]))
        return jax.lax.map(one, x, batch_size=min(16, natural.at_once(parts, x)))

    def _taken(
        self, parts: Filter, likelihood: Likelihood, law: Factored, lot: Batch
    ) -> tuple[Factored, Outlook]:
        """The correction by the rows of one lot together, and what was expected of them.

        With G = W' diag(v) W, W now with the rows' columns, the mean moves by -v W (I + G)^-1 c,
        c standing at those columns; the vectors of G turn W into the directions that are kept and
        the others.
        """
        outputs, leaves = natural.linearised(parts, law.mean, lot.x)
        spread = self.spread * _spread(law, _inside(law), leaves)
        roots, residuals = jax.vmap(likelihood.curvature)(outputs, lot.y)
        sized = jnp.sqrt(lot.weight)
        roots, residuals = sized[:, None, None] * roots, (sized[:, None] * residuals).reshape(-1)
        pairs = zip(law.factors, leaves, strict=True)
        whole = [jnp.concatenate([w, _columns(j, roots, w)]) for w, j in pairs]
        said, turn = jnp.linalg.eigh(_products(whole, whole, law.variance))
        said = jnp.maximum(said, 0.0)
        step = turn @ (turn[self.rank :].T @ residuals / (1.0 + said))
        mean, variance, factors = [], [], []
        for m, v, w in zip(law.mean, law.variance, whole, strict=True):
            turned = jnp.tensordot(turn.T, w, 1)  # what says most comes last
            mean.append(m - v * jnp.tensordot(step, w, 1))
            variance.append(v / (1.0 + v * jnp.sum(turned[: -self.rank] ** 2, axis=0)))
            factors.append(turned[-self.rank :])
        return Factored(tuple(mean), tuple(variance), tuple(factors)), Outlook(outputs, spread)


def variances(law: Factored) -> list[Array]:
    """The variance of each weight, leaf by leaf."""
    inverse = _inside(law)
    pairs = zip(law.variance, law.factors, strict=True)
    return [v - v**2 * jnp.sum(jnp.tensordot(inverse, w, 1) ** 2, axis=0) for v, w in pairs]


def _inside(law: Factored) -> Float[Array, "rank rank"]:
    """R with R' R = (I + W' diag(v) W)^-1, the middle of Woodbury's formula."""
    loose = _products(law.factors, law.factors, law.variance)
    one = jnp.eye(len(loose), dtype=loose.dtype)
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(loose + one), one, lower=True)


def _spread(
    law: Factored, inside: Array, jacobian: tuple[Jacobian, ...]
) -> Float[Array, "rows out"]:
    """The variance of the outputs: J diag(v) J' less what W says."""
    parts = list(zip(jacobian, law.variance, law.factors, strict=True))
    free = sum(jacobians.variances(j, v) for j, v, _ in parts)
    through = sum(jax.vmap(jacobians.pushed, (None, 0))(j, v[None] * w) for j, v, w in parts)
    known = jnp.sum(jnp.tensordot(inside, through, 1) ** 2, axis=0)
    return jnp.maximum(free - known, 0.0)


def _products(left: Any, right: Any, weights: Any) -> Float[Array, "columns columns"]:
    """W' diag(weights) W over all leaves."""
    return sum(
        (a * v[None]).reshape(len(a), -1) @ b.reshape(len(b), -1).T
        for a, b, v in zip(left, right, weights, strict=True)
    )


def _columns(jacobian: Any, roots: Array, like: Array) -> Array:
    """The columns J' L of rows together, each shaped like the leaf."""
    if isinstance(jacobian, Outer):
        pulled = jnp.einsum("nka,nko->nao", roots, jacobian.pulled)
        found = jnp.einsum("nao,ni->naoi", pulled, jacobian.inputs)
    else:
        flat = jacobian.reshape(*jacobian.shape[:2], -1)
        found = jnp.einsum("nka,nkp->nap", roots, flat)
    return found.reshape(-1, *like.shape[1:])
