import jax
import numpy as np
import oracles
import pytest
from scipy import stats

import hmnn
from hmnn import Dataset
from hmnn.core import kernels, likelihoods
from hmnn.core.projections.laplace import Correlated, deviation

NOISE, START, MEMORY, JUMP = 0.5, 0.8, 0.8, 0.2


def apply(weights, x):
    return x @ weights["a"] + weights["b"] * x[:, 0]


SPLIT = hmnn.from_functions(lambda key: {"a": jax.numpy.zeros(3), "b": jax.numpy.zeros(())}, apply)
"""Four weights in two leaves, of which two do the same."""


def build(network, likelihood, kernel, initial_scale):
    projection = hmnn.laplace_projection(initial_scale=initial_scale)
    return hmnn.build(network, likelihood, kernel, projection=projection)


def filtered(method, xs, ys):
    """Means, covariances and log evidences of a stream."""
    state, found = method.init(0), []
    for x, y in zip(xs, ys, strict=True):
        state, info = method.step(state, Dataset(x, y))
        root = np.asarray(state.posterior.root)
        found.append((state.posterior.mean, root @ root.T, info.log_evidence))
    return [np.array(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize("centre", [0.0, -0.8])
def test_a_correlated_linear_gaussian_stream_is_filtered_exactly(float64, centre):
    """Where the diagonal family must be narrower, this one equals the Kalman filter, evidence
    included."""
    xs, ys = oracles.linear_stream(4, 9, 8, 3, MEMORY, JUMP, NOISE, correlation=0.8)
    kernel = kernels.jump(MEMORY, np.sqrt(JUMP), 3.0, 1.0, centre)
    likelihood = likelihoods.gaussian(NOISE)
    method = build(hmnn.linear(3, bias=False), likelihood, kernel, START)
    means, covs, evidences = filtered(method, xs, ys)
    truth = {"m": np.zeros(3), "variance": np.full(3, START**2), "memory": MEMORY, "centre": centre}
    truth |= {"jump_variance": JUMP, "xs": xs, "ys": ys, "noise": NOISE}
    exact, exact_covs = oracles.kalman(**truth)
    np.testing.assert_allclose(means, exact, atol=1e-6)
    np.testing.assert_allclose(covs, exact_covs, atol=1e-6)
    np.testing.assert_allclose(evidences, log_evidences(**truth), atol=1e-6)
    for wrong in ({"memory": 0.7}, {"jump_variance": 0.25}, {"noise": 0.55}):
        assert np.abs(means - oracles.kalman(**(truth | wrong))[0]).max() > 1e-3, wrong
    wider = np.diagonal(covs, axis1=1, axis2=2) - oracles.diagonal_filter(**truth)[1]
    assert wider.min() > 0
    assert wider.mean() > 0.01


def log_evidences(m, variance, memory, centre, jump_variance, xs, ys, noise):
    """log N(y; x m, x P x' + noise^2 I) at every t."""
    cov, found = np.diag(variance), []
    for x, y in zip(xs, ys, strict=True):
        m, cov = centre + memory * (m - centre), memory**2 * cov + jump_variance * np.eye(len(m))
        found.append(
            stats.multivariate_normal(x @ m, x @ cov @ x.T + noise**2 * np.eye(len(y))).logpdf(y)
        )
        m, cov = oracles.correct(m, cov, x, y, noise)
    return np.array(found)


def test_the_jump_kernel_is_matched_by_its_moments(float64):
    """phi sigma^2 + (1 - phi) (sigma / c)^2 on the diagonal, alpha^2 everywhere, whatever the
    leaves."""
    root = np.tril(np.random.default_rng(0).normal(size=(4, 4)))
    law = Correlated(np.array([1.0, -2.0, 0.5, 3.0]), root)

    def prior(kernel):
        parts = build(SPLIT, "gaussian", kernel, 1.0).parts
        return parts.projection.prior(parts, jax.tree.map(jax.numpy.asarray, law))

    moved = prior(kernels.jump(0.7, 0.6, 3.0, 0.4, 2.0))
    jump = 0.4 * 0.36 + 0.6 * 0.04
    np.testing.assert_allclose(moved.mean, 2.0 + 0.7 * (law.mean - 2.0), atol=1e-9)
    np.testing.assert_allclose(
        moved.root @ moved.root.T, 0.49 * law.root @ law.root.T + jump * np.eye(4), atol=1e-9
    )
    for kernel, memory, extra in (
        (kernels.static(), 1.0, 0.0),
        (kernels.reset(0.6, 3.0, 0.4), 0.0, jump),
    ):
        moved = prior(kernel)
        expected = memory * law.root @ law.root.T + extra * np.eye(4)
        np.testing.assert_allclose(moved.root @ moved.root.T, expected, atol=1e-9)


def test_weights_that_cannot_be_told_apart_stay_apart(float64):
    """Of a[0] + b only the sum is seen: its variance falls, that of the difference does not."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 3))
    method = build(SPLIT, "gaussian", kernels.static(), 1.0)
    state, _ = method.step(method.init(0), Dataset(x, x @ np.array([1.0, 2.0, 3.0])))
    cov = np.asarray(state.posterior.root @ state.posterior.root.T)
    both, apart = np.array([1.0, 0, 0, 1.0]), np.array([1.0, 0, 0, -1.0])
    assert both @ cov @ both < 0.01
    np.testing.assert_allclose(apart @ cov @ apart, 2.0, rtol=1e-6)


def test_a_logistic_posterior_is_that_of_numerical_integration(float64):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(400, 2))
    y = (rng.random(400) < 1 / (1 + np.exp(-x @ [2.0, -1.0]))).astype(int)
    method = build(hmnn.linear(2, bias=False), "bernoulli", kernels.static(), 2.0)
    state, info = method.step(method.init(0), Dataset(x, y))
    axis = np.linspace(-6, 6, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    logits = grid @ x.T
    log = (
        (y * logits - np.logaddexp(0, logits)).sum(axis=1)
        - (grid**2).sum(axis=1) / 8
        - np.log(2 * np.pi * 4)
    )
    weights = np.exp(log - log.max())
    evidence = np.log(weights.sum() * (axis[1] - axis[0]) ** 2) + log.max()
    mean = weights @ grid / weights.sum()
    cov = (weights[:, None] * (grid - mean)).T @ (grid - mean) / weights.sum()
    np.testing.assert_allclose(state.posterior.mean, mean, atol=0.05)
    np.testing.assert_allclose(state.posterior.root @ state.posterior.root.T, cov, atol=0.01)
    np.testing.assert_allclose(info.log_evidence, evidence, atol=0.05)
    assert (
        abs(float(info.log_evidence) + float(info.misfit)) > 1
    )  # the misfit alone is not the evidence


def test_newton_finds_the_mode_from_far_away():
    """Separable classes and a wide prior: an undamped step from 0 goes far past the mode."""
    x = np.concatenate([np.full((2000, 1), 3.0), np.full((2000, 1), -3.0), np.full((20, 1), 0.05)])
    y = np.concatenate([np.ones(2000), np.zeros(2010), np.ones(10)]).astype(int)
    method = hmnn.METHODS["laplace"](hmnn.linear(1, bias=False), "bernoulli", initial_scale=100.0)
    state, info = method.step(method.init(0), Dataset(x, y))
    w = float(state.posterior.mean[0])
    gradient = x[:, 0] @ (y - 1 / (1 + np.exp(-x[:, 0] * w))) - w / (100.0**2 + 0.5 * np.exp(-4))
    assert abs(gradient) * float(deviation(state.posterior)[0]) < 1e-2
    assert int(info.iterations) < 50


def test_at_the_mode_data_and_prior_pull_alike(float64):
    rng = np.random.default_rng(7)
    x, scale = rng.normal(size=(30, 2)), 0.3
    y = (x[:, 0] > 0).astype(int)
    method = build(hmnn.linear(2, bias=False), "bernoulli", kernels.static(), scale)
    state, _ = method.step(method.init(0), Dataset(x, y))
    w = np.asarray(state.posterior.mean)
    data = x.T @ (y - 1 / (1 + np.exp(-x @ w)))
    np.testing.assert_allclose(data, w / scale**2, atol=1e-3)
    assert np.abs(data).max() > 1  # neither pulls in vain


def test_newton_does_not_overshoot_where_rates_explode():
    """A whole step from 0 would take the log rate of 1000 counts to 999."""
    projection = hmnn.laplace_projection(initial_scale=100.0)
    network = hmnn.linear(1, bias=False)
    method = hmnn.build(network, "poisson", kernels.static(), projection=projection)
    state, _ = method.step(method.init(0), Dataset(np.ones((1, 1)), [1000]))
    assert float(state.posterior.mean[0]) == pytest.approx(np.log(1000), rel=1e-3)


def test_the_noise_is_of_what_was_expected_but_of_the_first_rows_of_what_is_left():
    method = build(hmnn.linear(1, bias=False), "learned_gaussian", kernels.static(), 10.0)
    x = np.ones((90, 1))
    first, _ = method.step(method.init(0), Dataset(x, np.full(90, 9.0)))
    assert float(first.noise.variance) == pytest.approx(0.1, rel=0.05)  # a tenth of the first guess
    then, _ = method.step(first, Dataset(x, np.full(90, 9.5)))
    assert float(then.noise.variance) == pytest.approx(0.1 * 0.1 + 0.9 * 0.25, rel=0.05)


def test_draws_have_the_correlations_of_the_law():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2))
    method = hmnn.METHODS["laplace"](hmnn.linear(2, bias=False), "gaussian")
    state, _ = method.step(method.init(0), Dataset(x, x @ [1.0, 2.0]))
    new = np.array([[1.0, 1.0], [1.0, -1.0]])
    seen = method.predict(state, new, samples=1000)
    expected = np.diagonal(new @ np.asarray(state.posterior.root @ state.posterior.root.T) @ new.T)
    np.testing.assert_allclose(seen.epistemic[:, 0], expected, rtol=0.25)
    np.testing.assert_allclose(seen.aleatoric, 0.5, rtol=1e-5)
    np.testing.assert_allclose(seen.mean[:, 0], new @ np.asarray(state.posterior.mean), rtol=1e-5)


def test_a_large_network_is_refused():
    with pytest.raises(
        ValueError, match=r"network must be one of at most 1000 weights.*Got 1250\."
    ):
        hmnn.METHODS["laplace"](hmnn.linear(49, 25), "gaussian")
