"""The closed form: the Kalman filter where it must be, the exact mean elsewhere, bounded."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import stats

import hmnn
from hmnn import Dataset
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.prediction import Question
from hmnn.core.projections import natural
from hmnn.networks import linear, mlp

MEMORY, JUMP, NOISE, START = 0.9, 0.3, 0.5, 0.7
pytestmark = pytest.mark.usefixtures("float64")


def parts_of(network, likelihood, kernel, **settings):
    """The filter with the closed form."""
    return hmnn.build(network, likelihood, kernel, projection=hmnn.natural(**settings)).parts


def flat(leaves):
    """The numbers of all leaves, one after the other."""
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def filtered(xs, ys, joint=32, correlations="none"):
    """Means and variances of the weights of a linear network without bias, at every t."""
    network, kernel = linear(xs.shape[2], bias=False), kernels.jump(MEMORY, JUMP, jump_prob=1.0)
    projection = hmnn.natural(START, joint=joint, correlations=correlations)
    model = hmnn.build(network, likelihoods.gaussian(NOISE), kernel, projection=projection)
    state, rows = model.init(0), []
    first = flat(state.posterior.mean)
    for x, y in zip(xs, ys, strict=True):
        state, _ = model.step(state, Dataset(x, y))
        rows.append([flat(state.posterior.mean), flat(state.posterior.variance)])
    return first, np.array(rows)


def stream(design, steps=12, seed=0):
    """A linear-Gaussian stream with the same design at every t."""
    rng = np.random.default_rng(seed)
    w = np.cumsum(rng.normal(0, 0.3, (steps, design.shape[1])), axis=0)
    return np.stack([design] * steps), w @ design.T + rng.normal(0, NOISE, (steps, len(design)))


def oracle(f, first, xs, ys, whole=False, **options):
    """`centre` is m_{t-1} here: the mean stays, so the oracle is called one step at a time.

    Of a covariance the diagonal is kept, or with `whole` all of it.
    """
    m, v, out = first, np.full(len(first), START**2), []
    for x, y in zip(xs, ys, strict=True):
        means, spreads = f(m, v, MEMORY, m, JUMP**2, x[None], y[None], NOISE, **options)
        m, spread = means[0], spreads[0]
        diagonal = np.diag(spread) if spread.ndim == 2 else spread
        v = spread if whole else diagonal
        out.append([m, diagonal])
    return np.array(out)


def test_an_orthogonal_design_gives_the_kalman_filter():
    xs, ys = stream(oracles.sigma_points(3)[:4] * np.array([1.0, 0.5, 2.0]))
    first, ours = filtered(xs, ys)
    np.testing.assert_allclose(ours, oracle(oracles.kalman, first, xs, ys), rtol=1e-6)


@pytest.mark.parametrize(("rows", "joint"), [(5, 32), (2, 2)])  # two unknowns are solved by hand
def test_a_correlated_design_gives_the_exact_mean_and_the_diagonal_of_the_precision(rows, joint):
    xs, ys = stream(np.random.default_rng(1).normal(size=(rows, 3)) + 1.0)
    first, ours = filtered(xs, ys, joint)
    np.testing.assert_allclose(ours, oracle(oracles.diagonal_filter, first, xs, ys), rtol=1e-6)
    wrong = oracle(oracles.diagonal_filter, first, xs, ys, marginal=True)
    assert np.abs(ours - wrong).max() > 1e-2  # the control: marginal variances are another law


@pytest.mark.parametrize("rows", [1, 4])
def test_a_last_layer_that_keeps_its_covariance_is_the_kalman_filter(rows):
    xs, ys = stream(np.random.default_rng(1).normal(size=(rows, 3)) + 1.0)
    first, ours = filtered(xs, ys, correlations="last")
    expected = oracle(oracles.kalman, first, xs, ys, whole=True)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert np.abs(filtered(xs, ys)[1] - expected).max() > 1e-2  # the control


def test_rows_one_at_a_time_are_the_kalman_filter_for_scalar_weights():
    xs, ys = stream(np.array([[1.5]]), steps=30)
    first, ours = filtered(xs, ys)
    np.testing.assert_allclose(ours, oracle(oracles.kalman, first, xs, ys), rtol=1e-6)


@jax.jit
def predicted(parts, state, batch):
    return parts.projection.predict(parts, state, batch.x, Question("mean", 0, 0.95))


def rows_of(x, y):
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))


def test_a_row_by_itself_is_a_row_among_rows_of_weight_zero():
    """One unknown, two and many are solved in three ways."""
    rng = np.random.default_rng(5)
    parts = parts_of(mlp(2, (3,), 1), likelihoods.gaussian(NOISE), kernels.jump(), joint=3)
    first, step = filtering.init(parts, jax.random.key(0)), compiled(ONCE)(filtering.step)
    x, y = jnp.asarray(rng.normal(size=(3, 2))), jnp.asarray(rng.normal(size=3))
    alone, *others = (
        step(parts, first, Batch(x[:n], y[:n], (jnp.arange(n) < 1).astype(x.dtype)))[0].posterior
        for n in (1, 2, 3)
    )
    for other in others:
        np.testing.assert_allclose(flat(alone.mean), flat(other.mean), rtol=1e-8)
        np.testing.assert_allclose(flat(alone.variance), flat(other.variance), rtol=1e-8)
    assert np.abs(flat(alone.mean) - flat(first.posterior.mean)).max() > 1e-3


@pytest.mark.parametrize("rows", [4, 5])
def test_more_rows_than_are_taken_together_are_taken_in_turn(rows):
    """In lots of two, as time steps in which nothing moves; the network is made linear anew."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    parts = parts_of(mlp(2, (3,), 1), likelihoods.gaussian(NOISE), kernels.static(), joint=2)
    step = compiled(ONCE)(filtering.step)
    first = state = filtering.init(parts, jax.random.key(0))
    for i in range(0, rows, 2):
        state, _ = step(parts, state, rows_of(x[i : i + 2], y[i : i + 2]))
    together, _ = step(parts, first, rows_of(x, y))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-8), together[0], state[0])
    all_at_once = replace(parts, projection=hmnn.natural(joint=rows))
    other, _ = step(all_at_once, first, rows_of(x, y))
    assert np.abs(flat(other.posterior.mean) - flat(state.posterior.mean)).max() > 1e-4


