"""A4: the evolving prior is the kernel integrated against the family, for any settings."""

import filters
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from hmnn.core import families, kernels, mixtures
from hmnn.core.families import Posterior, rho_of
from hmnn.core.mixtures import Jumps, Mixture

EXACT = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SETTING = st.fixed_dictionaries(
    {
        "memory": st.sampled_from([0.0, 1.0]) | st.floats(0.05, 1.0),
        "jump_scale": st.floats(0.05, 2.0),
        "shrink": st.floats(1.1, 20.0),
        "jump_prob": st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0),
    }
)
MEMBER = st.tuples(st.floats(-3.0, 3.0), st.floats(0.05, 2.0))


@jax.jit
def densities(kernel, family, location, scales, w):
    """Log density of P pi at w and its variance, leaf by leaf; w has a leading axis of points."""
    laws = filters.prior(kernel, family, Posterior(location, jax.tree.map(rho_of, scales)))
    logs = jax.tree.map(
        lambda _, law, w: jax.vmap(lambda w: mixtures.log_prob(law, w))(w), location, laws, w
    )
    spread = jax.tree.map(
        lambda _, law: (mixtures.mean(law), mixtures.variance(law)), location, laws
    )
    return logs, spread


@EXACT
@given(
    SETTING,
    MEMBER,
    MEMBER,
    st.sampled_from(["zero", "previous", "tree"]),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
)
def test_the_evolving_prior_is_the_kernel_integrated_against_the_family(
    float64, setting, a, b, centre, keep, other
):
    members, anchors, rates = {"a": a, "b": b}, {"a": 0.7, "b": -1.3}, {"a": keep, "b": other}
    location = {k: jnp.array([m]) for k, (m, _) in members.items()}
    tree = {k: jnp.array([v]) for k, v in anchors.items()}
    family = families.assign(location, rates, "all")
    z = np.linspace(-2.5, 2.5, 6)
    middle = {k: rates[k] * m for k, (m, _) in members.items()}
    w = {k: jnp.asarray(middle[k] + z[:, None] * 1.5) for k in members}
    scales = {k: jnp.array([s]) for k, (_, s) in members.items()}
    kernel = kernels.jump(**setting, centre=tree if centre == "tree" else centre)
    logs, _ = densities(kernel, family, location, scales, w)
    for k, (m, s) in members.items():
        mu = {"zero": 0.0, "previous": m, "tree": anchors[k]}[centre]
        exact = [
            oracles.evolving_prior(v, m, s, rates[k], **setting, centre=mu) for v in np.ravel(w[k])
        ]
        np.testing.assert_allclose(np.exp(np.ravel(logs[k])), exact, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize(
    "wrong",
    [
        {"jump_prob": 0.7},
        {"memory": 0.55},
        {"shrink": 4.5},
        {"jump_scale": 0.52},
        {"centre": 0.3},
        {"keep": 0.4},
    ],
    ids=str,
)
def test_the_integration_tells_wrong_settings_apart(float64, wrong):
    right = {
        "memory": 0.5,
        "jump_scale": 0.5,
        "shrink": 4.0,
        "jump_prob": 0.3,
        "centre": 0.2,
        "keep": 0.5,
    }
    w = np.linspace(-1, 2, 5)
    exact = [oracles.evolving_prior(v, 1.1, 0.2, **right) for v in w]
    assert not np.allclose(
        [oracles.evolving_prior(v, 1.1, 0.2, **(right | wrong)) for v in w], exact, rtol=1e-3
    )


SETTING_1 = {"memory": 0.6, "jump_scale": 0.8, "shrink": 5.0, "jump_prob": 0.3}


def one_law(keep=0.4, m=1.7, s=0.3, centre="previous"):
    family = families.DropConnect(keep)
    posterior = Posterior(jnp.array([m]), rho_of(jnp.array([s])))
    return filters.prior(kernels.jump(**SETTING_1, centre=centre), family, posterior)


def test_the_evolving_prior_integrates_to_one(float64):
    law = one_law()
    density = jax.jit(lambda w: jnp.exp(mixtures.log_prob(law, w[None])[0]))
    grid = np.linspace(-8, 8, 30001)
    values = np.asarray(jax.vmap(density)(jnp.asarray(grid)))
    assert np.sum(values) * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-9)
    wrong = law._replace(variance_weights=(law.variance_weights[0], 1.01 * law.variance_weights[1]))
    values = np.exp(
        np.asarray(mixtures.log_prob(wrong, jnp.asarray(grid)))
    )  # a law that is no law is caught
    assert abs(np.sum(values) * (grid[1] - grid[0]) - 1) > 1e-3


