"""No law at all: projections onto one network, for the methods that keep no posterior."""

from typing import Any

import jax
import optax
from jaxtyping import Array, PyTree

from hmnn._types import Scalar, Weights
from hmnn.core import prediction
from hmnn.core.filtering import Filter, State
from hmnn.core.prediction import Prediction, Question


class OneNetwork:
    """What such projections share.

    The law is the weights themselves, and time alone changes nothing.
    """

    def prior(self, parts: Filter, posterior: PyTree) -> PyTree:
        """The weights as they were."""
        return posterior

    def start(self, parts: Filter, state: State) -> PyTree:
        """The weights as they were."""
        return state.posterior

    def rest(self, parts: Filter, posterior: PyTree) -> PyTree:
        """The weights as they were."""
        return posterior

    def network(self, parts: Filter, posterior: PyTree, point: str) -> Weights:
        """The weights to predict with."""
        return posterior

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """One network has no posterior: no draws, and no interval."""
        weights = self.network(parts, state.posterior, question.point)
        nothing = question._replace(point="mean", samples=0)
        return prediction.from_draws(
            parts.given(state.noise), nothing, parts.apply(weights, x), lambda i: i
        )


def descend(
    loss: Any, optimiser: Any, weights: Weights, memory: PyTree, epochs: Scalar
) -> tuple[Weights, PyTree]:
    """Minimise loss(weights, epoch) in one compiled loop, from the optimiser's old state."""

    def epoch(i: Array, carry: tuple[Weights, PyTree]) -> tuple[Weights, PyTree]:
        weights, memory = carry
        return updated(optimiser, jax.grad(loss)(weights, i), weights, memory)

    return jax.lax.fori_loop(0, epochs, epoch, (weights, memory))


def updated(
    optimiser: Any, gradient: Weights, weights: Weights, memory: PyTree
) -> tuple[Weights, PyTree]:
    """One update by an optax optimiser."""
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        updates, memory = optimiser.update(gradient, memory, weights)
    return optax.apply_updates(weights, updates), memory
