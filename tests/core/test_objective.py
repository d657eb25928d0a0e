"""A6 and A7: the free energy and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from jax.flatten_util import ravel_pytree
from scipy import special

from hmnn.core import families, filtering, kernels, likelihoods, noise, objective, projection
from hmnn.core.cpu import hashing
from hmnn.core.families import DropConnect, Gaussian, Posterior, rho_of, scale
from hmnn.core.filtering import Model
from hmnn.core.objective import Batch


def network(w, x):
    return jnp.tanh(x @ w["a"]) @ w["b"]


def problem():
    """Six rows, two inputs, three hidden units, two classes; DropConnect inside, Gaussian outside."""
    rng = np.random.default_rng(2)

    def tree(centre, spread):
        return {
            "a": jnp.asarray(centre + spread * rng.normal(size=(2, 3))),
            "b": jnp.asarray(centre + spread * rng.normal(size=(3, 2))),
        }

    old, theta = Posterior(tree(0, 1), tree(-1, 0.3)), Posterior(tree(0, 1), tree(-1, 0.3))
    family = {"a": DropConnect(0.4), "b": Gaussian()}
    model = Model(kernels.jump(0.6, 0.5, 3.0, 0.3), family, likelihoods.categorical())
    batch = Batch(jnp.asarray(rng.normal(size=(6, 2))), jnp.asarray(rng.integers(0, 2, 6)), jnp.array(6))
    return model, theta, filtering.prior(model, old), batch


def loss_of(model, batch):
    return lambda w: objective.misfit(network, model.likelihood, w, batch=batch)


def noise_of(number, weights, family, i=0):
    """Draw i of the noise under this key."""
    return noise.random(noise.words(jax.random.key(number), weights, i + 1)[i], i, weights, family)


def close(a, b, tolerance):
    return np.allclose(ravel_pytree(a)[0], ravel_pytree(b)[0], rtol=tolerance, atol=tolerance)


# --- A6 --------------------------------------------------------------------------------------------------------------
def test_the_gradient_is_that_of_finite_differences_at_fixed_noise(float64):
    model, theta, prior, batch = problem()
    epsilon = noise_of(1, theta.location, model.family)
    flat, back = ravel_pytree(theta)

    @jax.jit
    def energy(flat):
        w = objective.draw(back(flat), model.family, epsilon)
        own = objective.divergence(back(flat), model.family, prior, w)
        return loss_of(model, batch)(w) + 0.3 * own

    numeric = oracles.central(lambda at: float(energy(jnp.asarray(at))), flat)

    @jax.jit
    def gradient_at(epsilon):
        return objective.gradient(loss_of(model, batch), theta, model.family, prior, epsilon, 0.3)

    gradient = gradient_at(epsilon)
    np.testing.assert_allclose(ravel_pytree(gradient)[0], numeric, rtol=1e-6, atol=1e-6)

    def half(theta):  # the draw depends on theta, but log q is held: the explicit part is lost
        w = objective.draw(theta, model.family, epsilon)
        return loss_of(model, batch)(w) + 0.3 * objective.divergence(
            jax.lax.stop_gradient(theta), model.family, prior, w
        )

    assert not close(jax.jit(jax.grad(half))(theta), back(jnp.asarray(numeric)), 1e-2)
    other = noise_of(2, theta.location, model.family)
    assert not close(gradient_at(other), back(jnp.asarray(numeric)), 1e-2)


@pytest.mark.parametrize("source", [noise.random, hashing.hashed], ids=["random", "hashed"])
def test_the_monte_carlo_gradient_is_unbiased(float64, source):
    m, rho, keep, n = 0.8, -0.5, 0.6, 40000
    settings = {"memory": 0.5, "jump_scale": 0.9, "shrink": 3.0, "jump_prob": 0.4}
    family, model_kernel = DropConnect(keep), kernels.jump(**settings, centre=0.3)
    old = Posterior(jnp.array([-0.5]), rho_of(jnp.array([0.4])))
    prior = filtering.prior(Model(model_kernel, family, likelihoods.bernoulli()), old)

    grid = np.linspace(-6, 7, 400)  # the logarithm is smooth: fit it once
    exact_density = [oracles.evolving_prior(v, -0.5, 0.4, keep, **settings, centre=0.3) for v in grid]
    log_density = np.polynomial.Chebyshev.fit(grid, np.log(exact_density), 80)

    def density(w):
        return np.exp(log_density(w))

    def exact(at):
        return oracles.free_energy(at[0], at[1], keep, density, lambda w: np.logaddexp(0, -3 * w))

    want = oracles.central(exact, [m, rho], h=1e-3)
    theta = Posterior(jnp.array([m]), jnp.array([rho]))

    @jax.jit
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


# --- A7 --------------------------------------------------------------------------------------------------------------
def test_nothing_diverges_from_itself(float64):
    model, theta, prior, _ = problem()
    static = filtering.prior(model._replace(kernel=kernels.static()), theta)
    for i in range(3):
        w = objective.draw(theta, model.family, noise_of(0, theta.location, model.family, i))
        assert float(objective.divergence(theta, model.family, static, w)) == pytest.approx(0, abs=1e-12)
        assert abs(float(objective.divergence(theta, model.family, prior, w))) > 1e-2


def test_the_divergence_of_gaussians_is_the_closed_form(float64):
    m, s = np.array([0.3, -1.0, 2.0]), np.array([0.2, 1.0, 0.5])
    mu, sigma = 0.4 * m, np.sqrt(0.16 * s**2 + 0.84 * 1.5**2)
    theta, family = Posterior(jnp.asarray(m), rho_of(jnp.asarray(s))), Gaussian()
    prior = filtering.prior(Model(kernels.ornstein_uhlenbeck(0.4, 1.5), family, likelihoods.gaussian()), theta)
    values = []
    for i in range(4):
        epsilon = oracles.hadamard_source(None, i, theta.location, family)
        values.append(float(objective.divergence(theta, family, prior, objective.draw(theta, family, epsilon))))
    assert np.mean(values) == pytest.approx(oracles.gaussian_kl(m, s, mu, sigma).sum(), rel=1e-10)
    assert np.mean(values) != pytest.approx(oracles.gaussian_kl(mu, sigma, m, s).sum(), rel=1e-2)


@pytest.mark.parametrize("rule", sorted(projection.KL_WEIGHTS))
def test_the_kl_weights_of_an_epoch_sum_to_one(float64, rule):
    for total in (1, 2, 7, 390):
        i = jnp.arange(total, dtype=float)
        weights = jnp.broadcast_to(projection.KL_WEIGHTS[rule](i, float(total)), (total,))
        assert float(weights.sum()) == pytest.approx(1, rel=1e-12)
        assert total == 1 or float(weights[1:].sum()) < 1 - 1e-3
    ratio = projection.KL_WEIGHTS["geometric"](0.0, 5.0) / projection.KL_WEIGHTS["geometric"](1.0, 5.0)
    assert ratio == pytest.approx(2)


@pytest.mark.parametrize("rule", sorted(projection.KL_WEIGHTS))
def test_gradients_of_an_epoch_sum_to_the_full_gradient(float64, rule):
    """Five real rows of six in minibatches of two, in any order, padding last."""
    model, theta, prior, batch = problem()
    batch = batch._replace(rows=jnp.array(5))
    epsilon = noise_of(1, theta.location, model.family)
    order = jnp.array([3, 0, 4, 2, 1, 5])

    @jax.jit
    def gradient(batch, weight):
        return objective.gradient(loss_of(model, batch), theta, model.family, prior, epsilon, weight)

    parts = [projection.minibatch(batch, order, jnp.array(i), 2) for i in range(3)]
    assert [int(p.rows) for p in parts] == [2, 2, 1]
    weights = [projection.KL_WEIGHTS[rule](float(i), 3.0) for i in range(3)]
    added = jax.tree.map(lambda *g: sum(g), *map(gradient, parts, weights))
    assert close(added, gradient(batch, 1.0), 1e-10)
    assert not close(added, gradient(batch._replace(rows=jnp.array(6)), 1.0), 1e-3)
    assert not close(added, gradient(batch, 3.0), 1e-3)


def shuffled(seed):
    return projection.shuffled(jax.random.bits(jax.random.key(seed), (10,), jnp.uint32), 4, 7)


def test_the_shuffle_is_a_permutation_with_the_padding_last():
    order = np.asarray(shuffled(0))
    assert sorted(order[:7]) == list(range(7))
    assert sorted(order[:10]) == list(range(10))
    assert len(order) == 12
    other = np.asarray(shuffled(1))
    assert (order[:7] != other[:7]).any()


def test_misfit_is_minus_the_log_likelihood_of_the_real_rows(float64):
    model, theta, _, batch = problem()
    w = theta.location
    p = special.log_softmax(np.asarray(network(w, batch.x)), axis=1)[np.arange(6), np.asarray(batch.y)]
    got = objective.misfit(network, model.likelihood, w, batch=batch._replace(rows=jnp.array(4)))
    assert float(got) == pytest.approx(-p[:4].sum())
    assert float(got) != pytest.approx(-p.sum())


def test_the_scale_of_a_posterior_is_read_through_the_floor():
    assert float(scale(jnp.array(-1e6))) == float(scale(jnp.array(families.RHO_FLOOR))) > 0
