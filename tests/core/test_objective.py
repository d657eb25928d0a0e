"""A6 and A7: the free energy and its gradient."""

import filters
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from jax.flatten_util import ravel_pytree
from scipy import special

from hmnn._types import Batch
from hmnn.core import families, kernels, likelihoods, minibatches, noise, objective
from hmnn.core.cpu import hashing
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.families import DropConnect, Gaussian, Posterior, rho_of, scale
from hmnn.core.projections.epochs import KL_WEIGHTS

LIKELIHOOD, FAMILY = likelihoods.categorical(), {"a": DropConnect(0.4), "b": Gaussian()}


def network(w, x):
    return jnp.tanh(x @ w["a"]) @ w["b"]


def problem():
    """Six rows, two inputs, three hidden units, two classes; DropConnect inside, Gaussian
    outside."""
    rng = np.random.default_rng(2)

    def tree(centre, spread):
        return {
            "a": jnp.asarray(centre + spread * rng.normal(size=(2, 3))),
            "b": jnp.asarray(centre + spread * rng.normal(size=(3, 2))),
        }

    old, theta = Posterior(tree(0, 1), tree(-1, 0.3)), Posterior(tree(0, 1), tree(-1, 0.3))
    x, y = jnp.asarray(rng.normal(size=(6, 2))), jnp.asarray(rng.integers(0, 2, 6))
    prior = filters.prior(kernels.jump(0.6, 0.5, 3.0, 0.3), FAMILY, old)
    return theta, prior, Batch(x, y, jnp.ones(6))


def first(batch, rows):
    """Only the first rows are real, the rest is padding."""
    return batch._replace(weight=(jnp.arange(6) < rows).astype(float))


def loss_of(batch):
    return lambda w: objective.misfit(network, LIKELIHOOD, w, batch=batch)


def noise_of(number, weights, family, i=0):
    """Draw i of the noise under this key."""
    return noise.random(noise.words(jax.random.key(number), weights, i + 1)[i], i, weights, family)


def close(a, b, tolerance):
    return np.allclose(ravel_pytree(a)[0], ravel_pytree(b)[0], rtol=tolerance, atol=tolerance)


# --- A6 -------------------------------------------------------------------------------------------
def test_the_gradient_is_that_of_finite_differences_at_fixed_noise(float64):
    theta, prior, batch = problem()
    epsilon = noise_of(1, theta.location, FAMILY)
    flat, back = ravel_pytree(theta)

    @compiled(ONCE)
    def energy(flat):
        w = objective.draw(back(flat), FAMILY, epsilon)
        own = objective.divergence(back(flat), FAMILY, prior, w)
        return loss_of(batch)(w) + 0.3 * own

    numeric = oracles.central(lambda at: float(energy(jnp.asarray(at))), flat)

    @compiled(ONCE)
    def gradient_at(epsilon):
        return objective.gradient(loss_of(batch), theta, FAMILY, prior, epsilon, 0.3)

    gradient = gradient_at(epsilon)
    np.testing.assert_allclose(ravel_pytree(gradient)[0], numeric, rtol=1e-6, atol=1e-6)

    def half(theta):  # the draw depends on theta, but log q is held: the explicit part is lost
        w = objective.draw(theta, FAMILY, epsilon)
        held = jax.lax.stop_gradient(theta)
        return loss_of(batch)(w) + 0.3 * objective.divergence(held, FAMILY, prior, w)

    assert not close(compiled(ONCE)(jax.grad(half))(theta), back(jnp.asarray(numeric)), 1e-2)
    other = noise_of(2, theta.location, FAMILY)
    assert not close(gradient_at(other), back(jnp.asarray(numeric)), 1e-2)


@pytest.mark.parametrize("source", [noise.random, hashing.hashed], ids=["random", "hashed"])
def test_the_monte_carlo_gradient_is_unbiased(float64, source):
    m, rho, keep, n = 0.8, -0.5, 0.6, 40000
    settings = {"memory": 0.5, "jump_scale": 0.9, "shrink": 3.0, "jump_prob": 0.4}
    family = DropConnect(keep)
    old = Posterior(jnp.array([-0.5]), rho_of(jnp.array([0.4])))
    prior = filters.prior(kernels.jump(**settings, centre=0.3), family, old)

    grid = np.linspace(-6, 7, 400)  # the logarithm is smooth: fit it once
    exact_density = [
        oracles.evolving_prior(v, -0.5, 0.4, keep, **settings, centre=0.3) for v in grid
    ]
    log_density = np.polynomial.Chebyshev.fit(grid, np.log(exact_density), 80)

    def density(w):
        return np.exp(log_density(w))

    def exact(at):
        return oracles.free_energy(at[0], at[1], keep, density, lambda w: np.logaddexp(0, -3 * w))

    want = oracles.central(exact, [m, rho], h=1e-3)
    theta = Posterior(jnp.array([m]), jnp.array([rho]))

    @compiled(ONCE)
    def gradients(eta_keep):
        def one(words):
            epsilon = source(words, 0, theta.location, DropConnect(eta_keep))
            loss = lambda w: jax.nn.softplus(-3.0 * w).sum()  # noqa: E731
            return objective.gradient(loss, theta, family, prior, epsilon, 1.0)

        return jax.vmap(one)(noise.words(jax.random.key(4), theta.location, n))

    def z(sample):
        sample = np.concatenate([sample.location, sample.rho], axis=1)
        return np.abs(sample.mean(0) - want) / (sample.std(0) / n**0.5)

    assert z(gradients(keep)).max() < 4.8  # two comparisons, twice: chance 6e-6
    assert z(gradients(keep + 0.05)).max() > 4.8  # masks drawn at another rate are biased


