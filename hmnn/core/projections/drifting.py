"""One closed-form filter that learns how fast its weights move, layer by layer.

P gives the weights of layer l the variance q_l in a time step, and the outputs' biases some more.
The logs of these variances are the numbers eta. A row says of eta what the filter would have said
of it, had eta been a little different all along: the derivatives of the law's moments in eta (the
tangents) are pushed forward through P and C as the law is, and eta follows the gradient of the log
predictive of the row (recursive maximum likelihood). docs/natural.md says more.
"""

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar, Weights
from hmnn.core import jacobians, likelihoods, prediction
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.kernels import Affine
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Outlook, Prediction, Question
from hmnn.core.projections import natural
from hmnn.core.projections.natural import Moments, Natural

STILL = 0.12
"""Without data the variance of every weight tends to this."""
LEAST, MOST, MOST_LEVEL = 1e-9, 1e-2, 1.0
"""A layer's variance of a step lies between the first two; that of the level may be larger."""
REMEMBERED = 1000.0
"""Gradients are divided by the root of their mean square over about so many rows."""


class Drift(NamedTuple):
    """The law of the weights, and what has been learned of how they move."""

    law: Moments
    tangents: Moments
    """The derivatives of the law in each of the numbers, which are their first axis."""
    numbers: Float[Array, " numbers"]
    """eta: the log variance of a step of each layer's weights, and last of the level's."""
    square: Float[Array, " numbers"]
    """The mean square of the gradients."""
    steps: Int[Array, ""]
    """How often the numbers have moved."""


