"""Derivatives of a network's outputs in its weights, leaf by leaf, for rows taken together.

Closed-form corrections ask three things of a leaf's derivatives J: J diag(v) J', J' d, and the sums
of squares of L' J. Of a dense layer's matrix they are outer products (`Outer`), and none of the
three multiplies them out; of any other leaf they are an array.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hmnn._types import Outer, Weights

Derivatives = Callable[[Weights, Array], tuple[Array, tuple[Array | Outer, ...]]]
"""derivatives(weights, row) -> the outputs of a row, and for each leaf the derivatives in it."""

Jacobian = Float[Array, "rows outputs ..."] | Outer
Directions = Float[Array, "rows outputs"]
Roots = Float[Array, "rows outputs outputs"]


def differentiated(apply: Callable[[Weights, Array], Array]) -> Derivatives:
    """The derivatives of any network, by differentiation: an array for each leaf."""

    def derivatives(weights: Weights, row: Array) -> tuple[Array, tuple[Array | Outer, ...]]:
        outputs, pull = jax.vjp(lambda w: apply(w, row[None]).reshape(-1), weights)
        (found,) = jax.vmap(pull)(jnp.eye(outputs.size, dtype=outputs.dtype))
        return outputs, tuple(jax.tree.leaves(found))

    return derivatives


def covariance(jacobian: Jacobian, variance: Array) -> Float[Array, "rows outputs rows outputs"]:
    """J diag(v) J': what the leaf's variances say of the outputs of all rows."""
    if isinstance(jacobian, Outer):
        d, h = jacobian
        if len(d) == 1:
            return ((d[0] * (variance @ h[0] ** 2)[None]) @ d[0].T)[None, :, None, :]
        weighed = jnp.einsum("oi,ni,mi->nmo", variance, h, h)
        return jnp.einsum("nko,nmo,mjo->nkmj", d, weighed, d)
    flat = _flat(jacobian)
    if len(flat) == 1:
        return ((flat[0] * variance.reshape(1, -1)) @ flat[0].T)[None, :, None, :]
    return jnp.einsum("nkp,p,mjp->nkmj", flat, variance.reshape(-1), flat)


def variances(jacobian: Jacobian, variance: Array) -> Float[Array, "rows outputs"]:
    """The diagonal of `covariance`."""
    if isinstance(jacobian, Outer):
        return jnp.einsum("nko,no->nk", jacobian.pulled**2, jacobian.inputs**2 @ variance.T)
    return _flat(jacobian) ** 2 @ variance.reshape(-1)


def pulled(jacobian: Jacobian, directions: Directions) -> Array:
    """J' d, shaped like the leaf."""
    if isinstance(jacobian, Outer):
        if len(directions) == 1:
            return jnp.outer(directions[0] @ jacobian.pulled[0], jacobian.inputs[0])
        return jnp.einsum("nk,nko,ni->oi", directions, jacobian.pulled, jacobian.inputs)
    return jnp.tensordot(directions, jacobian, 2)


def pushed(jacobian: Jacobian, change: Array) -> Directions:
    """J w of a change w of the leaf's weights."""
    if isinstance(jacobian, Outer):
        return jnp.einsum("nko,no->nk", jacobian.pulled, jacobian.inputs @ change.T)
    return _flat(jacobian) @ change.reshape(-1)


def squares(jacobian: Jacobian, roots: Roots) -> Array:
    """The sums over rows and outputs of the squares of L' J, shaped like the leaf."""
    if isinstance(jacobian, Outer):
        units = jnp.sum(_turned(roots, jacobian.pulled) ** 2, axis=1)
        if len(units) == 1:
            return jnp.outer(units[0], jacobian.inputs[0] ** 2)
        return units.T @ jacobian.inputs**2
    turned = _turned(roots, _flat(jacobian))
    return jnp.sum(turned**2, axis=(0, 1)).reshape(jacobian.shape[2:])


def _turned(roots: Roots, flat: Array) -> Float[Array, "rows outputs size"]:
    if roots.shape[1] == 1:
        return roots * flat
    return jnp.einsum("nkj,nkp->njp", roots, flat)


def _flat(jacobian: Any) -> Float[Array, "rows outputs size"]:
    return jacobian.reshape(*jacobian.shape[:2], -1)