def test_what_fills_a_lot_up_is_a_row_that_the_network_takes():
    """Five rows in lots of two, of a network that is not defined at 0."""
    network = hmnn.from_functions(lambda key: jnp.ones((1, 1)), lambda w, x: jnp.log(x) @ w)
    parts = parts_of(network, likelihoods.gaussian(NOISE), kernels.static(), joint=2)
    state = filtering.init(parts, jax.random.key(0))
    x = np.linspace(1.0, 2.0, 5)[:, None]
    _, info = compiled(ONCE)(filtering.step)(parts, state, rows_of(x, x[:, 0]))
    assert bool(info.finite)
    assert not np.isfinite(network.apply(jnp.ones((1, 1)), jnp.zeros((1, 1)))).all()


@compiled(ONCE)
def moved(parts, steps):
    """The law after time steps without data."""
    state = filtering.init(parts, jax.random.key(0))
    after = jax.lax.fori_loop(0, steps, lambda _, state: filtering.rest(parts, state), state)
    return after.posterior


FREE = 0.3**2 + 2000 * 0.1**2  # as the Kalman filter's grows


@pytest.mark.parametrize(
    ("memory", "bound", "limit"),
    [(0.9, np.inf, 0.1**2 / (1 - 0.9**2)), (1.0, 1.0, 1.0), (1.0, np.inf, FREE)],
)
def test_the_variance_of_weights_without_data_stays_bounded_if_asked(memory, bound, limit):
    kernel = kernels.jump(memory, 0.1, jump_prob=1.0)
    law = moved(parts_of(mlp(2, (3,), 1), "bernoulli", kernel, bound=bound), 2000)
    np.testing.assert_allclose(flat(law.variance), limit, rtol=1e-4)


def test_a_mixture_of_jumps_counts_by_its_moments():
    law = moved(parts_of(mlp(2, (3,), 1), "bernoulli", kernels.jump(0.9, 0.1, 10.0, 0.25)), 1)
    expected = 0.9**2 * 0.09 + 0.25 * 0.01 + 0.75 * 0.0001
    np.testing.assert_allclose(flat(law.variance), expected, rtol=1e-6)


def test_the_level_is_an_extra_jump_of_the_output_biases_and_of_nothing_else():
    network, kernel = mlp(2, (3,), 2), kernels.jump(0.9, 0.1)

    def after(level):
        return moved(parts_of(network, "categorical", kernel, level_scale=level), 1)

    plain, level = after(0.0), after(0.2)
    np.testing.assert_allclose(level.variance[-1] - plain.variance[-1], 0.04, rtol=1e-9)
    np.testing.assert_array_equal(flat(level.variance[:-1]), flat(plain.variance[:-1]))
    np.testing.assert_array_equal(flat(level.mean), flat(plain.mean))


