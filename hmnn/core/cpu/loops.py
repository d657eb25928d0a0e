"""Loops and branches whose carried pairs (m, s-tilde) lie in one complex array, m + i s-tilde.

A loop of XLA:CPU fills one array: packed, both numbers of a weight are updated in one pass, in
place, and what they share is computed once. Otherwise these are `jax.lax`'s.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, PyTree

from hmnn import _tree
from hmnn._types import Scalar
from hmnn.core.cpu import arithmetic
from hmnn.core.families import RHO_FLOOR, Posterior


def _is_pair(node: Any) -> bool:
    return isinstance(node, Posterior)


class _Packed:
    """A pair as one tree of complex arrays.

    A class of its own, so that it is known when it is unpacked.
    """

    def __init__(self, both: PyTree) -> None:
        self.both = both


jax.tree_util.register_pytree_node(
    _Packed, lambda p: ((p.both,), None), lambda _, parts: _Packed(*parts)
)


def _pack(node: Any) -> Any:
    return (
        _Packed(jax.tree.map(jax.lax.complex, node.location, node.rho)) if _is_pair(node) else node
    )


def _unpack(node: Any) -> Any:
    if not isinstance(node, _Packed):
        return node
    return Posterior(jax.tree.map(jnp.real, node.both), jax.tree.map(jnp.imag, node.both))


def packed(tree: PyTree) -> PyTree:
    """Every pair of a tree as one array.

    Moments that an optimiser keeps of a pair stay as they are.
    """
    return jax.tree.map(_pack, tree, is_leaf=_is_pair)


def unpacked(tree: PyTree) -> PyTree:
    """The pairs again."""
    return jax.tree.map(_unpack, tree, is_leaf=lambda node: isinstance(node, _Packed))


def _first_only(tree: PyTree, change: Callable[[PyTree], PyTree]) -> PyTree:
    """Change what is a pair or has a field `posterior`.

    An optimiser's own pairs are its own affair.
    """
    if hasattr(tree, "posterior"):
        return tree._replace(posterior=change(tree.posterior))
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return tuple(_first_only(part, change) for part in tree)
    return change(tree) if _is_pair(tree) or isinstance(tree, _Packed) else tree


def fori_loop(number: Scalar, body: Callable[[Array, PyTree], PyTree], carry: PyTree) -> PyTree:
    """`jax.lax.fori_loop` from 0 to `number`."""

    def one(i: Array, carry: PyTree) -> PyTree:
        return _first_only(body(i, _first_only(carry, unpacked)), packed)

    return _first_only(jax.lax.fori_loop(0, number, one, _first_only(carry, packed)), unpacked)


def while_loop(
    going_on: Callable[[PyTree], Array], body: Callable[[PyTree], PyTree], carry: PyTree
) -> PyTree:
    """`jax.lax.while_loop`."""
    last = jax.lax.while_loop(
        lambda carry: going_on(_first_only(carry, unpacked)),
        lambda carry: _first_only(body(_first_only(carry, unpacked)), packed),
        _first_only(carry, packed),
    )
    return _first_only(last, unpacked)


def cond(true: Array, then: Callable[[], PyTree], otherwise: Callable[[], PyTree]) -> PyTree:
    """`jax.lax.cond`."""
    found = jax.lax.cond(
        true, lambda: _first_only(then(), packed), lambda: _first_only(otherwise(), packed)
    )
    return _first_only(found, unpacked)


def all_finite(theta: Posterior, memory: PyTree) -> Bool[Array, ""]:
    """Whether every number of theta and of an optimiser's state is finite."""
    return _tree.all_finite((packed(theta), memory))


def updated(
    optimiser: optax.GradientTransformation,
    theta: Posterior,
    memory: PyTree,
    gradient: Posterior,
    weight: Scalar,
) -> tuple[Posterior, PyTree]:
    """One update: theta and the optimiser's state after it.

    S-tilde stays above its floor, where its gradient lives.
    """
    if any(
        jnp.ndim(leaf) for leaf in jax.tree.leaves(memory)
    ):  # each moment would compute the gradient again
        gradient = unpacked(arithmetic.once(packed(gradient), weight))
    updates, memory = optimiser.update(gradient, memory, theta)
    moved = optax.apply_updates(theta, updates)
    return moved._replace(
        rho=jax.tree.map(lambda rho: arithmetic.larger(RHO_FLOOR, rho), moved.rho)
    ), memory
