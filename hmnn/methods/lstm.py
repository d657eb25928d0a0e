"""A long short-term memory (Equinox cells) that reads the rows of a time step as one sequence, in their order.

What it has read is kept: `predict` takes each row of x as the next one after the last row of the last time step.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from hmnn import _check, _tree
from hmnn._types import Key, Number, Scalar, Weights
from hmnn.core import objective
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.methods import door, parts, training
from hmnn.methods.base import Method
from hmnn.methods.training import Info
from hmnn.networks import Network

Memories = list[tuple[Array, Array]]
"""Hidden and cell state of each layer."""


class State(NamedTuple):
    """All that the next time step needs."""

    weights: Weights
    optimiser: PyTree
    memories: Memories
    """After the last row that was read."""
    key: Key
    t: Array


class Model(NamedTuple):
    """The numbers, which are traced."""

    likelihood: Likelihood
    learning_rate: Scalar
    epochs: Scalar


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

    def read(self, memories: Memories, x: Float[Array, "rows inputs"], rows: Scalar) -> tuple[Memories, Array]:
        """Read rows in their order: the memories after the first `rows` of them, and the outputs at all."""
        after = []
        for cell, memory in zip(self.cells, memories, strict=True):
            memory, x = _layer(cell, memory, x, rows)
            after.append(memory)
        return after, jax.vmap(self.readout)(x)


def _layer(cell: eqx.nn.LSTMCell, memory: tuple[Array, Array], x: Array, rows: Scalar) -> tuple[Any, Array]:
    """One cell along the rows; what it does with its input alone is done for all rows at once, which is faster."""
    driven = x @ cell.weight_ih.T
    driven += jnp.broadcast_to(jnp.asarray(cell.bias), driven.shape)

    def one(memory: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        i, drive = row
        write, forget, new, output = jnp.split(drive + cell.weight_hh @ memory[0], 4)
        inside = jax.nn.sigmoid(forget) * memory[1] + jax.nn.sigmoid(write) * jnp.tanh(new)
        after = jax.nn.sigmoid(output) * jnp.tanh(inside), inside
        return jax.tree.map(lambda a, b: jnp.where(i < rows, a, b), after, memory), after[0]

    return jax.lax.scan(one, memory, (jnp.arange(len(x)), driven))


class Plan(NamedTuple):
    """The parts that are compiled in."""

    network: Network
    stack: Callable[[Weights], Stack]
    """The stack with these weights."""
    optimiser: Any


def lstm(
    inputs: Number,
    outputs: Number,
    likelihood: Any,
    *,
    hidden: Any = (500, 500, 500),
    optimiser: Any = "adam",
    learning_rate: Number = 1e-3,
    epochs: Number = 5,
) -> Method:
    """A stack of LSTM layers, warm started, trained on the rows of a time step as one sequence; it has no posterior.

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
    network, stack = _network(_check.count("inputs", inputs), widths, _check.count("outputs", outputs))
    model = Model(
        likelihood=parts.likelihood(likelihood),
        learning_rate=_check.positive("learning_rate", learning_rate),
        epochs=_check.count("epochs", epochs),
    )
    plan = Plan(network, stack, parts.optimiser(optimiser))
    return door.method(
        network,
        model.likelihood,
        init=partial(_init, plan, model),
        step=lambda state, batch: _step(plan, model, state, _cut(batch)),
        advance=training.advance,
        predict=partial(_predict, plan, model),
    )


@cache
def _network(inputs: int, hidden: tuple[int, ...], outputs: int) -> tuple[Network, Callable[[Weights], Stack]]:
    """The stack as a network that reads from the start, and as a module; made once, so it compiles once."""
    build = partial(Stack, inputs, hidden, outputs)
    _, rest = eqx.partition(eqx.filter_eval_shape(build, jax.random.key(0)), _is_shape)

    def stack(weights: Weights) -> Stack:
        return eqx.combine(weights, rest)

    def apply(weights: Weights, x: Array) -> Array:
        return stack(weights).read(stack(weights).start(), x, len(x))[1]

    return Network(lambda key: eqx.filter(build(key), eqx.is_inexact_array), apply), stack


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _cut(batch: Batch) -> Batch:
    """Less padding: every padded row costs as much as a real one, and cannot be read beside another."""
    eighth = max(1, batch.x.shape[0] // 8)
    rows = -(-batch.rows // eighth) * eighth
    return Batch(batch.x[:rows], batch.y[:rows], batch.rows)


@partial(jax.jit, static_argnums=0)
def _init(plan: Plan, model: Model, key: Key) -> State:
    weights = plan.network.init(key)
    memory = plan.optimiser(model.learning_rate).init(weights)
    return State(weights, memory, plan.stack(weights).start(), key, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=0)
def _step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    def loss(weights: Weights, i: Array) -> Array:
        return objective.misfit(plan.network.apply, model.likelihood, weights, batch=batch)

    optimiser = plan.optimiser(model.learning_rate)
    weights, memory = training.descend(loss, optimiser, state.weights, state.optimiser, model.epochs)
    stack = plan.stack(weights)
    memories, _ = stack.read(stack.start(), batch.x, batch.rows)
    misfit = loss(weights, jnp.zeros((), jnp.int32))
    finite = _tree.all_finite((weights, memory, misfit))
    return State(weights, memory, memories, state.key, state.t + 1), Info(misfit, finite)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    stack = plan.stack(state.weights)
    outputs = jax.vmap(lambda row: stack.read(state.memories, row[None], 1)[1][0])(x)
    return Prediction(model.likelihood.mean(outputs))
