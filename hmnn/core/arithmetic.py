"""Elementary functions that XLA fuses into its loops on a CPU.

XLA:CPU writes every exp, log and division that has several readers to memory, and its softplus costs five
multiply-adds' worth of it. The functions here are bit operations and polynomials: they fuse, and are accurate to
about 2e-7 in single precision. In other precisions they are the library's own.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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
    0.9999999993832555,
    -0.4999998849614165,
    0.33333345349800164,
    -0.25001579099291976,
    0.20000939440861365,
    -0.16608369411042173,
    0.14199650087166818,
    -0.13266031376391862,
    0.12806610507005745,
    -0.07451186274147284,
)
"""log(1 + f) / f between sqrt(1/2) and sqrt(2), likewise."""
ROUND = 12582912.0
"""1.5 2^23: a number added to it is rounded to the nearest whole one, in the low bits."""
ROOT_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


def exp2(x: Float[Array, "..."], coefficients: Sequence[float] = EXP2) -> Float[Array, "..."]:
    """2^x for x up to 127; 2^-126 stands for anything smaller. With `ROUGH` its relative error is 3e-6."""
    if x.dtype != jnp.float32:
        return jnp.exp2(x)
    x = jnp.maximum(x, -126.0)
    fraction = x - jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    # x + ROUND holds the same whole number in its low bits: cheaper than a conversion, which XLA makes saturate.
    return _float(_bits(horner(coefficients, fraction)) + (_bits(x + ROUND) << 23))


def log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The natural logarithm of a positive normal number, to 4e-7 of its size or absolutely, whichever is larger."""
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = _bits(x) - ROOT_HALF
    excess = _float((bits & 0x7FFFFF) + ROOT_HALF) - 1.0
    return excess * horner(LOG, excess) + (bits >> 23).astype(jnp.float32) * LN2


@jax.custom_jvp
def softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 + e^x), relatively accurate however small it is."""
    if x.dtype != jnp.float32:
        return jax.nn.softplus(x)
    e = exp2(-jnp.abs(x) * LOG2E)
    below = 2.0 + e
    z = e / below  # log(1 + e) = 2 artanh z
    series = horner([1.0 / (2 * n + 1) for n in range(7)], z * z)
    # A division comes last, for XLA keeps the result of one that has several readers, and would keep z otherwise.
    return (jnp.maximum(x, 0.0) * below + 2.0 * e * series) / below


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return softplus(primals[0]), logistic(primals[0]) * tangents[0]


def logistic(x: Float[Array, "..."], over: Float[Array, "..."] | float = 1.0) -> Float[Array, "..."]:
    """1 / (1 + e^-x), the derivative of softplus, divided by `over`; relatively accurate however small it is."""
    if x.dtype != jnp.float32:
        return jax.nn.sigmoid(x) / over
    e = exp2(-jnp.abs(x) * LOG2E)
    return jnp.where(x > 0, 1.0, e) / ((1.0 + e) * over)


def horner(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, the constant first."""
    value = coefficients[-1] * x + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value = value * x + coefficient
    return value


def _bits(x: Array) -> Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _float(bits: Array) -> Array:
    return jax.lax.bitcast_convert_type(bits, jnp.float32)
