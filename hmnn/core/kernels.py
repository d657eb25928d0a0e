"""P: how the weights move from one time step to the next.

A kernel sends a mixture to a mixture in closed form, weight by weight. To add one: a NamedTuple of
numbers with a `centre` and a `__call__` (docs/howto/kernel.md). One that says `weightwise = True`
treats every weight by itself, and may be given the weights of several leaves end to end.
"""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from hmnn import _check, _tree
from hmnn._types import Number, Scalar, Weights
from hmnn.core import mixtures
from hmnn.core.mixtures import Jumps, Mixture

JUMP_SCALE, SHRINK = math.exp(-2), math.exp(4)
"""sigma and c of the paper's evolving classifier."""


class Centre(NamedTuple):
    """mu = follow m_{t-1} + (1 - follow) anchor.

    A number decides, so that no choice compiles again.
    """

    follow: Scalar
    anchor: Weights | Scalar

    def at(self, location: Weights) -> Weights:
        """mu for every leaf, given m_{t-1}."""
        anchor = self.anchor
        if _tree.structure(anchor) != _tree.structure(location):
            anchor = jax.tree.map(lambda m: jnp.asarray(self.anchor, m.dtype), location)
        return jax.tree.map(
            lambda m, a: self.follow * m + (1.0 - self.follow) * a, location, anchor
        )


@runtime_checkable
class Kernel(Protocol):
    """What the filter asks of a kernel."""

    @property
    def centre(self) -> Centre:
        """Where the weights are pulled to."""

    def __call__(self, mixture: Mixture, centre: Array) -> Mixture:
        """The law of the weights of one leaf after the move."""


class Jump(NamedTuple):
    """The paper's kernel: shrink towards the centre, then a big jump or a small one, eq.

    (trans_kernel).
    """

    memory: Scalar
    jump_scale: Scalar
    shrink: Scalar
    jump_prob: Scalar
    centre: Centre

    @property
    def weightwise(self) -> bool:
        """Every weight moves by itself."""
        return True

    def __call__(self, mixture: Mixture, centre: Array) -> Mixture:
        """P pi_{t-1}, eq. (evolving_prior)."""
        return mixtures.move(mixture, self.memory, centre, _jumps(self))


class OrnsteinUhlenbeck(NamedTuple):
    """The adaptation of Kurle et al.: without data the weights tend to N(centre, scale^2)."""

    memory: Scalar
    scale: Scalar
    centre: Centre

    @property
    def weightwise(self) -> bool:
        """Every weight moves by itself."""
        return True

    def __call__(self, mixture: Mixture, centre: Array) -> Mixture:
        """Shrink by memory, add variance (1 - memory^2) scale^2."""
        variance = (1.0 - self.memory**2) * self.scale**2
        return mixtures.move(mixture, self.memory, centre, Jumps((1.0,), (variance,)))


class Static(NamedTuple):
    """The Dirac kernel of variational continual learning: the weights stay where they are."""

    centre: Centre

    @property
    def weightwise(self) -> bool:
        """Every weight moves by itself."""
        return True

    def __call__(self, mixture: Mixture, centre: Array) -> Mixture:
        """Nothing moves."""
        return mixture


class Reset(NamedTuple):
    """Bayes by Backprop: everything is forgotten, the prior is the scale mixture at the centre."""

    jump_scale: Scalar
    shrink: Scalar
    jump_prob: Scalar
    centre: Centre

    @property
    def weightwise(self) -> bool:
        """Every weight moves by itself."""
        return True

    def __call__(self, mixture: Mixture, centre: Array) -> Mixture:
        """The jump kernel with memory 0, without its two equal means."""
        jumps = _jumps(self)
        variances = tuple(jnp.asarray(v, mixture.variances[0].dtype) for v in jumps.variances)
        return Mixture((centre,), (1.0,), variances, jumps.weights)


