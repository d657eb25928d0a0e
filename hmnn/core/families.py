"""The class Q: what a posterior over one leaf of weights may look like.

A family turns parameters and noise into weights, says itself as a mixture, and finds the
member with given moments. Log density, mean and variance then come from `mixtures`.
"""

import warnings
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _check, _tree
from hmnn._types import Scalar, Weights
from hmnn.core import mixtures
from hmnn.core.cpu import arithmetic
from hmnn.core.mixtures import Mixture

RHO_FLOOR = -27.0
"""s = softplus(rho) is never below softplus(-27) = 1.9e-12, so that 1/s^2 is finite in float32."""


Rate = Scalar | Float[Array, "..."]
"""gamma: one number, or one per weight."""


class Posterior(NamedTuple):
    """theta = (m, s-tilde), of one leaf (two arrays) or of a network (two trees)."""

    location: Weights
    rho: Weights


class Noise(NamedTuple):
    """epsilon = (eta, xi): which means are kept (None where all are) and standard normals."""

    eta: Bool[Array, "..."] | None
    xi: Float[Array, "..."]


@runtime_checkable
class Family(Protocol):
    """What the filter asks of a family, one leaf at a time."""

    @property
    def keep(self) -> Rate | None:
        """gamma, or None where no mean is ever dropped."""

    def draw(self, m: Array, s: Array, noise: Noise) -> Array:
        """The reparameterisation w = h(theta, epsilon)."""

    def mixture(self, posterior: Posterior) -> Mixture:
        """The member as a per-weight mixture."""

    def match(self, target: Mixture) -> Posterior:
        """The member with the moments of a mixture."""


class Gaussian(NamedTuple):
    """q = N(m, s^2)."""

    @property
    def keep(self) -> None:
        """Every mean is kept."""

    def draw(self, m: Array, s: Array, noise: Noise) -> Array:
        """w = m + s xi."""
        return m + s * noise.xi

    def mixture(self, posterior: Posterior) -> Mixture:
        """One mean and one variance."""
        return Mixture((posterior.location,), (1.0,), (scale(posterior.rho) ** 2,), (1.0,))

    def match(self, target: Mixture) -> Posterior:
        """Mean and variance of the target."""
        return _posterior(mixtures.mean(target), mixtures.variance(target))


class DropConnect(NamedTuple):
    """q = keep N(m, s^2) + (1 - keep) N(0, s^2), eq. (scalemixvarapp)."""

    keep: Rate
    last: Int[Array, "..."] | int | None = None
    """The last of the 2^31 equally likely words that keep the mean, so that keep is exact beyond
    single precision."""

    def draw(self, m: Array, s: Array, noise: Noise) -> Array:
        """w = eta m + s xi, eq. (scalemixvarapp_rand)."""
        return jnp.where(jnp.asarray(noise.eta), m, 0.0) + s * noise.xi

    def mixture(self, posterior: Posterior) -> Mixture:
        """Two means and one variance."""
        means = (posterior.location, jnp.zeros((), posterior.location.dtype))
        return Mixture(means, (self.keep, 1.0 - self.keep), (scale(posterior.rho) ** 2,), (1.0,))

    def match(self, target: Mixture) -> Posterior:
        """The target's mean, and its variance unless the family is too wide at that mean.

        keep m is the mean and s^2 + keep (1 - keep) m^2 the variance, so a far mean with a small
        variance is out of reach; then s is half the standard deviation inside the target's
        components.
        """
        location = mixtures.mean(target) / self.keep
        variance = mixtures.variance(target) - self.keep * (1.0 - self.keep) * location**2
        return _posterior(location, jnp.maximum(variance, 0.25 * mixtures.within(target)))


def scale(rho: Float[Array, "..."]) -> Float[Array, "..."]:
    """s = log(1 + exp(s-tilde)), bounded away from 0."""
    return arithmetic.softplus(jnp.maximum(rho, RHO_FLOOR))


