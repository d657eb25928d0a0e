"""A filter that finds out by itself how fast the world moves: a bank of filters.

Nobody knows how fast the weights move, so several filters, each with its own belief about it, see
the same rows, and the law of the weights is their mixture: pi_t = sum_k w_k pi_t^k. P moves every
member by its own kernel, C multiplies w_k by what member k said of the rows, V projects every
member by itself. So a bank is a projection like the others, and `filtering.step` runs it.

Some members relearn rows of the last few hundred after each new one ("replay"); some are told the
last target ("experts") and say what is added to it. Around all of them stands an output stage that
learns whether the mixture is too sure or not sure enough. docs/concepts/bank.md has the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar
from hmnn.core import calibration, filtering, likelihoods, mixing
from hmnn.core.calibration import Said
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.prediction import Outlook, Prediction, Question
from hmnn.core.projections import natural

REPLAY = 2**21
"""Folded into the key of a time step for the rows that are relearned."""
SHARES = (0.1, 0.3, 1.0)
"""Of the outputs' linearised variance each member's predictions take such shares, as members of
their own: independent weights overstate it, and by how much is found out."""
STAGE_SHARE = 5e-4
"""`Bank.share` of the output stage."""


class Last(NamedTuple):
    """The first columns of x, of a bank with experts: the last target, and what follows it."""

    change: Float[Any, " rows"]
    """What experts learn: target minus last target, in deviations of such differences."""
    offset: Float[Any, " rows"]
    """The last target in the units of y."""
    unit: Float[Any, " rows"]
    """The deviation of such differences in the units of y."""
    known: Float[Any, " rows"]
    """1 if the last target has arrived, 0 if not: then no expert speaks or learns."""
    level: Float[Any, " rows"]
    """An input of experts: the last target."""
    step: Float[Any, " rows"]
    """An input of experts: the last difference, in deviations of such differences."""


TOLD, INPUTS = len(Last._fields), 2
"""So many columns stand before those of x, and the last of them are inputs of experts."""


class Recent(NamedTuple):
    """The latest rows that were learned, to be relearned."""

    x: Float[Any, "rows *x"]
    y: Any
    number: Int[Array, ""]
    """How many were ever put in."""


class Mixed(NamedTuple):
    """pi_t as a mixture: the members' states, group by group, and how far each is believed."""

    members: tuple[State, ...]
    log_weights: Float[Array, " owners"]
    """Of each member with each of its shares of the variance."""
    stage: Float[Array, " copies"]
    """Of the copies in the output stage."""
    width: Any = ()
    """Of the filter that tells how wide rows lie."""


