"""correlations="rank" in the estimators: resumed, under new units, and in wider networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators.carrying import _law_moved
from hmnn.estimators.growth import embedded
from hmnn.estimators.known_columns import Move
from hmnn.methods import method
from hmnn.methods.streams import Settings, build

SETTINGS = Settings(hidden=(4,), forgetting="fixed", correlations="rank")


def stream(rows=80):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=rows)


def learned(columns, outputs, likelihood, rows=40):
    """A filter, its state after some rows, and the law of its only member."""
    x, y = stream(rows)
    how = build(SETTINGS, columns, outputs, likelihood)
    y = y if likelihood == "learned_gaussian" else (y > 0).astype(int)
    state, _, _ = how.rows(
        how.init(0),
        x[:, :columns].astype(np.float32),
        y.astype(np.float32),
        np.ones(rows, np.float32),
    )
    return how, state, jax.tree.map(lambda a: a[0], state.posterior.members[0].posterior)


def said(how, law, x):
    """The outlook of the member."""
    member = jax.tree.map(lambda a: a[0], how.few.projection.groups[0].members)
    like = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), law)
    return member.projection.outlook(member, like, jnp.asarray(x, jnp.float32))


def test_what_the_factors_say_is_carried_exactly():
    """Products of factors with derivatives stay; new units of y scale them with the outputs."""
    how, _, law = learned(3, 1, "learned_gaussian")
    assert np.abs(law.factors[0]).max() > 0.1
    ratio, shift = np.array([2.0, 0.5, 1.5]), np.array([1.0, -1.0, 0.3])
    after = _law_moved(law, Move(ratio, shift), Move(np.array([4.0]), np.array([0.7])))
    x, _ = stream(5)
    before = said(how, law, x)
    now = said(how, after, (x - shift) / ratio)
    np.testing.assert_allclose(now.outputs, (before.outputs - 0.7) / 4.0, rtol=1e-3, atol=1e-4)
    # W' w of a change of weights, before and after it is expressed in the new units
    rng = np.random.default_rng(1)
    change = [rng.normal(size=m.shape) for m in law.mean]
    new = [c.copy() for c in change]
    new[1] += new[0] @ shift
    new[0] *= ratio
    new[-2], new[-1] = new[-2] / 4.0, new[-1] / 4.0
    for changes, one in ((change, law), (new, after)):
        told = sum(np.tensordot(w, c, c.ndim) for w, c in zip(one.factors, changes, strict=True))
        if one is law:
            first = told
        np.testing.assert_allclose(told, first, rtol=1e-4, atol=1e-5)
    assert all((np.asarray(v) > 0).all() for v in after.variance)


def test_a_wider_network_says_the_same():
    """One logit as the difference of two, and a new column of zeros."""
    how, state, law = learned(2, 1, "bernoulli")
    wide = build(SETTINGS, 3, 2, "categorical")
    fresh = method.init(wide.few, jax.random.key(0)).posterior
    member = embedded(how.few, wide.few, state.posterior, fresh).members[0].posterior
    new = jax.tree.map(lambda a: a[0], member)
    x = np.random.default_rng(2).normal(size=(6, 2))
    before = said(how, law, x)
    now = said(wide, new, np.column_stack([x, np.zeros(6)]))
    apart = now.outputs[:, 1] - now.outputs[:, 0]
    np.testing.assert_allclose(apart, before.outputs[:, 0], rtol=1e-4, atol=1e-5)
    # the variance of the difference, by hand
    apply = wide.few.apply
    wide_x = jnp.asarray(np.column_stack([x, np.zeros(6)]), jnp.float32)
    tree = jax.tree.structure(wide.few.weights())
    w = np.concatenate([np.reshape(f, (len(f), -1)) for f in new.factors], axis=1)
    cov = np.linalg.inv(
        np.diag(1.0 / np.concatenate([np.ravel(v) for v in new.variance])) + w.T @ w
    )
    jacobian = jax.jacobian(lambda leaves: apply(tree.unflatten(leaves), wide_x))(
        list(map(jnp.asarray, new.mean))
    )
    j = np.concatenate([np.reshape(a[:, 1] - a[:, 0], (6, -1)) for a in jacobian], axis=1)
    np.testing.assert_allclose(np.einsum("np,pq,nq->n", j, cov, j), before.spread[:, 0], rtol=1e-2)


@pytest.mark.parametrize("forgetting", ["fixed", "auto"])
def test_it_learns_and_is_resumed(forgetting, tmp_path):
    x, y = stream()
    settings = {"hidden": (4,), "forgetting": forgetting, "correlations": "rank"}
    whole = HMNNRegressor(random_state=0, **settings)
    half = HMNNRegressor(random_state=0, **settings)
    for m in (whole, half):
        m.predict_then_fit(x[:50], y[:50])
    half = HMNNRegressor.load(half.save(tmp_path / "half"))
    for a, b in zip(*(m.predict_then_fit(x[50:], y[50:]) for m in (whole, half)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.corrcoef(whole.predict(x), y)[0, 1] > 0.8


@pytest.mark.parametrize("settings", [{"forgetting": "learn"}, {"keep": 0.5}])
def test_what_has_no_law_of_low_rank_is_refused(settings):
    x, y = stream(10)
    with pytest.raises(ValueError, match="correlations must be 'auto', 'none' or 'last'"):
        HMNNClassifier(hidden=(4,), correlations="rank", **settings).fit(x, y > 0)
