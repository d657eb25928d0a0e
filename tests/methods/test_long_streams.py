"""B2, B4, B5 over many steps: what a stream may throw at a filter, and that nothing wears out."""

import gc
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn import Dataset
from hmnn.methods import method as programs

NETWORK = hmnn.from_functions(
    lambda key: {"w": 0.5 * jax.random.normal(key, (2, 1))}, lambda weights, x: x @ weights["w"]
)
SETTINGS = {"memory": 0.9, "learning_rate": 1e-2, "epochs": 1, "minibatch": None}


def data(t: int, rows: int = 8) -> Dataset:
    rng = np.random.default_rng([17, t])
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    return Dataset(x, x.sum(axis=1) + 0.1 * rng.normal(size=rows).astype(np.float32))


def bits(tree) -> list[bytes]:
    plain = [
        leaf
        for leaf in jax.tree.leaves(tree)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    return [np.asarray(leaf).tobytes() for leaf in plain]


def is_finite(state) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.posterior))


@pytest.fixture(scope="module")
def method():
    """One filter, so that one compilation serves the whole file."""
    return hmnn.kurle(NETWORK, "gaussian", **SETTINGS)


def bad_batches(t: int):
    """Every kind of bad number, in x and in y."""
    x, y = (a.astype(np.float64) for a in data(t))
    for value in (np.nan, np.inf, -np.inf, 1e300, -1e300):
        yield Dataset(np.where(np.arange(16).reshape(8, 2) == 5, value, x), y)
        yield Dataset(x, np.where(np.arange(8) == 5, value, y))
    for value in (2**31 + 5, -(2**31) - 5, 2**62):
        yield Dataset(
            np.where(np.arange(16).reshape(8, 2) == 5, value, np.rint(x).astype(np.int64)), y
        )
        yield Dataset(x, np.where(np.arange(8) == 5, value, np.rint(y).astype(np.int64)))


def test_bad_batches_all_along_a_stream_leave_no_trace(method):
    """B2: the stream with bad batches before every good one ends with the bits of the stream
    without."""
    disturbed = calm = method.init(3)
    for t in range(10):
        for bad in bad_batches(t):
            with pytest.raises(
                ValueError, match=rf"^[xy] must (be finite|fit in \w+) at t = {t + 1}\. Got "
            ):
                method.step(disturbed, bad)
        disturbed, _ = method.step(disturbed, data(t))
        calm, _ = method.step(calm, data(t))
    assert bits(disturbed) == bits(calm)
    other, _ = method.step(calm, data(10))
    assert bits(other) != bits(calm)


def test_one_outlier_is_forgotten(method):
    """B4: y = 1e6 once throws the weights far off; they are finite, and come back."""
    state = method.init(0)
    for t in range(200):
        state, _ = method.step(state, data(t))
    x, y = data(200)
    state, _ = method.step(state, Dataset(x, np.where(np.arange(8) == 3, np.float32(1e6), y)))
    assert is_finite(state)
    assert np.abs(method.predict(state, x).mean).max() > 100
    for t in range(400):
        state, info = method.step(state, data(300 + t))
    assert bool(info.finite)
    np.testing.assert_allclose(method.predict(state, x).mean[:, 0], y, atol=0.6)


@pytest.mark.parametrize(
    "batch",
    [
        Dataset(np.ones((8, 2)), np.ones(8)),
        Dataset(np.zeros((8, 2)), np.zeros(8)),
        Dataset(np.ones((1, 2)), np.ones(1)),
    ],
    ids=["constant features", "zeros", "one row"],
)
def test_odd_batches_for_ever(batch, method):
    """B4: the same odd batch 2000 times; the scale neither collapses nor grows, with the static
    kernel apart."""
    state = method.init(0)
    for _ in range(2000):
        state, info = method.step(state, batch)
    assert bool(info.finite)
    assert is_finite(state)
    assert 0.01 < float(info.mean_scale) < 2.0


def test_the_same_batch_ten_thousand_times_under_the_jump_kernel_and_dropped_weights():
    """B4: neither the scale nor the prediction collapses, in float32, over 10^4 steps of the
    paper's kernel."""
    method = hmnn.hmnn(NETWORK, "gaussian", keep=0.8, keep_where="all", jump_scale=0.2, **SETTINGS)
    batch, state = data(0), method.init(0)
    state, _ = method.step(state, batch)
    compiled = programs.laid_update._cache_size()
    for _ in range(9_999):
        state, info = method.step(state, batch)
    assert bool(info.finite)
    assert is_finite(state)
    assert int(state.t) == 10_000
    assert int(state.work.rejected) == 0
    assert programs.laid_update._cache_size() == compiled
    assert 1e-3 < float(info.mean_scale) < 1.0
    assert np.corrcoef(method.predict(state, batch.x).mean[:, 0], batch.y)[0, 1] > 0.95


def test_ten_thousand_steps_of_the_soak(monkeypatch):
    """B5: benchmarks/soak.py, with batches of 1 to 32 rows, which have three buckets.

    How long a step takes is for the full run on a quiet core; what it leaves is counted below.
    """
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    import soak

    figures = soak.soak(10_000, largest=32)
    assert {
        "steps",
        "finite",
        "rss_growth_mb",
        "compilations",
        "buckets",
        "step_time_ratio",
    } <= set(figures)
    assert figures["steps"] == 10_000
    assert figures["finite"] is True
    assert figures["compilations"] == figures["buckets"] == 3
    assert figures["rss_growth_mb"] < 5


def left_behind(step, steps: int) -> tuple[int, int, int]:
    """How many Python objects, arrays on the device and calls of Python functions come with so many
    more steps."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()
    before = len(gc.get_objects()), len(jax.live_arrays())
    sys.setprofile(count)
    try:
        for t in range(steps):
            step(t)
    finally:
        sys.setprofile(None)
    gc.collect()
    return len(gc.get_objects()) - before[0], len(jax.live_arrays()) - before[1], calls


def test_a_step_leaves_nothing_behind_and_asks_no_more_of_the_host_later(method):
    states = [method.init(0)]

    def step(t):
        states[0], _ = method.step(states[0], data(t % 7, rows=1 + t % 8))

    left_behind(step, 200)
    first = left_behind(step, 500)
    left_behind(step, 2000)
    last = left_behind(step, 500)
    assert max(abs(first[0]), abs(last[0])) < 50
    assert first[1] == last[1] == 0
    assert last[2] <= 1.01 * first[2]


def test_a_leak_is_seen(method):
    """The negative control: a history kept in a list is counted."""
    states = [method.init(0)]

    def step(t):
        states.append(method.step(states[-1], data(t % 7))[0])

    step(0)
    objects, arrays, _ = left_behind(step, 500)
    assert objects > 500
    assert arrays > 500
