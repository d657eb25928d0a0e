"""The filter for streams: a bank of filters in closed form, or one, or the paper's descent."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from hmnn import _check, _tree
from hmnn._types import Batch, Number, Scalar
from hmnn.core import kernels
from hmnn.core.cpu.compilation import OFTEN, compiled
from hmnn.core.filtering import Filter, Info, State
from hmnn.core.learning import Bank, Group, Last, banked
from hmnn.core.likelihoods import Likelihood, OfClasses, Width
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections.drifting import Drifting
from hmnn.core.projections.matched import MatchedDescent
from hmnn.methods import arguments, method, padding
from hmnn.methods.lowrank import low_rank
from hmnn.methods.natural import natural
from hmnn.methods.variational import descent
from hmnn.networks import Network, mlp

MANY = 256
"""From so many rows on `projection="auto"` descends if weights are dropped or the family is one of
your own; else the closed form learns better from any number of rows, and costs far less."""
PASSES = (1, 3, 10, 30)
"""How often `settled` may go through the rows."""
MOST_ROWS = 300_000
"""In all passes together."""
COLD = 0.75
"""P passes over labels count P^(1 - COLD) times in all: rows of classes say little each, and with
COLD = 1 the law stays too wide for few of them. Numbers count once."""
HELD_BACK = 5
"""Of so many rows one says how many passes are best."""
SIZES = (1, 2, 16, 128, 1024)
"""Sizes that short streams are filled up to, few because each is compiled; one row learned and one
asked come first."""
PROJECTIONS = ("auto", "gradient", "natural")
FORGETTING = ("auto", "fixed", "learn")
CORRELATIONS = ("auto", "none", "last", "rank")
BOUND, LEVEL_BOUND = 1.0, 10.0
"""No variance of a weight grows beyond this, or with memory 1 it would for ever; that of the
outputs' biases may in a bank, so that a level can follow labels that come in runs."""


class Speed(NamedTuple):
    """What one member of a bank believes of the world."""

    name: str
    jump: float
    """The variance that every weight gains from one time step to the next."""
    level: float
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


