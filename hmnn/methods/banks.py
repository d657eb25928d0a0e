"""The bank of an estimator: which filters stand side by side, and what each believes."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from hmnn import _check, _tree
from hmnn._types import Number
from hmnn.core import kernels
from hmnn.core.filtering import Filter
from hmnn.core.learning import Bank
from hmnn.core.likelihoods import Likelihood, Width
from hmnn.core.members import INPUTS, Group, Last, banked
from hmnn.core.projections.drifting import Drifting
from hmnn.methods import arguments, padding
from hmnn.methods.lowrank import low_rank
from hmnn.methods.natural import natural
from hmnn.networks import Network, mlp

PROJECTIONS = ("auto", "gradient", "natural")
FORGETTING = ("auto", "fixed", "learn")
CORRELATIONS = ("auto", "none", "last", "rank")
BOUND, LEVEL_BOUND = 1.0, 10.0
"""No variance of a weight grows beyond this, or with memory 1 it would for ever; that of the
outputs' biases may in a bank, so that a level can follow labels that come in runs."""


class Speed(NamedTuple):
    """What one member of a bank believes of the world."""

    name: str
    jump: float = 0.0
    """The variance that every weight gains from one time step to the next."""
    level: float = 0.0
    """The standard deviation of an extra jump of the outputs' biases."""
    replay: float = 0.0
    """The weight of rows that are relearned."""


STILL = 0.12
"""Without data the variance of a weight that moves tends to this."""
YOURS, LEARNED = "yours", "learned"
SPEEDS = (
    Speed("still, moving level", 0.0, 0.3),
    Speed(YOURS, 2.45e-5, 0.03),
    Speed("fast", 5e-4, 0.03),
    Speed("moving, gentle replay", 2e-4, 0.03, 0.1),
    Speed("moving, replay", 2e-4, 0.03, 1.0),
    Speed("still, replay", 0.0, 0.03, 1.0),
)
"""The bank; chosen on development streams (benchmarks/streams.py, docs/natural.md). The second one
takes the numbers of the estimator."""
EXPERTS = (
    Speed("change from the last value", 2.45e-5, 0.03),
    Speed("change from the last value, gentle replay", 2e-4, 0.03, 0.1),
)
"""Members that are told the last target and say what is added to it."""
WIDTH = Speed("widths", 2.45e-5, 0.03)
"""The filter that tells how wide rows lie."""


class Settings(NamedTuple):
    """What a filter for streams is built from; checked when it is built, and never again."""

    hidden: Any = (64, 64)
    memory: Number = 0.9999
    jump_scale: Number = 0.007
    shrink: Number = kernels.SHRINK
    jump_prob: Number = 0.5
    keep: Number = 1.0
    initial_scale: Number = 0.3
    level_scale: Number = 0.03
    forgetting: str = "auto"
    replay: Number = 4
    buffer: Number = 500
    experts: bool = True
    correlations: str = "auto"
    projection: str = "auto"
    epochs: Number = 50
    learning_rate: Number = 0.01
    minibatch: Number = 128
    network: Network | None = None
    likelihood: Any = None
    kernel: Any = None
    family: Any = None


def check(settings: Settings) -> None:
    """Refuse words that are none of those allowed."""
    _check.choice("projection", settings.projection, PROJECTIONS)
    _check.choice("forgetting", settings.forgetting, FORGETTING)
    _check.choice("correlations", settings.correlations, CORRELATIONS)


def alone(settings: Settings, network: Network, law: Likelihood, descends: bool) -> Filter:
    """One filter with the estimator's own numbers."""
    learns = settings.forgetting == "learn"
    if learns and (descends or settings.kernel is not None):
        allowed = "'auto' or 'fixed' with a kernel of your own, and where the filter descends"
        raise _check.fail("forgetting", allowed, "learn")
    if settings.correlations == "rank" and (descends or learns):
        allowed = "'auto', 'none' or 'last' with forgetting='learn', and where the filter descends"
        raise _check.fail("correlations", allowed, "rank")
    if descends:
        settings = settings._replace(correlations="none", forgetting="fixed")
    return _member(Speed(YOURS), settings, network, law)


