"""Closed-form corrections of a law by rows: all weights independent but those of the last layer.

Rows are observations c = L' J (w - m) + noise of unit variance. The mean moves to the exact one.
Variances become those of the diagonal of the exact precision; the covariance that the weights of a
last layer keep becomes its block of the exact covariance.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn._types import Outer, Weights
from hmnn.core import jacobians
from hmnn.core.cpu.small import inverted
from hmnn.core.jacobians import Jacobian


class Moments(NamedTuple):
    """E[w] and Var[w] of every weight, an array for each leaf of the network's weights."""

    mean: tuple[Any, ...]
    variance: tuple[Any, ...]
    last: Any = ()
    """The covariance of each output's weights and bias in the last layer, or one for all outputs;
    () if it is not kept. Its diagonal stands in `variance` too."""


class Seen(NamedTuple):
    """Rows as observations with unit noise, c = L' J (w - m) + noise."""

    jacobian: tuple[Jacobian, ...]
    roots: Float[Array, "rows outputs outputs"]
    residuals: Float[Array, "rows outputs"]


def gained(law: Moments, seen: Seen, size: int) -> tuple[Moments, Float[Array, "rows out"]]:
    """The law corrected by rows together, and the variance of their outputs before.

    With M = J V J' and Q = (I + L' M L)^-1 the mean moves by -V J' L Q c.
    """
    rows, outputs = seen.residuals.shape
    kept = 0 if isinstance(law.last, tuple) else size
    others = len(law.mean) - kept
    total = sum(
        jacobians.covariance(j, v)
        for j, v in zip(seen.jacobian[:others], law.variance[:others], strict=True)
    )
    if kept:
        inputs = _inputs(seen.jacobian, size)
        gains = _through(law.last, inputs)
        own = jnp.einsum("kna,ma->nmk", gains, inputs)
        total = total + jnp.einsum(
            "nmk,kj->nkmj", jnp.broadcast_to(own, (rows, rows, outputs)), jnp.eye(outputs)
        ).astype(inputs.dtype)
    inner = jnp.einsum("nka,nkmj,mjb->namb", seen.roots, total, seen.roots)
    inverse = inverted(inner.reshape(rows * outputs, -1)).reshape(inner.shape)
    directions = jnp.einsum(
        "nka,na->nk", seen.roots, jnp.einsum("namb,mb->na", inverse, seen.residuals)
    )
    mean = [
        m - v * jacobians.pulled(j, directions)
        for m, v, j in zip(law.mean[:others], law.variance[:others], seen.jacobian, strict=False)
    ]
    variance = [
        v / (1.0 + v * jacobians.squares(j, seen.roots))
        for v, j in zip(law.variance[:others], seen.jacobian, strict=False)
    ]
    spread = jnp.einsum("nknk->nk", total)
    if not kept:
        return Moments(tuple(mean), tuple(variance)), spread
    law, last = Moments((*mean, *law.mean[others:]), (*variance, *law.variance[others:])), law.last
    lost = jnp.einsum("nka,namb,mkb->knm", seen.roots, inverse, seen.roots)
    if len(last) != outputs:  # one for all: by the output of which the rows say most
        lost = lost[jnp.argmax(jnp.einsum("knn->k", lost))][None]
    return _last_corrected(law, last, gains, directions, lost), spread


def _last_corrected(
    law: Moments,
    last: Float[Array, "sets width width"],
    gains: Float[Array, "sets rows width"],
    directions: Float[Array, "rows outputs"],
    lost: Float[Array, "sets rows rows"],
) -> Moments:
    """The law with the last layer's mean and covariance corrected.

    They become m - d' g and S - g' B g, with the gains g = h S of the inputs h.
    """
    size = 1 if law.mean[-1].ndim > 1 else 2
    outputs, (rows, width) = len(law.mean[-1]), gains.shape[1:]
    if rows == 1:
        g = gains[:, 0]
        step = directions[0][:, None] * g
        weighed = lost[:, 0] * g
        last = last - weighed[:, :, None] * g[:, None, :]
        less = weighed * g
    else:
        step = jnp.einsum("nk,kna->ka", directions, jnp.broadcast_to(gains, (outputs, rows, width)))
        weighed = jnp.einsum("knm,kma->kna", lost, gains)
        last = last - jnp.einsum("kna,knb->kab", gains, weighed)
        less = jnp.sum(gains * weighed, axis=1)
    mean, variance = (
        (*leaves[:-size], *(a - part for a, part in zip(leaves[-size:], parts, strict=True)))
        for leaves, parts in (
            (law.mean, _leaves(step, size)),
            (law.variance, _leaves(jnp.broadcast_to(less, (outputs, width)), size)),
        )
    )
    return Moments(mean, variance, last)


def spread(law: Moments, jacobian: tuple[Jacobian, ...], size: int) -> Float[Array, "rows out"]:
    """The variance of the outputs."""
    kept = 0 if isinstance(law.last, tuple) else size
    others = len(law.mean) - kept
    parts = zip(jacobian[:others], law.variance[:others], strict=True)
    result = sum((jacobians.variances(j, v) for j, v in parts), start=jnp.zeros((), float))
    if not kept:
        return result
    inputs = _inputs(jacobian, size)
    own = jnp.einsum("na,kab,nb->nk", inputs, law.last, inputs)
    return result + jnp.broadcast_to(own, (len(inputs), len(law.mean[-1])))


def of_last(weights: Weights) -> int:
    """Of how many leaves the last layer is made: a matrix, and biases if it has any."""
    leaves = jax.tree.leaves(weights)
    return 2 if leaves[-1].ndim == 1 and len(leaves) > 1 else 1


def _inputs(jacobian: tuple[Jacobian, ...], size: int) -> Float[Array, "rows width"]:
    """What goes into the last layer, and 1 for its biases."""
    matrix = jacobian[-size]
    assert isinstance(matrix, Outer)  # `derivatives` says so
    ones = jnp.ones((len(matrix.inputs), size - 1), matrix.inputs.dtype)
    return jnp.concatenate([matrix.inputs, ones], axis=1)


def _through(last: Array, inputs: Array) -> Float[Array, "sets rows width"]:
    """h S for the inputs h of each row."""
    if len(inputs) == 1:
        return (last @ inputs[0])[:, None]
    return jnp.einsum("kab,nb->kna", last, inputs)


def _leaves(rows: Float[Array, "outputs width"], size: int) -> tuple[Array, ...]:
    """Numbers for each output's weights and bias as matrix and biases."""
    return (rows,) if size == 1 else (rows[:, :-1], rows[:, -1])


def rows_of(leaves: Any, like: Any, sets: int) -> Float[Array, "sets width"]:
    """Matrix and biases as numbers for each output's weights and bias, or their mean."""
    full = [jnp.broadcast_to(a, v.shape) for a, v in zip(leaves, like, strict=True)]
    rows = jnp.concatenate([full[0], *(bias[:, None] for bias in full[1:])], axis=1)
    return rows if len(rows) == sets else rows.mean(axis=0, keepdims=True)