class StreamFilter(NamedTuple):
    """A few filters for one network; data come as arrays that were checked before."""

    few: Filter
    """With the closed form: a bank, or where weights are dropped one filter."""
    single: Filter
    """One filter with the closed form, which goes through rows that have no order."""
    many: Filter
    """With the descent; its states are those of `single`."""
    names: tuple[str, ...]
    """Of the members of the bank."""
    jumps: Float[ndarray, " members"]
    """The standard deviation that each gives every weight in a time step."""
    told: int
    """Columns that stand before those of x, see `hmnn.core.learning.Last`."""
    outputs: int
    """Of the network."""
    descends_from: int
    """So many rows are learned together by descent."""
    share: float
    """In P passes each has the weight P^-share."""
    classes: bool
    """Whether targets are classes."""
    dense: bool
    """Whether the network's weights are those of dense layers, first to last."""

    def init(self, seed: int) -> State:
        """Nothing learned."""
        return method.init(self.few, jax.random.key(seed))

    def check(self, y: ndarray) -> None:
        """Refuse targets that the likelihood cannot give."""
        self.few.likelihood.check(y, self.outputs, "")

    def learn(self, state: State, x: ndarray, y: ndarray, weight: ndarray) -> tuple[State, Info]:
        """One time step: all rows together."""
        number, x = len(x), self._with(x, None)
        batch = Batch(x, y, weight) if number == 1 else padding.padded(x, y, weight)
        if number < self.descends_from:
            after, info = method.step(self.few, state, batch)
            parts = self.few
        else:
            after, info = method.in_stages(self.many, state, batch)
            parts = self.many
        method.check_progress(info, int(after.t), parts)
        return after, info

    def settled(self, start: State, *data: ndarray) -> tuple[State, Info]:
        """One time step with rows in no order, in several passes, which share out their weight.

        So every pass begins where the last one led, and numbers count once in all (labels a little
        more, see `COLD`). How many are best is said by rows that are held back, by the log density
        of their targets. Rows without an order say nothing of the speed: one filter learns them,
        and all members of a bank begin where it ends.
        """
        bank = self.few.projection
        if not isinstance(bank, Bank):
            return self._settled(start, *data)
        alone = self._replace(few=self.single, told=0)
        state, info = alone._settled(method.init(self.single, start.key), *data)
        return bank.begun(start, state), info

    def _settled(self, start: State, *data: ndarray) -> tuple[State, Info]:
        chance = np.random.default_rng(np.asarray(jax.random.key_data(start.key)))
        rows = len(data[0])
        order = chance.permutation(rows)
        allowed = [n for n in PASSES if n * rows <= MOST_ROWS] or [1]
        if rows < 10 * HELD_BACK or len(allowed) == 1:  # too few to hold any back, or no choice
            return self._passes(start, data, allowed[-1], chance)
        held, others = order[::HELD_BACK], np.delete(order, np.s_[::HELD_BACK])
        some, rest = (tuple(part[chosen] for part in data) for chosen in (held, others))
        scores = [
            float(self.learn(self._passes(start, rest, n, chance)[0], *some)[1].surprise)  # type: ignore[arg-type]
            for n in allowed
        ]
        return self._passes(start, data, allowed[int(np.argmax(scores))], chance)

    def _passes(
        self, state: State, data: tuple[ndarray, ...], number: int, chance: Any
    ) -> tuple[State, Info]:
        """So many passes, each in an order of its own, as one time step; the first one's info."""
        infos, t = [], state.t + 1
        for _ in range(number):
            order = chance.permutation(len(data[0]))
            x, y, weight = (part[order] for part in data)
            state, info = self.learn(state, x, y, weight * number**-self.share)
            told = jax.tree.map(lambda a: np.asarray(a)[np.argsort(order)], info.expected)  # noqa: B023
            infos.append(info._replace(expected=told))
        return state._replace(t=t, seen=jnp.ones_like(t)), infos[0]

    def rows(
        self, state: State, x: ndarray, y: ndarray, weight: ndarray, last: ndarray | None = None
    ) -> tuple[State, Info, Prediction]:
        """Rows one at a time, each a time step.

        Predict it, then learn it unless its weight is 0. `last` has the columns for experts.
        """
        number, x = len(x), self._with(x, last)
        batch = Batch(x, y, weight)
        if number > 1:
            size = next((n for n in SIZES if number <= n), padding.bucket(number))
            batch = Batch(*(_filled(part, size) for part in batch))
        after, info, told = method.rows(self.few, state, batch)
        if not info.finite:
            raise _check.DivergenceError(
                f"The update at t = {int(after.t)} is not finite; the model is unchanged. "
                "Look for outliers in the data."
            )
        return after, info, told

    def rest(self, state: State, steps: int) -> State:
        """Time passes without data."""
        return _rest(self.few, state, steps)

    def _with(self, x: ndarray, last: ndarray | None) -> ndarray:
        """x behind the columns for experts; zeros say that the last target is not known."""
        if not self.told:
            return x
        last = np.zeros((len(x), self.told), x.dtype) if last is None else last
        return np.concatenate([last.astype(x.dtype), x], axis=1)

    def predict(
        self, state: State, x: ndarray, ahead: int = 1, last: ndarray | None = None
    ) -> Prediction:
        """What is said of new rows `ahead` time steps after the last one, in NumPy's arrays."""
        x = self._with(x, last)
        if len(x) == 1:
            return jax.device_get(_predict(self.few, state, x, ahead))
        return jax.tree.map(
            lambda a: a[: len(x)], jax.device_get(_predict(self.few, state, padding.pad(x), ahead))
        )


@jax.jit
def _rest(parts: Filter, state: State, steps: Scalar) -> State:
    def one(_: Array, law: Any) -> Any:
        return parts.projection.rest(parts, law)

    return state._replace(
        posterior=jax.lax.fori_loop(0, steps, one, state.posterior), t=state.t + steps
    )


@compiled(OFTEN)
def _predict(parts: Filter, state: State, x: Float[Array, "rows *x"], ahead: Scalar) -> Prediction:
    return parts.projection.predict(parts, _rest(parts, state, ahead), x, Question("mean", 0, 0.95))


