"""The recursion itself: pi_t = V C_t P pi_{t-1}, eq. (klfilter) and Algorithm 1.

P is `prior`, C and V together are `projection.descend`, and `step` is the line.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from hmnn import _tree
from hmnn._types import Key, Scalar, Weights
from hmnn.core import mixtures, noise, objective, projection
from hmnn.core.cpu import layout
from hmnn.core.cpu.layout import Layout
from hmnn.core.families import Posterior, rho_of, scale
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.core.mixtures import Mixture
from hmnn.core.objective import Batch
from hmnn.core.projection import Descent, Pace, Path

FIRST = 2**31 - 1
"""Folded into the key for theta_1; time steps fold in t."""


class Plan(NamedTuple):
    """The parts of a filter that are compiled in."""

    start: Callable[[Key], Weights]
    """m of theta_1, the first guess: a network's own initial weights."""
    descent: Descent
    restart: bool = False
    """Whether the optimiser forgets its state at every time step."""


class Model(NamedTuple):
    """The model's numbers, which are traced: another value never compiles again."""

    kernel: Kernel
    family: PyTree
    likelihood: Likelihood
    pace: Pace = Pace()
    initial_scale: Scalar = 0.6931471805599453
    """Standard deviation of lambda_0."""
    start_rho: tuple[Scalar, Scalar] = (-3.0, -2.0)
    """Range of s-tilde of theta_1."""


class State(NamedTuple):
    """All that the next time step needs."""

    posterior: Posterior
    optimiser: PyTree
    key: Key
    t: Int[Array, ""]
    seen: Int[Array, ""]
    """Time steps that had data; the first of them starts from the network's own initial weights."""
    rejected: Int[Array, ""]


class Info(NamedTuple):
    """What a person wants to see of a time step."""

    free_energy: Float[Array, ""]
    misfit: Float[Array, ""]
    divergence: Float[Array, ""]
    finite: Bool[Array, ""]
    rejected: Int[Array, ""]
    """Epochs undone in this time step."""
    diverged: Bool[Array, ""]
    mean_scale: Float[Array, ""]
    drift: Float[Array, ""]
    """Responsibility of the big jump, mean over all weights; NaN for a kernel without one."""
    drift_by_leaf: PyTree


def init(key: Key, plan: Plan, model: Model) -> State:
    """pi_0 = lambda_0: independent N(0, initial_scale^2)."""
    weights = jax.eval_shape(plan.start, key)
    zeros = jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), weights)
    rho = jax.tree.map(lambda w: w + rho_of(jnp.asarray(model.initial_scale, w.dtype)), zeros)
    posterior = Posterior(zeros, rho)
    optimiser = plan.descent.optimiser(model.pace.learning_rate).init(posterior)
    zero = jnp.zeros((), jnp.int32)
    return State(posterior, optimiser, key, zero, zero, zero)


def prior(model: Model, posterior: Posterior, previous: Weights | None = None, places: Layout | None = None) -> PyTree:
    """P pi_{t-1}: the law of the weights before the data of time t, one mixture per leaf.

    `previous` is what a kernel with centre "previous" pulls to: m_{t-1} as in the paper, unless given.
    """
    places = places or Layout(posterior.location)
    centre = places.lay(model.kernel.centre.at(posterior.location if previous is None else previous))
    moved = objective.mixture(places.lay(posterior), places.members(model.family))
    return jax.tree.map(lambda _, law, mu: model.kernel(law, mu), places.lay(posterior.location), moved, centre)


def step(plan: Plan, model: Model, state: State, batch: Batch) -> tuple[State, Info]:
    """pi_t = V C_t P pi_{t-1}, and what a person wants to see of it."""
    theta = jax.lax.cond(state.seen == 0, lambda: first_guess(state.key, plan, model), lambda: state.posterior)
    after, undone = update(plan, model, state, batch, theta)
    return after, look(plan, model, state, after, batch, undone)


def update(plan: Plan, model: Model, state: State, batch: Batch, theta: Posterior) -> tuple[State, Int[Array, ""]]:
    """pi_t = V C_t P pi_{t-1} by a descent that starts at `theta`; also, how many epochs were undone.

    `theta` is theta_{t-1}, or `first_guess` as long as no data were seen. The three parts may be compiled one by one:
    only `descend` has a loop over the data that is worth compiling well.
    """
    path, undone = descend(plan, model, batch, *ready(plan, model, state, theta))
    return moved(plan, model, state, path, undone), undone


class Task(NamedTuple):
    """What stays the same during a descent, as it lies in memory."""

    key: Key
    family: PyTree
    law: PyTree
    """P pi_{t-1}."""


def ready(plan: Plan, model: Model, state: State, theta: Posterior) -> tuple[Task, Path]:
    """P pi_{t-1}, and where the descent starts."""
    places = _layout(plan, model)
    optimiser = plan.descent.optimiser(model.pace.learning_rate).init(theta) if plan.restart else state.optimiser
    family, path = places.members(model.family), places.lay(Path(theta, optimiser, state.rejected))
    before = prior(model, state.posterior, places=places)
    law = projection.ready(plan.descent, family, before, path.posterior.location)
    key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), 0)
    return Task(key, family, law), projection.packed(path)


def descend(plan: Plan, model: Model, batch: Batch, task: Task, start: Path) -> tuple[Path, Int[Array, ""]]:
    """V C_t: where the descent ends, and how many epochs were undone."""
    descent = _from_places(plan.descent, _layout(plan, model))
    return projection.descend(task.key, descent, model.pace, model.likelihood, task.family, task.law, start, batch)