class Notes(NamedTuple):
    """For the report."""

    expected: Prediction
    surprise: Float[Array, ""]
    believed: Float[Array, " members"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Group:
    """Members that are computed side by side: one filter whose numbers are stacked."""

    members: Filter
    replay: Float[Array, " members"]
    """The weight of a row that is relearned."""
    lots: int = field(default=0, metadata={"static": True})
    """After each lot of rows so many lots of old rows are relearned."""
    expert: bool = field(default=False, metadata={"static": True})
    """Whether it is told the last target, and says what is added to it."""

    @property
    def size(self) -> int:
        """The number of members."""
        return self.replay.shape[0]

    def seen(self, batch: Batch, told: bool) -> Batch:
        """The rows as the members see them; `told` says that the bank has experts."""
        if not told:
            return batch
        if not self.expert:
            return batch._replace(x=batch.x[:, TOLD:])
        last = _last(batch.x)
        return Batch(batch.x[:, TOLD - INPUTS :], last.change, batch.weight * last.known)

    def taught(self, states: State, lots: Batch, told: bool) -> tuple[State, Outlook]:
        """The members after lots of rows, and what each expected of the first one.

        The first lot is new, and says something of the noise; the others are relearned.
        """

        def one(carry: tuple[State, Array], lot: Batch) -> tuple[tuple[State, Array], Outlook]:
            states, first = carry
            weight = jnp.where(first, 1.0, self.replay).astype(lot.weight.dtype)
            seen = self.seen(lot, told)
            seen = seen._replace(weight=weight[:, None] * seen.weight[None])
            after, outlook = jax.vmap(_corrected, in_axes=(0, 0, Batch(None, None, 0), None))(
                self.members, states, seen, first
            )
            return (after, jnp.zeros_like(first)), outlook

        if lots.x.shape[0] == 1:
            lot = jax.tree.map(lambda a: a[0], lots)
            (after, _), outlook = one((states, jnp.ones((), bool)), lot)
            return after, outlook
        (after, _), outlooks = jax.lax.scan(one, (states, jnp.ones((), bool)), lots)
        return after, jax.tree.map(lambda a: a[0], outlooks)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bank:
    """The mixture of several filters as a projection; all but `buffer` and `told` are traced."""

    groups: tuple[Group, ...]
    width: Filter | None = None
    """Tells how wide rows lie, see `calibration`; it learns from what the mixture misses."""
    share: Scalar = 1e-3
    """Which part of its weight an owner gives away after a row."""
    spreads: tuple[float, ...] = field(default=SHARES, metadata={"static": True})
    row: tuple[int, ...] = field(default=(), metadata={"static": True})
    """The shape of a row of x."""
    buffer: int = field(default=500, metadata={"static": True})
    """How many of the latest rows are kept, if any member relearns them."""
    told: bool = field(default=False, metadata={"static": True})
    """Whether x begins with the columns of `Last`."""
    joint: int = field(default=natural.JOINT, metadata={"static": True})
    """Rows that are taken together; more rows are taken in turn."""

    @property
    def sizes(self) -> list[int]:
        """How many members each group has."""
        return [group.size for group in self.groups]

    def init(self, parts: Filter, key: Key) -> tuple[Mixed, Recent | tuple[()]]:
        """All members at their own lambda_0, believed alike."""
        states = tuple(
            jax.vmap(filtering.init, in_axes=(0, None))(group.members, key) for group in self.groups
        )
        owners = sum(self.sizes) * len(self.spreads)
        stage = mixing.equal(calibration.size(parts.likelihood, self.width is not None))
        width = () if self.width is None else filtering.init(self.width, key)
        law = Mixed(states, mixing.equal(owners), stage, width)
        if not any(group.lots for group in self.groups):
            return law, ()
        kind = jax.dtypes.canonicalize_dtype(float)
        empty = jnp.zeros((self.buffer, *self.row), kind), jnp.zeros(self.buffer, kind)
        return law, Recent(*empty, jnp.zeros((), jnp.int32))

    def prior(self, parts: Filter, posterior: Mixed) -> Mixed:
        """P pi_{t-1}: every member by its own kernel."""
        moved = (
            state._replace(posterior=jax.vmap(_prior)(group.members, state.posterior))
            for group, state in zip(self.groups, posterior.members, strict=True)
        )
        width = posterior.width
        if self.width is not None:
            width = width._replace(posterior=_prior(self.width, width.posterior))
        return posterior._replace(members=tuple(moved), width=width)

    def start(self, parts: Filter, state: State) -> Mixed:
        """The old law: nothing is searched for."""
        return state.posterior

    def correct(
        self, parts: Filter, prior: Mixed, start: Mixed, state: State, batch: Batch
    ) -> Corrected:
        """V C_t, `joint` rows at a time: believe the members anew, and let each of them learn."""
        joint = min(self.joint, batch.x.shape[0], natural.at_once(parts, self._plain(batch.x)))
        if batch.x.shape[0] <= joint:
            law, recent, said = self._taken(parts, (prior, state.work), state, batch, 0)
            notes = self._notes(parts, prior, said, batch)
            return Corrected(law, recent, state.noise, notes)
        expected = self.said(parts, prior, batch.x, batch.y)
        lots = natural.cut(batch, joint)

        def one(carry: tuple[Mixed, Any], lot: tuple[Array, Batch]) -> tuple[Any, None]:
            law, recent, _ = self._taken(parts, carry, state, lot[1], lot[0])
            return (law, recent), None

        numbered = jnp.arange(lots.x.shape[0]), lots
        (law, recent), _ = jax.lax.scan(one, (prior, state.work), numbered)
        return Corrected(law, recent, state.noise, self._notes(parts, prior, expected, batch))

    def report(
        self, parts: Filter, before: State, after: State, batch: Batch, notes: Notes
    ) -> Info:
        """How surprising the rows were, and who was believed before."""
        return Info(
            finite=_tree.all_finite((after.posterior, after.work)),
            surprise=notes.surprise,
            expected=notes.expected,
            believed=notes.believed,
        )

    def rest(self, parts: Filter, posterior: Mixed) -> Mixed:
        """The prior itself; nobody is believed more or less than before."""
        return self.prior(parts, posterior)

    def predict(self, parts: Filter, state: State, x: Array, question: Question) -> Prediction:
        """What the mixture says; experts speak only where the last target is told."""
        law = state.posterior

        def one(row: Array) -> Prediction:
            said = self.said(parts, law, row[None], None)
            return self._mixture(parts, law, said, row[None], question.level)

        if len(x) == 1:
            return one(x[0])
        return jax.tree.map(lambda a: a[:, 0], jax.lax.map(one, x, batch_size=16))

    def begun(self, empty: State, state: State) -> State:
        """The bank, all of whose members begin where one filter is; experts know nothing yet."""

        def begun(group: Group, states: State) -> State:
            if group.expert:
                return states

            def alike(a: Array) -> Array:
                return jnp.broadcast_to(a, (group.size, *a.shape))

            law, noise = (jax.tree.map(alike, part) for part in (state.posterior, state.noise))
            return states._replace(posterior=law, noise=noise)

        law = empty.posterior
        members = map(begun, self.groups, law.members)
        return state._replace(
            posterior=law._replace(members=tuple(members)), work=empty.work, noise=empty.noise
        )

    def said(self, parts: Filter, law: Mixed, x: Array, y: Array | None) -> Said:
        """What every owner says of rows, and of their targets if they are known."""
        rows = Batch(x, jnp.zeros(len(x)) if y is None else y, jnp.ones(len(x), x.dtype))
        found = []
        for group, states in zip(self.groups, law.members, strict=True):
            seen = group.seen(rows, self.told)
            outlook = jax.vmap(_outlook, in_axes=(0, 0, None))(group.members, states, seen.x)
            found.append(self._owners(group, states, outlook, rows, y is not None))
        return _joined(found)

    def _plain(self, x: Array) -> Array:
        return x[:, TOLD:] if self.told else x

    def _taken(
        self, parts: Filter, carry: tuple[Mixed, Any], state: State, lot: Batch, number: Any
    ) -> tuple[Mixed, Any, Said]:
        """The law and the latest rows after a lot, and what was said of it before."""
        law, recent = carry
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), REPLAY)
        members, found = [], []
        for group, states in zip(self.groups, law.members, strict=True):
            lots = _lots(lot, recent, group, jax.random.fold_in(key, number))
            after, outlook = group.taught(states, lots, self.told)
            members.append(after._replace(t=jnp.full_like(after.t, state.t + 1)))
            found.append(self._owners(group, states, outlook, lot, True))
        said = _joined(found)
        law = self._believed(parts, law, said, lot)._replace(members=tuple(members))
        return law, _kept(recent, lot) if isinstance(recent, Recent) else recent, said

    def _owners(
        self, group: Group, states: State, outlook: Outlook, rows: Batch, known: bool
    ) -> Said:
        """What members say who take each of the shares of their variance; shares vary fastest."""
        last = _last(rows.x) if self.told and group.expert else None
        y = None if not known else group.seen(rows, self.told).y

        def owner(member: Filter, noise: PyTree, outputs: Array, spread: Array) -> tuple[Any, ...]:
            likelihood = member.given(noise)
            law, softened = likelihood.predictive(outputs, spread)
            told = law.mean(softened), *likelihood.uncertainty(outputs, spread)
            classes = isinstance(likelihood, likelihoods.OfClasses)
            return (
                *told,
                law.probabilities(softened) if classes else None,
                None if y is None else law.log_prob(softened, y),
            )

        def member(member: Filter, noise: PyTree, outlook: Outlook) -> tuple[Any, ...]:
            shares = jnp.asarray(self.spreads, outlook.spread.dtype)
            each = jax.vmap(
                lambda share: owner(member, noise, outlook.outputs, share * outlook.spread)
            )
            return each(shares)

        told = jax.vmap(member)(group.members, states.noise, outlook)
        told = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), told)
        said = Said(*told, awake=jnp.ones(len(told[0]), bool))
        return said if last is None else _added(said, last)

    def _believed(self, parts: Filter, law: Mixed, said: Said, lot: Batch) -> Mixed:
        """The weights after a lot: of the owners, and of the copies in the output stage."""
        owners = mixing.among(law.log_weights, said.awake)
        evidence = said.density @ lot.weight
        real = jnp.maximum(jnp.sum(lot.weight > 0), 1).astype(evidence.dtype)
        share, stage_share = (-jnp.expm1(real * jnp.log1p(-e)) for e in (self.share, STAGE_SHARE))
        log_weights, stage = mixing.after(law.log_weights, evidence, share, said.awake), law.stage
        if len(stage) > 1:
            copies = calibration.copies(parts.likelihood, self._factors(law, lot.x))
            logs = calibration.densities(owners, said, copies, lot.y) @ lot.weight
            stage = mixing.after(stage, logs, stage_share, jnp.ones(len(stage), bool))
        some = jnp.any(lot.weight > 0)
        pairs = (log_weights, law.log_weights), (stage, law.stage)
        new, new_stage = (jnp.where(some, a, b) for a, b in pairs)
        return law._replace(
            log_weights=new, stage=new_stage, width=self._widened(law, owners, said, lot)
        )

    def _factors(self, law: Mixed, x: Array) -> Float[Array, " rows"] | None:
        """By which factor rows are thought to lie wider than the members say, in variance."""
        if self.width is None:
            return None
        outlook = _outlook(self.width, law.width, self._plain(x))
        softened = self.width.likelihood.predictive(*outlook)[1]
        return self.width.likelihood.mean(softened)[:, 0]

    def _widened(self, law: Mixed, owners: Array, said: Said, lot: Batch) -> Any:
        """The filter of widths after what the mixture missed."""
        if self.width is None:
            return law.width
        squares = calibration.squares(owners, said, lot.y)
        batch = Batch(self._plain(lot.x), squares, lot.weight)
        found = self.width.projection.correct(
            self.width, law.width.posterior, law.width.posterior, law.width, batch
        )
        return law.width._replace(posterior=found.posterior)

    def _mixture(
        self, parts: Filter, law: Mixed, said: Said, x: Array, level: Scalar
    ) -> Prediction:
        owners = mixing.among(law.log_weights, said.awake)
        copies = calibration.copies(parts.likelihood, self._factors(law, x))
        return calibration.mixture(parts.likelihood, owners, law.stage, said, copies, level)

    def _notes(self, parts: Filter, law: Mixed, said: Said, batch: Batch) -> Notes:
        """What a person wants to see, from what was said of all rows before they were learned."""
        owners = mixing.among(law.log_weights, said.awake)
        if len(law.stage) > 1:
            copies = calibration.copies(parts.likelihood, self._factors(law, batch.x))
            logs = mixing.density(law.stage, calibration.densities(owners, said, copies, batch.y).T)
        else:
            logs = mixing.density(owners, said.density.T)
        return Notes(
            self._mixture(parts, law, said, batch.x, 0.95),
            jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            believed(self, law),
        )