def build(settings: Settings, columns: int, outputs: int, likelihood: str) -> StreamFilter:
    """The filter for so many columns and outputs; the same one for the same settings."""
    if not isinstance(settings.hidden, tuple | list):
        raise _check.fail("hidden", "a tuple of widths such as (64, 64)", settings.hidden)
    # Before the cache, to which 50 and 50.0 are the same, and 1 and True.
    for name in ("epochs", "minibatch", "buffer"):
        _check.count(name, getattr(settings, name))
    _check.count("replay", settings.replay, least=0)
    if type(settings.experts) not in (bool, np.bool_):
        raise _check.fail("experts", "True or False", settings.experts)
    settings = settings._replace(hidden=tuple(settings.hidden))
    try:
        return _build(settings, columns, outputs, likelihood)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    return _build.__wrapped__(settings, columns, outputs, likelihood)


@lru_cache(maxsize=128)
def _build(settings: Settings, columns: int, outputs: int, likelihood: str) -> StreamFilter:
    classes, drops = _checked(settings, likelihood)
    own = settings.network is not None or settings.likelihood is not None
    network = (
        settings.network if settings.network is not None else mlp(columns, settings.hidden, outputs)
    )
    law = arguments.likelihood(likelihood if settings.likelihood is None else settings.likelihood)
    found = arguments.widths(network, law)(np.zeros((1, columns), padding.default_float()))
    if found != outputs:
        raise _check.fail(
            "network", f"one of {outputs} outputs, as these targets need", f"{found} outputs"
        )
    if classes:
        _check_classes(law, outputs)
    descends = drops or settings.family is not None or settings.projection == "gradient"
    alone, learns = settings.forgetting == "fixed" or descends, settings.forgetting == "learn"
    if learns and (descends or settings.kernel is not None):
        allowed = "'auto' or 'fixed' with a kernel of your own, and where the filter descends"
        raise _check.fail("forgetting", allowed, "learn")
    correlations = settings.correlations
    if correlations == "auto":
        correlations = "none" if alone else "last"
    yours = Speed(YOURS, math.nan, math.nan)
    if correlations == "rank" and (descends or learns):
        allowed = "'auto', 'none' or 'last' with forgetting='learn', and where the filter descends"
        raise _check.fail("correlations", allowed, correlations)
    single = _member(yours, settings, network, law, correlations, alone)
    if descends:
        few, names, told = single, (YOURS,), 0
    else:
        experts = settings.experts and not (alone or learns or own)
        expert = mlp(columns + 2, settings.hidden, outputs) if experts and not classes else None
        speeds = (yours._replace(name=LEARNED),) if learns else (yours,) if alone else SPEEDS
        groups, names = [], []
        for chosen, net in ((speeds, network), (EXPERTS, expert)):
            if net is not None:
                made, said = _groups(chosen, settings, net, law, correlations, net is expert)
                groups += made
                names += said
        told = 0 if expert is None else len(Last._fields)
        bank = Bank(
            tuple(groups),
            width=None if own or classes else _width(settings, columns),
            row=(told + columns,),
            buffer=int(settings.buffer),
            told=told > 0,
        )
        few = replace(single, kernel=kernels.static(), projection=bank)
    wide = descent(
        optimiser="adam",
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        minibatch=settings.minibatch,
        initial_scale=settings.initial_scale,
        restart=True,
    )
    family = arguments.family(settings.family, settings.keep, "internal", single.weights())
    diagonal = natural(settings.initial_scale, settings.level_scale, bound=BOUND)
    if correlations != "rank":
        diagonal = replace(single.projection, correlations="none")
    many = replace(single, family=family, projection=MatchedDescent(diagonal, wide))
    never = 2**31
    start = {"auto": MANY if descends else never, "gradient": 1, "natural": never}
    return StreamFilter(
        *(jax.tree.map(jnp.asarray, parts) for parts in (few, single, many)),
        tuple(names),
        _jumps(few),
        told,
        outputs,
        start[settings.projection],
        COLD if classes else 1.0,
        classes,
        settings.network is None,
    )


