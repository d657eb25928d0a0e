"""A1, A2, A3, A8: the whole recursion against exact answers, and against itself.

The noise is sigma points, so gradients of quadratics carry no Monte Carlo error and descent reaches
the exact answer.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.families import DropConnect, Gaussian, rho_of, scale
from hmnn.core.filtering import Filter
from hmnn.core.projections.descent import Descent

NOISE, START = 0.5, 1.3


def linear(w, x):
    return x @ w


def two_leaves(w, x):
    return x @ jnp.concatenate([w["a"], w["b"]])


def zeros(n):
    return lambda key: jnp.zeros(n)


SCALAR, THREE = (zeros(1), linear), (zeros(3), linear)
VECTOR = (lambda key: {"a": jnp.zeros(2), "b": jnp.ones(1)}, two_leaves)
LEAVES = {"a": Gaussian(), "b": Gaussian()}
EXACT = partial(Descent, initial_scale=START, source=oracles.hadamard_source)
SHORT = Descent(0.005, 40, initial_scale=START, samples=2)


def batches(xs, ys):
    return Batch(jnp.asarray(xs), jnp.asarray(ys), jnp.ones(ys.shape))


@compiled(ONCE)
def run(parts, stream):
    return filtering.scan(parts, filtering.init(parts, jax.random.key(0)), stream)


step = compiled(ONCE)(filtering.step)


def model(kernel, family=None, how=SHORT, network=THREE):
    family = Gaussian() if family is None else family
    return Filter(*network[:2], kernel, family, likelihoods.gaussian(NOISE), how)


def filtered(parts, xs, ys):
    """Means and variances at every t, one column per weight."""
    _, (posterior, info) = run(parts, batches(xs, ys))
    flat = [
        np.concatenate([np.asarray(a) for a in jax.tree.leaves(part)], axis=1) for part in posterior
    ]
    assert info.finite.all()
    return flat[0], np.asarray(scale(jnp.asarray(flat[1]))) ** 2


def diagonals(covs):
    return np.array([np.diag(c) for c in covs])


# --- A1 -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("centre", [0.0, -0.8])
@pytest.mark.parametrize("kind", ["ornstein_uhlenbeck", "jump"])
def test_a_scalar_linear_gaussian_stream_is_filtered_exactly(float64, kind, centre):
    memory, size = 0.9, 1.2
    jump = (1 - memory**2) * size**2
    kernel = {
        "ornstein_uhlenbeck": kernels.ornstein_uhlenbeck(memory, size, centre),
        "jump": kernels.jump(memory, np.sqrt(jump), 5.0, 1.0, centre),
    }[kind]
    xs, ys = oracles.linear_stream(7, 12, 2, 1, memory, jump, NOISE)
    parts = model(kernel, None, EXACT(0.02, 3000, samples=2), SCALAR)
    means, variances = filtered(parts, xs, ys)
    exact, covs = oracles.kalman([0.0], [START**2], memory, centre, jump, xs, ys, NOISE)
    np.testing.assert_allclose(means, exact, atol=1e-6)
    np.testing.assert_allclose(variances, diagonals(covs), atol=1e-6)
    for wrong in (
        {"memory": 0.85},
        {"jump_variance": 1.2 * jump},
        {"noise": 0.52},
        {"variance": [1.5 * START**2]},
    ):
        truth = {
            "m": [0.0],
            "variance": [START**2],
            "memory": memory,
            "centre": centre,
            "jump_variance": jump,
        }
        other, _ = oracles.kalman(**(truth | {"xs": xs, "ys": ys, "noise": NOISE} | wrong))
        assert np.abs(means - other).max() > 1e-4, wrong


# --- A2, A3 ---------------------------------------------------------------------------------------
STREAM = {"memory": 0.8, "jump_variance": 0.2}


def vector_model():
    kernel = kernels.jump(STREAM["memory"], np.sqrt(STREAM["jump_variance"]), 3.0, 1.0, "zero")
    return model(kernel, LEAVES, EXACT(0.005, 8000, samples=4), VECTOR)


def vector_truth(xs, ys):
    return {
        "m": np.zeros(3),
        "variance": np.full(3, START**2),
        "centre": 0.0,
        "xs": xs,
        "ys": ys,
        "noise": NOISE,
    } | STREAM


def test_an_orthogonal_design_is_filtered_exactly(float64):
    xs, ys = oracles.linear_stream(3, 9, 8, 3, **STREAM, noise=NOISE, orthogonal=True)
    means, variances = filtered(vector_model(), xs, ys)
    exact, covs = oracles.kalman(**vector_truth(xs, ys))
    np.testing.assert_allclose(means, exact, atol=1e-6)
    np.testing.assert_allclose(variances, diagonals(covs), atol=1e-6)
    assert np.abs(means - exact[:, ::-1]).max() > 1e-2


def test_a_correlated_design_has_the_exact_mean_and_is_narrower_than_the_marginal(float64):
    xs, ys = oracles.linear_stream(4, 9, 8, 3, **STREAM, noise=NOISE, correlation=0.8)
    xs = 0.7 * xs
    means, variances = filtered(vector_model(), xs, ys)
    exact, narrow = oracles.diagonal_filter(**vector_truth(xs, ys))
    np.testing.assert_allclose(means, exact, atol=1e-6)
    np.testing.assert_allclose(variances, narrow, atol=1e-6)  # s^2 = 1 / Lambda_vv
    _, covs = oracles.kalman(**vector_truth(xs, ys))
    assert (variances < diagonals(covs) - 1e-3).all()  # the known price of a diagonal family
    marginal_means, marginal = oracles.diagonal_filter(**vector_truth(xs, ys), marginal=True)
    assert np.abs(variances - marginal).max() > 1e-2
    assert np.abs(means - marginal_means).max() > 1e-4


# --- A8: special cases, with random noise ---------------------------------------------------------
def short(kernel, family=None, how=SHORT):
    xs, ys = oracles.linear_stream(5, 4, 4, 3, 0.9, 0.1, NOISE)
    return run(model(kernel, family, how), batches(xs, ys))[1]


def same(a, b, tolerance=1e-8):
    return all(
        np.allclose(x, y, atol=tolerance, equal_nan=True) for x, y in zip(a[0], b[0], strict=True)
    )


def test_dropconnect_that_keeps_everything_is_the_gaussian_filter(float64):
    plain = short(kernels.jump(0.7, 0.3, 3.0, 0.4))
    kept = short(kernels.jump(0.7, 0.3, 3.0, 0.4), DropConnect(1.0))
    assert same(plain, kept)
    np.testing.assert_allclose(plain[1].free_energy, kept[1].free_energy, rtol=1e-9)
    assert not same(plain, short(kernels.jump(0.7, 0.3, 3.0, 0.4), DropConnect(0.9)), 1e-3)


def test_kernels_that_are_special_cases_give_the_same_filter(float64):
    jump = partial(kernels.jump, shrink=3.0)
    pairs = [
        (kernels.static(), jump(1.0, 1e-9, jump_prob=0.5), jump(1.0, 0.1, jump_prob=0.5)),
        (
            kernels.reset(0.5, 3.0, 0.4),
            jump(0.0, 0.5, jump_prob=0.4, centre="zero"),
            jump(0.4, 0.5, jump_prob=0.4),
        ),
        (
            kernels.ornstein_uhlenbeck(0.8, 0.5),
            jump(0.8, 0.3, jump_prob=1.0, centre="zero"),
            jump(0.8, 0.5, jump_prob=1.0, centre="zero"),
        ),
    ]
    for special, general, wrong in pairs:
        assert same(short(special), short(general), 1e-7)
        assert not same(short(special), short(wrong), 1e-4)


def test_vcl_bbp_and_kurle_are_settings_of_hmnn():
    """At the public door, in single precision."""
    network = hmnn.from_functions(zeros(3), linear)
    rng = np.random.default_rng(0)
    data = [hmnn.Dataset(rng.normal(size=(8, 3)), rng.normal(size=8)) for _ in range(2)]
    common = {"epochs": 20, "learning_rate": 0.01, "keep_where": "all"}

    def locations(method):
        state = method.init(jax.random.key(1))
        for batch in data:
            state, _ = method.step(state, batch)
        return np.asarray(state.posterior.location)

    build = partial(hmnn.hmnn, network, "gaussian", **common)
    jumps = {"jump_scale": 0.6, "shrink": 3.0, "jump_prob": 0.4}
    vcl, bbp = (
        hmnn.vcl(network, "gaussian", **common),
        hmnn.bbp(network, "gaussian", **jumps, **common),
    )
    kurle = hmnn.kurle(network, "gaussian", memory=0.8, scale=1.0, **common)
    plain = {"shrink": 2.0, "jump_prob": 1.0, "centre": "zero"}
    np.testing.assert_allclose(
        locations(vcl), locations(build(memory=1.0, jump_scale=1e-6)), atol=1e-4
    )
    np.testing.assert_allclose(
        locations(bbp), locations(build(memory=0.0, centre="zero", **jumps)), atol=1e-4
    )
    np.testing.assert_allclose(
        locations(kurle), locations(build(memory=0.8, jump_scale=0.6, **plain)), atol=1e-4
    )
    assert (
        np.abs(locations(kurle) - locations(build(memory=0.2, jump_scale=0.6, **plain))).max()
        > 1e-3
    )


# --- the recursion against itself -----------------------------------------------------------------
def test_scan_is_a_loop_of_steps(float64):
    xs, ys = oracles.linear_stream(5, 4, 4, 3, 0.9, 0.1, NOISE)
    parts, stream = model(kernels.jump(0.7, 0.3, 3.0, 0.4)), batches(xs, ys)
    last, (posterior, info) = run(parts, stream)
    state = filtering.init(parts, jax.random.key(0))
    for t in range(4):
        state, seen = step(parts, state, jax.tree.map(lambda a, t=t: a[t], stream))
        np.testing.assert_allclose(state.posterior.location, posterior.location[t], rtol=1e-10)
        np.testing.assert_allclose(seen.free_energy, info.free_energy[t], rtol=1e-10)
    assert int(last.t) == int(state.t) == 4
    np.testing.assert_allclose(last.posterior.rho, state.posterior.rho, rtol=1e-10)
    assert np.abs(posterior.location[-1] - posterior.location[-2]).max() > 1e-3


def test_the_filter_starts_at_lambda_0(float64):
    state = filtering.init(model(kernels.static()), jax.random.key(0))
    np.testing.assert_allclose(scale(state.posterior.rho), np.full(3, START), rtol=1e-10)
    assert (state.posterior.location == 0).all()
    assert int(state.t) == 0


def test_free_energy_is_misfit_plus_temperature_times_divergence(float64):
    info = short(kernels.jump(0.7, 0.3, 3.0, 0.4), how=replace(SHORT, temperature=0.3))[1]
    np.testing.assert_allclose(info.free_energy, info.misfit + 0.3 * info.divergence, rtol=1e-12)
    assert not np.allclose(info.free_energy, info.misfit + info.divergence)


def test_the_misfit_shown_is_that_of_all_rows_whatever_the_minibatch(float64):
    """No epochs: the posterior is the first guess, and minibatches of 3 of 4 rows must add up."""
    still = replace(SHORT, epochs=0)
    hows = (still, replace(still, minibatch=3))
    whole, parts = (short(kernels.static(), how=how) for how in hows)
    assert same(whole, parts, 0)
    np.testing.assert_allclose(whole[1].misfit, parts[1].misfit, rtol=1e-12)
    np.testing.assert_allclose(whole[0].location, 0)
    assert not same(whole, short(kernels.static()), 1e-3)


@pytest.mark.parametrize("how", [SHORT, replace(SHORT, minibatch=2)], ids=["whole", "minibatches"])
def test_padded_rows_change_nothing(float64, how):
    xs, ys = oracles.linear_stream(5, 4, 4, 3, 0.9, 0.1, NOISE)
    parts = model(kernels.jump(0.7, 0.3, 3.0, 0.4), how=how)
    other, values = xs.copy(), ys.copy()
    other[:, 3], values[:, 3] = 99.0, -99.0
    real = jnp.tile(jnp.array([1.0, 1.0, 1.0, 0.0]), (4, 1))
    streams = batches(xs, ys), batches(other, values)
    padded = [run(parts, stream._replace(weight=real))[1] for stream in streams]
    assert same(*padded, 0)
    assert (padded[0][1].misfit == padded[1][1].misfit).all()
    assert not same(padded[0], run(parts, batches(xs, ys))[1], 1e-3)


# --- the drift signal -----------------------------------------------------------------------------
def drift_of(jumps):
    """w = (0.5, -0.4, 1) until t = 5, when the first leaf moves by 3 if `jumps`."""
    rng = np.random.default_rng(11)
    xs = rng.normal(size=(9, 8, 3))
    w = np.tile([0.5, -0.4, 1.0], (9, 1))
    w[5:, :2] += 3.0 * jumps
    ys = np.einsum("trv,tv->tr", xs, w) + NOISE * rng.normal(size=(9, 8))
    kernel = kernels.jump(1.0, 1.0, 20.0, 0.3, "previous")
    parts = model(kernel, LEAVES, EXACT(0.005, 2000, samples=4), VECTOR)
    return run(parts, batches(xs, ys))[1][1]


def test_the_drift_signal_rises_when_the_truth_jumps_and_only_then(float64):
    quiet, moved = drift_of(0.0), drift_of(1.0)
    phi = 0.3
    assert (quiet.drift[2:] < phi + 0.05).all()
    assert (moved.drift[2:5] < phi + 0.05).all()
    assert (moved.drift_by_leaf["a"][5] > 0.9).all()
    assert (moved.drift_by_leaf["b"][5] < phi + 0.1).all()
    overall = (2 * moved.drift_by_leaf["a"] + moved.drift_by_leaf["b"]) / 3
    np.testing.assert_allclose(moved.drift, overall, rtol=1e-9)
    assert (moved.drift[7:] < phi + 0.1).all()


def test_a_kernel_with_one_variance_has_no_drift_signal(float64):
    for kernel in (kernels.static(), kernels.ornstein_uhlenbeck(0.8, 0.5)):
        assert np.isnan(short(kernel)[1].drift).all()
    assert np.isfinite(short(kernels.reset(0.5, 3.0, 0.4))[1].drift).all()


def test_the_mean_scale_is_the_mean_of_s(float64):
    posterior, info = short(kernels.jump(0.7, 0.3, 3.0, 0.4))
    np.testing.assert_allclose(
        info.mean_scale, np.asarray(scale(posterior.rho)).mean(axis=1), rtol=1e-10
    )
    assert not np.allclose(info.mean_scale, np.asarray(rho_of(scale(posterior.rho))).mean(axis=1))
