"""One door, few compilations: none for another setting, a bounded number for any batch sizes, none
for padding."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hmnn
from hmnn import Dataset
from hmnn._types import Batch
from hmnn.core import filtering
from hmnn.methods import method as programs
from hmnn.methods import padding

CALLS = []


def init(key):
    return {"w": 0.5 * jax.random.normal(key, (2, 1))}


def apply(weights, x):
    CALLS.append(x.shape)
    return x @ weights["w"]


NETWORK = hmnn.from_functions(init, apply)
FIXED = {"learning_rate": 1e-3, "epochs": 2, "minibatch": 16, "keep": 0.9, "keep_where": "all"}


def data(rows: int, t: int = 0) -> Dataset:
    rng = np.random.default_rng([5, t, rows])
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    return Dataset(x, np.sin(x.sum(axis=1)))


def traces(run) -> int:
    """How often the network was traced by `run()`, and with it how often anything compiled."""
    before = len(CALLS)
    run()
    return len(CALLS) - before


def test_predictions_of_any_number_of_rows_compile_for_few_sizes():
    method, compiled = hmnn.hmnn(NETWORK, "gaussian", **FIXED), []
    state = method.init(0)

    def heard(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        for rows in range(1, 60):
            assert len(method.predict(state, data(rows).x).mean) == rows
        few = len(compiled)
        jax.jit(lambda x: x + 1)(jnp.ones(7)).block_until_ready()
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert few <= 4 * 4  # sizes 8, 16, 32 and 64, and what each needs once
    assert len(compiled) > few  # compilations are heard


def filter_stream(steps: int = 3, **settings):
    method = hmnn.hmnn(NETWORK, "gaussian", **FIXED | settings)
    state = method.init(0)
    for t in range(steps):
        state, _ = method.step(state, data(20, t) if t != 1 else None)
        method.predict(state, data(20).x)
    return state


def sizes() -> list[int]:
    """How many programs there are of each kind."""
    kinds = [thing for thing in vars(programs).values() if hasattr(thing, "_cache_size")]
    assert {programs.init, programs.laid_update, programs.rest, programs.predict} <= set(kinds)
    return [kind._cache_size() for kind in kinds]


SETTINGS = [
    {"memory": 0.9},
    {"memory": 1},
    {"memory": np.float32(0.25)},
    {"jump_scale": 0.3},
    {"shrink": 7.5},
    {"jump_prob": 0.9},
    {"centre": "zero"},
    {"centre": "previous"},
    {"centre": 0.3},
    {"keep": 0.5},
    {"keep": 1},
    {"learning_rate": 1e-4},
    {"epochs": 5},
    {"temperature": 0.1},
    {"initial_scale": 0.2},
    {"start_rho": (-4, -3)},
]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """The default settings, compiled once for this file."""
    assert traces(filter_stream) > 0
    assert traces(filter_stream) == 0


def test_all_time_steps_of_a_stream_share_one_compilation():
    before = programs.laid_update._cache_size()
    assert traces(lambda: filter_stream(steps=12)) == 0
    assert programs.laid_update._cache_size() == before


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_another_setting_compiles_nothing_and_is_heard(settings):
    before, states = sizes(), []
    assert traces(lambda: states.append(filter_stream(**settings))) == 0
    assert sizes() == before
    if settings != {"centre": "previous"}:
        assert not np.array_equal(
            states[0].posterior.location["w"], filter_stream().posterior.location["w"]
        )


def test_another_level_of_the_interval_compiles_nothing():
    method = hmnn.hmnn(NETWORK, "gaussian", **FIXED)
    state = method.init(0)
    method.predict(state, data(20).x, samples=3)
    assert (
        traces(lambda: [method.predict(state, data(20).x, samples=3, level=v) for v in (0.5, 0.8)])
        == 0
    )
    assert traces(lambda: method.predict(state, data(20).x, samples=4)) > 0


def test_another_minibatch_does_compile():
    """The negative control: the count sees a compilation when there is one."""
    before = programs.laid_update._cache_size()
    assert traces(lambda: filter_stream(minibatch=8)) > 0
    assert programs.laid_update._cache_size() == before + 1


def test_any_batch_sizes_compile_as_often_as_there_are_buckets(monkeypatch):
    """All sizes from 1 to 1000, with the compiled step replaced by one that compiles in no time."""
    real = hmnn.hmnn(NETWORK, "gaussian", **FIXED)
    state, info = real.step(real.init(0), data(20))
    cheap = jax.jit(lambda parts, state, batch: (state._replace(t=state.t + 1), info))
    monkeypatch.setattr(programs, "in_stages", cheap)
    method, whole = hmnn.hmnn(NETWORK, "gaussian", **FIXED), data(1000)
    numbers = np.random.default_rng(0).permutation(1000) + 1
    for n in numbers:
        state, _ = method.step(state, Dataset(whole.x[:n], whole.y[:n]))
    assert int(state.t) == 1001
    assert cheap._cache_size() == len({padding.bucket(int(n)) for n in numbers}) == 11


def test_sizes_of_one_bucket_share_the_real_compilation():
    method = hmnn.hmnn(NETWORK, "gaussian", **FIXED)
    state = method.init(0)
    before = programs.laid_update._cache_size()
    for n in (17, 25, 32):
        state, info = method.step(state, data(n))
        assert np.isfinite(info.free_energy)
    assert programs.laid_update._cache_size() == before


rows = st.integers(1, 10**7)


@given(rows)
def test_a_bucket_holds_its_rows_and_wastes_little(n):
    bucket = padding.bucket(n)
    assert bucket >= n
    assert bucket < 2 * n or bucket == 8
    if n > 512:
        assert bucket <= 1.25 * n


@given(rows, rows)
def test_buckets_are_monotone(n, m):
    small, large = sorted((n, m))
    assert padding.bucket(small) <= padding.bucket(large)


@given(rows)
def test_a_bucket_is_its_own_bucket(n):
    assert padding.bucket(padding.bucket(n)) == padding.bucket(n)


def test_there_are_few_buckets():
    few = {padding.bucket(n) for n in range(1, 10**5)}
    assert len(few) <= 7 + 4 * math.ceil(math.log2(10**5 / 512))


@pytest.mark.parametrize("minibatch", [None, 16], ids=["full batch", "minibatches"])
def test_padding_changes_nothing(minibatch):
    settings = FIXED | {"minibatch": minibatch, "learning_rate": 1e-2}
    method = hmnn.hmnn(NETWORK, "gaussian", **settings)
    state = method.init(0)
    count = 20
    assert padding.bucket(count) == 32
    unpadded = data(count)
    got, info = method.step(state, unpadded)
    run, each = jax.jit(filtering.step), np.ones(count, np.float32)
    exact = run(method.parts, state, Batch(unpadded.x, unpadded.y, each))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got.posterior, exact[0].posterior
    )
    np.testing.assert_allclose(info.free_energy, exact[1].free_energy, rtol=1e-6)
    each[-1] = 0.0
    fewer = run(method.parts, state, Batch(unpadded.x, unpadded.y, each))
    difference = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), got.posterior, fewer[0].posterior
    )
    assert max(jax.tree.leaves(difference)) > 1e-4


def test_two_projections_with_equal_fields_never_share_a_program():
    """JAX calls their structures equal, and a program would be shared once in a hundred runs."""
    last, shrunk = hmnn.persistence(1), hmnn.shrinkage(1)
    alike = (jax.tree.structure(method.parts.projection) for method in (last, shrunk))
    assert len({str(type(method.parts.projection)) for method in (last, shrunk)}) == 2
    assert next(alike) == next(alike)  # the reason; where it fails, JAX tells them apart by itself
    assert jax.tree.structure(last.parts) != jax.tree.structure(shrunk.parts)
    swapped = dataclasses.replace(last.parts, projection=shrunk.parts.projection)
    assert jax.tree.structure(swapped) != jax.tree.structure(last.parts)