class Notes(NamedTuple):
    """For the report."""

    outlook: Outlook
    gradient: Float[Array, " numbers"]
    """The derivatives of the log predictive of the latest rows."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Drifting:
    """The closed-form projection, and the kernel's numbers learned; all are traced."""

    natural: Natural = field(default_factory=Natural)
    """Its `level_scale` is where the learning of the level begins."""
    jump: Scalar = 2.45e-5
    """The variance of a step of every weight, where learning begins."""
    rate: Scalar = 0.02
    """By how much a log variance changes with a row of usual weight; 0: nothing is learned."""

    def init(self, parts: Filter, key: Key) -> tuple[Drift, tuple[()]]:
        """pi_0, which does not depend on how weights move."""
        law, work = self.natural.init(parts, key)
        kind, layers = law.mean[0].dtype, max(layers_of(parts.weights())) + 1
        first = jnp.maximum(jnp.asarray(self.jump, kind), LEAST)
        level = jnp.maximum(jnp.asarray(self.natural.level_scale, kind) ** 2, LEAST)
        numbers = jnp.log(jnp.append(jnp.broadcast_to(first, (layers,)), level))
        zeros = jax.tree.map(lambda a: jnp.zeros((layers + 1, *a.shape), a.dtype), law)
        return Drift(law, zeros, numbers, jnp.zeros_like(numbers), jnp.zeros((), jnp.int32)), work

    def prior(self, parts: Filter, posterior: Drift) -> Drift:
        """P pi_{t-1} with the numbers as they are, and its derivatives in them."""

        def move(law: Moments, numbers: Array) -> Moments:
            level = jnp.exp(0.5 * numbers[-1])
            still = replace(self.natural, level_scale=level)
            return still.displaced(parts, law, self._move(parts, law, numbers))

        law, push = jax.linearize(move, posterior.law, posterior.numbers)
        each = jnp.eye(len(posterior.numbers), dtype=posterior.numbers.dtype)
        return posterior._replace(law=law, tangents=jax.vmap(push)(posterior.tangents, each))

    def start(self, parts: Filter, state: State) -> Drift:
        """The old law: nothing is searched for."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Drift, start: Drift, state: State, batch: Batch
    ) -> Corrected:
        """V C_t as in the closed form, lot by lot; after each lot the numbers move."""
        likelihood = parts.given(state.noise)

        def one(carry: tuple[Drift, Any], lot: Batch) -> tuple[tuple[Drift, Any], Notes]:
            drift, notes = self._taken(parts, likelihood, carry[0], lot)
            noise = likelihoods.learned(parts.likelihood, carry[1], notes.outlook, lot)
            return (drift, noise), notes

        rows = batch.x.shape[0]
        joint = min(self.natural.joint, rows, natural.at_once(parts, batch.x))
        if rows <= joint:
            (drift, noise), notes = one((prior, state.noise), batch)
            return Corrected(drift, (), noise, notes.outlook)
        (drift, noise), _ = jax.lax.scan(one, (prior, state.noise), natural.cut(batch, joint))
        return Corrected(drift, (), noise, self.outlook(parts, prior, batch.x))

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Outlook
    ) -> Info:
        """As the closed form reports; a kernel that is learned has no big jumps."""
        law, outputs = parts.given(before.noise).predictive(*notes)
        logs = law.log_prob(outputs, batch.y)
        deviations = jnp.concatenate([jnp.sqrt(v).ravel() for v in after.posterior.law.variance])
        return Info(
            finite=_tree.all_finite((after.posterior, after.noise)),
            surprise=jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            mean_scale=jnp.mean(deviations),
            expected=prediction.from_outlook(parts.given(before.noise), notes, 0.95),
            outlook=notes,
        )

    def rest(self, parts: Filter, posterior: Drift) -> Drift:
        """The prior itself."""
        return self.prior(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """As the closed form predicts."""
        within = state._replace(posterior=state.posterior.law)
        return self.natural.predict(parts, within, x, question)

    def outlook(self, parts: Filter, law: Drift, x: Float[Array, "rows *x"]) -> Outlook:
        """As in the closed form."""
        return self.natural.outlook(parts, law.law, x)

    def begun(self, fresh: Drift, law: Moments) -> Drift:
        """A law that was learned without regard to time; nothing is known of how it drifts."""
        return fresh._replace(law=law)

    def _move(self, parts: Filter, law: Moments, numbers: Array) -> Affine:
        """The kernel's two numbers of each leaf: the mean stays, variances tend to `STILL`."""
        jumps = [jnp.exp(numbers[layer]) for layer in layers_of(parts.weights())]
        memory = tuple(jnp.sqrt(1.0 - q / STILL) for q in jumps)
        return Affine(law.mean, memory, tuple(jumps))

    def _taken(
        self, parts: Filter, likelihood: Likelihood, drift: Drift, lot: Batch
    ) -> tuple[Drift, Notes]:
        """The correction by the rows of one lot together, and what was expected of them.

        The network and the curvature are those at the mean, and their own derivatives in the
        numbers are left out: with them the tangents of a network diverge.
        """
        before, size = drift.law, natural.of_last(parts.weights())
        outputs, leaves = natural.linearised(parts, before.mean, lot.x)
        roots, residuals = jax.vmap(likelihood.curvature)(outputs, lot.y)
        sized = jnp.sqrt(lot.weight)
        roots, residuals = sized[:, None, None] * roots, sized[:, None] * residuals

        def learned(law: Moments) -> tuple[Moments, Array, Array]:
            pairs = zip(leaves, law.mean, before.mean, strict=True)
            change = sum(jacobians.pushed(j, m - old) for j, m, old in pairs)
            seen = natural.Seen(leaves, roots, residuals + jnp.einsum("nka,nk->na", roots, change))
            after, spread = natural.gained(law, seen, size)
            told, softened = likelihood.predictive(outputs + change, self.natural.spread * spread)
            logs = told.log_prob(softened, lot.y)
            return after, jnp.sum(lot.weight * logs), self.natural.spread * spread

        (law, _, spread), push = jax.linearize(learned, before)
        tangents, gradient, _ = jax.vmap(push)(drift.tangents)
        drift = self._followed(drift._replace(law=law, tangents=tangents), gradient, lot)
        return drift, Notes(Outlook(outputs, spread), gradient)

    def _followed(self, drift: Drift, gradient: Array, lot: Batch) -> Drift:
        """The numbers after a step along the gradient, in units of its usual size."""
        steps = drift.steps + 1
        share = jnp.maximum(1.0 / steps.astype(gradient.dtype), 1.0 / REMEMBERED)
        square = drift.square + share * (gradient**2 - drift.square)
        size = jnp.sqrt(jnp.maximum(square, jnp.finfo(square.dtype).tiny))
        most = jnp.full_like(gradient, jnp.log(MOST)).at[-1].set(jnp.log(MOST_LEVEL))
        numbers = jnp.clip(drift.numbers + self.rate * gradient / size, jnp.log(LEAST), most)
        some = jnp.any(lot.weight > 0)
        told = (numbers, square, steps), (drift.numbers, drift.square, drift.steps)
        numbers, square, steps = (jnp.where(some, a, b) for a, b in zip(*told, strict=True))
        return drift._replace(numbers=numbers, square=square, steps=steps)


def layers_of(weights: Weights) -> list[int]:
    """The number of each leaf's layer; leaves that lie side by side in the tree are one layer."""
    paths = [path[:-1] for path, _ in jax.tree_util.tree_leaves_with_path(weights)]
    return [i for i, (_, leaves) in enumerate(groupby(paths)) for _ in leaves]


def jumps(parts: Filter, drift: Drift) -> tuple[list[float], float, float]:
    """Deviations of a step: of each layer's weights, of the level beside them, and of all weights.

    The last one is the root of their mean square.
    """
    variances = np.exp(np.asarray(drift.numbers, np.float64)).reshape(-1)
    sizes = [leaf.size for leaf in jax.tree.leaves(parts.weights())]
    of_each = variances[np.array(layers_of(parts.weights()))]
    mean = np.sqrt(np.average(of_each, weights=sizes))
    return np.sqrt(variances[:-1]).tolist(), float(np.sqrt(variances[-1])), float(mean)