def jump(
    memory: Number = 0.5,
    jump_scale: Number = JUMP_SCALE,
    shrink: Number = SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "previous",
) -> Jump:
    """The jump kernel.

    Args:
        memory: alpha in [0, 1]; 0 forgets everything.
        jump_scale: sigma > 0, the big jump's standard deviation (exp(-2) by default).
        shrink: c > 1; the small jump's standard deviation is sigma / c (exp(4) by default).
        jump_prob: phi in [0, 1], the prior probability of a big jump.
        centre: mu: "zero", "previous" (m_{t-1}), a number or a tree shaped like the weights.
    """
    memory = _check.unit("memory", memory)
    return Jump(memory, *_check_jumps(jump_scale, shrink, jump_prob), _centre(centre))


def ornstein_uhlenbeck(
    memory: Number = 0.9, scale: Number = 1.0, centre: Any = "zero"
) -> OrnsteinUhlenbeck:
    """The kernel of Kurle et al.: memory in [0, 1], stationary standard deviation `scale`."""
    return OrnsteinUhlenbeck(
        _check.unit("memory", memory), _check.positive("scale", scale), _centre(centre)
    )


def static() -> Static:
    """The kernel that does not move."""
    return Static(_centre("previous"))


def reset(
    jump_scale: Number = JUMP_SCALE,
    shrink: Number = SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "zero",
) -> Reset:
    """The kernel that forgets everything; arguments as in `jump`."""
    return Reset(*_check_jumps(jump_scale, shrink, jump_prob), _centre(centre))


KERNELS = {"jump": jump, "ornstein_uhlenbeck": ornstein_uhlenbeck, "static": static, "reset": reset}


class Affine(NamedTuple):
    """A kernel by its first two moments: v becomes memory^2 v + jump, leaf by leaf."""

    mean: tuple[Array, ...]
    memory: tuple[Array, ...]
    jump: tuple[Array, ...]


def affine(kernel: Kernel, mean: tuple[Array, ...], weights: Weights) -> Affine:
    """How a kernel moves the first two moments of laws with these means.

    A kernel is linear in the weights, so the variances that it gives to variances 0 and 1 tell
    both numbers.

    Args:
        kernel: the kernel.
        mean: E[w], leaf by leaf; a centre "previous" is that.
        weights: any tree like the weights.
    """
    tree = _tree.structure(weights)
    centre = tree.flatten_up_to(kernel.centre.at(tree.unflatten(mean)))

    def leaf(m: Array, mu: Array) -> tuple[Array, Array, Array]:
        laws = [
            kernel(Mixture((m,), (1.0,), (jnp.full((), v, m.dtype),), (1.0,)), mu) for v in (0, 1)
        ]
        jump, total = (mixtures.variance(law) for law in laws)
        after = jnp.broadcast_to(mixtures.mean(laws[0]), m.shape)
        return after, jnp.sqrt(jnp.maximum(total - jump, 0.0)), jump

    moved = [leaf(m, mu) for m, mu in zip(mean, centre, strict=True)]
    return Affine(*(tuple(part) for part in zip(*moved, strict=True)))


def _jumps(kernel: Jump | Reset) -> Jumps:
    """The jump's own law: sigma with probability phi, sigma / c otherwise."""
    return Jumps(
        weights=(kernel.jump_prob, 1.0 - kernel.jump_prob),
        variances=(kernel.jump_scale**2, (kernel.jump_scale / kernel.shrink) ** 2),
    )


def _check_jumps(
    jump_scale: Number, shrink: Number, jump_prob: Number
) -> tuple[float, float, float]:
    return (
        _check.positive("jump_scale", jump_scale),
        _check.number("shrink", shrink, "greater than 1", lambda v: v > 1),
        _check.unit("jump_prob", jump_prob),
    )


def _centre(centre: Any) -> Centre:
    if isinstance(centre, str):
        _check.choice("centre", centre, ["zero", "previous"])
        return Centre(float(centre == "previous"), 0.0)
    if isinstance(centre, float | int):
        return Centre(0.0, _check.number("centre", centre, "a finite number", lambda _: True))
    return Centre(0.0, centre)
