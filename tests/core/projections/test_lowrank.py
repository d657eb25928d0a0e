"""The law of low rank: the Kalman filter where nothing is dropped, and not where it is."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import stats

import hmnn
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.prediction import Question
from hmnn.core.projections import lowrank
from hmnn.networks import linear, mlp

WEIGHTS, MEMORY, JUMP, NOISE, START = 5, 0.9, 0.3, 0.5, 0.7
pytestmark = pytest.mark.usefixtures("float64")


def parts_of(network, likelihood, kernel, **settings):
    """The filter with laws of low rank."""
    return hmnn.build(network, likelihood, kernel, projection=hmnn.low_rank(**settings)).parts


def dense(law):
    """Mean and covariance of all weights."""
    mean = np.concatenate([np.ravel(m) for m in law.mean])
    variance = np.concatenate([np.ravel(v) for v in law.variance])
    factors = np.concatenate([np.reshape(w, (len(w), -1)) for w in law.factors], axis=1)
    return mean, np.linalg.inv(np.diag(1.0 / variance) + factors.T @ factors)


def filtered(rank, memory, jump, steps, rows=2):
    """The law of a linear network after rows, and that of the dense Kalman filter."""
    rng = np.random.default_rng(0)
    kernel = kernels.Jump(memory, jump, 2.0, 1.0, kernels.Centre(0.0, 0.2))
    network = linear(WEIGHTS, bias=False)
    parts = parts_of(network, likelihoods.gaussian(NOISE), kernel, initial_scale=START, rank=rank)
    state, step = filtering.init(parts, jax.random.key(0)), compiled(ONCE)(filtering.step)
    mean, cov = dense(state.posterior)
    for _ in range(steps):
        x = rng.normal(size=(rows, WEIGHTS)) + 1.0
        y = x.sum(axis=1) + NOISE * rng.normal(size=rows)
        state, _ = step(parts, state, Batch(*map(jnp.asarray, (x, y, np.ones(rows)))))
        moved = memory**2 * cov + jump**2 * np.eye(WEIGHTS)
        mean, cov = oracles.correct(0.2 + memory * (mean - 0.2), moved, x, y, NOISE)
    return state, parts, (mean, cov)


EXACT = {
    "as many columns as weights": (WEIGHTS, MEMORY, JUMP, 12),
    "more": (WEIGHTS + 3, MEMORY, JUMP, 4),
    "a standing world, and as many columns as observations": (4, 1.0, 0.0, 2),
    "memory alone adds no noise": (4, MEMORY, 0.0, 2),
}
LOSSY = {"too few columns": (2, MEMORY, JUMP, 4), "too few in a standing world": (3, 1.0, 0.0, 2)}


@pytest.mark.parametrize("case", EXACT)
def test_it_is_the_kalman_filter_while_nothing_is_dropped(case):
    state, _, expected = filtered(*EXACT[case])
    for a, b in zip(dense(state.posterior), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    told = np.concatenate([np.ravel(v) for v in lowrank.variances(state.posterior)])
    np.testing.assert_allclose(told, np.diag(expected[1]), rtol=1e-8)


@pytest.mark.parametrize("case", LOSSY)
def test_with_fewer_columns_it_is_not(case):
    state, _, (_, cov) = filtered(*LOSSY[case])
    ours = dense(state.posterior)
    assert np.abs(ours[1] - cov).max() > 1e-3
    assert (np.linalg.eigvalsh(ours[1]) > 0).all()


def test_what_is_dropped_stays_in_the_diagonal_of_the_precision():
    state, _, (_, cov) = filtered(1, 1.0, 0.0, 1)
    ours = dense(state.posterior)[1]
    np.testing.assert_allclose(np.diag(np.linalg.inv(ours)), np.diag(np.linalg.inv(cov)), rtol=1e-9)


def test_the_predictive_of_a_linear_model_is_exact():
    state, parts, (mean, cov) = filtered(WEIGHTS, MEMORY, JUMP, 3)
    x = np.random.default_rng(3).normal(size=(4, WEIGHTS))
    told = parts.projection.predict(parts, state, jnp.asarray(x), Question("mean", 0, 0.95))
    spread = np.einsum("na,ab,nb->n", x, cov, x)
    np.testing.assert_allclose(told.mean[:, 0], x @ mean, rtol=1e-8)
    np.testing.assert_allclose(told.epistemic[:, 0], spread, rtol=1e-7)
    still = replace(parts, kernel=kernels.static())
    y = x @ mean + 0.3
    _, info = filtering.step(still, state, Batch(*map(jnp.asarray, (x, y, np.ones(4)))))
    density = stats.norm.logpdf(y, x @ mean, np.sqrt(spread + NOISE**2)).mean()
    np.testing.assert_allclose(info.surprise, density, rtol=1e-7)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_network_is_corrected_as_its_linear_model_is(outputs):
    """Against the dense formula, also where derivatives are an array and not outer products."""
    rng = np.random.default_rng(2)
    network = mlp(2, (3,), outputs)
    law = likelihoods.categorical() if outputs > 1 else likelihoods.bernoulli()
    parts = parts_of(network, law, kernels.static(), initial_scale=START, rank=4 * outputs)
    general = replace(parts, apply=lambda weights, x: parts.apply(weights, x))
    x, y = jnp.asarray(rng.normal(size=(4, 2))), jnp.array([0, 1, 1, 0])
    y = y if outputs > 1 else y.astype(float)
    batch = Batch(x, y, jnp.array([1.0, 0.5, 2.0, 0.0]))
    state, step = filtering.init(parts, jax.random.key(0)), compiled(ONCE)(filtering.step)
    after, other = (step(p, state, batch)[0].posterior for p in (parts, general))
    for a, b in zip(dense(after), dense(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    _, unravel = jax.flatten_util.ravel_pytree(parts.weights())
    mean, cov = dense(state.posterior)
    jacobian = jax.jacobian(lambda w: parts.apply(unravel(w), x))(jnp.asarray(mean))
    roots, residuals = jax.vmap(law.curvature)(parts.apply(unravel(jnp.asarray(mean)), x), y)
    size = np.sqrt(batch.weight)[:, None]
    a = np.einsum("nka,nkp->nap", roots, jacobian) * size[..., None]
    a, c = a.reshape(-1, mean.size), (residuals * size).ravel()
    exact = np.linalg.inv(np.linalg.inv(cov) + a.T @ a)
    ours = dense(after)
    np.testing.assert_allclose(ours[1], exact, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours[0], mean - exact @ a.T @ c, rtol=1e-7, atol=1e-9)


def test_variances_stay_positive_and_bounded_in_single_precision():
    network, rng = mlp(3, (6,), 2), np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    batch = Batch(x, (x[:, 0] > 0).astype(int), np.ones(4000))
    with jax.enable_x64(False):
        parts = parts_of(
            network, likelihoods.categorical(), kernels.jump(1.0, 0.02), bound=1.0, rank=3
        )
        batch = jax.tree.map(lambda a: jnp.asarray(a.astype(a.dtype.kind + "4")), batch)
        state, _, _ = compiled(ONCE)(filtering.rows)(
            parts, filtering.init(parts, jax.random.key(0)), batch
        )
        told = np.concatenate([np.ravel(v) for v in lowrank.variances(state.posterior)])
    assert (told > 0).all()
    assert told.max() <= 1.0


@pytest.mark.parametrize("rank", [0, 2.5, "many"])
def test_the_rank_is_checked(rank):
    with pytest.raises(ValueError, match="rank must be"):
        hmnn.low_rank(rank=rank)
