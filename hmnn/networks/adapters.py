"""Networks for the filter from an Equinox module, a Flax module, or two functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from hmnn import _check
from hmnn._types import Key, Outer, Weights

Derivatives = Callable[[Weights, Array], tuple[Array, tuple[Array | Outer, ...]]]


class Network(NamedTuple):
    """A pair of functions: init(key) -> weights and apply(weights, x) -> outputs, row by row."""

    init: Callable[[Key], Weights]
    apply: Callable[[Weights, Array], Array]

    @property
    def derivatives(self) -> Derivatives | None:
        """What the function `apply` may carry, for networks of dense layers.

        derivatives(weights, row) -> the outputs of one row, and for each leaf of the weights the
        derivatives in it, of a matrix as `Outer`. The last layer comes last, its matrix before its
        biases. None: they are found by differentiation.
        """
        return getattr(self.apply, "derivatives", None)


def from_functions(init: Any, apply: Any) -> Network:
    """Any pair of pure functions; every leaf of the weights must be a floating-point array."""
    for name, function in (("init", init), ("apply", apply)):
        if not callable(function):
            raise _check.fail(name, "a function", function)
    _check_weights(jax.eval_shape(init, jax.random.key(0)))
    return Network(init, apply)


def from_equinox(build: Any) -> Network:
    """An Equinox module, given as a function of a key that makes it.

    For example `from_equinox(lambda key: eqx.nn.MLP(..., key=key))`.
    Floating-point arrays are the weights; everything else is fixed. The module takes one row.
    """
    if not callable(build) or isinstance(build, eqx.Module):
        raise _check.fail("build", "a function of a key that makes the module", build)
    example = eqx.filter_eval_shape(build, jax.random.key(0))  # random numbers compile slowly
    if not callable(example):
        raise _check.fail("build", "a function of a key that makes a callable module", example)
    weights, rest = eqx.partition(example, _is_weight)
    _check_weights(weights)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(rest)):
        rest = eqx.filter(build(jax.random.key(0)), eqx.is_inexact_array, inverse=True)

    def init(key: Key) -> Weights:
        return eqx.filter(build(key), eqx.is_inexact_array)

    def apply(weights: Weights, x: Array) -> Array:
        return jax.vmap(eqx.combine(weights, rest))(x)

    def derivatives(weights: Weights, row: Array) -> tuple[Array, tuple[Array | Outer, ...]]:
        return eqx.combine(weights, rest).derivatives(row)

    if hasattr(example, "derivatives"):
        apply.derivatives = derivatives  # type: ignore[attr-defined]
    return Network(init, apply)


def from_flax(module: Any, x: Any) -> Network:
    """A Flax linen module with `params` only, and a batch of inputs, which tells it its sizes."""
    if isinstance(module, type) or not (hasattr(module, "init") and hasattr(module, "apply")):
        raise _check.fail("module", "a Flax linen module (with init and apply)", module)
    example = jnp.asarray(x)[:1]
    collections = jax.eval_shape(module.init, jax.random.key(0), example)
    if set(collections) != {"params"}:
        allowed = "a Flax module whose only collection is 'params'"
        raise _check.fail("module", allowed, sorted(collections))
    _check_weights(collections["params"])

    def init(key: Key) -> Weights:
        return module.init(key, example)["params"]

    def apply(weights: Weights, x: Array) -> Array:
        return module.apply({"params": weights}, x)

    return Network(init, apply)


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _check_weights(weights: PyTree) -> None:
    leaves = jax.tree.leaves(weights)
    if not leaves or not all(leaf.dtype in (jnp.float32, jnp.float64) for leaf in leaves):
        allowed, kinds = "one or more arrays of float32 or float64", [str(w.dtype) for w in leaves]
        raise _check.fail("weights", allowed, kinds)
