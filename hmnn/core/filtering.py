"""The recursion itself: pi_t = V C_t P pi_{t-1}, eq. (klfilter) and Algorithm 1.

P is the kernel, C the likelihood, V the projection: parts of a `Filter` that plug in. `step` is the
line, and it is what every method and every estimator runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _tree
from hmnn._types import Batch, Key, Weights
from hmnn.core import likelihoods
from hmnn.core.jacobians import Derivatives
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Apply
from hmnn.core.prediction import Outlook, Prediction, Question


class State(NamedTuple):
    """All that the next time step needs."""

    posterior: PyTree
    """pi_t, in the form that the projection gives it."""
    work: PyTree
    """What the projection carries beside it, such as an optimiser's state."""
    noise: PyTree
    """What residuals have said of the noise, for a likelihood that learns it."""
    key: Key
    t: Int[Array, ""]
    seen: Int[Array, ""]
    """Time steps that had data from which something was learned."""


class Info(NamedTuple):
    """What a person wants to see of a time step; None where the projection does not know it."""

    finite: Bool[Array, ""]
    misfit: Float[Array, ""] | None = None
    """-log g of the rows after they were learned."""
    surprise: Float[Array, ""] | None = None
    """Mean log density of the rows' y before they were learned."""
    log_evidence: Float[Array, ""] | None = None
    """log p(D_t | D_1 .. D_{t-1}) of all rows together."""
    free_energy: Float[Array, ""] | None = None
    divergence: Float[Array, ""] | None = None
    """KL(q || P pi_{t-1}), estimated: the other term of the free energy."""
    penalty: Float[Array, ""] | None = None
    """What a method that holds on to old weights adds to the misfit."""
    mean_scale: Float[Array, ""] | None = None
    """Mean standard deviation of the weights."""
    drift: Float[Array, ""] | None = None
    """Responsibility of the big jump, mean over all weights; NaN for a kernel without one."""
    drift_by_leaf: PyTree = None
    rejected: Int[Array, ""] | None = None
    """Epochs undone in this time step."""
    diverged: Bool[Array, ""] | None = None
    """Whether the search for the new law was given up."""
    iterations: Int[Array, ""] | None = None
    believed: Float[Array, " members"] | None = None
    """How far each filter of a bank was believed before the rows."""
    expected: Prediction | None = None
    """What was said of the rows before they were learned."""
    outlook: Outlook | None = None
    """From which law of the outputs it was said."""


class Corrected(NamedTuple):
    """What a projection makes of a prior and the data of a time step."""

    posterior: PyTree
    work: PyTree
    noise: PyTree
    notes: PyTree = ()
    """For the projection's own report."""
    learned: Bool[Array, ""] | bool = True
    """Whether the data had a part in it."""


@runtime_checkable
class Projection(Protocol):
    """V, and all that depends on the form in which it keeps a law.

    `parts` is the filter that it is a part of.
    """

    def init(self, parts: "Filter", key: Key) -> tuple[PyTree, PyTree]:
        """pi_0 = lambda_0, and what is carried beside it."""

    def prior(self, parts: "Filter", posterior: PyTree) -> PyTree:
        """P pi_{t-1}: the law of the weights before the data of time t, by the kernel."""

    def start(self, parts: "Filter", state: State) -> PyTree:
        """Where the search for the new law begins.

        The old law, for a projection that does not search.
        """

    def correct(
        self, parts: "Filter", prior: PyTree, start: PyTree, state: State, batch: Batch
    ) -> Corrected:
        """V C_t: the member of the family for the prior corrected by the data."""

    def report(
        self, parts: "Filter", before: State, after: State, batch: Batch, notes: PyTree
    ) -> Info:
        """What a person wants to see of the step from `before` to `after`."""

    def rest(self, parts: "Filter", posterior: PyTree) -> PyTree:
        """The law after a time step without data."""

    def predict(self, parts: "Filter", state: State, x: Array, question: Question) -> Prediction:
        """What the law says of new rows."""


