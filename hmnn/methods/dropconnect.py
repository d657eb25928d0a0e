"""Sequential DropConnect (Wan et al.).

One network, trained with weights dropped, used with gamma times them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from hmnn import _check, _tree
from hmnn._types import Batch, Key, Number, Scalar, Weights
from hmnn.core import families, kernels, noise, objective
from hmnn.core.cpu.hashing import hashed
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.likelihoods import Likelihood
from hmnn.core.projections import point
from hmnn.core.projections.point import OneNetwork
from hmnn.methods import arguments
from hmnn.methods.method import Method
from hmnn.methods.variational import Optimiser, build
from hmnn.networks import Network


def dropconnect(
    network: Network,
    likelihood: str | Likelihood,
    *,
    keep: Any = 0.8,
    keep_where: str | Callable[[str], bool] = "internal",
    optimiser: Optimiser = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
) -> Method:
    """Sequential DropConnect, warm started, on all rows of a time step at once.

    It has no posterior and no intervals.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        keep: gamma in (0, 1], the probability that a weight is kept; a number or a tree.
        keep_where: which weights may be dropped: one of `families.WHERE` or a test of the path.
        optimiser: "sgd", "adam" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step, with fresh masks in each.
    """
    projection = Dropping(
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
        optimiser=arguments.optimiser(optimiser),
    )
    return build(
        network,
        likelihood,
        kernels.static(),
        projection=projection,
        keep=keep,
        keep_where=keep_where,
    )


class Trained(NamedTuple):
    """A network; its weights have a name, as a user may call one of them `scale`."""

    weights: Weights


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dropping(OneNetwork):
    """Train one network while some of its weights are dropped."""

    learning_rate: Scalar
    epochs: Scalar
    optimiser: Any = field(metadata={"static": True})

    def init(self, parts: Filter, key: Key) -> tuple[Trained, PyTree]:
        """The network's own initial weights."""
        weights = parts.first_weights(key)
        return Trained(weights), self.optimiser(self.learning_rate).init(weights)

    def correct(
        self, parts: Filter, prior: Trained, start: Trained, state: State, batch: Batch
    ) -> Corrected:
        """Epochs on all rows, each with fresh masks."""
        key = jax.random.fold_in(state.key, state.t)

        def loss(weights: Weights, i: Array) -> Array:
            seeds = noise.words(jax.random.fold_in(key, i), weights)
            masks = hashed(seeds, i, weights, parts.family)
            dropped = jax.tree.map(_dropped, weights, parts.family, masks)
            return objective.misfit(parts.apply, parts.likelihood, dropped, batch=batch)

        optimiser = self.optimiser(self.learning_rate)
        weights, memory = point.descend(loss, optimiser, start.weights, state.work, self.epochs)
        return Corrected(Trained(weights), memory, state.noise)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: PyTree
    ) -> Info:
        """The misfit where the method predicts."""
        weights = self.network(parts, after.posterior, "mean")
        misfit = objective.misfit(parts.apply, parts.likelihood, weights, batch=batch)
        return Info(_tree.all_finite((after.posterior, after.work, misfit)), misfit)

    def network(self, parts: Filter, posterior: Trained, point: str) -> Weights:
        """gamma w; w itself if `point` is "location"."""
        if point == "location":
            return posterior.weights
        kept = posterior.weights, parts.family
        return jax.tree.map(lambda w, member: w if member.keep is None else member.keep * w, *kept)


def _dropped(weight: Array, family: families.Family, mask: families.Noise) -> Array:
    return weight if family.keep is None else jnp.where(jnp.asarray(mask.eta), weight, 0.0)
