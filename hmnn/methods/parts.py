"""The parts that a method is assembled from, checked: what every `build` does with its arguments."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import PyTree

from hmnn import _check, _tree
from hmnn._types import Key
from hmnn.core import likelihoods
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.networks import Network

OPTIMISERS = {"sgd": optax.sgd, "adam": optax.adam}
POINTS = ("mean", "location", "sampled")


def shapes(network: Any) -> PyTree:
    """The shapes of a network's weights."""
    if not isinstance(network, Network):
        raise _check.fail("network", "a Network (see hmnn.networks)", type(network).__name__)
    return jax.eval_shape(network.init, jax.random.key(0))


def widths(network: Network) -> Callable[..., int]:
    """A function that says how many outputs the network gives, and catches inputs of the wrong shape."""
    known: dict[Any, int] = {}

    def width(x: np.ndarray, where: str = "") -> int:
        if x.shape[1:] not in known:
            known[x.shape[1:]] = _width(network, x, where)
        return known[x.shape[1:]]

    return width


def likelihood(likelihood: Any) -> Likelihood:
    """A likelihood, or the one of this name."""
    if isinstance(likelihood, str):
        return likelihoods.LIKELIHOODS[_check.choice("likelihood", likelihood, likelihoods.LIKELIHOODS)]()
    if isinstance(likelihood, type) or not all(hasattr(likelihood, n) for n in ("log_prob", "mean", "variance")):
        raise _check.fail("likelihood", "a likelihood or the name of one", likelihood)
    return likelihood


def kernel(kernel: Any, shapes: PyTree) -> Kernel:
    """A kernel whose centre fits the weights."""
    if isinstance(kernel, type) or not (callable(kernel) and hasattr(kernel, "centre")):
        raise _check.fail("kernel", "one of hmnn.core.kernels", kernel)
    anchor = kernel.centre.anchor
    single = _tree.structure(anchor) == _tree.structure(0.0)
    fits = _tree.structure(anchor) == _tree.structure(shapes) and all(
        np.shape(a) in ((), w.shape) for a, w in zip(jax.tree.leaves(anchor), jax.tree.leaves(shapes), strict=True)
    )
    if not fits and not (single and np.ndim(anchor) == 0):
        allowed = "'zero', 'previous', a number or a tree shaped like the weights"
        raise _check.fail("centre", allowed, jax.tree.map(np.shape, anchor))
    if not all(np.asarray(leaf).dtype.kind in "fiu" and np.isfinite(leaf).all() for leaf in jax.tree.leaves(anchor)):
        raise _check.fail("centre", "made of finite numbers", anchor)
    return kernel


def optimiser(optimiser: Any) -> Any:
    """A function of the learning rate that gives an optax optimiser, or the one of this name."""
    if isinstance(optimiser, str):
        return OPTIMISERS[_check.choice("optimiser", optimiser, OPTIMISERS)]
    if not callable(optimiser) or not hasattr(optimiser(0.1), "update"):
        raise _check.fail(
            "optimiser", "a name or a function of the learning rate such as optax.adam", type(optimiser).__name__
        )
    return optimiser


def key(key: Any) -> Key:
    """A key, or the one of this seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -(2**31) <= key < 2**32:  # JAX would take it modulo 2^32 without a word
            raise _check.fail("key", "a seed that fits in 32 bits", key)
        return jax.random.key(int(key))
    if not (hasattr(key, "dtype") and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)) or key.ndim != 0:
        raise _check.fail("key", "one jax.random.key(seed) or a whole number", type(key).__name__)
    return key


def _width(network: Network, x: np.ndarray, where: str) -> int:
    weights = jax.eval_shape(network.init, jax.random.key(0))
    try:
        outputs = jax.eval_shape(network.apply, weights, x)
    except (TypeError, ValueError) as error:
        allowed = f"rows that the network takes{where} ({str(error).splitlines()[0]})"
        raise _check.fail("x", allowed, f"rows of shape {x.shape[1:]}") from None
    if getattr(outputs, "shape", ())[:1] != x.shape[:1]:
        raise _check.fail("network", f"one that gives one row per row of x ({len(x)})", outputs)
    return int(np.prod(outputs.shape[1:]))