def test_the_linearised_predictive_of_a_linear_model_is_exact():
    gaussian, network = likelihoods.gaussian(NOISE), linear(3, bias=False)
    parts = parts_of(network, gaussian, kernels.static(), initial_scale=START)
    x = jnp.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    state = filtering.init(parts, jax.random.key(0))
    told = predicted(parts, state, Batch(x, None, None))
    spread = START**2 * np.sum(x**2, axis=1)
    np.testing.assert_allclose(told.mean[:, 0], x @ flat(state.posterior.mean), rtol=1e-9)
    np.testing.assert_allclose(told.epistemic[:, 0], spread, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(told.aleatoric, NOISE**2, rtol=1e-12)
    y = np.array([1.5, 0.2])
    _, info = compiled(ONCE)(filtering.step)(parts, state, rows_of(x, y))
    density = stats.norm.logpdf(y, x @ flat(state.posterior.mean), np.sqrt(spread + NOISE**2))
    np.testing.assert_allclose(info.surprise, density.mean(), rtol=1e-9)


def test_a_share_of_the_spread_is_for_predictions_and_does_not_change_what_is_learned():
    network, x = linear(2), jnp.array([[1.0, -2.0], [0.5, 0.3]])
    seen, step = [], compiled(ONCE)(filtering.step)
    for share in (1.0, 0.1):
        parts = parts_of(network, likelihoods.gaussian(NOISE), kernels.static(), spread=share)
        state = filtering.init(parts, jax.random.key(0))
        told = predicted(parts, state, Batch(x, None, None))
        after, info = step(parts, state, rows_of(x, [0.0, 1.0]))
        np.testing.assert_allclose(info.outlook.spread, told.epistemic, rtol=1e-9)
        seen.append((told.epistemic, after.posterior))
    np.testing.assert_allclose(0.1 * seen[0][0], seen[1][0], rtol=1e-9)
    jax.tree.map(np.testing.assert_array_equal, seen[0][1], seen[1][1])


def test_the_noise_is_found_from_residuals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    y = 2.0 * x[:, 0] + rng.normal(0, 0.25, 400)
    kernel = kernels.jump(1.0, 1e-3)
    parts = parts_of(linear(1), "learned_gaussian", kernel, initial_scale=1.0)
    state = filtering.init(parts, jax.random.key(0))
    assert float(parts.given(state.noise).scale) == 1.0
    after, _, _ = compiled(ONCE)(filtering.rows)(parts, state, rows_of(x, y))
    assert 0.18 < float(parts.given(after.noise).scale) < 0.33


def many_classes(classes, rows):
    """A filter for many classes, its first state, and rows of them."""
    parts = parts_of(mlp(2, (3,), classes), likelihoods.categorical(), kernels.jump())
    rng = np.random.default_rng(0)
    batch = Batch(rng.normal(size=(rows, 2)), rng.integers(classes, size=rows), np.ones(rows))
    return parts, filtering.init(parts, jax.random.key(0)), jax.tree.map(jnp.asarray, batch)


def test_many_outputs_are_looked_at_in_turn_and_say_the_same(monkeypatch):
    monkeypatch.setattr(natural, "UNKNOWNS", 64)
    parts, state, batch = many_classes(classes=10, rows=9)
    zeros, law = parts.weights(), state.posterior
    mean, unravel = jax.flatten_util.ravel_pytree(
        jax.tree.unflatten(jax.tree.structure(zeros), law.mean)
    )
    outlook = jax.jit(parts.projection.outlook)(parts, law, batch.x)
    jacobian = jax.jacobian(lambda w: parts.apply(unravel(w), batch.x))(mean)
    np.testing.assert_allclose(outlook.spread, jacobian**2 @ flat(law.variance), rtol=1e-10)
    in_lots_of_six = replace(parts, projection=hmnn.natural(joint=64 // 10))
    step = compiled(ONCE)(filtering.step)
    after, other = (step(p, state, batch)[0].posterior for p in (parts, in_lots_of_six))
    np.testing.assert_array_equal(flat(after.mean), flat(other.mean))


def reserved(program):
    """Megabytes that a compiled program needs with 600 classes and 256 rows."""
    parts, state, batch = many_classes(classes=600, rows=256)
    found = jax.jit(lambda state, batch: program(parts, state, batch)).lower(state, batch)
    return found.compile().memory_analysis().temp_size_in_bytes / 1e6


def test_memory_for_many_classes_is_bounded(monkeypatch):
    """The control: all rows of a lot together, whatever the number of outputs."""
    assert reserved(predicted) < 100
    assert reserved(filtering.step) < 100
    monkeypatch.setattr(natural, "UNKNOWNS", 10**9)
    assert reserved(filtering.step) > 2000
