"""A filter that finds out by itself how fast the world moves: a bank of filters.

Nobody knows how fast the weights move, so several filters, each with its own belief about it, see
the same rows, and the law of the weights is their mixture: pi_t = sum_k w_k pi_t^k. P moves every
member by its own kernel, C multiplies w_k by what member k said of the rows, V projects every
member by itself. So a bank is a projection like the others, and `filtering.step` runs it.

Some members relearn rows of the last few hundred after each new one ("replay"); some are told the
last target ("experts") and say what is added to it. Around all of them stands an output stage that
learns whether the mixture is too sure or not sure enough. docs/concepts/bank.md has the reasons.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from hmnn import _tree
from hmnn._types import Batch, Key, Scalar
from hmnn.core import calibration, filtering, members, mixing
from hmnn.core.calibration import Said
from hmnn.core.filtering import Corrected, Filter, Info, State
from hmnn.core.members import TOLD, Group, Recent
from hmnn.core.prediction import Prediction, Question
from hmnn.core.projections import natural

SHARES = (0.1, 0.3, 1.0)
"""Of the outputs' linearised variance each member's predictions take such shares, as members of
their own: independent weights overstate it, and by how much is found out."""
STAGE_SHARE = 5e-4
"""`Bank.share` of the output stage."""


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
class Bank:
    """The mixture of several filters as a projection; all but `buffer` and `told` are traced."""

    groups: tuple[Group, ...]
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
    width: Filter | None = None
    """Tells how wide rows lie, see `calibration`; it learns from what the mixture misses."""

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
            begun = getattr(group.members.projection, "begun", lambda fresh, law: law)
            return states._replace(posterior=begun(states.posterior, law), noise=noise)

        law = empty.posterior
        begin = map(begun, self.groups, law.members)
        return state._replace(
            posterior=law._replace(members=tuple(begin)), work=empty.work, noise=empty.noise
        )

    def said(self, parts: Filter, law: Mixed, x: Array, y: Array | None) -> Said:
        """What every owner says of rows, and of their targets if they are known."""
        rows, found = Batch(x, y, jnp.ones(len(x), x.dtype)), []
        for group, states in zip(self.groups, law.members, strict=True):
            seen = group.seen(rows, self.told)
            outlook = jax.vmap(members.outlook, in_axes=(0, 0, None))(group.members, states, seen.x)
            found.append(group.said(states, outlook, rows, self.spreads, self.told))
        return members.joined(found)

    def _plain(self, x: Array) -> Array:
        return x[:, TOLD:] if self.told else x

    def _taken(
        self, parts: Filter, carry: tuple[Mixed, Any], state: State, lot: Batch, number: Any
    ) -> tuple[Mixed, Any, Said]:
        """The law and the latest rows after a lot, and what was said of it before."""
        law, recent = carry
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), members.REPLAY)
        taught, found = [], []
        for group, states in zip(self.groups, law.members, strict=True):
            lots = members.lots(lot, recent, group, jax.random.fold_in(key, number))
            after, outlook = group.taught(states, lots, self.told)
            taught.append(after._replace(t=jnp.full_like(after.t, state.t + 1)))
            found.append(group.said(states, outlook, lot, self.spreads, self.told))
        said = members.joined(found)
        law = self._believed(parts, law, said, lot)._replace(members=tuple(taught))
        return law, members.kept(recent, lot) if isinstance(recent, Recent) else recent, said

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
        outlook = members.outlook(self.width, law.width, self._plain(x))
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
            assert said.density is not None  # the targets are known
            logs = mixing.density(owners, said.density.T)
        return Notes(
            self._mixture(parts, law, said, batch.x, 0.95),
            jnp.sum(batch.weight * logs) / jnp.sum(batch.weight),
            believed(self, law),
        )


def believed(bank: Bank, law: Mixed) -> Float[Array, " members"]:
    """How far each member is believed, with all its shares of the variance."""
    return jnp.exp(law.log_weights).reshape(-1, len(bank.spreads)).sum(axis=1)


def _prior(member: Filter, posterior: PyTree) -> PyTree:
    return member.projection.prior(member, posterior)
