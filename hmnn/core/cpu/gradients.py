"""The gradient of the free energy in closed form, where family and prior are Gaussian mixtures.

The network's own gradient gw = d(-log g)/dw comes from autodiff; what the KL term adds to it is
written out here. docs/gradient.md derives it. Equal to `objective.gradient` at the same noise, and
several times cheaper.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _tree
from hmnn._types import Scalar, Weights
from hmnn.core import families, objective
from hmnn.core.cpu import arithmetic
from hmnn.core.cpu.arithmetic import LN2, LOG2E, ROUGH
from hmnn.core.cpu.layout import SMALL
from hmnn.core.families import DropConnect, Family, Gaussian, Noise, Posterior, Rate
from hmnn.core.mixtures import Mixture


class Prior(NamedTuple):
    """A mixture of one leaf made ready: what stays the same during a time step is computed once."""

    means: tuple[Array, ...]
    mean_logs: tuple[Array | None, ...]
    """log2 of the weights relative to the first, which is None."""
    half: Array
    """log2(e) / (2 variance) of the first variance."""
    ratios: tuple[Array, ...]
    """The first variance over each other one: what their standard deviations are follows, and is
    not kept."""
    variance_logs: tuple[Array, ...]
    """log2 of the weights of the others relative to that of the first."""
    odds: Array | None
    """log2(gamma / (1 - gamma)) of the family, or None where no mean is dropped."""


Slope = Callable[[Callable[[Weights], Array], Posterior, PyTree, Scalar, Int[Array, ""]], Posterior]
"""slope(loss, theta, noise, weight, update) -> the gradient of the free energy of a minibatch."""


def chosen(how: str, weights: Weights, family: PyTree, prior: PyTree, blocks: int) -> Slope:
    """The gradient as `how` says.

    "closed", "autodiff", or "auto", which is closed where the rule applies.
    """
    if how == "autodiff" or (how == "auto" and not applies(family, weights)):
        return lambda loss, theta, noise, weight, _: objective.gradient(
            loss, theta, family, prior, noise, weight
        )
    law = ready(prior, family, weights)
    return lambda loss, theta, noise, weight, update: gradient(
        loss, theta, family, law, noise, weight, Turn(update, blocks)
    )


class Turn(NamedTuple):
    """Which part of the KL term this update takes.

    All of it (blocks = 1), or one block of rows in turn.
    """

    update: Int[Array, ""]
    blocks: int


def applies(family: PyTree, weights: Weights) -> bool:
    """The rule: closed form if every leaf is Gaussian or DropConnect, autodiff otherwise."""
    return all(
        isinstance(f, Gaussian | DropConnect)
        for f in _tree.structure(weights).flatten_up_to(family)
    )


def ready(prior: PyTree, family: PyTree, weights: Weights) -> PyTree:
    """Make the prior of every leaf ready."""
    return jax.tree.map(lambda w, member, law: _ready(law, member, w.dtype), weights, family, prior)


def gradient(
    loss: Callable[[Weights], Array],
    posterior: Posterior,
    family: PyTree,
    prior: PyTree,
    noise: PyTree,
    weight: Scalar,
    turn: Turn,
) -> Posterior:
    """As `objective.gradient`; `turn` says which rows of a prior made ready pay the KL term."""
    scale = jax.tree.map(families.scale, posterior.rho)
    w = _drawn_once(objective.draw_scaled(posterior.location, scale, family, noise), weight)
    slopes = jax.grad(loss)(w)

    def leaf(
        w: Array,
        gw: Array,
        m: Array,
        rho: Array,
        s: Array,
        member: Family,
        law: Prior,
        epsilon: Noise,
    ) -> Posterior:
        return _leaf(w, gw, Posterior(m, rho), s, member, law, epsilon.eta, weight, turn)

    parts = jax.tree.map(
        leaf, w, slopes, posterior.location, posterior.rho, scale, family, prior, noise
    )
    return _tree.unzip(w, parts, Posterior)


def _drawn_once(w: Weights, weight: Scalar) -> Weights:
    """The same weights; XLA would otherwise draw a bias again for every row of the batch."""
    leaves = jax.tree.leaves(w)
    thin = iter(arithmetic.once([leaf for leaf in leaves if leaf.ndim < 2], weight))
    return _tree.structure(w).unflatten([next(thin) if leaf.ndim < 2 else leaf for leaf in leaves])


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
    """The gradient of one leaf; in blocks of rows, one block pays for all.

    To cut small leaves would save nothing.
    """
    blocks = divisor(w.shape[0], turn.blocks) if w.ndim and w.size >= SMALL else 1
    share = jnp.asarray(weight * blocks, w.dtype)
    here, m = Here(theta.location, s, eta), theta.location
    if blocks == 1:
        pull, own = _divergence_slopes(here, w, law)
    else:
        first = turn.update % blocks * (w.shape[0] // blocks)
        pull, own = _block_slopes(here, w, law, first, blocks, share)
        row = jax.lax.broadcasted_iota(first.dtype, (w.shape[0], *(1,) * (w.ndim - 1)), 0)
        share = jnp.where((row >= first) & (row < first + w.shape[0] // blocks), share, 0.0)
    total = gw + share * pull
    kept = total if eta is None else jnp.where(eta, total, 0.0)
    moved = w - m if eta is None else jnp.where(eta, w - m, w)
    rise = moved * total - share * (m * own + 1.0)  # s d/ds
    return Posterior(kept + share * own, rise * arithmetic.logistic(theta.rho, over=s))


class Here(NamedTuple):
    """What an update computes again rather than keeps: m, s and eta of one leaf."""

    m: Array
    s: Array
    eta: Bool[Array, "..."] | None


def _block_slopes(
    here: Here, w: Array, law: Prior, first: Array, blocks: int, share: Array
) -> tuple[Array, Array]:
    """The slopes of one block of rows, laid over all blocks.

    The branch is there for XLA, which would otherwise compute the slopes of the block again for
    every other block.
    """
    rows = w.shape[0] // blocks

    def cut(a: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(a, first, rows) if a.ndim else a

    def slopes(here: Here) -> tuple[Array, Array]:
        return _divergence_slopes(here, *jax.tree.map(cut, (w, law)))

    def none(here: Here) -> tuple[Array, Array]:
        return jnp.zeros_like(here.m), jnp.zeros_like(here.m)

    found = jax.lax.cond(share > 0.0, slopes, none, jax.tree.map(cut, here))
    pull, own = (jnp.tile(slope, (blocks, *(1,) * (w.ndim - 1))) for slope in found)
    return pull, own


def _divergence_slopes(here: Here, w: Array, law: Prior) -> tuple[Array, Array]:
    """-d log P pi / dw, and d log q / dm at fixed noise (0 where no mean is dropped)."""
    m, s, eta = here
    pull = _pull(law, w)
    if law.odds is None or eta is None:
        return pull, jnp.zeros_like(w)
    precision = 1.0 / (s * s)
    # r, the responsibility of the kept mean, is logistic(odds); 1 - r where the mean was kept, r
    # where it was not.
    odds = law.odds + LOG2E * (m * (w - 0.5 * m) * precision)
    signed = -arithmetic.larger(-100.0, jnp.where(eta, -odds, odds))
    # Times a reciprocal, not divided by: XLA would write a quotient that has two readers to memory.
    return pull, jnp.where(eta, -w, w - m) * (
        precision * (1.0 / (1.0 + arithmetic.exp2(signed, ROUGH)))
    )


def _pull(law: Prior, w: Float[Array, "..."]) -> Float[Array, "..."]:
    """sum_k resp_k (w - mu_k) / v_k over all components."""
    gaps = [w - mean for mean in law.means]
    # Always the ratios; but XLA would compute what follows from them alone before the loop, and
    # keep it in memory.
    ratios = [jnp.where(w == w, ratio, w) for ratio in law.ratios]
    halves = [law.half, *(law.half * ratio for ratio in ratios)]
    heights = [
        None,
        *(
            q + 0.5 * LOG2E * arithmetic.log(r)
            for q, r in zip(law.variance_logs, ratios, strict=True)
        ),
    ]
    logs = [
        [
            _plus(p, _plus(height, -gap * gap * half))
            for height, half in zip(heights, halves, strict=True)
        ]
        for p, gap in zip(law.mean_logs, gaps, strict=True)
    ]
    top = reduce(arithmetic.larger, [x for row in logs for x in row])
    mass = [[arithmetic.exp2(x - top, ROUGH) for x in row] for row in logs]
    force = [
        gap * reduce(jnp.add, [a * h for a, h in zip(row, halves, strict=True)])
        for gap, row in zip(gaps, mass, strict=True)
    ]
    total = reduce(jnp.add, [a for row in mass for a in row])
    return (2.0 * LN2) * reduce(jnp.add, force) * (1.0 / total)


def _plus(a: Array | None, b: Array) -> Array:
    return b if a is None else a + b


def _ready(law: Mixture, member: Family, dtype: jnp.dtype) -> Prior:
    def relative(logs: list[Array]) -> tuple[Array, ...]:
        return tuple(log - logs[0] for log in logs[1:])

    def log2(p: Rate) -> Array:
        return jnp.maximum(jnp.log2(jnp.asarray(p, dtype)), -1e30)  # a component that is not there

    weights, variances = list(law.variance_weights), list(law.variances)
    if len(variances) > 1:
        # The others are relative to the first: if it is not there, half of the second takes its
        # place.
        there = jnp.asarray(weights[0]) > 0.0
        variances[0] = jnp.where(there, variances[0], variances[1])
        weights[:2] = [jnp.where(there, q, 0.5 * weights[1]) for q in weights[:2]]
    return Prior(
        means=law.means,
        mean_logs=(None, *relative([log2(p) for p in law.mean_weights])),
        half=0.5 * LOG2E / variances[0],
        ratios=tuple(variances[0] / v for v in variances[1:]),
        variance_logs=relative([log2(q) for q in weights]),
        odds=None if member.keep is None else _odds(jnp.asarray(member.keep, dtype)),
    )


def _odds(keep: Array) -> Array:
    return LOG2E * (jnp.log(keep) - jnp.log1p(-keep))
