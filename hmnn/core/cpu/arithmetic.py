"""Elementary functions that XLA fuses into its loops on a CPU.

XLA:CPU writes every exp, log and division that has several readers to memory, and a division or
square root takes as long as twenty multiply-adds. The functions here are bit operations and
polynomials: they fuse, and are accurate to about 2e-7 in single precision. In other precisions they
are the library's own. They are jitted so that each is traced once for each shape.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from hmnn._types import Scalar

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
EXP2 = (
    1.0000000754548972,
    0.6931471880262273,
    0.2402210748530968,
    0.05550357114222094,
    0.009676031918255982,
    0.001339086336353527,
)
"""2^f for |f| <= 1/2, a Chebyshev interpolant."""
ROUGH = (1.0, 0.6931241934197175, 0.24024098611895683, 0.05590642459545112, 0.009582853020068286)
"""The same of one degree less, the best that is 1 at 0, for responsibilities."""
LOG = (
    0.9999999453100077,
    -0.5000036512389313,
    0.3333505893614857,
    -0.24969909027987086,
    0.19900165727208297,
    -0.172508304573601,
    0.16222578640621976,
    -0.10106890743987151,
)
"""log(1 + f) / f between sqrt(1/2) and sqrt(2), of the smallest relative error."""
LOG1P = (
    0.999999969879458,
    -0.4999949313929629,
    0.33319096783588176,
    -0.24842982025573496,
    0.19106006030215184,
    -0.1366324424868627,
    0.07822593371402839,
    -0.029505227651697566,
    0.00523269149349874,
)
"""log(1 + e) / e between 0 and 1, likewise."""
ROUND = 12582912.0
"""1.5 2^23: a number added to it is rounded to the nearest whole one, in the low bits."""
ROOT_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


@partial(jax.jit, static_argnums=1)
def exp2(x: Float[Array, "..."], coefficients: Sequence[float] = EXP2) -> Float[Array, "..."]:
    """2^x for x up to 127; 2^-126 stands for anything smaller.

    With `ROUGH` its relative error is 3e-6.
    """
    if x.dtype != jnp.float32:
        return jnp.exp2(x)
    x = larger(x, jnp.float32(-126.0))
    fraction = x - jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    # x + ROUND holds the same whole number in its low bits: cheaper than a conversion, which XLA
    # makes saturate.
    return _float(_bits(polynomial(coefficients, fraction)) + (_bits(x + ROUND) << 23))


@jax.custom_jvp
def _log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The natural logarithm of a positive normal number, to 4e-7 relatively or absolutely."""
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = _bits(x) - ROOT_HALF
    excess = _float((bits & 0x7FFFFF) + ROOT_HALF) - 1.0
    return excess * polynomial(LOG, excess) + (bits >> 23).astype(jnp.float32) * LN2


@_log.defjvp
def _log_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return log(primals[0]), tangents[0] / primals[0]


log = jax.jit(_log)


@jax.custom_jvp
def _exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """e^x for x up to 88; about 1e-38 stands for anything smaller."""
    return exp2(x * LOG2E) if x.dtype == jnp.float32 else jnp.exp(x)


@_exp.defjvp
def _exp_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value = exp(primals[0])
    return value, value * tangents[0]


exp = jax.jit(_exp)


@jax.custom_jvp
def _softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 + e^x), relatively accurate however small it is."""
    if x.dtype != jnp.float32:
        return jax.nn.softplus(x)
    e = exp2(-jnp.abs(x) * LOG2E)
    return larger(0.0, x) + e * polynomial(LOG1P, e)


@_softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return softplus(primals[0]), logistic(primals[0]) * tangents[0]


softplus = jax.jit(_softplus)


@jax.jit
def logistic(
    x: Float[Array, "..."], over: Float[Array, "..."] | float = 1.0
) -> Float[Array, "..."]:
    """1 / (1 + e^-x), the derivative of softplus, divided by `over`.

    Relatively accurate however small it is.
    """
    if x.dtype != jnp.float32:
        return jax.nn.sigmoid(x) / over
    e = exp2(-jnp.abs(x) * LOG2E)
    return jnp.where(x > 0, 1.0, e) * (1.0 / ((1.0 + e) * over))


def larger(a: Float[Array, "..."] | float, b: Float[Array, "..."]) -> Float[Array, "..."]:
    """max(a, b), and b if one of them is NaN: one instruction, where `jnp.maximum` takes three."""
    return jnp.where(b < a, a, b)


def signed(size: Float[Array, "..."], word: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """A size that is not negative, with the top bit of a word as its sign."""
    top = jax.lax.bitcast_convert_type(word & jnp.uint32(0x80000000), jnp.int32)
    return _float(_bits(size) | top)


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, the constant first.

    Pairs are added up, then pairs of pairs (Estrin's scheme): a processor waits four cycles for
    each step of a chain, and Horner's chain has one for every coefficient.
    """
    terms: list[Any] = list(coefficients)
    power = x
    while len(terms) > 1:
        pairs = [low + high * power for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        power = power * power
    return terms[0]


def _bits(x: Array) -> Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _float(bits: Array) -> Array:
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def once(tree: PyTree, weight: Scalar) -> PyTree:
    """The same arrays, computed once and kept in memory: they go through a branch.

    XLA:CPU would compute again, for each of its readers, what it takes to be cheap. `weight` is any
    number of the loop that is not negative, which XLA does not know.
    """
    return jax.lax.cond(
        jnp.asarray(weight) > -1.0, lambda x: x, lambda x: jax.tree.map(jnp.zeros_like, x), tree
    )