def believed(bank: Bank, law: Mixed) -> Float[Array, " members"]:
    """How far each member is believed, with all its shares of the variance."""
    return jnp.exp(law.log_weights).reshape(-1, len(bank.spreads)).sum(axis=1)


def _last(x: Array) -> Last:
    return Last(*x[:, :TOLD].T)


def _prior(member: Filter, posterior: PyTree) -> PyTree:
    return member.projection.prior(member, posterior)


def _outlook(member: Filter, state: State, x: Array) -> Outlook:
    return member.projection.outlook(member, state.posterior, x)


def _corrected(member: Filter, state: State, lot: Batch, first: Array) -> tuple[State, Outlook]:
    """A member after a lot; one that is relearned says nothing of the noise."""
    law = state.posterior
    found = member.projection.correct(member, law, law, state, lot)
    noise = jax.tree.map(lambda a, b: jnp.where(first, a, b), found.noise, state.noise)
    seen = state.seen + (jnp.asarray(found.learned) & first).astype(state.seen.dtype)
    return State(found.posterior, found.work, noise, state.key, state.t, seen), found.notes


def _lots(lot: Batch, recent: Any, group: Group, key: Key) -> Batch:
    """The new rows, and behind them lots of old ones as large, drawn with replacement."""
    if not group.lots:
        return jax.tree.map(lambda a: a[None], lot)
    rows = lot.x.shape[0]
    there = jnp.minimum(recent.number, len(recent.x))
    drawn = jax.random.uniform(key, (group.lots, rows)) * there.astype(float)
    places = jnp.minimum(drawn.astype(jnp.int32), jnp.maximum(there - 1, 0))
    enough = (there > group.lots) & jnp.any(lot.weight > 0)
    weight = jnp.where(enough, lot.weight, 0.0)
    old = Batch(recent.x[places], recent.y[places], jnp.broadcast_to(weight, places.shape))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b.astype(a.dtype)]), lot, old)


