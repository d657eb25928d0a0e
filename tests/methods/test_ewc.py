import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy.special import softmax

import hmnn
from hmnn import Dataset
from hmnn._types import Batch
from hmnn.core import likelihoods
from hmnn.methods.ewc import fisher

NOISE = 0.5
LINEAR = hmnn.linear(3, bias=False)
EXACT = {"optimiser": "sgd", "learning_rate": 0.01, "epochs": 2000, "minibatch": None}


def gaussian(**settings):
    return hmnn.ewc(LINEAR, likelihoods.gaussian(NOISE), **settings)


def filtered(method, xs, ys):
    """The weights after every time step."""
    state, found = method.init(0), []
    for x, y in zip(xs, ys, strict=True):
        state, _ = method.step(state, Dataset(x, y))
        found.append(np.asarray(state.posterior.weights.weight)[0])
    return np.array(found)


def stream(steps=4):
    return oracles.linear_stream(3, steps, 8, 3, 0.9, 0.2, NOISE, orthogonal=True)


def least_squares(xs, ys, upto):
    """Of all rows up to a time step."""
    return np.linalg.lstsq(
        np.concatenate(xs[: upto + 1]), np.concatenate(ys[: upto + 1]), rcond=None
    )[0]


def test_with_strength_1_and_an_orthogonal_design_it_is_recursive_least_squares(float64):
    xs, ys = stream()
    exact = np.array([least_squares(xs, ys, t) for t in range(len(xs))])
    np.testing.assert_allclose(
        filtered(gaussian(strength=1.0, anchors="latest", **EXACT), xs, ys), exact, atol=1e-6
    )
    each = filtered(gaussian(strength=1.0, **EXACT), xs, ys)
    np.testing.assert_allclose(each[:2], exact[:2], atol=1e-6)
    assert (
        np.abs(each[2:] - exact[2:]).max() > 1e-3
    )  # one quadratic per step counts the first data twice
    assert np.abs(filtered(gaussian(strength=2.0, **EXACT), xs, ys) - exact).max() > 1e-3


def test_one_quadratic_per_time_step_is_what_kirkpatrick_et_al_sum(float64):
    """The closed form, with every F_k and w_k kept."""
    xs, ys = stream()
    found = filtered(gaussian(strength=3.0, **EXACT), xs, ys)
    fishers, weights = [], []
    for x, y in zip(xs, ys, strict=True):
        own = (x**2).sum(axis=0) / NOISE**2
        top = x.T @ y / NOISE**2 + 3.0 * sum(
            (f * w for f, w in zip(fishers, weights, strict=True)), start=np.zeros(3)
        )
        weights.append(top / (own + 3.0 * sum(fishers, start=np.zeros(3))))
        fishers.append(own)
    np.testing.assert_allclose(found, weights, atol=1e-6)


def test_strength_0_forgets_and_a_huge_one_freezes(float64):
    xs, ys = stream()
    free = filtered(gaussian(strength=0.0, **EXACT), xs, ys)
    alone = [least_squares([x], [y], 0) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_allclose(free, alone, atol=1e-6)
    adam = {"learning_rate": 0.01, "epochs": 2000, "minibatch": None}
    frozen = filtered(gaussian(strength=1e6, **adam), xs, ys)
    np.testing.assert_allclose(frozen[0], alone[0], atol=1e-3)
    np.testing.assert_allclose(frozen[1:], np.broadcast_to(frozen[0], frozen[1:].shape), atol=0.02)
    assert np.abs(free[1:] - free[0]).max() > 0.3


def test_minibatches_add_up_to_the_whole(float64):
    xs, ys = stream(2)
    settings = {"strength": 1.0, "optimiser": "sgd", "learning_rate": 1e-3, "epochs": 4000}
    parts = filtered(gaussian(minibatch=4, **settings), xs, ys)
    whole = filtered(gaussian(minibatch=None, **settings), xs, ys)
    np.testing.assert_allclose(parts, whole, atol=0.01)
    assert np.abs(whole[1] - whole[0]).max() > 0.05


def test_the_fisher_information_is_the_expectation_over_the_models_own_labels(float64):
    """Sum over rows and classes of p_k (d log p_k / d w)^2, by brute force; padded rows count
    nothing."""
    rng = np.random.default_rng(0)
    network = hmnn.mlp(2, (4,), 3)
    weights = jax.tree.map(
        lambda w: jnp.asarray(rng.normal(size=w.shape)), network.init(jax.random.key(0))
    )
    x, real = jnp.asarray(rng.normal(size=(300, 2))), 290
    batch = Batch(x, jnp.zeros(300, jnp.int32), (jnp.arange(300) < real).astype(x.dtype))
    found = fisher(network.apply, likelihoods.categorical(), weights, batch)

    def logs(w, row):
        return jax.nn.log_softmax(network.apply(w, row[None])[0])

    jacobians = jax.vmap(jax.jacobian(logs), (None, 0))(weights, x[:real])
    p = softmax(np.asarray(network.apply(weights, x[:real])), axis=1)
    expected = jax.tree.map(lambda j: np.einsum("rk,rk...->...", p, np.asarray(j) ** 2), jacobians)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    one = np.asarray(jax.tree.leaves(jacobians)[0])[:, 0] ** 2
    assert not np.allclose(
        jax.tree.leaves(found)[0], one.sum(axis=0), rtol=0.1
    )  # the empirical one differs


def test_the_fisher_information_counts_a_row_as_often_as_its_weight_says(float64):
    network, x = hmnn.linear(2, 2), jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)))
    weights, y = network.init(jax.random.key(0)), jnp.zeros(3, jnp.int32)
    rows = jnp.array([0, 0, 0, 1, 2, 2])

    def found(x, y, weight):
        batch = Batch(x, y, jnp.asarray(weight))
        return jax.tree.leaves(fisher(network.apply, likelihoods.categorical(), weights, batch))

    weighted, repeated = found(x, y, [3.0, 1.0, 2.0]), found(x[rows], y[rows], [1.0] * 6)
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_memory_does_not_grow(float64):
    xs, ys = stream(5)
    method, sizes = gaussian(epochs=2), set()
    state = method.init(0)
    for x, y in zip(xs, ys, strict=True):
        state, _ = method.step(state, Dataset(x, y))
        sizes.add(sum(leaf.size for leaf in jax.tree.leaves(state)))
    assert len(sizes) == 1


def test_an_update_that_is_not_finite_is_refused():
    xs, ys = stream(1)
    method = gaussian(optimiser="sgd", learning_rate=1e6, epochs=100)
    with pytest.raises(hmnn.DivergenceError, match=r"not finite; the state is unchanged"):
        method.step(method.init(0), Dataset(xs[0], ys[0]))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"strength": -1.0}, r"strength must be at least 0. Got -1.0."),
        ({"anchors": "some"}, r"anchors must be one of 'each', 'latest'. Got 'some'."),
        ({"epochs": 0}, r"epochs must be a whole number of at least 1. Got 0."),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        gaussian(**settings)