def leaf_means(*trees: Weights) -> tuple[Weights, ...]:
    """The mean over every leaf, of each tree."""
    return tuple(jax.tree.map(jnp.mean, tree) for tree in trees)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Filter:
    """The parts of a filter. Their numbers are traced: another value never compiles again."""

    first_weights: Callable[[Key], Weights] = field(metadata={"static": True})
    """The network's own initial weights."""
    apply: Apply = field(metadata={"static": True})
    """apply(weights, x) -> outputs, a row for each row of x."""
    kernel: Kernel
    family: PyTree
    """The family of each leaf of the weights."""
    likelihood: Likelihood
    projection: Projection
    leaf_means: Callable[..., tuple[Weights, ...]] = field(
        default=leaf_means, metadata={"static": True}
    )
    """The mean over every leaf of the network's own weights, however they lie in memory."""
    kinds: tuple[type, ...] = field(default=(), metadata={"static": True})
    """The classes of the parts, filled in here: JAX calls the structures of two dataclasses equal
    when their fields are, and would take the program of one for the other."""

    def __post_init__(self) -> None:
        parts = self.kernel, self.family, self.likelihood, self.projection
        object.__setattr__(self, "kinds", _tree.kinds(parts))

    @property
    def derivatives(self) -> Derivatives | None:
        """How a network of dense layers tells its derivatives; None: they are found."""
        return getattr(self.apply, "derivatives", None)

    def weights(self) -> Weights:
        """Zeros shaped like the weights."""
        shapes = jax.eval_shape(self.first_weights, jax.random.key(0))
        return jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), shapes)

    def given(self, noise: PyTree) -> Likelihood:
        """The likelihood with the noise that was learned."""
        return likelihoods.given(self.likelihood, noise)


def init(parts: Filter, key: Key) -> State:
    """pi_0 = lambda_0, before any data."""
    posterior, work = parts.projection.init(parts, key)
    zero = jnp.zeros((), jnp.int32)
    return State(posterior, work, likelihoods.first_noise(parts.likelihood), key, zero, zero)


def step(parts: Filter, state: State, batch: Batch) -> tuple[State, Info]:
    """pi_t = V C_t P pi_{t-1}, and what a person wants to see of it."""
    after, notes = update(parts, state, batch, parts.projection.start(parts, state))
    return after, parts.projection.report(parts, state, after, batch, notes)


def update(parts: Filter, state: State, batch: Batch, start: PyTree) -> tuple[State, PyTree]:
    """pi_t = V C_t P pi_{t-1}; also, the projection's notes for its report."""
    prior = parts.projection.prior(parts, state.posterior)  # P
    found = parts.projection.correct(parts, prior, start, state, batch)  # V C_t
    seen = state.seen + jnp.asarray(found.learned, state.seen.dtype)
    return State(
        found.posterior, found.work, found.noise, state.key, state.t + 1, seen
    ), found.notes


def noise_after(
    parts: Filter, state: State, batch: Batch, before: Weights, after: Weights
) -> PyTree:
    """The noise that residuals speak of, for a projection that tells no outlook.

    They are residuals of the network before it learned the rows; of the first rows, after it did,
    since what a first guess misses says nothing of the noise.
    """
    if not isinstance(parts.likelihood, likelihoods.Learning):
        return state.noise
    weights = jax.tree.map(lambda new, old: jnp.where(state.seen == 0, new, old), after, before)
    outputs = parts.apply(weights, batch.x)
    return likelihoods.learned(
        parts.likelihood, state.noise, (outputs, jnp.zeros_like(outputs)), batch
    )


def rest(parts: Filter, state: State) -> State:
    """A time step without data: the weights move, and nothing is learned."""
    return state._replace(posterior=parts.projection.rest(parts, state.posterior), t=state.t + 1)


def scan(parts: Filter, state: State, batches: Batch) -> tuple[State, tuple[PyTree, Info]]:
    """Filter a stream whose time steps are stacked along the first axis; keep every posterior."""

    def one(state: State, batch: Batch) -> tuple[State, tuple[PyTree, Info]]:
        state, info = step(parts, state, batch)
        return state, (state.posterior, info)

    return jax.lax.scan(one, state, batches)


def rows(parts: Filter, state: State, batch: Batch) -> tuple[State, Info, Prediction]:
    """Predict each row and then learn it, every row a time step, in one loop.

    A row of weight 0 is predicted and not learned, and no time passes. The projection must tell
    what it expected of the rows.

    Returns:
        The state after the rows, the surprise at each of them, and what was said of it before,
            without intervals.
    """

    def one(state: State, row: Batch) -> tuple[State, tuple[PyTree, ...]]:
        after, info = step(parts, state, jax.tree.map(lambda a: a[None], row))
        kept = jax.tree.map(lambda new, old: jnp.where(row.weight > 0.0, new, old), after, state)
        assert info.expected is not None  # the projection must tell it
        told = info.expected._replace(lower=None, upper=None)
        return kept, (told, info.surprise, info.believed)

    after, (told, surprise, believed) = jax.lax.scan(one, state, batch)
    finite = _tree.all_finite((after.posterior, after.work, after.noise))
    info = Info(finite, surprise=surprise, believed=believed)
    return after, info, jax.tree.map(lambda a: a[:, 0], told)
