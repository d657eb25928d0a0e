"""Likelihoods equal SciPy's; padded rows count nothing."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hmnn.core import likelihoods

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(6, 3)) * 2
REALS, COUNTS, BITS = RNG.normal(size=(6, 3)), RNG.poisson(2.0, size=(6, 3)), RNG.integers(0, 2, size=(6, 3))


def frozen(name):
    """The likelihood, its y, and SciPy's law of y given the outputs."""
    return {
        "gaussian": (likelihoods.gaussian(0.7), REALS, stats.norm(OUTPUTS, 0.7)),
        "poisson": (likelihoods.poisson(), COUNTS, stats.poisson(np.exp(OUTPUTS))),
        "bernoulli": (likelihoods.bernoulli(), BITS, stats.bernoulli(special.expit(OUTPUTS))),
    }[name]


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_log_prob_mean_and_variance_are_those_of_scipy(float64, name):
    likelihood, y, law = frozen(name)
    log_density = (law.logpdf if name == "gaussian" else law.logpmf)(y)
    outputs = jnp.asarray(OUTPUTS)
    np.testing.assert_allclose(likelihood.log_prob(outputs, jnp.asarray(y)), log_density.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(likelihood.mean(outputs), law.mean(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(outputs), law.var(), rtol=1e-10)
    assert not np.allclose(likelihood.log_prob(outputs + 0.1, jnp.asarray(y)), log_density.sum(axis=1), rtol=1e-3)


def test_categorical_is_scipys_multinomial(float64):
    y, p, likelihood = np.array([0, 1, 2, 2, 1, 0]), special.softmax(OUTPUTS, axis=1), likelihoods.categorical()
    want = stats.multinomial.logpmf(np.eye(3)[y], 1, p)
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray(y)), want, rtol=1e-10)
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(OUTPUTS)), p, rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(jnp.asarray(OUTPUTS)), p * (1 - p), rtol=1e-10)
    assert not np.allclose(likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray((y + 1) % 3)), want)


def test_two_classes_are_one_logit(float64):
    logit, y = jnp.asarray(OUTPUTS[:, :1]), jnp.asarray(BITS[:, 0])
    two = jnp.concatenate([jnp.zeros_like(logit), logit], axis=1)
    one = likelihoods.bernoulli().log_prob(logit, y)
    np.testing.assert_allclose(likelihoods.categorical().log_prob(two, y), one, rtol=1e-10)


def test_the_default_gaussian_is_least_squares(float64):
    likelihood = likelihoods.gaussian()
    misfit = -likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray(REALS))
    constant = 1.5 * np.log(np.pi)
    np.testing.assert_allclose(misfit, ((OUTPUTS - REALS) ** 2).sum(axis=1) + constant, rtol=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_padded_rows_count_nothing_even_when_they_are_not_numbers(float64, name):
    likelihood, y, _ = frozen(name)
    bad = jnp.asarray(OUTPUTS).at[4:].set(jnp.nan)
    real = jnp.arange(6) < 4
    got = likelihoods.log_g(likelihood, bad, jnp.asarray(y), real)
    want = likelihood.log_prob(jnp.asarray(OUTPUTS[:4]), jnp.asarray(y[:4])).sum()
    np.testing.assert_allclose(got, want, rtol=1e-10)
    everything = likelihoods.log_g(likelihood, jnp.asarray(OUTPUTS), jnp.asarray(y), jnp.ones(6, bool))
    assert not np.allclose(everything, want)


def test_y_may_be_a_vector_where_there_is_one_output(float64):
    outputs, y = jnp.asarray(OUTPUTS[:, :1]), jnp.asarray(REALS[:, 0])
    flat = likelihoods.gaussian(0.7).log_prob(outputs, y)
    np.testing.assert_allclose(flat, stats.norm.logpdf(REALS[:, 0], OUTPUTS[:, 0], 0.7), rtol=1e-10)


def test_scale_must_be_positive():
    with pytest.raises(ValueError, match="scale must be a positive number"):
        likelihoods.gaussian(0.0)
