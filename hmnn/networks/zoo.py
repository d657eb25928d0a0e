"""Ready-made networks, all Equinox modules. The same arguments give the same object, so it compiles once."""

from collections.abc import Callable
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from hmnn import _check
from hmnn._types import Key
from hmnn.networks.adapters import Network, from_equinox


@cache
def linear(inputs: int, outputs: int = 1, bias: bool = True) -> Network:
    """A linear map: logistic regression, linear regression and their kin."""
    _check.count("inputs", inputs), _check.count("outputs", outputs)
    return from_equinox(lambda key: eqx.nn.Linear(inputs, outputs, use_bias=bias, key=key))


@cache
def mlp(
    inputs: int, hidden: tuple[int, ...], outputs: int, activation: Callable[[Array], Array] = jax.nn.relu
) -> Network:
    """A multilayer perceptron: `mlp(784, (400, 400), 10)`."""
    sizes = [_check.count("inputs", inputs)]
    sizes += [_check.count("hidden", width) for width in hidden]
    sizes += [_check.count("outputs", outputs)]
    return from_equinox(lambda key: _Layers(sizes, activation, key))


@cache
def cnn(channels: int, side: int, outputs: int, width: int = 8) -> Network:
    """A small convolutional network for images of shape (channels, side, side)."""
    for name, value in (("channels", channels), ("side", side), ("outputs", outputs), ("width", width)):
        _check.count(name, value)
    _check.count("side", side, least=4)

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
def rnn(inputs: int, width: int, outputs: int) -> Network:
    """A gated recurrent network over sequences of shape (time, inputs), read out at their end."""
    for name, value in (("inputs", inputs), ("width", width), ("outputs", outputs)):
        _check.count(name, value)
    return from_equinox(lambda key: _Recurrent(inputs, width, outputs, key))


class _Layers(eqx.Module):
    """Linear layers with an activation between them; unlike eqx.nn.MLP the widths may differ."""

    layers: list[eqx.nn.Linear]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(self, sizes: list[int], activation: Callable[[Array], Array], key: Key) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(i, o, key=k) for i, o, k in pairs]
        self.activation = activation

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


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