def test_simulated_moves_follow_the_evolving_prior(float64):
    law, n, rng = one_law(), 20000, np.random.default_rng(1)
    old = np.where(rng.random(n) < 0.4, 1.7, 0.0) + 0.3 * rng.normal(size=n)
    big = rng.random(n) < 0.3
    new = 1.7 + 0.6 * (old - 1.7) + np.where(big, 0.8, 0.16) * rng.normal(size=n)

    def cdf(w):
        parts = [
            p * q * stats.norm.cdf(w, m[0], np.sqrt(v[0]))
            for p, m in zip(law.mean_weights, map(np.asarray, law.means), strict=True)
            for q, v in zip(law.variance_weights, map(np.asarray, law.variances), strict=True)
        ]
        return sum(parts)

    assert stats.kstest(new, cdf).pvalue > 1e-6  # fails by chance once in 10^6 seeds
    swapped = np.where(~big, 0.8, 0.16)
    assert stats.kstest(1.7 + 0.6 * (old - 1.7) + swapped * rng.normal(size=n), cdf).pvalue < 1e-6


def test_moments_are_those_of_the_density(float64):
    law = one_law()
    w = np.linspace(-10, 12, 40001)
    p = np.exp(np.asarray(mixtures.log_prob(law, jnp.asarray(w)))) * (w[1] - w[0])
    first = np.sum(p * w)
    np.testing.assert_allclose(mixtures.mean(law)[0], first, atol=1e-9)
    np.testing.assert_allclose(mixtures.variance(law)[0], np.sum(p * (w - first) ** 2), atol=1e-9)
    assert (
        mixtures.within(law)[0] < mixtures.variance(law)[0] - 1e-2
    )  # the spread of the means counts


def test_widest_is_bayes_rule(float64):
    law = Mixture((jnp.array([0.5]),), (1.0,), (jnp.array([4.0]), jnp.array([0.01])), (0.2, 0.8))
    w = np.array([0.5, 0.6, 1.0, 4.0])
    big, small = 0.2 * stats.norm.pdf(w, 0.5, 2.0), 0.8 * stats.norm.pdf(w, 0.5, 0.1)
    got = jax.vmap(lambda v: mixtures.widest(law, v))(jnp.asarray(w)[:, None])[:, 0]
    np.testing.assert_allclose(got, big / (big + small), rtol=1e-10)
    assert not np.allclose(got, small / (big + small))
    assert jnp.isnan(
        mixtures.widest(
            law._replace(variances=law.variances[:1], variance_weights=(1.0,)), law.means[0]
        )
    )


def test_moves_compose(float64):
    """Two moves are one move with memory squared, when the jumps are Gaussian."""
    law = Mixture((jnp.array([1.0]), jnp.array([0.0])), (0.3, 0.7), (jnp.array([0.2]),), (1.0,))
    centre, jump = jnp.array([0.4]), Jumps((1.0,), (0.05,))
    twice = mixtures.move(mixtures.move(law, 0.6, centre, jump), 0.6, centre, jump)
    once = mixtures.move(law, 0.36, centre, Jumps((1.0,), (0.05 * (1 + 0.36),)))
    w = jnp.linspace(-2.0, 2.0, 9)
    np.testing.assert_allclose(mixtures.log_prob(twice, w), mixtures.log_prob(once, w), rtol=1e-10)
    wrong = mixtures.move(law, 0.36, centre, Jumps((1.0,), (0.05 * 2,)))
    assert not np.allclose(mixtures.log_prob(twice, w), mixtures.log_prob(wrong, w), rtol=1e-3)