def moved(plan: Plan, model: Model, state: State, path: Path, undone: Int[Array, ""]) -> State:
    """The state at the end of the descent; if every epoch was undone nothing was seen, and theta_1 was a guess."""
    path, learnt = _layout(plan, model).back(projection.unpacked(path)), undone < model.pace.epochs
    posterior = jax.tree.map(lambda new, old: jnp.where(learnt, new, old), path.posterior, state.posterior)
    seen = state.seen + learnt.astype(state.seen.dtype)
    return State(posterior, path.optimiser, state.key, state.t + 1, seen, path.rejected)


def advance(model: Model, state: State) -> State:
    """A time step without data: the posterior moves by the kernel and is matched by its moments.

    A kernel with centre "previous" pulls to E[w] here: m is larger where means are dropped, and
    pulling to it again and again without data would let it grow without bound.
    """
    law = objective.mixture(state.posterior, model.family)
    expected = jax.tree.map(lambda _, q: mixtures.mean(q), state.posterior.location, law)
    moved = prior(model, state.posterior, previous=expected)
    matched = jax.tree.map(lambda _, member, q: member.match(q), state.posterior.location, model.family, moved)
    return state._replace(posterior=_tree.unzip(state.posterior.location, matched, Posterior), t=state.t + 1)


def scan(plan: Plan, model: Model, state: State, batches: Batch) -> tuple[State, tuple[Posterior, Info]]:
    """Filter a stream whose time steps are stacked along the first axis; keep every posterior."""

    def one(state: State, batch: Batch) -> tuple[State, tuple[Posterior, Info]]:
        state, info = step(plan, model, state, batch)
        return state, (state.posterior, info)

    return jax.lax.scan(one, state, batches)


def first_guess(key: Key, plan: Plan, model: Model) -> Posterior:
    """theta_1: the network's initial weights, s-tilde uniform in a range."""
    location_key, rho_key = jax.random.split(jax.random.fold_in(key, FIRST))
    location = plan.start(location_key)
    low, high = model.start_rho
    draws = _tree.split(jax.random.uniform(rho_key, (_tree.size(location),)), location)
    return Posterior(location, jax.tree.map(lambda u: low + (high - low) * u, draws))


def look(plan: Plan, model: Model, state: State, after: State, batch: Batch, undone: Array) -> Info:
    """The free energy and its terms at the new posterior, on all the data of the step."""
    places = _layout(plan, model)
    theta, descent, family = (
        places.lay(after.posterior),
        _from_places(plan.descent, places),
        places.members(model.family),
    )
    own, before = objective.mixture(theta, family), prior(model, state.posterior, places=places)
    scales = jax.tree.map(scale, theta.rho)
    key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), 1)
    seeds = noise.words(key, theta.location, descent.samples)

    def one(i: Array) -> tuple[Array, Array, PyTree]:
        epsilon = descent.source(seeds[i], i, theta.location, family)
        w = objective.draw_scaled(theta.location, scales, family, epsilon)
        terms = places.sums(jax.tree.map(_terms, w, own, before))
        divergence = sum(term.real for term in jax.tree.leaves(terms))
        drift = jax.tree.map(lambda m, term: term.imag / m.size, after.posterior.location, terms)
        return _misfit(descent, model, w, batch), divergence, drift

    misfit, divergence, drift = jax.tree.map(lambda a: a.mean(axis=0), jax.lax.map(one, jnp.arange(descent.samples)))
    leaves, weights = jax.tree.leaves(after.posterior.location), _tree.size(theta.location)
    overall = sum(mean * leaf.size for mean, leaf in zip(jax.tree.leaves(drift), leaves, strict=True))
    energy = misfit + model.pace.temperature * divergence
    return Info(
        free_energy=energy,
        misfit=misfit,
        divergence=divergence,
        finite=(undone == 0) & jnp.isfinite(energy),
        rejected=undone,
        diverged=after.rejected >= descent.patience,
        mean_scale=sum(s.sum() for s in jax.tree.leaves(scales)) / weights,
        drift=overall / weights,
        drift_by_leaf=drift,
    )


def _layout(plan: Plan, model: Model) -> Layout:
    """Small leaves lie together, unless the optimiser or the kernel may look at a leaf as a whole."""

    def kernel(leaf: Array) -> Mixture:
        return model.kernel(Mixture((leaf,), (1.0,), (leaf,), (1.0,)), leaf)

    weights = jax.eval_shape(plan.start, jax.random.key(0))
    alone = plan.descent.optimiser in layout.BY_WEIGHT and layout.weight_by_weight(kernel)
    return layout.of(weights, model.family) if alone else Layout(weights)


def _from_places(descent: Descent, places: Layout) -> Descent:
    """The same descent, for a network that reads its weights as they lie."""
    return descent._replace(apply=lambda w, x: descent.apply(places.back(w), x))


def _terms(w: Array, own: Mixture, before: Mixture) -> Array:
    """log q - log P pi of every weight, and with i the responsibility of the widest: one array, one pass."""
    divergence = mixtures.log_prob(own, w) - mixtures.log_prob(before, w)
    return jax.lax.complex(divergence, mixtures.widest(before, w))


def _misfit(descent: Descent, model: Model, w: Weights, batch: Batch) -> Array:
    """-log g over all rows, minibatch by minibatch, so that a large step needs no large memory."""
    size = batch.x.shape[0]
    rows = min(descent.minibatch or size, size)
    order = jnp.pad(jnp.arange(size), (0, -size % rows))

    def add(i: Array, total: Array) -> Array:
        part = projection.minibatch(batch, order, i, rows)
        return total + objective.misfit(descent.apply, model.likelihood, w, batch=part)

    return jax.lax.fori_loop(0, (batch.rows + rows - 1) // rows, add, jnp.zeros((), jax.tree.leaves(w)[0].dtype))