def rho_of(scale: Float[Array, "..."]) -> Float[Array, "..."]:
    """The s-tilde of a standard deviation, the inverse of `scale`."""
    return jnp.maximum(scale + jnp.log(-jnp.expm1(-scale)), RHO_FLOOR)


def _posterior(location: Array, variance: Array) -> Posterior:
    return Posterior(location, rho_of(jnp.sqrt(variance) * jnp.ones_like(location)))


def assign(weights: PyTree, keep: Any = 1.0, where: Any = "internal") -> PyTree:
    """Give each leaf its family: DropConnect where `where` says so, Gaussian elsewhere.

    Args:
        weights: the weights or their shapes.
        keep: gamma in (0, 1], one number or a tree shaped like the weights, of numbers or of one
            per weight.
        where: one of `WHERE`, or a function of a leaf's path (`.layers[0].weight`) that says
            whether it is dropped.
    """
    structure = _tree.structure(weights)
    single = _tree.structure(keep) == _tree.structure(0)
    if not single and _tree.structure(keep) != structure:
        raise _check.fail(
            "keep", "a number or a tree shaped like the weights", _tree.structure(keep)
        )
    rates = [keep] * structure.num_leaves if single else structure.flatten_up_to(keep)
    leaves, chosen = structure.flatten_up_to(weights), _chosen(weights, where)
    rates = [_rate(rate, leaf.shape) for rate, leaf in zip(rates, leaves, strict=True)]
    if where != "none" and not any(chosen) and not all(_is_one(rate) for rate in rates):
        said = f"keep drops nothing: keep_where = {where!r} names no leaf of this network."
        said += " Take another, such as 'all'."
        warnings.warn(said, UserWarning, stacklevel=3)
    members = [
        DropConnect(rate, _last(rate)) if drop else Gaussian()
        for drop, rate in zip(chosen, rates, strict=True)
    ]
    return structure.unflatten(members)


WHERE = {
    "all": lambda leaf, layer, first, last: True,
    "none": lambda leaf, layer, first, last: False,
    "internal": lambda leaf, layer, first, last: layer not in (first, last),
    "internal_weights": lambda leaf, layer, first, last: (
        layer not in (first, last) and leaf.ndim > 1
    ),
    "all_but_last": lambda leaf, layer, first, last: layer != last,
}
"""Which leaves may be dropped; "internal" is neither first nor last layer, "internal_weights"
spares biases too."""


def _chosen(weights: PyTree, where: Any) -> list[bool]:
    paths = _tree.paths(weights)
    if callable(where):
        return [bool(where(path)) for path in paths]
    test = WHERE[_check.choice("keep_where", where, WHERE)]
    layers = [path[: max(path.rfind("."), path.rfind("["))] for path in paths]
    leaves = jax.tree.leaves(weights)
    return [
        test(leaf, layer, layers[0], layers[-1]) for leaf, layer in zip(leaves, layers, strict=True)
    ]


def _last(keep: Rate) -> Any:
    if isinstance(keep, jax.core.Tracer):
        return None
    last = (np.round(np.asarray(keep, np.float64) * 2**31) - 1).astype(np.int32)
    return int(last) if last.ndim == 0 else jnp.asarray(last)


def _is_one(keep: Rate) -> bool:
    return isinstance(keep, jax.core.Tracer) or bool(jnp.all(jnp.asarray(keep) == 1))


def _rate(keep: Any, shape: tuple[int, ...]) -> Rate:
    if isinstance(keep, jax.core.Tracer):
        return keep
    if getattr(keep, "ndim", 0) == 0:
        return _check.number("keep", keep, "in (0, 1]", lambda v: 0 < v <= 1)
    rates = jnp.asarray(keep)
    if rates.shape != shape or not bool(jnp.all((rates > 0) & (rates <= 1))):
        raise _check.fail("keep", f"in (0, 1], a number or an array of shape {shape}", keep)
    return rates
