"""V by descent for a law that is kept by its moments, as the closed form keeps it.

One state, either projection.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from hmnn import _tree
from hmnn._types import Batch, Key
from hmnn.core import filtering, likelihoods, mixtures, objective
from hmnn.core.cpu import layout
from hmnn.core.families import Posterior
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.mixtures import Mixture
from hmnn.core.prediction import Outlook, Prediction, Question
from hmnn.core.projections.descent import Descent, Work
from hmnn.core.projections.natural import Moments, Natural


class _Begun(NamedTuple):
    """The old law as a member of the family, and where the descent begins."""

    posterior: Posterior
    theta: Posterior


class _Notes(NamedTuple):
    outlook: Outlook
    undone: Int[Array, ""]
    diverged: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MatchedDescent:
    """Descend from the member of the family with the law's moments.

    Keep the moments of where that ends.
    """

    staged: ClassVar[bool] = True
    """A step is compiled in several programs, which together take less time to compile than one."""

    natural: Natural
    descent: Descent

    @property
    def patience(self) -> int:
        """The descent's."""
        return self.descent.patience

    def init(self, parts: Filter, key: Key) -> tuple[Moments, tuple[()]]:
        """As the closed form begins."""
        return self.natural.init(parts, key)

    def prior(self, parts: Filter, posterior: Moments) -> Moments:
        """As in the closed form: what the rows are expected to be before they are learned."""
        return self.natural.prior(parts, posterior)

    def start(self, parts: Filter, state: State) -> _Begun:
        """The old law as a member of the family.

        Before any data, the descent's own lambda_0 and first guess.
        """
        inner = replace(parts, projection=self.descent)
        old, first = member(parts, state.posterior), self.descent.init(inner, state.key)[0]
        theta = self.descent.start(inner, state._replace(posterior=old))
        fresh = state.seen == 0
        return _Begun(jax.tree.map(lambda a, b: jnp.where(fresh, a, b), first, old), theta)

    def correct(
        self, parts: Filter, prior: Moments, start: _Begun, state: State, batch: Batch
    ) -> Corrected:
        """V C_t by descent, and the noise that the rows speak of."""
        inner = replace(parts, projection=self.descent)
        before = state._replace(posterior=start.posterior, work=Work((), jnp.zeros((), jnp.int32)))
        found, undone = layout.as_it_lies(filtering.update)(inner, before, batch, start.theta)
        law, outlook = moments(parts, found.posterior), self.natural.outlook(parts, prior, batch.x)
        # What the first guess missed says nothing of the noise; what is left after learning does.
        told = jax.lax.cond(
            state.seen == 0, lambda: self.natural.outlook(parts, law, batch.x), lambda: outlook
        )
        noise = likelihoods.learned(parts.likelihood, state.noise, told, batch)
        notes = _Notes(outlook, undone, found.work.rejected >= self.descent.patience)
        return Corrected(law, (), noise, notes, found.seen > state.seen)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: _Notes
    ) -> Info:
        """As the closed form reports, and how many epochs were undone."""
        info = self.natural.report(parts, before, after, batch, notes.outlook)
        finite = info.finite & (notes.undone == 0)
        return info._replace(finite=finite, rejected=notes.undone, diverged=notes.diverged)

    def rest(self, parts: Filter, posterior: Moments) -> Moments:
        """As in the closed form."""
        return self.natural.rest(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """As in the closed form."""
        return self.natural.predict(parts, state, x, question)


def moments(parts: Filter, posterior: Posterior) -> Moments:
    """The mean and the variance of every weight, in the order of the leaves."""
    laws = objective.mixture(posterior, parts.family)
    mean = jax.tree.map(lambda _, law: mixtures.mean(law), posterior.location, laws)
    variance = jax.tree.map(
        lambda m, law: mixtures.variance(law) * jnp.ones_like(m), posterior.location, laws
    )
    return Moments(tuple(jax.tree.leaves(mean)), tuple(jax.tree.leaves(variance)))


def member(parts: Filter, law: Moments) -> Posterior:
    """The members of the families with these moments."""
    tree = _tree.structure(parts.weights())
    means, variances = tree.unflatten(law.mean), tree.unflatten(law.variance)
    matched = jax.tree.map(
        lambda m, v, family: family.match(Mixture((m,), (1.0,), (v,), (1.0,))),
        means,
        variances,
        parts.family,
    )
    return _tree.unzip(means, matched, Posterior)