def _width(settings: Settings, columns: int) -> Filter:
    """The filter that tells how wide rows lie."""
    network = mlp(columns, settings.hidden, 1)
    return _member(WIDTH, settings._replace(kernel=None), network, Width(), "last", False)


def _jumps(parts: Filter) -> Float[ndarray, " members"]:
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


def _checked(settings: Settings, likelihood: str) -> tuple[bool, bool]:
    """Whether targets are classes, and whether weights are dropped; refuses what cannot be."""
    _check.choice("projection", settings.projection, PROJECTIONS)
    _check.choice("forgetting", settings.forgetting, FORGETTING)
    _check.choice("correlations", settings.correlations, CORRELATIONS)
    drops = np.ndim(settings.keep) > 0 or settings.keep != 1
    if settings.projection == "natural" and drops:
        raise _check.fail("keep", "1 with projection='natural', which drops nothing", settings.keep)
    return likelihood in ("bernoulli", "categorical"), drops


def _member(
    speed: Speed,
    settings: Settings,
    network: Network,
    law: Likelihood,
    correlations: str,
    alone: bool,
) -> Filter:
    """One filter; "yours" has the numbers of the estimator."""
    shapes, mine = arguments.shapes(network), speed.name in (YOURS, LEARNED)
    kernel = settings.kernel
    if mine and kernel is None:
        kernel = kernels.jump(
            settings.memory, settings.jump_scale, settings.shrink, settings.jump_prob
        )
    elif kernel is None:
        kept = math.sqrt(1.0 - speed.jump / STILL)
        kernel = kernels.Jump(
            kept, math.sqrt(speed.jump), kernels.SHRINK, 1.0, kernels.Centre(1.0, 0.0)
        )
    scales = settings.initial_scale, settings.level_scale if mine else speed.level
    level_bound = BOUND if alone else LEVEL_BOUND
    projection: Any = low_rank(*scales, bound=BOUND, level_bound=level_bound)
    if correlations != "rank":
        projection = natural(
            *scales, bound=BOUND, correlations=correlations, level_bound=level_bound
        )
    found = arguments.kernel(kernel, shapes)
    return Filter(
        network.init,
        network.apply,
        found,
        None,
        law,
        Drifting(projection, _variance(found)) if speed.name == LEARNED else projection,
        derivatives=network.derivatives,
    )


def _variance(kernel: kernels.Kernel) -> float:
    """Of a step of one weight."""
    one = (jnp.zeros(()),)
    return float(kernels.affine(kernel, one, one).jump[0])


def _groups(
    speeds: tuple[Speed, ...],
    settings: Settings,
    network: Network,
    law: Likelihood,
    correlations: str,
    expert: bool,
) -> tuple[list[Group], list[str]]:
    """The members that relearn nothing, and those that do, each as one stacked filter."""
    alone = len(speeds) == 1
    calm = [s for s in speeds if not (s.replay or expert)]
    eager = [s for s in speeds if s.replay or expert]
    if not settings.replay:
        eager = [s._replace(replay=0.0) for s in eager]
    groups = []
    for chosen, lots in ((calm, 0), (eager, int(settings.replay))):
        if chosen:
            members = [_member(s, settings, network, law, correlations, alone) for s in chosen]
            weights = jnp.asarray([s.replay for s in chosen], padding.default_float())
            groups.append(Group(banked(members), weights, lots, expert))
    return groups, [s.name for s in calm + eager]


def _check_classes(law: Likelihood, outputs: int) -> None:
    """Refuse a likelihood that does not tell a probability of each class."""
    found, classes = None, max(2, outputs)
    if isinstance(law, OfClasses):
        found = jax.eval_shape(law.probabilities, jnp.zeros((1, outputs))).shape[1]
    if found != classes:
        raise _check.fail("likelihood", f"one of {classes} classes from {outputs} outputs", law)


def _filled(values: ndarray, size: int) -> ndarray:
    """The rows, and rows of zeros up to `size`."""
    if len(values) == size:
        return values
    result = np.zeros((size, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result
