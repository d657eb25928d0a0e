"""The learned kernel: its derivatives are differences, and it finds out where the drift is."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.projections.drifting import STILL, Drifting, layers_of
from hmnn.networks import linear, mlp

JUMP, LEVEL = 2e-3, 0.1
pytestmark = pytest.mark.usefixtures("float64")


def parts_of(network, likelihood, rate=0.0, start=0.5, **settings):
    """The filter that learns its kernel."""
    closed = hmnn.natural(start, LEVEL, **settings)
    parts = hmnn.build(network, likelihood, kernels.static(), projection=closed).parts
    return replace(parts, projection=Drifting(closed, JUMP, rate))


def rows(count, columns=3, seed=0):
    """Rows of a linear model, one of them of no weight."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, columns)) + 0.5
    y = x @ np.linspace(-1, 1, columns) + rng.normal(0, 0.3, count)
    return Batch(*map(jnp.asarray, (x, y, (np.arange(count) != 3).astype(float))))


def learned(parts, batches, shift=None):
    """The law after batches, with other numbers from the start, and each surprise."""
    state, surprises = filtering.init(parts, jax.random.key(0)), []
    if shift is not None:
        numbers = state.posterior.numbers + shift
        state = state._replace(posterior=state.posterior._replace(numbers=numbers))
    step = compiled(ONCE)(filtering.step)
    for batch in batches:
        state, info = step(parts, state, batch)
        surprises.append(info.surprise)
    return state.posterior, jnp.asarray(surprises)


@pytest.mark.parametrize("correlations", ["none", "last"])
def test_tangents_are_differences(correlations):
    """Batches of five rows, in lots of two; a linear model has no derivatives that are left out."""
    batches = [rows(5, seed=t) for t in range(6)]
    parts = parts_of(linear(3, 2), likelihoods.gaussian(0.3), joint=2, correlations=correlations)
    batches = [b._replace(y=jnp.stack([b.y, -b.y], axis=1)) for b in batches]
    found, _ = learned(parts, batches)
    for i in range(2):
        shift = 1e-5 * np.eye(2)[i]
        up, down = (learned(parts, batches, sign * shift)[0].law for sign in (1.0, -1.0))
        for a, b, told in zip(*map(jax.tree.leaves, (up, down, found.tangents)), strict=True):
            np.testing.assert_allclose(told[i], (a - b) / 2e-5, rtol=1e-5, atol=1e-9)
        assert all(np.abs(mean[i]).max() > 1e-4 for mean in found.tangents.mean)


def test_the_gradient_is_that_of_the_log_predictive_through_all_steps():
    batches = [jax.tree.map(lambda a, t=t: a[t : t + 1], rows(20)) for t in (0, 1, 2, 4, 5, 6, 7)]
    parts = parts_of(linear(3), likelihoods.gaussian(0.3))
    found, _ = learned(parts, batches)
    for i in range(2):
        shift = 1e-5 * np.eye(2)[i]
        up, down = (learned(parts, batches, sign * shift)[1] for sign in (1.0, -1.0))
        gradient = (up - down) / 2e-5
        np.testing.assert_allclose(found.square[i], np.mean(gradient**2), rtol=1e-5)
    # The control: through the latest step alone it is another one.
    state = filtering.init(parts, jax.random.key(0))
    for batch in batches:
        law = state.posterior
        zeros = jax.tree.map(jnp.zeros_like, law.tangents)
        state, _ = filtering.step(
            parts, state._replace(posterior=law._replace(tangents=zeros)), batch
        )
    assert (state.posterior.square < 0.5 * found.square).all()


def test_with_rate_0_it_is_the_filter_with_that_kernel():
    network, likelihood = mlp(3, (4,), 3), likelihoods.categorical()
    closed = hmnn.natural(0.5, LEVEL, correlations="last")
    kernel = kernels.Jump(
        np.sqrt(1.0 - JUMP / STILL), np.sqrt(JUMP), 2.0, 1.0, kernels.Centre(1.0, 0.0)
    )
    fixed = hmnn.build(network, likelihood, kernel, projection=closed).parts
    batches = [rows(4, seed=t) for t in range(5)]
    batches = [b._replace(y=jnp.arange(4) % 3) for b in batches]
    ours, other = (
        learned(parts_of(network, likelihood, rate, correlations="last"), batches)[0].law
        for rate in (0.0, 0.5)
    )
    state = filtering.init(fixed, jax.random.key(0))
    for batch in batches:
        state, _ = filtering.step(fixed, state, batch)
    for a, b in zip(*map(jax.tree.leaves, (ours, state.posterior)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
    assert np.abs(other.mean[0] - ours.mean[0]).max() > 1e-4  # the control


def walking(layer, steps=2500):
    """A filter that begins at the truth, and rows of a network of which one layer walks."""
    network, rng = mlp(3, (8,), 1, jnp.tanh), np.random.default_rng(1)
    first = jax.tree.map(lambda w: 1.5 * w, network.init(jax.random.key(3)))
    leaves, tree = jax.tree.flatten(first)
    walk = (0.02, 0.04)[layer] * rng.normal(size=(steps, *leaves[2 * layer].shape))
    for t in range(1, steps):
        walk[t] += 0.998 * walk[t - 1]
    x = rng.normal(size=(steps, 3))

    def one(change, row):
        moved = [leaf + change if i == 2 * layer else leaf for i, leaf in enumerate(leaves)]
        return network.apply(tree.unflatten(moved), row[None])[0, 0]

    y = jax.vmap(one)(jnp.asarray(walk), jnp.asarray(x)) + 0.1 * rng.normal(size=steps)
    parts = parts_of(network, likelihoods.gaussian(0.1), rate=0.01, start=0.1, bound=1.0)
    parts = replace(parts, first_weights=lambda key: first)
    return parts, Batch(jnp.asarray(x), y, jnp.ones(steps))


@pytest.mark.parametrize("layer", [0, 1])
def test_it_finds_the_layer_that_walks(layer):
    parts, batch = walking(layer)
    state, _, _ = compiled(ONCE)(filtering.rows)(
        parts, filtering.init(parts, jax.random.key(0)), batch
    )
    first, last, _ = state.posterior.numbers
    apart, found = (first - last, first) if layer == 0 else (last - first, last)
    assert apart > np.log(3.0)
    assert abs(found - 2.0 * np.log((0.02, 0.04)[layer])) < np.log(2.0)


def test_rows_of_no_weight_say_nothing_of_the_kernel():
    parts = parts_of(mlp(3, (4,), 1), likelihoods.gaussian(0.3), rate=0.1, joint=2)
    batch = rows(5)
    padded = Batch(
        *(jnp.concatenate([a, b]) for a, b in zip(batch, rows(4, seed=9), strict=True))
    )._replace(weight=jnp.append(batch.weight[:5], jnp.zeros(4)))
    with_it, without = (learned(parts, [b])[0] for b in (padded, batch))
    for a, b in zip(*map(jax.tree.leaves, (with_it, without)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    assert np.abs(without.numbers - learned(parts, [])[0].numbers).max() > 0.01


def test_leaves_side_by_side_are_a_layer():
    assert layers_of(mlp(3, (4, 5), 1).init(jax.random.key(0))) == [0, 0, 1, 1, 2, 2]
    assert layers_of({k: {"b": jnp.zeros(1), "w": jnp.zeros(1)} for k in "ac"}) == [0, 0, 1, 1]
    assert layers_of(jnp.zeros(3)) == [0]
