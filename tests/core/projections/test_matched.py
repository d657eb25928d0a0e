"""A law kept by its moments, corrected by descent: the descent's own step, seen through moments."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods, noise
from hmnn.core.cpu import layout
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.families import Posterior, rho_of
from hmnn.core.projections import descent, matched
from hmnn.core.projections.matched import MatchedDescent

NETWORK, KERNEL = hmnn.mlp(2, (3, 3), 1), kernels.jump(0.9, 0.1)
DESCENT = hmnn.descent("adam", 0.01, 20, minibatch=None, restart=True, source=noise.random)
NATURAL = hmnn.natural(0.3)
pytestmark = pytest.mark.usefixtures("float64")


def filters(likelihood="bernoulli", keep=0.8, how=DESCENT):
    """The filter that keeps moments, and the one that descends by itself."""
    settings = {"keep": keep, "keep_where": "all"}
    parts = hmnn.build(NETWORK, likelihood, KERNEL, projection=how, **settings).parts
    return replace(parts, projection=MatchedDescent(NATURAL, how)), parts


def data(seed, rows=16):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    return Batch(jnp.asarray(x), jnp.asarray((x[:, 0] > 0).astype(int)), jnp.ones(rows))


@compiled(ONCE)
def step(parts, state, batch):
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        return filtering.step(parts, state, batch)


@compiled(ONCE)
def descended(parts, state, batch):
    """The law of a time step of the descent by itself, with weights as they lie best."""
    start = parts.projection.start(parts, state)
    with jax.numpy_dtype_promotion("standard"):
        after, _ = layout.as_it_lies(filtering.update)(parts, state, batch, start)
    return after, matched.moments(parts, after.posterior)


def flat(leaves):
    """All weights in a row."""
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def test_members_have_the_moments_of_the_law():
    kept, plain = filters()
    location = descent.first_guess(plain, jax.random.key(0)).location
    member = Posterior(location, jax.tree.map(lambda m: rho_of(jnp.full_like(m, 0.3)), location))
    law = matched.moments(kept, member)
    back = matched.member(kept, law)
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(member), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    # A mean is kept with probability 0.8, and what is dropped counts in the variance.
    locations = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(location)])
    mean, variance = flat(law.mean), flat(law.variance)
    np.testing.assert_allclose(mean, 0.8 * locations, rtol=1e-9)
    np.testing.assert_allclose(variance, 0.09 + 0.16 * locations**2, rtol=1e-6)
    assert not np.allclose(variance, 0.09, rtol=1e-2)


def test_a_step_is_the_descent_between_two_matches():
    kept, plain = filters()
    state, inner = (filtering.init(parts, jax.random.key(0)) for parts in (kept, plain))
    for t in range(2):
        before = state
        state, info = step(kept, before, data(t))
        inner, law = descended(plain, inner, data(t))
        np.testing.assert_allclose(flat(state.posterior.mean), flat(law.mean), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(flat(state.posterior.variance), flat(law.variance), rtol=1e-6)
        assert bool(info.finite)
        assert int(info.rejected) == 0
        inner = inner._replace(posterior=matched.member(plain, law))
    assert int(state.t) == int(state.seen) == 2
    assert np.abs(flat(state.posterior.mean) - flat(before.posterior.mean)).max() > 1e-3


def test_where_every_epoch_is_undone_nothing_is_learned():
    kept, _ = filters(how=replace(DESCENT, learning_rate=jnp.nan, epochs=10))
    state = filtering.init(kept, jax.random.key(0))
    after, info = step(kept, state, data(0))
    assert bool(info.diverged)
    assert not bool(info.finite)
    assert int(info.rejected) == DESCENT.patience
    assert int(after.seen) == 0
    assert int(after.t) == 1


def test_the_noise_is_that_of_what_is_left_after_learning():
    """Far from the truth at first: what the first guess missed is no noise."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(256, 2))
    y = 6.0 + x[:, 0] + 0.3 * rng.normal(size=256)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(256))
    likelihood = likelihoods.learned_gaussian(1.0)
    parts, _ = filters(likelihood, 1.0, replace(DESCENT, epochs=400, learning_rate=0.03))
    state = filtering.init(parts, jax.random.key(0))
    missed = np.mean((NATURAL.outlook(parts, state.posterior, batch.x).outputs[:, 0] - y) ** 2)
    after, _ = step(parts, state, batch)
    assert float(parts.given(after.noise).scale) < 1.0
    assert missed > 9.0
