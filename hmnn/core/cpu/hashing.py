"""Noise from one keyed hash per weight: the mask and the normal come from the same 32 bits.

The keys are threefry's words: related keys would break a cheap hash. docs/noise.md has the
derivation.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from hmnn._types import Scalar, Weights
from hmnn.core import noise
from hmnn.core.cpu import arithmetic
from hmnn.core.families import Family, Noise


def hashed(seeds: noise.Words, i: Scalar, weights: Weights, family: PyTree) -> PyTree:
    """Masks and normals from one 32-bit hash per weight.

    Its top bit is the sign, the rest the mask and the size.
    """
    return noise.leaves(_hashed_leaf, seeds, weights, family)


def mixed(shape: tuple[int, ...], seed: UInt32[Array, " 2"]) -> UInt32[Array, "..."]:
    """A 32-bit hash of every index of an array of this shape, under a key of two words."""
    h = _index(shape, seed[1]) * _u32(0x9E3779B1) + seed[0]
    h = (h ^ (h >> _u32(17))) * _u32(0xED5AD4BB)
    h = ((h ^ (h >> _u32(11))) + seed[1]) * _u32(0xAC4C1B51)
    h = (h ^ (h >> _u32(15))) * _u32(0x31848BAB)
    return h ^ (h >> _u32(14))


def _hashed_leaf(weight: Array, seed: UInt32[Array, " 2"], family: Family) -> Noise:
    h = mixed(weight.shape, seed)
    low = (h & _u32(0x7FFFFFFF)).astype(jnp.int32)
    eta, tail = (
        (None, _centred(low, 2.0**-31)) if family.keep is None else _masked(low, last_kept(family))
    )
    return Noise(eta, _normal(h, tail, weight.dtype))


def last_kept(family: Any) -> Int[Array, "..."]:
    """The last of the 2^31 words that keep the mean.

    From `keep` itself where none was worked out.
    """
    last = getattr(family, "last", None)  # a family of the user's own need not have it
    if last is not None:
        return jnp.asarray(last, jnp.int32)
    below = jnp.round(jnp.asarray(family.keep, jnp.float32) * 2.0**31) - 1.0
    return jnp.where(
        below >= 2.0**31 - 128.0, 2**31 - 1, jnp.minimum(below, 2.0**31 - 256.0).astype(jnp.int32)
    )


def _masked(
    low: Int[Array, "..."], last: Int[Array, "..."]
) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    """eta = (low <= last); low, rescaled within its side of that threshold, is uniform again."""
    kept = last.astype(jnp.float32) + 1.0
    eta = low <= last
    within = jnp.where(eta, low, low - last - 1)
    return eta, _centred(within, jnp.where(eta, 1.0 / kept, 1.0 / jnp.maximum(2.0**31 - kept, 1.0)))


def _centred(low: Int[Array, "..."], width: Any) -> Float[Array, "..."]:
    return (low.astype(jnp.float32) + 0.5) * width


def _normal(h: UInt32[Array, "..."], tail: Float[Array, "..."], dtype: Any) -> Float[Array, "..."]:
    """The standard normal with P(|xi| > x) = tail and the sign of the top bit.

    |xi| / (1 - tail) is a smooth function of log(tail (2 - tail)): a polynomial gives it to a
        relative 4e-6.
    """
    place = arithmetic.log(tail * (2.0 - tail)) * (-2.0 / DEEPEST) - 1.0
    size = (1.0 - tail) * arithmetic.polynomial(QUANTILE, place)
    return arithmetic.signed(size, h).astype(dtype)


DEEPEST = 21.710706148672514
"""-log(tail (2 - tail)) of a tail a little smaller than any that 31 bits give."""
QUANTILE = (
    4.4249073122291716,
    2.3428774021758776,
    -0.5675457548838704,
    0.2671286957018219,
    -0.13137516191934365,
    0.028388134229120905,
    -0.043029031703894736,
    0.0911684621508162,
    0.11383696950500355,
    -0.28066493595094666,
    0.06602649240172337,
    0.1105880953064473,
    -0.05002533766975355,
)
"""|xi| / (1 - tail) in powers of -1 .. 1, where 1 is the deepest tail."""


def _index(shape: tuple[int, ...], word: UInt32[Array, ""]) -> UInt32[Array, "..."]:
    """(row 2^b + column) xor word, with 2^b the next power of two of the columns.

    The word goes in with the row: were the index itself the same at every update, XLA would keep it
    in memory.
    """
    rows, columns = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
    shift = max(columns - 1, 0).bit_length()
    row = (jax.lax.iota(jnp.uint32, rows) << _u32(shift)) ^ word
    return (row[:, None] ^ jax.lax.iota(jnp.uint32, columns)[None, :]).reshape(shape)


def _u32(value: int) -> Array:
    return jnp.uint32(value % 2**32)
