"""How the weights lie in memory while a time step computes.

Small leaves lie end to end: compilers and processors pay for every loop, and a bias is a loop.
Matrices lie with their long rows as rows: a processor takes 16 weights of a row at once, and those
that are left over one by one.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from hmnn import _tree
from hmnn._types import Batch, Weights
from hmnn.core.cpu.hashing import last_kept
from hmnn.core.families import DropConnect, Family, Gaussian

LANES = 16
SMALL = 4096
"""Leaves with fewer weights lie end to end."""

BY_WEIGHT = (optax.sgd, optax.adam)
"""Optimisers that treat every weight by itself. Others may not: a mask may ask for a leaf's name or
shape."""


class Laid(NamedTuple):
    """Weights, or whatever belongs to them one by one, as they lie.

    An array for each group of leaves.
    """

    groups: tuple[Any, ...]


class Layout(NamedTuple):
    """Which leaves lie together, and how to get there and back.

    Without groups all lies as it is.
    """

    like: PyTree
    """The shapes of the weights."""
    groups: tuple[tuple[int, ...], ...] = ()

    def lay(self, tree: PyTree) -> PyTree:
        """Every part of `tree` that has the weights' structure and shapes, laid."""
        structure, shapes = _tree.structure(self.like), _shapes(self.like)

        def ours(node: Any) -> bool:
            if not self.groups or _tree.structure(node) != structure or _shapes(node) != shapes:
                return False
            return all(
                jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in jax.tree.leaves(node)
            )  # and no counter

        def laid(node: Any) -> Any:
            if not ours(node):
                return node
            leaves = jax.tree.leaves(node)
            return Laid(tuple(_end_to_end([leaves[i] for i in group]) for group in self.groups))

        return jax.tree.map(laid, tree, is_leaf=ours)

    def back(self, tree: PyTree) -> PyTree:
        """What was laid, as it was."""
        return jax.tree.map(
            lambda node: self._apart(node) if isinstance(node, Laid) else node,
            tree,
            is_leaf=lambda node: isinstance(node, Laid),
        )

    def means(self, *laid: PyTree) -> tuple[PyTree, ...]:
        """The mean over every leaf, of two trees at once."""
        first, second = laid
        sums = self._sums(jax.tree.map(jax.lax.complex, first, second))  # one array, one pass
        # Apart first: a complex quotient would bring NaN, where there is no drift signal, into the
        # other part.
        apart = (jax.tree.map(part, sums) for part in (jnp.real, jnp.imag))
        return tuple(
            jax.tree.map(lambda total, leaf: total / leaf.size, totals, self.like)
            for totals in apart
        )

    def _sums(self, laid: PyTree) -> PyTree:
        found = dict[int, Array]()
        for group, values in zip(self.groups, laid.groups, strict=True):
            if len(group) == 1:
                found[group[0]] = jnp.sum(values)
                continue
            # A product, not sums over slices: XLA would compute the values again for each of them.
            where = np.repeat(
                np.eye(len(group)), [math.prod(_shapes(self.like)[i]) for i in group], axis=0
            )
            real, imaginary = (
                part @ where.astype(part.dtype) for part in (values.real, values.imag)
            )
            found |= zip(group, jax.lax.complex(real, imaginary), strict=True)
        return _tree.structure(self.like).unflatten([found[i] for i in range(len(found))])

    def members(self, family: PyTree) -> PyTree:
        """The family of every group."""
        if not self.groups:
            return family
        members, leaves = (
            _tree.structure(self.like).flatten_up_to(family),
            jax.tree.leaves(self.like),
        )
        return Laid(
            tuple(_member([(members[i], leaves[i].shape) for i in group]) for group in self.groups)
        )

    def _apart(self, laid: Laid) -> Weights:
        shapes, found = _shapes(self.like), dict[int, Array]()
        for group, values in zip(self.groups, laid.groups, strict=True):
            if len(group) == 1:
                found[group[0]] = values if values.shape == shapes[group[0]] else values.T
                continue
            ends = np.cumsum([math.prod(shapes[i]) for i in group]).tolist()
            for i, start, end in zip(group, [0, *ends], ends, strict=False):
                # A slice: of a split, XLA would compute the gradient weight by weight.
                found[i] = values[start:end].reshape(shapes[i])
        return _tree.structure(self.like).unflatten([found[i] for i in range(len(shapes))])


