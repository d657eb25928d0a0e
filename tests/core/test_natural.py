"""The closed-form projection: the Kalman filter where it must be, the exact mean elsewhere, bounded, with a control."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from hmnn._types import Dataset
from hmnn.core import kernels, likelihoods, natural
from hmnn.core.natural import Outlook, Rows
from hmnn.methods import natural as door
from hmnn.networks import linear, mlp

MEMORY, JUMP, NOISE, START = 0.9, 0.3, 0.5, 0.7
pytestmark = pytest.mark.usefixtures("float64")


def filtered(xs, ys, joint=32, **settings):
    """Means and variances of the weights of a linear network without bias, at every t."""
    kernel = kernels.jump(MEMORY, JUMP, jump_prob=1.0)
    model = door.build(linear(xs.shape[2], bias=False), likelihoods.gaussian(NOISE), kernel, joint=joint, **settings)
    state, rows = model.init(0), []
    first = natural.moments(state.posterior, jax.tree.map(lambda _: door.families.Gaussian(), state.posterior.location))
    for x, y in zip(xs, ys, strict=True):
        state, _ = model.step(state, Dataset(x, y))
        rows.append(
            [np.ravel(state.posterior.location.weight), np.ravel(np.logaddexp(0, state.posterior.rho.weight)) ** 2]
        )
    return np.asarray(first.mean), np.array(rows)


def stream(design, steps=12, seed=0):
    """A linear-Gaussian stream with the same design at every t."""
    rng = np.random.default_rng(seed)
    w = np.cumsum(rng.normal(0, 0.3, (steps, design.shape[1])), axis=0)
    return np.stack([design] * steps), w @ design.T + rng.normal(0, NOISE, (steps, len(design)))


def oracle(f, first, xs, ys, **options):
    """`centre` is m_{t-1} here: the mean stays, so the oracle is called one step at a time."""
    m, v, out = first, np.full(len(first), START**2), []
    for x, y in zip(xs, ys, strict=True):
        means, spreads = f(m, v, MEMORY, m, JUMP**2, x[None], y[None], NOISE, **options)
        m, v = means[0], np.diag(spreads[0]) if spreads.ndim == 3 else spreads[0]
        out.append([m, v])
    return np.array(out)


def test_an_orthogonal_design_gives_the_kalman_filter():
    xs, ys = stream(oracles.sigma_points(3)[:4] * np.array([1.0, 0.5, 2.0]))
    first, ours = filtered(xs, ys, initial_scale=START)
    np.testing.assert_allclose(ours, oracle(oracles.kalman, first, xs, ys), rtol=1e-6)


@pytest.mark.parametrize(("rows", "joint"), [(5, 32), (2, 2)])  # two unknowns are solved by hand
def test_a_correlated_design_gives_the_exact_mean_and_the_diagonal_of_the_precision(rows, joint):
    xs, ys = stream(np.random.default_rng(1).normal(size=(rows, 3)) + 1.0)
    first, ours = filtered(xs, ys, joint, initial_scale=START)
    np.testing.assert_allclose(ours, oracle(oracles.diagonal_filter, first, xs, ys), rtol=1e-6)
    wrong = oracle(oracles.diagonal_filter, first, xs, ys, marginal=True)
    assert np.abs(ours - wrong).max() > 1e-2  # the control: marginal variances are another law


def test_rows_one_at_a_time_are_the_kalman_filter_for_scalar_weights():
    xs, ys = stream(np.array([[1.5]]), steps=30)
    first, ours = filtered(xs, ys, initial_scale=START)
    np.testing.assert_allclose(ours, oracle(oracles.kalman, first, xs, ys), rtol=1e-6)


def rows_of(seed, n=12):
    rng = np.random.default_rng(seed)
    return Rows(rng.normal(size=(n, 2)), rng.integers(0, 2, n), np.ones(n), np.ones(n, bool))


def classifier(**settings):
    return door.assembled(mlp(2, (4,), 1), "bernoulli", kernels.jump(0.99, 0.1), initial_scale=0.3, **settings)


def test_the_compiled_loop_over_rows_equals_steps_of_one_row():
    data, (plan, model) = rows_of(0), classifier(level_scale=0.2)
    law, noise = door.first(plan, model.initial_scale, jax.random.key(0))
    after, _, seen = door.rows(plan, model, law, noise, data)
    for i in range(len(data.x)):
        told = door.look(plan, model, door.move(plan, model, law, 1), data.x[i : i + 1])
        np.testing.assert_allclose(seen.outputs[i], told.outputs[0], rtol=1e-6)
        np.testing.assert_allclose(seen.spread[i], told.spread[0], rtol=1e-6)
        law, _ = door.take(plan, model, law, data.x[i : i + 1], data.y[i : i + 1], np.ones(1))
    np.testing.assert_allclose(after.mean, law.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(after.variance, law.variance, rtol=1e-6)


def test_a_row_that_is_only_looked_at_changes_nothing():
    data, (plan, model) = rows_of(1), classifier()
    law, noise = door.first(plan, model.initial_scale, jax.random.key(0))
    middle = np.arange(12) != 6
    after, _, _ = door.rows(plan, model, law, noise, data._replace(kept=middle))
    without, _, _ = door.rows(plan, model, law, noise, Rows(*(a[middle] for a in data)))
    np.testing.assert_array_equal(after, without)
    changed, _, _ = door.rows(plan, model, law, noise, data)
    assert np.abs(changed.mean - after.mean).max() > 1e-4


def test_a_weight_of_two_is_the_row_twice_and_a_weight_of_zero_is_no_row():
    data, (plan, model) = rows_of(2, 5), classifier()
    law, _ = door.first(plan, model.initial_scale, jax.random.key(0))
    weight = np.array([2.0, 1.0, 0.0, 1.0, 1.0])
    order = np.array([0, 0, 1, 3, 4])
    one, _ = door.take(plan, model, law, data.x, data.y, weight)
    two, _ = door.take(plan, model, law, data.x[order], data.y[order], np.ones(5))
    np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (likelihoods.Bernoulli(), 1),
        (likelihoods.Categorical(), 2),
        (likelihoods.Gaussian(0.3), 0.7),
        (likelihoods.Poisson(), 3),
    ],
    ids=lambda v: type(v).__name__,
)
def test_roots_are_those_of_curvature_and_gradient(likelihood, y):
    outputs = jnp.array([0.4, -1.0, 0.8]) if isinstance(likelihood, likelihoods.Categorical) else jnp.array([0.4])
    root, c = natural._roots(likelihood, outputs, jnp.asarray(y))

    def loss(f):
        return -likelihood.log_prob(f[None], jnp.asarray(y)[None])[0]

    np.testing.assert_allclose(root @ root.T, jax.hessian(loss)(outputs), atol=1e-10)
    np.testing.assert_allclose(root @ c, jax.grad(loss)(outputs), atol=1e-10)


@pytest.mark.parametrize(("memory", "limit"), [(0.9, 0.1**2 / (1 - 0.9**2)), (1.0, natural.LARGEST)])
def test_the_variance_of_weights_without_data_stays_bounded(memory, limit):
    plan, model = door.assembled(
        mlp(2, (3,), 1), "bernoulli", kernels.jump(memory, 0.1, jump_prob=1.0), initial_scale=0.3
    )
    law = door.move(plan, model, door.first(plan, model.initial_scale, jax.random.key(0))[0], 2000)
    np.testing.assert_allclose(law.variance, limit, rtol=1e-6)


def test_a_mixture_of_jumps_counts_by_its_moments():
    plan, model = door.assembled(mlp(2, (3,), 1), "bernoulli", kernels.jump(0.9, 0.1, 10.0, 0.25), initial_scale=0.3)
    law = door.move(plan, model, door.first(plan, model.initial_scale, jax.random.key(0))[0], 1)
    expected = 0.9**2 * 0.09 + 0.25 * 0.01 + 0.75 * 0.0001
    np.testing.assert_allclose(law.variance, expected, rtol=1e-6)


def test_the_linearised_predictive_of_a_linear_model_is_exact():
    plan, model = door.assembled(
        linear(3, bias=False), likelihoods.gaussian(NOISE), kernels.static(), initial_scale=START
    )
    x = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    law, _ = door.first(plan, model.initial_scale, jax.random.key(0))
    told = door.told(model.likelihood, door.look(plan, model, law, x), 0.95)
    np.testing.assert_allclose(told.epistemic[:, 0], START**2 * (x**2).sum(axis=1), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(told.aleatoric, NOISE**2, rtol=1e-12)
    seen = Outlook(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    total = natural.log_predictive(likelihoods.Gaussian(2.0), seen, jnp.array([1.5]))
    np.testing.assert_allclose(total, -0.5 * (1.5**2 / 5 + np.log(2 * np.pi * 5)), rtol=1e-9)


def test_dropped_means_keep_their_moments():
    plan, model = door.assembled(
        mlp(2, (3, 3), 1), "bernoulli", kernels.static(), initial_scale=0.3, keep=0.8, keep_where="all"
    )
    state = door.init(plan, model, jax.random.key(0))
    law = natural.moments(state.posterior, model.family)
    back = natural.moments(natural.member(law, state.posterior, model.family), model.family)
    np.testing.assert_allclose(back.mean, law.mean, rtol=1e-9)
    np.testing.assert_allclose(back.variance, law.variance, rtol=1e-6)


def test_the_noise_is_found_from_residuals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    y = 2.0 * x[:, 0] + rng.normal(0, 0.25, 400)
    plan, model = door.assembled(linear(1), likelihoods.gaussian(), kernels.jump(1.0, 1e-3), initial_scale=1.0)
    law, noise = door.first(plan, model.initial_scale, jax.random.key(0))
    _, noise, _ = door.rows(plan, model, law, noise, Rows(x, y, np.ones(400), np.ones(400, bool)))
    assert 0.18 < float(noise.variance) ** 0.5 < 0.33
