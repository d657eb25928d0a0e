"""A long short-term memory that reads the rows of a time step as one sequence, in their order.

What it has read is kept: `predict` takes each row of x as the next one after the last row of the
last time step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from hmnn import _check, _tree
from hmnn._types import Batch, Key, Number, Scalar, Weights
from hmnn.core import kernels, objective, prediction
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.likelihoods import Likelihood
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections import point
from hmnn.core.projections.point import OneNetwork
from hmnn.methods import arguments
from hmnn.methods.method import Method
from hmnn.methods.variational import Optimiser, build
from hmnn.networks import Network

Memories = list[tuple[Array, Array]]
"""Hidden and cell state of each layer."""


class Stack(eqx.Module):
    """Layers of cells with a linear read-out."""

    cells: list[eqx.nn.LSTMCell]
    readout: eqx.nn.Linear

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, key: Key) -> None:
        """Cells of these widths, one on top of the other."""
        keys = jax.random.split(key, len(hidden) + 1)
        pairs = zip((inputs, *hidden[:-1]), hidden, keys[:-1], strict=True)
        self.cells = [eqx.nn.LSTMCell(i, o, key=k) for i, o, k in pairs]
        self.readout = eqx.nn.Linear(hidden[-1], outputs, key=keys[-1])

    def start(self) -> Memories:
        """Nothing read."""
        return [(jnp.zeros(c.hidden_size, c.weight_hh.dtype),) * 2 for c in self.cells]

    def read(
        self, memories: Memories, x: Float[Array, "rows inputs"], rows: Scalar
    ) -> tuple[Memories, Array]:
        """Read rows in their order: the memories after `rows` of them, and all outputs."""
        after = []
        for cell, memory in zip(self.cells, memories, strict=True):
            memory, x = _layer(cell, memory, x, rows)
            after.append(memory)
        return after, jax.vmap(self.readout)(x)


def _layer(
    cell: eqx.nn.LSTMCell, memory: tuple[Array, Array], x: Array, rows: Scalar
) -> tuple[Any, Array]:
    """One cell along the rows; what it does with its input alone is done for all at once."""
    driven = x @ cell.weight_ih.T
    driven += jnp.broadcast_to(jnp.asarray(cell.bias), driven.shape)

    def one(
        memory: tuple[Array, Array], row: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        i, drive = row
        write, forget, new, output = jnp.split(drive + cell.weight_hh @ memory[0], 4)
        inside = jax.nn.sigmoid(forget) * memory[1] + jax.nn.sigmoid(write) * jnp.tanh(new)
        after = jax.nn.sigmoid(output) * jnp.tanh(inside), inside
        return jax.tree.map(lambda a, b: jnp.where(i < rows, a, b), after, memory), after[0]

    return jax.lax.scan(one, memory, (jnp.arange(len(x)), driven))


def lstm(
    inputs: Number,
    outputs: Number,
    likelihood: str | Likelihood,
    *,
    hidden: tuple[int, ...] = (500, 500, 500),
    optimiser: Optimiser = "adam",
    learning_rate: Number = 1e-3,
    epochs: Number = 5,
) -> Method:
    """A stack of LSTM layers, warm started, trained on the rows of a time step as one sequence.

    It has no posterior.

    Args:
        inputs: columns of x.
        outputs: outputs of the read-out.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        hidden: the width of each layer.
        optimiser: "adam", "sgd" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the sequence of a time step.
    """
    if not isinstance(hidden, tuple | list) or not hidden:
        raise _check.fail("hidden", "a tuple of widths such as (500, 500, 500)", hidden)
    widths = tuple(_check.count("hidden", width) for width in hidden)
    network, stack = _network(
        _check.count("inputs", inputs), widths, _check.count("outputs", outputs)
    )
    projection = Reading(
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
        optimiser=arguments.optimiser(optimiser),
        stack=stack,
    )
    return build(network, likelihood, kernels.static(), projection=projection)


class Read(NamedTuple):
    """What is carried beside the weights."""

    optimiser: PyTree
    memories: Memories
    """After the last row that was read."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reading(OneNetwork):
    """Train the stack on the rows of a time step as one sequence."""

    learning_rate: Scalar
    epochs: Scalar
    optimiser: Any = field(metadata={"static": True})
    stack: Callable[[Weights], Stack] = field(metadata={"static": True})
    """The stack with these weights."""

    def init(self, parts: Filter, key: Key) -> tuple[Weights, Read]:
        """The stack's own initial weights, nothing read."""
        weights = parts.first_weights(key)
        return weights, Read(
            self.optimiser(self.learning_rate).init(weights), self.stack(weights).start()
        )

    def cut(self, batch: Batch, rows: int) -> Batch:
        """Less padding: a padded row costs as much as a real one."""
        eighth = max(1, batch.x.shape[0] // 8)
        kept = -(-rows // eighth) * eighth
        return Batch(*(part[:kept] for part in batch))

    def correct(
        self, parts: Filter, prior: Weights, start: Weights, state: State, batch: Batch
    ) -> Corrected:
        """Epochs over the sequence, then read it once more."""

        def loss(weights: Weights, i: Array) -> Array:
            return objective.misfit(parts.apply, parts.likelihood, weights, batch=batch)

        optimiser = self.optimiser(self.learning_rate)
        weights, memory = point.descend(loss, optimiser, start, state.work.optimiser, self.epochs)
        stack = self.stack(weights)
        memories, _ = stack.read(stack.start(), batch.x, batch.rows)
        return Corrected(weights, Read(memory, memories), state.noise)

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: PyTree
    ) -> Info:
        """-log g after the step."""
        misfit = objective.misfit(parts.apply, parts.likelihood, after.posterior, batch=batch)
        return Info(_tree.all_finite((after.posterior, after.work.optimiser, misfit)), misfit)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """Each row as the next one after the last that was read."""
        stack = self.stack(state.posterior)
        outputs = jax.vmap(lambda row: stack.read(state.work.memories, row[None], 1)[1][0])(x)
        nothing = question._replace(point="mean", samples=0)
        return prediction.from_draws(parts.given(state.noise), nothing, outputs, lambda i: i)


@cache
def _network(
    inputs: int, hidden: tuple[int, ...], outputs: int
) -> tuple[Network, Callable[[Weights], Stack]]:
    """The stack as a network that reads from the start, and as a module.

    Made once, so it compiles once.
    """
    build = partial(Stack, inputs, hidden, outputs)
    _, rest = eqx.partition(eqx.filter_eval_shape(build, jax.random.key(0)), _is_shape)

    def stack(weights: Weights) -> Stack:
        return eqx.combine(weights, rest)

    def apply(weights: Weights, x: Array) -> Array:
        return stack(weights).read(stack(weights).start(), x, len(x))[1]

    return Network(lambda key: eqx.filter(build(key), eqx.is_inexact_array), apply), stack


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