def as_it_lies(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of a filter compute with weights as they lie best in memory.

    Neither who calls it nor its own lines know of it: what is shaped like the weights is laid on
    the way in, and comes back as it was on the way out.
    """

    @wraps(function)
    def laid(parts: Any, *arguments: Any) -> Any:
        alone = (
            getattr(parts.kernel, "weightwise", False)
            and getattr(parts.projection, "optimiser", None) in BY_WEIGHT
        )
        if not alone:  # the kernel or the optimiser may look at a leaf as a whole
            return function(parts, *arguments)
        places = of(jax.eval_shape(parts.first_weights, jax.random.key(0)), parts.family)
        lying = replace(
            parts,
            apply=lambda w, x: parts.apply(places.back(w), x),
            kernel=_Lying(
                parts.kernel,
                parts.kernel.centre._replace(anchor=places.lay(parts.kernel.centre.anchor)),
            ),
            family=places.members(parts.family),
            leaf_means=places.means,
        )
        return places.back(function(lying, *(_laid(places, argument) for argument in arguments)))

    return laid


def _laid(places: Layout, argument: Any) -> Any:
    """What belongs to the weights, laid; data or a noise of the same shape are not."""
    if isinstance(argument, Batch):
        return argument
    if hasattr(argument, "work"):  # a state
        return argument._replace(
            posterior=places.lay(argument.posterior), work=places.lay(argument.work)
        )
    return places.lay(argument)


class _Lying(NamedTuple):
    """A kernel whose centre lies as the weights do."""

    kernel: Any
    centre: Any

    def __call__(self, mixture: Any, centre: Array) -> Any:
        """As the kernel says."""
        return self.kernel(mixture, centre)


def of(weights: PyTree, family: PyTree) -> Layout:
    """Small leaves together, every other leaf by itself."""
    groups = dict[Any, list[int]]()
    members = _tree.structure(weights).flatten_up_to(family)
    for i, (leaf, member) in enumerate(zip(jax.tree.leaves(weights), members, strict=True)):
        small = leaf.size < SMALL and isinstance(member, Gaussian | DropConnect)
        groups.setdefault(leaf.dtype if small else i, []).append(i)
    return Layout(weights, tuple(tuple(group) for group in groups.values()))


def _end_to_end(leaves: list[Array]) -> Array:
    if len(leaves) > 1:
        return jnp.concatenate([leaf.ravel() for leaf in leaves])
    return leaves[0].T if _turned(leaves[0].shape) else leaves[0]


def _member(together: list[tuple[Any, tuple[int, ...]]]) -> Family:
    """The family of leaves that lie together.

    Gamma, one per weight, lies with them, and is 1 where none is dropped.
    """
    first, shape = together[0]
    if len(together) == 1:
        return jax.tree.map(
            lambda value: _end_to_end([value]) if jnp.shape(value) == shape else value, first
        )
    if all(member.keep is None for member, _ in together):
        return first
    members = [
        (DropConnect(1.0, 2**31 - 1) if member.keep is None else member, shape)
        for member, shape in together
    ]
    keeps = [jnp.broadcast_to(member.keep, shape).ravel() for member, shape in members]
    lasts = [jnp.broadcast_to(last_kept(member), shape).ravel() for member, shape in members]
    return DropConnect(jnp.concatenate(keeps), jnp.concatenate(lasts))


def _turned(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and _cost(*shape) > _cost(*reversed(shape))


def _cost(rows: int, columns: int) -> int:
    return rows * (columns // LANES + columns % LANES)


def _shapes(tree: PyTree) -> list[tuple[int, ...]]:
    return [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]
