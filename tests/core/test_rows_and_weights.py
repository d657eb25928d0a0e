"""Rows one at a time are steps of one row; a row of weight k is k equal rows, and of 0 none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods, minibatches, objective
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.prediction import Question
from hmnn.core.projections.matched import MatchedDescent

pytestmark = pytest.mark.usefixtures("float64")
KERNEL = kernels.jump(0.99, 0.1)
NETWORKS = {"bernoulli": 1, "categorical": 3, "gaussian": 2, "learned_gaussian": 1, "poisson": 1}
"""The number of outputs for every likelihood."""


def data(name, rows, seed=0):
    rng, outputs = np.random.default_rng(seed), NETWORKS[name]
    y = {
        "bernoulli": rng.integers(0, 2, rows),
        "categorical": rng.integers(0, 3, rows),
        "poisson": rng.poisson(2.0, rows),
    }.get(name, rng.normal(size=(rows, outputs)))
    return Batch(jnp.asarray(rng.normal(size=(rows, 2))), jnp.asarray(y), jnp.ones(rows))


def taken(batch, rows):
    """These rows. NumPy takes them: JAX would compile for every place."""
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a)[rows]), batch)


def parts_of(name, projection, hidden=(4,)):
    network = hmnn.mlp(2, hidden, NETWORKS[name])
    return hmnn.build(network, name, KERNEL, projection=projection).parts


def same(got, want, rtol=1e-8, atol=1e-10):
    """The law, the noise and the counters of two states."""
    for name in ("posterior", "noise", "t", "seen"):
        pairs = jax.tree.leaves(getattr(got, name)), jax.tree.leaves(getattr(want, name))
        for a, b in zip(*pairs, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)


def apart(one, other):
    """The largest difference of two laws."""
    laws = jax.device_get((one.posterior, other.posterior))
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b).max(), *laws)))


step, run = compiled(ONCE)(filtering.step), compiled(ONCE)(filtering.rows)


@compiled(ONCE)
def foreseen(parts, state, x):
    """What is said of new rows at the next time step, before its data."""
    question = Question("mean", 0, 0.95)
    return parts.projection.predict(parts, filtering.rest(parts, state), x, question)


# --- rows one at a time ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_loop_over_rows_predicts_and_steps_row_by_row(name):
    batch, parts = data(name, 5), parts_of(name, hmnn.natural(level_scale=0.2, spread=0.5))
    state = filtering.init(parts, jax.random.key(0))
    after, info, told = run(parts, state, batch)
    assert told.lower is None
    for i in range(5):
        row = taken(batch, [i])
        before = foreseen(parts, state, row.x)
        for field in ("mean", "epistemic", "aleatoric", "probabilities"):
            if getattr(before, field) is None:
                assert getattr(told, field) is None
                continue
            got, want = np.asarray(getattr(told, field))[i], np.asarray(getattr(before, field))[0]
            np.testing.assert_allclose(got, want, rtol=1e-7, err_msg=field)
        state, seen = step(parts, state, row)
        np.testing.assert_allclose(np.asarray(info.surprise)[i], seen.surprise, rtol=1e-7)
    same(after, state)
    assert int(after.t) == int(after.seen) == 5
    together, _ = step(parts, filtering.init(parts, jax.random.key(0)), batch)
    assert apart(together, after) > 1e-5


def test_the_descent_may_go_row_by_row_too():
    name, natural = "learned_gaussian", hmnn.natural()
    how = hmnn.descent(epochs=3, minibatch=None, restart=True)
    parts = parts_of(name, MatchedDescent(natural, how))
    batch, state = data(name, 3), filtering.init(parts, jax.random.key(0))
    after, _, _ = run(parts, state, batch)
    for i in range(3):
        state, _ = step(parts, state, taken(batch, [i]))
    same(after, state)


@pytest.mark.parametrize("name", ["bernoulli", "learned_gaussian"])
def test_a_row_of_weight_zero_is_looked_at_and_changes_nothing(name):
    batch, parts = data(name, 12, seed=1), parts_of(name, hmnn.natural())
    state = filtering.init(parts, jax.random.key(0))
    learned = np.arange(12) != 6
    after, info, told = run(parts, state, batch._replace(weight=jnp.asarray(learned, float)))
    without, _, _ = run(parts, state, taken(batch, learned))
    same(after, without, rtol=0, atol=0)
    assert int(after.t) == int(after.seen) == 11
    assert bool(info.finite)
    middle, _, _ = run(parts, state, taken(batch, slice(6)))
    before = foreseen(parts, middle, taken(batch, [6]).x)
    np.testing.assert_allclose(np.asarray(told.mean)[6:7], before.mean, rtol=1e-7)
    changed, _, _ = run(parts, state, batch)
    assert apart(changed, after) > 1e-4
    assert int(changed.t) == 12


# --- weights --------------------------------------------------------------------------------------
WEIGHTS = np.array([3.0, 1.0, 2.0, 0.0])
WRITTEN_OUT = np.array([0, 0, 0, 1, 2, 2])
PROJECTIONS = {
    "natural": hmnn.natural(),
    "laplace": hmnn.laplace_projection(),
    "descent": hmnn.descent(learning_rate=0.01, epochs=20, minibatch=None),
}


def written_out(batch, order=WRITTEN_OUT):
    """Every row as often as its weight says."""
    return taken(batch, order)._replace(weight=jnp.ones(len(order)))


PAIRS = [(kind, name) for kind in ("natural", "laplace") for name in sorted(NETWORKS)]
PAIRS += [("descent", name) for name in ("categorical", "learned_gaussian")]
"""The descent knows a likelihood by the misfit alone, which the next test weighs for each."""


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_weight_of_k_is_k_equal_rows_and_a_weight_of_zero_no_row(kind, name):
    batch, parts = data(name, 4, seed=2), parts_of(name, PROJECTIONS[kind], ())
    state = filtering.init(parts, jax.random.key(0))
    weighted, info = step(parts, state, batch._replace(weight=jnp.asarray(WEIGHTS)))
    repeated, other = step(parts, state, written_out(batch))
    same(weighted, repeated, rtol=1e-6, atol=1e-7)
    for field in ("misfit", "surprise", "log_evidence", "free_energy"):
        if getattr(info, field) is not None:
            got, want = getattr(info, field), getattr(other, field)
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=field)
    equal, _ = step(parts, state, batch)
    assert apart(equal, weighted) > 1e-3


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_misfit_counts_a_row_as_often_as_its_weight_says(name):
    network, likelihood = hmnn.mlp(2, (4,), NETWORKS[name]), likelihoods.LIKELIHOODS[name]()
    batch, w = data(name, 4, seed=3), network.init(jax.random.key(0))
    weighted, repeated = batch._replace(weight=jnp.asarray(WEIGHTS)), written_out(batch)

    def misfit(batch):
        return objective.misfit(network.apply, likelihood, w, batch=batch)

    np.testing.assert_allclose(misfit(weighted), misfit(repeated), rtol=1e-10)
    assert abs(misfit(weighted) - misfit(batch)) > 1e-3
    for size in (None, 1, 2, 3):
        parts = minibatches.misfit(network.apply, likelihood, w, weighted, size)
        np.testing.assert_allclose(parts, misfit(repeated), rtol=1e-10)


@pytest.mark.parametrize("kind", ["natural", "laplace"])
def test_a_weight_need_not_be_whole(kind):
    """Half a row twice is the row."""
    name = "poisson"
    batch, parts = data(name, 3, seed=4), parts_of(name, PROJECTIONS[kind], ())
    state = filtering.init(parts, jax.random.key(0))
    halves = written_out(batch, np.array([0, 0, 1, 1, 2, 2]))._replace(weight=jnp.full(6, 0.5))
    same(step(parts, state, halves)[0], step(parts, state, batch)[0], rtol=1e-6, atol=1e-7)