# --- A7 -------------------------------------------------------------------------------------------
def test_nothing_diverges_from_itself(float64):
    theta, prior, _ = problem()
    static = filters.prior(kernels.static(), FAMILY, theta)
    for i in range(3):
        w = objective.draw(theta, FAMILY, noise_of(0, theta.location, FAMILY, i))
        assert float(objective.divergence(theta, FAMILY, static, w)) == pytest.approx(0, abs=1e-12)
        assert abs(float(objective.divergence(theta, FAMILY, prior, w))) > 1e-2


def test_the_divergence_of_gaussians_is_the_closed_form(float64):
    m, s = np.array([0.3, -1.0, 2.0]), np.array([0.2, 1.0, 0.5])
    mu, sigma = 0.4 * m, np.sqrt(0.16 * s**2 + 0.84 * 1.5**2)
    theta, family = Posterior(jnp.asarray(m), rho_of(jnp.asarray(s))), Gaussian()
    prior = filters.prior(kernels.ornstein_uhlenbeck(0.4, 1.5), family, theta)
    values = []
    for i in range(4):
        epsilon = oracles.hadamard_source(None, i, theta.location, family)
        values.append(
            float(
                objective.divergence(theta, family, prior, objective.draw(theta, family, epsilon))
            )
        )
    assert np.mean(values) == pytest.approx(oracles.gaussian_kl(m, s, mu, sigma).sum(), rel=1e-10)
    assert np.mean(values) != pytest.approx(oracles.gaussian_kl(mu, sigma, m, s).sum(), rel=1e-2)


@pytest.mark.parametrize("rule", sorted(KL_WEIGHTS))
def test_the_kl_weights_of_an_epoch_sum_to_one(float64, rule):
    for total in (1, 2, 7, 390):
        i = jnp.arange(total, dtype=float)
        weights = jnp.broadcast_to(KL_WEIGHTS[rule](i, float(total)), (total,))
        assert float(weights.sum()) == pytest.approx(1, rel=1e-12)
        assert total == 1 or float(weights[1:].sum()) < 1 - 1e-3
    ratio = KL_WEIGHTS["geometric"](0.0, 5.0) / KL_WEIGHTS["geometric"](1.0, 5.0)
    assert ratio == pytest.approx(2)


@pytest.mark.parametrize("rule", sorted(KL_WEIGHTS))
def test_gradients_of_an_epoch_sum_to_the_full_gradient(float64, rule):
    """Five real rows of six in minibatches of two, in any order, padding last."""
    theta, prior, batch = problem()
    batch = first(batch, 5)
    epsilon = noise_of(1, theta.location, FAMILY)
    order = jnp.array([3, 0, 4, 2, 1, 5])

    @compiled(ONCE)
    def gradient(batch, weight):
        return objective.gradient(loss_of(batch), theta, FAMILY, prior, epsilon, weight)

    parts = [minibatches.taken(batch, order, jnp.array(i), 2) for i in range(3)]
    assert [int(p.rows) for p in parts] == [2, 2, 1]
    weights = [KL_WEIGHTS[rule](float(i), 3.0) for i in range(3)]
    added = jax.tree.map(lambda *g: sum(g), *map(gradient, parts, weights))
    assert close(added, gradient(batch, 1.0), 1e-10)
    assert not close(added, gradient(first(batch, 6), 1.0), 1e-3)
    assert not close(added, gradient(batch, 3.0), 1e-3)


def shuffled(seed):
    return minibatches.shuffled(jax.random.bits(jax.random.key(seed), (10,), jnp.uint32), 4, 7)


def test_the_shuffle_is_a_permutation_with_the_padding_last():
    order = np.asarray(shuffled(0))
    assert sorted(order[:7]) == list(range(7))
    assert sorted(order[:10]) == list(range(10))
    assert len(order) == 12
    other = np.asarray(shuffled(1))
    assert (order[:7] != other[:7]).any()


def test_misfit_is_minus_the_log_likelihood_of_the_real_rows(float64):
    theta, _, batch = problem()
    w = theta.location
    p = special.log_softmax(np.asarray(network(w, batch.x)), axis=1)[
        np.arange(6), np.asarray(batch.y)
    ]
    got = objective.misfit(network, LIKELIHOOD, w, batch=first(batch, 4))
    assert float(got) == pytest.approx(-p[:4].sum())
    assert float(got) != pytest.approx(-p.sum())


def test_the_scale_of_a_posterior_is_read_through_the_floor():
    assert float(scale(jnp.array(-1e6))) == float(scale(jnp.array(families.RHO_FLOOR))) > 0
