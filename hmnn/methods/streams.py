"""The filter for streams: a bank of filters in closed form, or one, or the paper's descent."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from hmnn import _check
from hmnn._types import Batch, Scalar
from hmnn.core.cpu.compilation import OFTEN, compiled
from hmnn.core.filtering import Filter, Info, State
from hmnn.core.learning import Bank
from hmnn.core.likelihoods import Likelihood, OfClasses
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections.matched import MatchedDescent
from hmnn.methods import arguments, banks, method, padding
from hmnn.methods.banks import Settings
from hmnn.methods.natural import natural
from hmnn.methods.variational import descent
from hmnn.networks import mlp

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
LABELS = ("bernoulli", "categorical")
"""Likelihoods of classes."""
SIZES = (1, 2, 16, 128, 1024)
"""Sizes that short streams are filled up to, few because each is compiled; one row learned and one
asked come first."""


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
    """Columns that stand before those of x, see `hmnn.core.members.Last`."""
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
        number = len(x)
        if self.told:
            x = self._with(x, None)
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
        number = len(x)
        batch = Batch(self._with(x, last) if self.told else x, y, weight)
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
        last = np.zeros((len(x), self.told), x.dtype) if last is None else last
        return np.concatenate([last.astype(x.dtype), x], axis=1)

    def predict(
        self, state: State, x: ndarray, ahead: int = 1, last: ndarray | None = None
    ) -> Prediction:
        """What is said of new rows `ahead` time steps after the last one, in NumPy's arrays."""
        if self.told:
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
    if _check.count("replay", settings.replay, least=0) >= settings.buffer:
        allowed = f"less than buffer ({settings.buffer}), the rows to draw from"
        raise _check.fail("replay", allowed, settings.replay)
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
    banks.check(settings)
    classes, drops = likelihood in LABELS, np.ndim(settings.keep) > 0 or settings.keep != 1
    if settings.projection == "natural" and drops:
        raise _check.fail("keep", "1 with projection='natural', which drops nothing", settings.keep)
    network = settings.network
    if network is None:
        network = mlp(columns, settings.hidden, outputs)
    arguments.shapes(network)  # refuses what is no network
    law = arguments.likelihood(likelihood if settings.likelihood is None else settings.likelihood)
    found = arguments.widths(network, law)(np.zeros((1, columns), padding.default_float()))
    if found != outputs:
        raise _check.fail(
            "network", f"one of {outputs} outputs, as these targets need", f"{found} outputs"
        )
    if classes:
        _check_classes(law, outputs)
    descends = drops or settings.family is not None or settings.projection == "gradient"
    single = banks.alone(settings, network, law, descends)
    few, told = single, 0
    names: tuple[str, ...] = (banks.YOURS,)
    if not descends:
        few, names, told = banks.bank(settings, single, network, columns, outputs, classes)
    wide = descent(
        optimiser="adam",
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        minibatch=settings.minibatch,
        initial_scale=settings.initial_scale,
        restart=True,
    )
    family = arguments.family(settings.family, settings.keep, "internal", single.weights())
    diagonal = natural(settings.initial_scale, settings.level_scale, bound=banks.BOUND)
    many = replace(single, family=family, projection=MatchedDescent(diagonal, wide))
    never = 2**31
    start = {"auto": MANY if descends else never, "gradient": 1, "natural": never}
    few, single, many = (jax.tree.map(jnp.asarray, parts) for parts in (few, single, many))
    return StreamFilter(
        few,
        single,
        many,
        names,
        banks.jumps(few),
        told,
        outputs,
        start[settings.projection],
        COLD if classes else 1.0,
        classes,
        settings.network is None,
    )


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
