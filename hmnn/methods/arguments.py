"""The parts that a method is assembled from, checked once, when it is built."""

import math
from collections.abc import Callable
from inspect import isroutine
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from hmnn import _check, _tree
from hmnn._types import Key
from hmnn.core import families, likelihoods
from hmnn.core.families import Family
from hmnn.core.filtering import Projection
from hmnn.core.kernels import Centre, Kernel
from hmnn.core.likelihoods import Learning, Likelihood
from hmnn.core.projections.point import OneNetwork
from hmnn.networks import Network

OPTIMISERS = {"sgd": optax.sgd, "adam": optax.adam}


def shapes(network: Any) -> PyTree:
    """The shapes of a network's weights."""
    if not isinstance(network, Network):
        raise _check.fail("network", "a Network (see hmnn.networks)", type(network).__name__)
    return jax.eval_shape(network.init, jax.random.key(0))


def widths(network: Network, likelihood: Likelihood) -> Callable[..., int]:
    """A function that tells the network's number of outputs, and refuses what does not fit."""
    known: dict[Any, int] = {}

    def width(x: np.ndarray, where: str = "") -> int:
        if x.shape[1:] not in known:
            outputs = _outputs(network, x, where)
            _check_likelihood(likelihood, outputs)
            known[x.shape[1:]] = int(np.prod(outputs.shape[1:]))
        return known[x.shape[1:]]

    return width


def likelihood(likelihood: Any) -> Likelihood:
    """A likelihood, or the one of this name."""
    if isinstance(likelihood, str):
        return likelihoods.LIKELIHOODS[
            _check.choice("likelihood", likelihood, likelihoods.LIKELIHOODS)
        ]()
    return _plugged("likelihood", likelihood, Likelihood)


def kernel(kernel: Any, shapes: PyTree) -> Kernel:
    """A kernel whose centre fits the weights."""
    centre = _plugged("kernel", kernel, Kernel).centre
    if not isinstance(centre, Centre):
        raise _check.fail("centre", "a Centre (see hmnn.core.kernels)", centre)
    anchor = centre.anchor
    single = _tree.structure(anchor) == _tree.structure(0.0)
    fits = _tree.structure(anchor) == _tree.structure(shapes) and all(
        np.shape(a) in ((), w.shape)
        for a, w in zip(jax.tree.leaves(anchor), jax.tree.leaves(shapes), strict=True)
    )
    if not fits and not (single and np.ndim(anchor) == 0):
        allowed = "'zero', 'previous', a number or a tree shaped like the weights"
        raise _check.fail("centre", allowed, jax.tree.map(np.shape, anchor))
    if not all(
        np.asarray(leaf).dtype.kind in "fiu" and np.isfinite(leaf).all()
        for leaf in jax.tree.leaves(anchor)
    ):
        raise _check.fail("centre", "made of finite numbers", anchor)
    return kernel


def family(family: Any, keep: Any, keep_where: Any, shapes: PyTree) -> PyTree:
    """The family of every leaf: one for all, a tree, or what `keep` and `keep_where` say."""
    if family is None:
        return families.assign(shapes, keep, keep_where)
    if not (isinstance(keep, int | float) and keep == 1):
        raise _check.fail(
            "keep", "1 where a family is given, which says itself what is dropped", keep
        )
    if not isinstance(family, type) and len(_missing(family, Family)) < len(_wanted(Family)):
        member = _plugged("family", family, Family)
        return jax.tree.map(lambda _: member, shapes)
    structure = _tree.structure(shapes)
    try:
        members = structure.flatten_up_to(family)
    except (TypeError, ValueError):
        raise _check.fail(
            "family", "a Family or a tree of them shaped like the weights", family
        ) from None
    return structure.unflatten([_plugged("family", member, Family) for member in members])


def projection(projection: Any, shapes: PyTree, likelihood: Likelihood) -> Projection:
    """A projection that can take this network and this likelihood."""
    found = _plugged("projection", projection, Projection)
    size, most = _tree.size(shapes), getattr(found, "most_weights", math.inf)
    if size > most:
        raise _check.fail(
            "network", f"one of at most {most} weights, as all their correlations are kept", size
        )
    if isinstance(found, OneNetwork) and isinstance(likelihood, Learning):
        allowed = "one whose noise is fixed, for a method that keeps one network"
        raise _check.fail("likelihood", allowed, type(likelihood).__name__)
    return found