def bank(
    settings: Settings, single: Filter, network: Network, columns: int, outputs: int, classes: bool
) -> tuple[Filter, tuple[str, ...], int]:
    """The bank, the names of its members, and how many columns its experts are told."""
    own = settings.network is not None or settings.likelihood is not None
    many = settings.forgetting == "auto"
    experts = settings.experts and many and not own and not classes
    speeds = {"auto": SPEEDS, "fixed": (Speed(YOURS),), "learn": (Speed(LEARNED),)}
    law, chosen = single.likelihood, speeds[settings.forgetting]
    groups, names = _groups(chosen, settings, network, law, expert=False)
    if experts:
        wide = mlp(columns + INPUTS, settings.hidden, outputs)
        more, others = _groups(EXPERTS, settings, wide, law, expert=True)
        groups, names = groups + more, names + others
    told = len(Last._fields) if experts else 0
    projection = Bank(
        tuple(groups),
        width=None if own or classes else _width(settings, columns),
        row=(told + columns,),
        buffer=int(settings.buffer),
        told=experts,
    )
    return replace(single, kernel=kernels.static(), projection=projection), tuple(names), told


def jumps(parts: Filter) -> Float[ndarray, " members"]:
    """The mean deviation by which the kernel of each member makes weights wider."""
    bank = parts.projection
    stacked = (
        [group.members for group in bank.groups] if isinstance(bank, Bank) else [banked([parts])]
    )

    def one(member: Filter) -> Array:
        zeros = tuple(jax.tree.leaves(member.weights()))
        jumps = kernels.affine(member.kernel, zeros, member.weights()).jump
        wide = [jnp.sum(jnp.broadcast_to(q, w.shape)) for q, w in zip(jumps, zeros, strict=True)]
        return jnp.sqrt(sum(wide) / _tree.size(zeros))

    return np.concatenate([np.asarray(jax.jit(jax.vmap(one))(members)) for members in stacked])


def _width(settings: Settings, columns: int) -> Filter:
    """The filter that tells how wide rows lie."""
    plain = settings._replace(kernel=None, correlations="last")
    return _member(WIDTH, plain, mlp(columns, settings.hidden, 1), Width())


def _member(speed: Speed, settings: Settings, network: Network, law: Likelihood) -> Filter:
    """One filter; "yours" and "learned" have the numbers of the estimator."""
    mine, bounded = speed.name in (YOURS, LEARNED), settings.forgetting != "auto"
    kernel = settings.kernel
    if kernel is None and mine:
        kernel = kernels.jump(
            settings.memory, settings.jump_scale, settings.shrink, settings.jump_prob
        )
    elif kernel is None:
        kept, size = math.sqrt(1.0 - speed.jump / STILL), math.sqrt(speed.jump)
        kernel = kernels.Jump(kept, size, kernels.SHRINK, 1.0, kernels.Centre(1.0, 0.0))
    kernel = arguments.kernel(kernel, arguments.shapes(network))
    correlations = settings.correlations
    if correlations == "auto":
        correlations = "none" if settings.forgetting == "fixed" else "last"
    level = settings.level_scale if mine else speed.level
    bounds: Any = {"bound": BOUND, "level_bound": BOUND if bounded else LEVEL_BOUND}
    projection: Any
    if correlations == "rank":
        projection = low_rank(settings.initial_scale, level, **bounds)
    else:
        scale = settings.initial_scale
        projection = natural(scale, level, correlations=correlations, **bounds)
    if speed.name == LEARNED:
        projection = Drifting(projection, _variance(kernel))
    return Filter(network.init, network.apply, kernel, None, law, projection)


def _variance(kernel: kernels.Kernel) -> float:
    """Of a step of one weight."""
    one = (jnp.zeros(()),)
    return float(kernels.affine(kernel, one, one).jump[0])


def _groups(
    speeds: tuple[Speed, ...], settings: Settings, network: Network, law: Likelihood, expert: bool
) -> tuple[list[Group], list[str]]:
    """The members that relearn nothing, and those that do, each as one stacked filter."""
    calm = [s for s in speeds if not (s.replay or expert)]
    eager = [s for s in speeds if s.replay or expert]
    groups = []
    for chosen, lots in ((calm, 0), (eager, int(settings.replay))):
        if chosen:
            members = [_member(speed, settings, network, law) for speed in chosen]
            weights = jnp.asarray([s.replay for s in chosen], padding.default_float())
            groups.append(Group(banked(members), weights, lots, expert))
    return groups, [s.name for s in calm + eager]