def _kept(recent: Recent, lot: Batch) -> Recent:
    """The latest rows with those of a lot in the places of the oldest."""
    real = lot.weight > 0
    place = (recent.number + jnp.cumsum(real) - 1) % len(recent.x)
    place = jnp.where(real, place, len(recent.x))  # out of bounds: dropped
    x = recent.x.at[place].set(lot.x.astype(recent.x.dtype), mode="drop")
    y = recent.y.at[place].set(lot.y.astype(recent.y.dtype), mode="drop")
    return Recent(x, y, recent.number + jnp.sum(real, dtype=jnp.int32))


def _joined(found: list[Said]) -> Said:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *found)


def _added(said: Said, last: Last) -> Said:
    """What experts say of the change of a target, as what they say of the target."""
    units = jnp.where(last.known > 0, last.unit, 1.0)
    offset, unit = last.offset[None, :, None], units[None, :, None]
    density = None if said.density is None else said.density - jnp.log(units)[None]
    return said._replace(
        mean=offset + unit * said.mean,
        epistemic=unit**2 * said.epistemic,
        aleatoric=unit**2 * said.aleatoric,
        density=density,
        awake=jnp.broadcast_to(last.known[0] > 0, said.awake.shape),
    )


def banked(members: Sequence[Filter]) -> Filter:
    """Filters that differ in their numbers only as one filter with stacked numbers."""
    kind = jax.dtypes.canonicalize_dtype(float)
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a, kind) for a in leaves]), *members)
