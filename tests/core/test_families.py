"""A5: what is drawn is what the density says; moments, independence, matching."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import stats

from hmnn.core import families, mixtures, noise, objective
from hmnn.core.cpu import hashing
from hmnn.core.families import DropConnect, Gaussian, Noise, Posterior, rho_of, scale
from hmnn.core.mixtures import Mixture

N = 40000
MEMBERS = {"a": (1.5, 0.4, 0.3), "b": (-2.0, 1.1, 0.75)}
SOURCES = [noise.random, hashing.hashed]
Z = 5.0  # two-sided 6e-7 per comparison; no test below makes more than ten


def family():
    return {k: DropConnect(keep) for k, (_, _, keep) in MEMBERS.items()}


def theta():
    location = {k: jnp.full(2, m) for k, (m, _, _) in MEMBERS.items()}
    return Posterior(location, {k: rho_of(jnp.full(2, s)) for k, (_, s, _) in MEMBERS.items()})


@partial(jax.jit, static_argnums=0)
def draws(source, key):
    """N draws of the noise and of the weights of two leaves of two weights."""

    def one(words):
        epsilon = source(words, 0, theta().location, family())
        return epsilon, objective.draw(theta(), family(), epsilon)

    return jax.vmap(one)(noise.words(key, theta().location, N))


@pytest.fixture(scope="module", params=SOURCES, ids=lambda s: s.__name__)
def source(request):
    return request.param


@pytest.fixture(scope="module")
def sample(source):
    return jax.device_get(draws(source, jax.random.key(3)))


@pytest.mark.parametrize("leaf", MEMBERS)
def test_draws_follow_the_family(sample, leaf):
    m, s, keep = MEMBERS[leaf]
    w = sample[1][leaf]
    for column in w.T:
        assert (
            stats.kstest(column, oracles.family_cdf, (m, s, keep)).pvalue > 1e-6
        )  # chance 1e-6 each
    assert stats.kstest(w[:, 0], oracles.family_cdf, (m, s, keep + 0.03)).pvalue < 1e-6
    assert stats.kstest(w[:, 0], oracles.family_cdf, (m, s * 1.1, keep)).pvalue < 1e-6


@pytest.mark.parametrize("leaf", MEMBERS)
def test_draws_have_the_family_moments(sample, leaf):
    m, s, keep = MEMBERS[leaf]
    mean, variance = keep * m, s**2 + keep * (1 - keep) * m**2
    w = sample[1][leaf].astype(float)

    def z_scores(mean, variance):
        squares = (w - mean) ** 2
        return np.concatenate(
            [
                (w.mean(0) - mean) / (w.std(0) / N**0.5),
                (squares.mean(0) - variance) / (squares.std(0) / N**0.5),
            ]
        )

    assert np.abs(z_scores(mean, variance)).max() < Z
    assert np.abs(z_scores(m, variance)).max() > Z
    assert np.abs(z_scores(mean, s**2)).max() > Z
    law = family()[leaf].mixture(Posterior(jnp.array(m), rho_of(jnp.array(s))))
    np.testing.assert_allclose(
        [mixtures.mean(law), mixtures.variance(law)], [mean, variance], rtol=1e-5
    )


def z_of_correlation(a, b):
    return (
        np.abs(np.corrcoef(np.ravel(a).astype(float), np.ravel(b).astype(float))[0, 1])
        * np.ravel(a).size ** 0.5
    )


def test_noise_is_independent_across_weights_leaves_draws_and_between_mask_and_normal(
    sample, source
):
    a, b = sample[0]["a"], sample[0]["b"]
    pairs = {
        "weights": (a.xi[:, 0], a.xi[:, 1]),
        "masks": (a.eta[:, 0], a.eta[:, 1]),
        "leaves": (a.xi, b.xi),
        "leaves' masks": (a.eta, b.eta),
        "draws": (a.xi[1:], a.xi[:-1]),
        "draws' masks": (a.eta[1:], a.eta[:-1]),
        "mask and normal": (a.eta, a.xi),
        "mask and size": (a.eta, a.xi**2),
    }
    for name, pair in pairs.items():
        assert z_of_correlation(*pair) < Z, name
    other = jax.device_get(draws(source, jax.random.fold_in(jax.random.key(3), 1)))
    assert z_of_correlation(a.xi, other[0]["a"].xi) < Z
    assert z_of_correlation(a.xi, a.xi + 10 * b.xi) > Z  # a shared tenth is found


def test_the_draw_depends_on_its_words_only(source):
    shapes, members = theta().location, family()
    words = noise.words(jax.random.key(5), shapes, 2)
    one, again = (
        source(words[0], 2, shapes, members),
        source(words[0], jnp.array(3), shapes, members),
    )
    other = source(words[1], 2, shapes, members)
    assert jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), one, again))
    assert not (one["a"].xi == other["a"].xi).any()


def test_gaussian_noise_has_no_mask_and_dropconnect_with_keep_one_the_same_normals(source):
    w = jnp.zeros(3)
    words = noise.words(jax.random.key(0), w)
    plain, kept = source(words, 0, w, Gaussian()), source(words, 0, w, DropConnect(1.0))
    assert plain.eta is None
    assert kept.eta.all()
    assert (plain.xi == kept.xi).all()


def test_draw_is_eta_m_plus_s_xi(float64):
    m, s = jnp.array([2.0, 2.0]), jnp.array([0.5, 0.5])
    epsilon = Noise(jnp.array([True, False]), jnp.array([1.0, -1.0]))
    np.testing.assert_allclose(DropConnect(0.5).draw(m, s, epsilon), [2.5, -0.5])
    np.testing.assert_allclose(Gaussian().draw(m, s, epsilon), [2.5, 1.5])


def test_rho_of_inverts_scale(float64):
    s = jnp.array([1e-8, 1e-3, 0.5, 1.0, 30.0, 1e3])
    np.testing.assert_allclose(scale(rho_of(s)), s, rtol=1e-7)
    np.testing.assert_allclose(scale(jnp.array(0.3)), np.log1p(np.exp(0.3)), rtol=1e-12)


@pytest.mark.parametrize("member", [Gaussian(), DropConnect(0.4), DropConnect(1.0)], ids=str)
def test_match_finds_the_member_again(float64, member):
    posterior = Posterior(jnp.array([1.3, -0.2]), rho_of(jnp.array([0.2, 0.9])))
    for got, want in zip(member.match(member.mixture(posterior)), posterior, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_match_keeps_the_mean_and_the_variance_where_it_can(float64):
    member = DropConnect(0.5)
    reachable = Mixture(
        (jnp.array([1.0]), jnp.array([0.2])), (0.3, 0.7), (jnp.array([2.0]),), (1.0,)
    )
    far = Mixture((jnp.array([10.0]),), (1.0,), (jnp.array([0.3]), jnp.array([0.1])), (0.5, 0.5))
    for target in (reachable, far):
        law = member.mixture(member.match(target))
        np.testing.assert_allclose(mixtures.mean(law), mixtures.mean(target), rtol=1e-10)
    law = member.mixture(member.match(reachable))
    np.testing.assert_allclose(mixtures.variance(law), mixtures.variance(reachable), rtol=1e-10)
    # Out of reach: s is half the standard deviation inside the target's components, as documented.
    np.testing.assert_allclose(scale(member.match(far).rho), 0.5 * np.sqrt(0.2), rtol=1e-10)
    assert mixtures.variance(member.mixture(member.match(far)))[0] > mixtures.variance(far)[0]


@pytest.mark.parametrize(
    ("where", "dropped"),
    [
        ("all", {"0", "1", "2"}),
        ("internal", {"1"}),
        ("all_but_last", {"0", "1"}),
        ("none", set()),
        (lambda path: "[2]" in path, {"2"}),
    ],
)
def test_assign_drops_the_chosen_layers_only(where, dropped):
    layer = {"bias": jnp.zeros(2), "weight": jnp.zeros((2, 2))}
    chosen = families.assign([layer, layer, layer], 0.5, where)
    for i, members in enumerate(chosen):
        kind = DropConnect if str(i) in dropped else Gaussian
        assert all(isinstance(m, kind) for m in members.values())


def test_assign_takes_a_rate_for_each_leaf_and_refuses_rates_out_of_range():
    weights = {"a": jnp.zeros(2), "b": jnp.zeros(3)}
    rates = {"a": 0.2, "b": 0.9}
    assert families.assign(weights, rates, "all") == {
        k: DropConnect(v, round(v * 2**31) - 1) for k, v in rates.items()
    }
    for keep in (0.0, 1.2, float("nan"), {"a": 0.5, "b": 0.0}):
        with pytest.raises(ValueError, match=r"keep must be in \(0, 1\]"):
            families.assign(weights, keep, "all")
    with pytest.raises(ValueError, match="keep must be a number or a tree"):
        families.assign(weights, {"a": 0.5}, "all")
