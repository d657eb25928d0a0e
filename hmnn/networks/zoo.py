"""Ready-made networks. The same arguments give the same object, so that it compiles once.

Each name is a function that checks its arguments, and a cached one that builds.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from hmnn import _check
from hmnn._types import Key, Number, Outer
from hmnn.networks.adapters import Network, from_equinox


def linear(inputs: Number, outputs: Number = 1, bias: Any = True) -> Network:
    """A linear map: logistic regression, linear regression and their kin."""
    if not isinstance(bias, bool):
        raise _check.fail("bias", "True or False", bias)
    return _linear(_check.count("inputs", inputs), _check.count("outputs", outputs), bias)


def mlp(inputs: Number, hidden: Any, outputs: Number, activation: Any = jax.nn.relu) -> Network:
    """A multilayer perceptron: `mlp(784, (400, 400), 10)`."""
    if not isinstance(hidden, tuple | list):
        raise _check.fail("hidden", "a tuple of widths such as (400, 400)", hidden)
    if not callable(activation):
        raise _check.fail("activation", "a function such as jax.nn.relu", activation)
    first, last = _check.count("inputs", inputs), _check.count("outputs", outputs)
    return _mlp((first, *(_check.count("hidden", width) for width in hidden), last), activation)


def cnn(channels: Number, side: Number, outputs: Number, width: Number = 8) -> Network:
    """A small convolutional network for images of shape (channels, side, side)."""
    return _cnn(
        _check.count("channels", channels),
        _check.count("side", side, least=4),
        _check.count("outputs", outputs),
        _check.count("width", width),
    )


def rnn(inputs: Number, width: Number, outputs: Number) -> Network:
    """A gated recurrent network over sequences of shape (time, inputs), read out at their end."""
    return _rnn(
        _check.count("inputs", inputs),
        _check.count("width", width),
        _check.count("outputs", outputs),
    )


@cache
def _linear(inputs: int, outputs: int, bias: bool) -> Network:
    def build(key: Key) -> _Affine:
        return _Affine(inputs, outputs, bias, key)

    return from_equinox(build)


@cache
def _mlp(sizes: tuple[int, ...], activation: Callable[[Array], Array]) -> Network:
    return from_equinox(lambda key: _Layers(sizes, activation, key))


@cache
def _cnn(channels: int, side: int, outputs: int, width: int) -> Network:
    def build(key: Key) -> eqx.nn.Sequential:
        first, second, last = jax.random.split(key, 3)
        return eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(channels, width, 3, stride=2, padding=1, key=first),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, key=second),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(2 * width * (-(-side // 4)) ** 2, outputs, key=last),
            ]
        )

    return from_equinox(build)


@cache
def _rnn(inputs: int, width: int, outputs: int) -> Network:
    return from_equinox(lambda key: _Recurrent(inputs, width, outputs, key))


class _Affine(eqx.nn.Linear):
    """A linear map that tells its own derivatives."""

    def __init__(self, inputs: int, outputs: int, bias: bool, key: Key) -> None:
        super().__init__(inputs, outputs, use_bias=bias, key=key)

    def derivatives(self, x: Array) -> tuple[Array, tuple[Array | Outer, ...]]:
        """The outputs of a row, and the derivatives in matrix and biases."""
        outputs = self(x)
        return outputs, _of_layer(self, jnp.eye(outputs.size, dtype=outputs.dtype), x)


class _Layers(eqx.Module):
    """Linear layers with an activation between them; unlike eqx.nn.MLP the widths may differ."""

    layers: list[eqx.nn.Linear]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self, sizes: tuple[int, ...], activation: Callable[[Array], Array], key: Key
    ) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(i, o, key=k) for i, o, k in pairs]
        self.activation = activation

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)

    def derivatives(self, x: Array) -> tuple[Array, tuple[Array | Outer, ...]]:
        """The outputs of a row, and the derivatives in every matrix and its biases."""
        inputs, pulls = [x], []
        for layer in self.layers[:-1]:
            x, pull = jax.vjp(self.activation, layer(x))
            inputs.append(x)
            pulls.append(pull)
        outputs = self.layers[-1](x)
        pulled = jnp.eye(outputs.size, dtype=outputs.dtype)
        found = [_of_layer(self.layers[-1], pulled, x)]
        for i in range(len(pulls) - 1, -1, -1):
            pulled = jax.vmap(pulls[i])(pulled @ self.layers[i + 1].weight)[0]
            found.append(_of_layer(self.layers[i], pulled, inputs[i]))
        return outputs, tuple(leaf for pair in reversed(found) for leaf in pair)


def _of_layer(layer: eqx.nn.Linear, pulled: Array, x: Array) -> tuple[Array | Outer, ...]:
    """The derivatives in a layer's matrix, and in its biases if it has any."""
    matrix = Outer(pulled, x)
    return (matrix,) if layer.bias is None else (matrix, pulled)


class _Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear

    def __init__(self, inputs: int, width: int, outputs: int, key: Key) -> None:
        first, last = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(inputs, width, key=first)
        self.readout = eqx.nn.Linear(width, outputs, key=last)

    def __call__(self, x: Array) -> Array:
        start = jnp.zeros(self.cell.hidden_size, x.dtype)
        end, _ = jax.lax.scan(lambda h, row: (self.cell(row, h), None), start, x)
        return self.readout(end)
