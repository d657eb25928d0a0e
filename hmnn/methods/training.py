"""Plain gradient descent on all rows at once, for the methods that keep one network and no posterior."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn._types import Key, Scalar, Weights


class State(NamedTuple):
    """All that the next time step needs."""

    weights: Weights
    optimiser: PyTree
    key: Key
    t: Int[Array, ""]


class Info(NamedTuple):
    """What a person wants to see of a time step."""

    misfit: Float[Array, ""]
    """-log g after the step, where the method predicts."""
    finite: Bool[Array, ""]


def descend(
    loss: Callable[[Weights, Array], Array], optimiser: Any, weights: Weights, memory: PyTree, epochs: Scalar
) -> tuple[Weights, PyTree]:
    """Minimise loss(weights, epoch) in one compiled loop; the optimiser's memory goes on from the last time step."""

    def epoch(i: Array, carry: tuple[Weights, PyTree]) -> tuple[Weights, PyTree]:
        weights, memory = carry
        gradient = jax.grad(loss)(weights, i)
        with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
            updates, memory = optimiser.update(gradient, memory, weights)
        return optax.apply_updates(weights, updates), memory

    return jax.lax.fori_loop(0, epochs, epoch, (weights, memory))


def advance(state: Any) -> Any:
    """A time step without data: nothing is learnt."""
    return state._replace(t=state.t + 1)
