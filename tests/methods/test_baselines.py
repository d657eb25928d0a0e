import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn import Dataset, DivergenceError, dropconnect, lstm, persistence, shrinkage
from hmnn.core.likelihoods import gaussian
from hmnn.data import windows
from hmnn.methods import method as programs
from hmnn.methods.lstm import Stack

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1 * RNG.normal(size=(40, 1))).astype(np.float32)
LINEAR = hmnn.linear(3, bias=False)
SERIES = np.cumsum(RNG.normal(size=(60, 2)), axis=0).astype(np.float32)


def weights(method, steps=1):
    state = method.init(0)
    for _ in range(steps):
        state, _ = method.step(state, Dataset(X, Y))
    return state


def test_dropconnect_that_keeps_everything_is_gradient_descent():
    method = dropconnect(
        LINEAR, "gaussian", keep=1.0, keep_where="all", learning_rate=1e-3, epochs=7
    )
    w = np.asarray(method.init(0).posterior.weights.weight, np.float64)
    for _ in range(14):
        w = w - 1e-3 * 2 * (w @ X.T - Y.T) @ X
    np.testing.assert_allclose(weights(method, 2).posterior.weights.weight, w, rtol=1e-4)


def test_dropconnect_goes_where_its_mean_loss_is_least():
    """E |y - X (eta w)|^2 = |y - gamma X w|^2 + gamma (1 - gamma) sum_j w_j^2 |x_j|^2."""
    keep, x = 0.5, X + X[:, :1]  # with columns of their own, both would be the same
    method = dropconnect(
        LINEAR, "gaussian", keep=keep, keep_where="all", learning_rate=2e-5, epochs=20000
    )
    pull = keep * (1 - keep) * np.diag(np.square(x).sum(axis=0))
    least = np.linalg.solve(keep**2 * x.T @ x + pull, keep * x.T @ Y)[:, 0]
    state, _ = method.step(method.init(0), Dataset(x, Y))
    np.testing.assert_allclose(np.asarray(state.posterior.weights.weight)[0], least, atol=0.05)
    assert (
        np.abs(least - np.linalg.lstsq(x, Y, rcond=None)[0][:, 0]).max() > 0.2
    )  # not plain least squares
    at_mean, at_location = (method.predict(state, x, point=p).mean for p in ("mean", "location"))
    np.testing.assert_allclose(at_mean, keep * at_location, rtol=1e-5)


def test_dropconnect_drops_only_where_it_may():
    network = hmnn.mlp(3, (5,), 1)
    kept = dropconnect(
        network, "gaussian", keep=0.5, keep_where="none", learning_rate=1e-3, epochs=3
    )
    plain = dropconnect(
        network, "gaussian", keep=1.0, keep_where="all", learning_rate=1e-3, epochs=3
    )
    dropped = dropconnect(
        network, "gaussian", keep=0.5, keep_where="all", learning_rate=1e-3, epochs=3
    )
    trained = [weights(m).posterior.weights for m in (kept, plain, dropped)]
    first, same, other = (np.asarray(w.layers[0].weight) for w in trained)
    np.testing.assert_allclose(first, same, rtol=1e-5)
    assert np.abs(first - other).max() > 1e-4


def test_other_settings_do_not_compile_again():
    weights(dropconnect(LINEAR, "gaussian", keep=0.5, keep_where="all", epochs=2))
    before = programs.step._cache_size()
    weights(
        dropconnect(
            LINEAR, gaussian(2.0), keep=0.9, keep_where="all", epochs=5, learning_rate=1e-4
        ),
        steps=2,
    )
    assert programs.step._cache_size() == before


def by_cells(stack: Stack, x):
    """Equinox's own cells, row after row."""
    memories, outputs = stack.start(), []
    for row in x:
        for i, cell in enumerate(stack.cells):
            memories[i] = cell(row, memories[i])
            row = memories[i][0]
        outputs.append(stack.readout(row))
    return memories, jnp.stack(outputs)


def test_the_stack_reads_as_its_cells_do_and_padding_is_not_read():
    stack = Stack(3, (5, 4), 2, jax.random.key(1))
    memories, outputs = by_cells(stack, X[:6])
    found, all_outputs = stack.read(stack.start(), jnp.asarray(X[:9]), 6)
    np.testing.assert_allclose(all_outputs[:6], outputs, atol=1e-6)
    for (h, c), (expected_h, expected_c) in zip(found, memories, strict=True):
        np.testing.assert_allclose(h, expected_h, atol=1e-6)
        np.testing.assert_allclose(c, expected_c, atol=1e-6)


