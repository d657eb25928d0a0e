"""The members of a bank: filters side by side, rows that are relearned, and the last target."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from hmnn._types import Batch, Key
from hmnn.core import likelihoods
from hmnn.core.calibration import Said
from hmnn.core.filtering import Filter, State
from hmnn.core.prediction import Outlook

REPLAY = 2**21
"""Folded into the key of a time step for the rows that are relearned."""

Spreads = tuple[float, ...]


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
        known = last(batch.x)
        return Batch(batch.x[:, TOLD - INPUTS :], known.change, batch.weight * known.known)

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

    def said(
        self, states: State, outlook: Outlook, rows: Batch, spreads: Spreads, told: bool
    ) -> Said:
        """What members say who take each of the shares of their variance; shares vary fastest.

        Without targets (y is None) they tell no densities.
        """
        y = None if rows.y is None else self.seen(rows, told).y

        def owner(member: Filter, noise: PyTree, outputs: Array, spread: Array) -> tuple[Any, ...]:
            likelihood = member.given(noise)
            law, softened = likelihood.predictive(outputs, spread)
            return (
                law.mean(softened),
                *likelihood.uncertainty(outputs, spread),
                law.probabilities(softened) if isinstance(law, likelihoods.OfClasses) else None,
                None if y is None else law.log_prob(softened, y),
            )

        def one(member: Filter, noise: PyTree, outlook: Outlook) -> tuple[Any, ...]:
            def taking(share: Array) -> tuple[Any, ...]:
                return owner(member, noise, outlook.outputs, share * outlook.spread)

            return jax.vmap(taking)(jnp.asarray(spreads, outlook.spread.dtype))

        found = jax.vmap(one)(self.members, states.noise, outlook)
        told_of = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), found)
        said = Said._make([*told_of, jnp.ones(len(told_of[0]), bool)])
        return _added(said, last(rows.x)) if told and self.expert else said


def last(x: Array) -> Last:
    """The columns that tell of the last target."""
    return Last(*x[:, :TOLD].T)


def outlook(member: Filter, state: State, x: Array) -> Outlook:
    """What a member expects of rows."""
    projection: Any = member.projection  # one with a linearised predictive
    return projection.outlook(member, state.posterior, x)


def _corrected(member: Filter, state: State, lot: Batch, first: Array) -> tuple[State, Outlook]:
    """A member after a lot; one that is relearned says nothing of the noise."""
    law = state.posterior
    found = member.projection.correct(member, law, law, state, lot)
    noise = jax.tree.map(lambda a, b: jnp.where(first, a, b), found.noise, state.noise)
    seen = state.seen + (jnp.asarray(found.learned) & first).astype(state.seen.dtype)
    return State(found.posterior, found.work, noise, state.key, state.t, seen), found.notes


def lots(lot: Batch, recent: Any, group: Group, key: Key) -> Batch:
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


def kept(recent: Recent, lot: Batch) -> Recent:
    """The latest rows with those of a lot in the places of the oldest."""
    real, size = lot.weight > 0, len(recent.x)
    order = jnp.cumsum(real, dtype=jnp.int32)
    fits = real & (order > order[-1] - size)  # a place is filled once, by the latest row
    place = jnp.where(fits, (recent.number + order - 1) % size, size)  # out of bounds: dropped
    x = recent.x.at[place].set(lot.x.astype(recent.x.dtype), mode="drop")
    y = recent.y.at[place].set(lot.y.astype(recent.y.dtype), mode="drop")
    return Recent(x, y, recent.number + jnp.sum(real, dtype=jnp.int32))


def joined(found: list[Said]) -> Said:
    """What all groups say."""
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