def optimiser(optimiser: Any) -> Any:
    """A function of the learning rate that gives an optax optimiser, or the one of this name."""
    if isinstance(optimiser, str):
        return OPTIMISERS[_check.choice("optimiser", optimiser, OPTIMISERS)]
    if not callable(optimiser) or not hasattr(optimiser(0.1), "update"):
        raise _check.fail(
            "optimiser",
            "a name or a function of the learning rate such as optax.adam",
            type(optimiser).__name__,
        )
    return optimiser


def minibatch(minibatch: Any) -> int | None:
    """Rows of a minibatch, or None for all rows at once."""
    return None if minibatch is None else _check.count("minibatch", minibatch)


def key(key: Any) -> Key:
    """A key, or the one of this seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -(2**31) <= key < 2**32:  # JAX would take it modulo 2^32 without a word
            raise _check.fail("key", "a seed that fits in 32 bits", key)
        return jax.random.key(int(key))
    if (
        not (hasattr(key, "dtype") and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key))
        or key.ndim != 0
    ):
        raise _check.fail("key", "one jax.random.key(seed) or a whole number", type(key).__name__)
    return key


def _plugged(name: str, part: Any, protocol: Any) -> Any:
    """A part that has everything its Protocol asks for."""
    wanted, missing = _wanted(protocol), _missing(part, protocol)
    if isinstance(part, type | str) or isroutine(part) or missing == wanted:
        allowed = (
            f"a {name} or the name of one"
            if name == "likelihood"
            else f"a {name} (see {protocol.__module__})"
        )
        raise _check.fail(name, allowed, part)
    if missing:
        raise _check.fail(
            name,
            f"a {name} with {', '.join(wanted)}",
            f"{type(part).__name__} without {missing[0]}",
        )
    if any(leaf is part for leaf in jax.tree.leaves(part)):
        allowed = "a NamedTuple, or a dataclass that jax.tree_util.register_dataclass knows"
        raise _check.fail(name, allowed, type(part).__name__)
    return part


def _wanted(protocol: Any) -> list[str]:
    return [word for word in dir(protocol) if not word.startswith("_")] + ["__call__"] * (
        "__call__" in vars(protocol)
    )


def _missing(part: Any, protocol: Any) -> list[str]:
    there = {
        word: callable(part) if word == "__call__" else hasattr(part, word)
        for word in _wanted(protocol)
    }
    return [word for word in there if not there[word]]


def _outputs(network: Network, x: np.ndarray, where: str) -> jax.ShapeDtypeStruct:
    weights = jax.eval_shape(network.init, jax.random.key(0))
    try:
        outputs = jax.eval_shape(network.apply, weights, x)
    except (TypeError, ValueError) as error:
        allowed = f"rows that the network takes{where} ({str(error).splitlines()[0]})"
        raise _check.fail("x", allowed, f"rows of shape {x.shape[1:]}") from None
    if getattr(outputs, "shape", ())[:1] != x.shape[:1]:
        raise _check.fail("network", f"one that gives one row per row of x ({len(x)})", outputs)
    return outputs


def _check_likelihood(likelihood: Likelihood, outputs: jax.ShapeDtypeStruct) -> None:
    """Refuse a likelihood whose mean or variance is not one number an output.

    Or as many as its `targets` say.
    """
    shape = outputs.shape
    if hasattr(likelihood, "targets"):
        shape = (*shape[:-1], likelihood.targets)
    for name in ("mean", "variance"):
        found = jax.eval_shape(getattr(likelihood, name), jnp.zeros(outputs.shape, outputs.dtype))
        if getattr(found, "shape", None) != shape:
            allowed = f"one whose {name} has the shape of the outputs, {shape}"
            raise _check.fail("likelihood", allowed, f"{type(likelihood).__name__} with {found}")