def test_a_prediction_of_the_lstm_goes_on_after_the_last_window():
    method = lstm(3, 1, "gaussian", hidden=(6,), epochs=2)
    state, _ = method.step(method.init(0), Dataset(X[:5], Y[:5]))
    stack = eqx.combine(state.posterior, Stack(3, (6,), 1, jax.random.key(0)))
    new = X[:2] + 1
    expected = [by_cells(stack, np.concatenate([X[:5], row[None]]))[1][-1] for row in new]
    np.testing.assert_allclose(method.predict(state, new).mean, expected, atol=1e-5)
    assert np.abs(by_cells(stack, new[:1])[1][-1] - expected[0]).max() > 1e-4  # without the window


def test_the_lstm_learns_what_only_memory_can_know():
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], (33, 1)).astype(np.float32)
    data = Dataset(signs[1:], signs[:-1])  # the target is the input before
    method = lstm(1, 1, "gaussian", hidden=(8,), learning_rate=0.02, epochs=300)
    state, info = method.step(method.init(0), data)
    assert float(info.misfit) - 16 * np.log(np.pi) < 0.2 * np.square(data.y).sum()
    for new in (-1.0, 1.0):
        np.testing.assert_allclose(method.predict(state, [[new]]).mean, data.x[-1:], atol=0.5)


def watch(method, size=10, steps=30):
    """The forecast of each value after the first window, from windows that slide by one."""
    stream, state, found = windows.sliding(SERIES, size=size), method.init(0), []
    for t in range(steps):
        state, _ = method.step(state, stream[t])
        found.append(np.asarray(method.predict(state, stream[t].y[-1:]).mean)[0])
    return np.array(found), SERIES[size + 1 : size + 1 + steps]


def test_persistence_is_the_last_value_and_a_lag_goes_further_back():
    last, _ = watch(persistence(2))
    np.testing.assert_array_equal(last, SERIES[10:40])
    lagged, _ = watch(persistence(2, lag=4))
    np.testing.assert_array_equal(lagged, SERIES[7:37])
    far, _ = watch(persistence(2, lag=20))
    np.testing.assert_array_equal(far[:10], SERIES[10:20])  # nothing so old has been seen
    np.testing.assert_array_equal(far[10:], SERIES[1:21])


def test_windows_without_overlap_are_all_new():
    stream, method = windows.sliding(SERIES, size=5, step=5), persistence(2, lag=7, fresh=5)
    state = method.init(0)
    for t in range(3):
        state, _ = method.step(state, stream[t])
    np.testing.assert_array_equal(method.predict(state, SERIES[:1]).mean[0], SERIES[9])


@pytest.mark.parametrize("lag", [1, 2])
def test_shrinkage_is_least_squares_over_all_that_was_seen(lag):
    found, _ = watch(shrinkage(2, lag=lag))
    for t in (0, 7, 29):
        seen = SERIES[1 : 11 + t]
        coefficient = (seen[:-lag] * seen[lag:]).sum() / np.square(seen[:-lag]).sum()
        np.testing.assert_allclose(found[t], coefficient * SERIES[10 + t], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dropconnect(LINEAR, "gaussian", keep=0.0), r"keep must be in \(0, 1\]. Got 0.0."),
        (
            lambda: dropconnect(LINEAR, "gaussian", keep_where="all", epochs=0),
            "epochs must be a whole number of at least 1. Got 0.",
        ),
        (
            lambda: lstm(1, 1, "gaussian", hidden=()),
            r"hidden must be a tuple of widths such as \(500, 500, 500\). Got \(\).",
        ),
        (lambda: lstm(0, 1, "gaussian"), "inputs must be a whole number of at least 1. Got 0."),
        (lambda: persistence(2, lag=0), "lag must be a whole number of at least 1. Got 0."),
        (lambda: shrinkage("2"), "outputs must be a whole number of at least 1. Got '2'."),
    ],
)
def test_settings_are_checked_at_the_door(call, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        call()


def test_shrinkage_refuses_sums_that_are_not_finite():
    method = shrinkage(1)
    state, _ = method.step(method.init(0), Dataset(np.ones((3, 1)), np.array([1.0, 2.0, 3e19])))
    with pytest.raises(
        DivergenceError, match=r"^The update at t = 2 is not finite; the state is unchanged"
    ):
        method.step(state, Dataset(np.ones((1, 1)), np.ones(1)))


def test_a_diverging_descent_is_refused_and_the_state_stays():
    method = dropconnect(LINEAR, "gaussian", keep=1.0, learning_rate=1e3, epochs=100)
    state = method.init(0)
    with pytest.raises(
        hmnn.DivergenceError, match=r"at t = 1 is not finite; the state is unchanged"
    ):
        method.step(state, Dataset(X, Y))
    assert np.isfinite(method.predict(state, X).mean).all()
