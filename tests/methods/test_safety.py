"""B3-B5, C1: an update that is not finite is never accepted, and nothing wears out."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hmnn
from hmnn import Dataset, DivergenceError
from hmnn.core import kernels
from hmnn.methods import method as programs

MARK = 777.0
"""An input for which the network below has no finite output."""


def init(key):
    return {"w": 0.5 * jax.random.normal(key, (2, 1))}


def apply(weights, x):
    return x @ weights["w"] + jnp.where(x[:, :1] == MARK, jnp.nan, 0.0)


NETWORK = hmnn.from_functions(init, apply)
SETTINGS = {"learning_rate": 1e-3, "minibatch": None, "patience": 3}


def data(t: int, rows: int = 8) -> Dataset:
    rng = np.random.default_rng([11, t])
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    return Dataset(x, x.sum(axis=1))


def poisoned(t: int) -> Dataset:
    x, y = data(t)
    return Dataset(np.where(np.arange(16).reshape(8, 2) == 6, np.float32(MARK), x), y)


def filtered(method, *batches, state=None):
    state = method.init(0) if state is None else state
    for batch in batches:
        state, _ = method.step(state, batch)
    return state


def bits(tree) -> list[bytes]:
    leaves = jax.tree.leaves(tree)
    return [
        np.asarray(leaf).tobytes()
        for leaf in leaves
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]


def is_finite(state) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.posterior))


@pytest.fixture(scope="module")
def once():
    """One epoch per time step."""
    return hmnn.vcl(NETWORK, "gaussian", epochs=1, **SETTINGS)


@pytest.fixture(scope="module")
def often():
    """More epochs per time step than the filter has patience."""
    return hmnn.vcl(NETWORK, "gaussian", epochs=5, **SETTINGS)


def test_without_a_fault_nothing_is_undone_and_nothing_warns(once):
    state = filtered(once, data(0))
    state, info = once.step(state, data(1))  # a warning would be an error
    assert bool(info.finite)
    assert int(info.rejected) == int(state.work.rejected) == 0


def test_one_epoch_that_is_not_finite_is_undone_counted_and_told(once):
    before = filtered(once, data(0))
    with pytest.warns(
        RuntimeWarning, match=r"^1 epochs at t = 2 were not finite and were undone\.$"
    ):
        after, info = once.step(before, poisoned(1))
    assert int(info.rejected) == int(after.work.rejected) == 1
    assert not bool(info.finite)
    assert not bool(info.diverged)
    assert is_finite(after)
    assert bits(after.posterior) == bits(before.posterior)
    assert bits(after.work.optimiser) == bits(before.work.optimiser)
    assert int(after.t) == 2


def test_the_first_batch_may_be_the_one_that_is_not_finite(once):
    with pytest.warns(RuntimeWarning, match="t = 1"):
        state, _ = once.step(once.init(0), poisoned(0))
    assert bits(state.posterior) == bits(
        once.init(0).posterior
    )  # lambda_0, and no guess in its place
    assert (int(state.t), int(state.seen)) == (1, 0)
    after = filtered(once, data(1), state=state)
    assert is_finite(after)
    assert int(after.seen) == 1


def closed(network, projection):
    return hmnn.build(network, "gaussian", kernels.jump(), projection=projection)


FEW = {"epochs": 3, "learning_rate": 1e-4}
METHODS = {
    "hmnn": lambda network: hmnn.hmnn(network, "gaussian", **FEW),
    "natural": lambda network: closed(network, hmnn.natural()),
    "natural in lots": lambda network: closed(network, hmnn.natural(joint=3)),
    "ewc": lambda network: hmnn.ewc(network, "gaussian", **FEW),
    "dropconnect": lambda network: hmnn.dropconnect(network, "gaussian", keep=1.0, **FEW),
    "laplace": lambda network: hmnn.laplace(network, "gaussian"),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_network_need_not_be_defined_where_there_are_no_data(name):
    """Rows that fill up a batch are counted 0 times, and 0 times a gradient that is not finite is
    not finite."""
    network = hmnn.from_functions(
        init, lambda w, x: x / jnp.linalg.norm(x, axis=1, keepdims=True) @ w["w"]
    )
    method = METHODS[name](network)
    state, _ = method.step(method.init(0), data(0, rows=5))  # a warning would be an error
    assert np.isfinite(method.predict(state, data(1, rows=3).x).mean).all()


def test_patience_epochs_in_a_row_raise_and_cost_nothing(often):
    before = filtered(often, data(0))
    saved = bits(before)
    with pytest.raises(
        DivergenceError, match=r"3 epochs in a row at t = 2; the state is unchanged"
    ):
        often.step(before, poisoned(1))
    assert bits(before) == saved
    assert bits(filtered(often, data(1), state=before)) == bits(filtered(often, data(0), data(1)))


def test_the_count_of_epochs_in_a_row_is_carried_from_step_to_step(once):
    state = filtered(once, data(0))
    for t in (2, 3):
        with pytest.warns(RuntimeWarning, match=f"t = {t}"):
            state, _ = once.step(state, poisoned(t))
    assert int(state.work.rejected) == 2
    with pytest.raises(DivergenceError, match="at t = 4"):
        once.step(state, poisoned(4))
    assert is_finite(state)
    assert int(filtered(once, data(4), state=state).work.rejected) == 0


def test_one_good_epoch_starts_the_count_anew(once):
    state = filtered(once, data(0))
    for t in range(2, 10, 2):
        with pytest.warns(RuntimeWarning, match=f"t = {t}"):
            state, _ = once.step(state, poisoned(t))
        state, _ = once.step(state, data(t + 1))
    assert int(state.work.rejected) == 0
    assert int(state.t) == 9


def test_divergence_is_a_runtime_error():
    assert issubclass(DivergenceError, RuntimeError)


def fails_at(count: int):
    """SGD whose update number `count` is NaN; an undone epoch also takes the counter back, so it
    stays."""

    def optimiser(learning_rate):
        def update(gradient, state, params=None):
            bad = jnp.where(state == count, jnp.nan, 1.0)
            return jax.tree.map(lambda g: -learning_rate * g * bad, gradient), state + 1

        return optax.GradientTransformation(lambda params: jnp.zeros((), jnp.int32), update)

    return optimiser


def fails_above(bound: float):
    """SGD that gives NaN where the gradient is large: with fresh noise the next epoch may be
    good."""

    def optimiser(learning_rate):
        def update(gradient, state, params=None):
            bad = jnp.where(jnp.abs(gradient.rho["w"]).max() > bound, jnp.nan, 1.0)
            return jax.tree.map(lambda g: -learning_rate * g * bad, gradient), state

        return optax.GradientTransformation(lambda params: optax.EmptyState(), update)

    return optimiser


def test_an_undone_epoch_takes_the_optimiser_back():
    settings = SETTINGS | {"optimiser": fails_at(2), "patience": 10}
    method = hmnn.vcl(NETWORK, "gaussian", epochs=6, **settings)
    shorter = hmnn.vcl(NETWORK, "gaussian", epochs=2, **settings)
    with pytest.warns(RuntimeWarning, match="^4 epochs at t = 1"):
        state, info = method.step(method.init(0), data(0))
    assert int(state.work.optimiser) == 2
    assert int(info.rejected) == 4
    expected, calm = shorter.step(shorter.init(0), data(0))
    assert int(calm.rejected) == 0
    assert bits(state.posterior) == bits(expected.posterior)
    longer = hmnn.vcl(NETWORK, "gaussian", epochs=12, **settings)
    with pytest.raises(DivergenceError, match="10 epochs in a row at t = 1"):
        longer.step(longer.init(0), data(0))


def test_some_bad_epochs_among_good_ones_are_skipped():
    settings = SETTINGS | {"optimiser": fails_above(2.0), "patience": 50}
    method = hmnn.vcl(NETWORK, "gaussian", epochs=40, **settings)
    with pytest.warns(RuntimeWarning, match=r"epochs at t = 1"):
        state, info = method.step(method.init(0), data(0))
    assert 0 < int(info.rejected) < 40
    assert is_finite(state)
    start, _ = hmnn.vcl(
        NETWORK,
        "gaussian",
        epochs=1,
        **settings | {"learning_rate": 1e-30, "optimiser": fails_above(np.inf)},
    ).step(method.init(0), data(0))
    assert bits(state.posterior) != bits(start.posterior)


@pytest.mark.parametrize(
    "batch",
    [
        Dataset(data(0).x, np.where(np.arange(8) == 3, 1e6, data(0).y)),
        Dataset(np.ones((8, 2)), np.ones(8)),
        Dataset(np.zeros((8, 2)), np.zeros(8)),
        Dataset(np.ones((1, 2)), np.ones(1)),
    ],
    ids=["outlier", "constant features", "zeros", "one row"],
)
def test_odd_data_are_survived(batch):
    """B4: the filter goes on and stays finite, without a warning."""
    method = hmnn.vcl(NETWORK, "gaussian", epochs=1, **SETTINGS | {"learning_rate": 1e-4})
    state = filtered(method, data(0))
    after, info = method.step(state, batch)
    assert bool(info.finite)
    assert is_finite(after)
    assert is_finite(filtered(method, data(1), state=after))


def test_a_step_size_far_too_large_is_told_and_the_posterior_stays_finite():
    method = hmnn.vcl(NETWORK, "gaussian", epochs=1, **SETTINGS | {"learning_rate": 1e-4})
    state = filtered(method, data(0))
    large = Dataset(np.full((8, 2), 1e12), np.ones(8))

    def go_on(state):
        for _ in range(5):
            state, _ = method.step(state, large)
            assert is_finite(state)

    with pytest.raises((RuntimeWarning, DivergenceError), match="t = "):
        go_on(state)


def test_ten_thousand_steps_stay_finite_compile_once_and_keep_memory_flat():
    """B4 and B5: the same batch every time, under a kernel that forgets a little; the scale does
    not collapse."""
    method = hmnn.kurle(
        NETWORK, "gaussian", memory=0.9, epochs=1, **SETTINGS | {"learning_rate": 1e-2}
    )
    batch, sizes = data(0), []
    state = filtered(method, batch)
    compiled = programs.laid_update._cache_size()
    for t in range(1, 10_000):
        state, info = method.step(state, batch)
        if t % 1000 == 0:
            assert is_finite(state)
            assert bool(info.finite)
            sizes.append(resident())
    assert int(state.t) == 10_000
    assert programs.laid_update._cache_size() == compiled
    assert sizes[-1] - sizes[0] < 20 * 2**20
    assert 0.01 < float(info.mean_scale) < 1.0
    np.testing.assert_allclose(method.predict(state, batch.x).mean[:, 0], batch.y, atol=0.3)


def resident() -> int:
    """Bytes of this process in memory (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SCRIPT = """
import hashlib, jax, numpy as np, hmnn
network = hmnn.linear(2, 2, bias=False)
settings = {"keep": 0.8, "keep_where": "all", "epochs": 5, "minibatch": 8}
method = hmnn.hmnn(network, "categorical", **settings)
for seed in (3, 4):
    state, rng = method.init(seed), np.random.default_rng(0)
    for _ in range(3):
        x = rng.normal(size=(16, 2))
        state, info = method.step(state, hmnn.Dataset(x, (x[:, 0] > 0).astype(int)))
    told = info, method.predict(state, x, samples=5)
    leaves = jax.tree.leaves((state.posterior, state.work, told))
    print(hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest())
"""


def digests() -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"([0-9a-f]{64}\n){2}", run.stdout)
    return run.stdout.split()


def test_two_processes_with_one_seed_give_the_same_bits():
    """C1."""
    first = digests()
    assert digests() == first
    assert first[0] != first[1]
