"""The gradient of the free energy in closed form, for families and priors that are Gaussian mixtures.

The network's own gradient gw = d(-log g)/dw comes from autodiff; what the KL term adds to it is written out here.
docs/gradient.md derives it. Equal to `objective.gradient` at the same noise, and several times cheaper.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _tree
from hmnn._types import Scalar, Weights
from hmnn.core import arithmetic, families, objective
from hmnn.core.arithmetic import LN2, LOG2E
from hmnn.core.families import DropConnect, Family, Gaussian, Noise, Posterior
from hmnn.core.mixtures import Mixture


class Prior(NamedTuple):
    """A mixture of one leaf made ready: what stays the same during a time step is computed once."""

    means: tuple[Array, ...]
    mean_logs: tuple[Array, ...]
    """log2 of the weights."""
    halves: tuple[Array, ...]
    """log2(e) / (2 variance)."""
    variance_logs: tuple[Array, ...]
    """log2 of weight / standard deviation, relative to the first."""


class Turn(NamedTuple):
    """Which part of the KL term this update takes: all of it (blocks = 1), or one block of rows in turn."""

    update: Int[Array, ""]
    blocks: int


def applies(family: PyTree, weights: Weights) -> bool:
    """The rule: closed form if every leaf is Gaussian or DropConnect, autodiff otherwise."""
    return all(isinstance(f, Gaussian | DropConnect) for f in _tree.structure(weights).flatten_up_to(family))


def ready(prior: PyTree, weights: Weights) -> PyTree:
    """Make the prior of every leaf ready."""
    return jax.tree.map(lambda w, law: _ready(law, w.dtype), weights, prior)


def gradient(
    loss: Callable[[Weights], Array],
    posterior: Posterior,
    family: PyTree,
    prior: PyTree,
    noise: PyTree,
    weight: Scalar,
    turn: Turn,
) -> Posterior:
    """As `objective.gradient`; `prior` is made ready, and `turn` says which rows pay the KL term now."""
    scale = jax.tree.map(families.scale, posterior.rho)
    w = objective.draw_scaled(posterior.location, scale, family, noise)
    slopes = jax.grad(loss)(w)

    def leaf(
        w: Array, gw: Array, m: Array, rho: Array, s: Array, member: Family, law: Prior, epsilon: Noise
    ) -> Posterior:
        return _leaf(w, gw, Posterior(m, rho), s, member, law, epsilon.eta, weight, turn)

    parts = jax.tree.map(leaf, w, slopes, posterior.location, posterior.rho, scale, family, prior, noise)
    return _tree.unzip(w, parts, Posterior)


def divisor(rows: int, most: int) -> int:
    """The largest number of equal blocks, at most `most`, that this many rows can be cut into."""
    return max(k for k in range(1, min(most, rows) + 1) if rows % k == 0)


def _leaf(
    w: Array,
    gw: Array,
    theta: Posterior,
    s: Array,
    member: Family,
    law: Prior,
    eta: Array | None,
    weight: Scalar,
    turn: Turn,
) -> Posterior:
    """The gradient of one leaf; in blocks, the leaf is seen as (blocks, rows, ...) and one block pays for all."""
    blocks = divisor(w.shape[0], turn.blocks) if w.ndim else 1
    now = turn.update % blocks
    shape = (blocks, w.shape[0] // blocks, *w.shape[1:]) if w.ndim else (1,)

    def cut(a: Array) -> Array:
        return a.reshape(shape) if a.ndim else a

    def block(a: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(cut(a), now, 1) if blocks > 1 and a.ndim else cut(a)

    m, rho, here = theta.location, theta.rho, None if eta is None else block(eta)
    keep = None if eta is None else block(jnp.asarray(member.keep, w.dtype))
    pull, own = _divergence_slopes(block(w), block(m), block(s), keep, jax.tree.map(block, law), here)
    turns = jnp.arange(blocks).reshape(blocks, *(1,) * w.ndim) == now
    share = jnp.where(turns, jnp.asarray(weight * blocks, w.dtype), 0.0)
    total = cut(gw) + share * pull
    kept = total if eta is None else jnp.where(cut(eta), total, 0.0)
    moved = cut(w - m) if eta is None else jnp.where(cut(eta), cut(w - m), cut(w))
    d_scale = (moved * total - share * (cut(m) * own + 1.0)) / cut(s)
    d_rho = d_scale * arithmetic.logistic(cut(rho))
    return Posterior((kept + share * own).reshape(w.shape), d_rho.reshape(w.shape))


def _divergence_slopes(
    w: Array, m: Array, s: Array, keep: Array | None, law: Prior, eta: Bool[Array, "..."] | None
) -> tuple[Array, Array]:
    """-d log P pi / dw, and the total derivative of log q in m at fixed noise (0 where no mean is dropped)."""
    pull = _pull(law, w)
    if keep is None or eta is None:
        return pull, jnp.zeros_like(w)
    precision = 1.0 / (s * s)
    # r, the responsibility of the kept mean, is logistic(odds); 1 - r where the mean was kept, r where it was not.
    odds = LOG2E * (jnp.log(keep) - jnp.log1p(-keep) + m * (w - 0.5 * m) * precision)
    signed = jnp.clip(jnp.where(eta, odds, -odds), -126.0, 126.0)
    return pull, jnp.where(eta, -w, w - m) * precision / (1.0 + arithmetic.exp2(signed))


def _pull(law: Prior, w: Float[Array, "..."]) -> Float[Array, "..."]:
    """sum_k resp_k (w - mu_k) / v_k over all components."""
    gaps = [w - mean for mean in law.means]
    logs = [
        [p + (q - gap * gap * half) for q, half in zip(law.variance_logs, law.halves, strict=True)]
        for p, gap in zip(law.mean_logs, gaps, strict=True)
    ]
    top = _fold(jnp.maximum, [x for row in logs for x in row])
    mass = [[arithmetic.exp2(x - top) for x in row] for row in logs]
    force = [
        gap * _fold(jnp.add, [a * h for a, h in zip(row, law.halves, strict=True)])
        for gap, row in zip(gaps, mass, strict=True)
    ]
    return (2.0 * LN2) * _fold(jnp.add, force) / _fold(jnp.add, [a for row in mass for a in row])


def _fold(combine: Callable[[Array, Array], Array], items: list[Array]) -> Array:
    result = items[0]
    for item in items[1:]:
        result = combine(result, item)
    return result


def _ready(law: Mixture, dtype: jnp.dtype) -> Prior:
    def log2(p: Scalar) -> Array:
        return jnp.maximum(jnp.log2(jnp.asarray(p, dtype)), -1e30)  # a component that is not there

    first, *rest = zip(law.variance_weights, law.variances, strict=True)
    return Prior(
        means=law.means,
        mean_logs=tuple(log2(p) for p in law.mean_weights),
        halves=tuple(0.5 * LOG2E / v for v in law.variances),
        variance_logs=(log2(first[0]), *(log2(q) + 0.5 * jnp.log2(first[1] / v) for q, v in rest)),
    )
