"""Owners who are believed as far as they have predicted well: Bayes, and a small share given away.

No chance is in the tests of laws; the tests with streams have fixed seeds, and their margins are
ten times what other seeds give.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from hmnn.core import mixing

pytestmark = pytest.mark.usefixtures("float64")
ALL = jnp.ones(4, bool)


def followed(densities, share, awake=None, start=None):
    """The weights before each row, those after the last one, and what the mixture said."""
    densities = jnp.asarray(densities)
    awake = jnp.ones(densities.shape, bool) if awake is None else jnp.asarray(awake)

    def one(log_weights, row):
        there = mixing.among(log_weights, row[1])
        said = mixing.density(there, jnp.where(row[1], row[0], 0.0)[None])[0]
        return mixing.after(log_weights, row[0], share, row[1]), (log_weights, said)

    first = mixing.equal(densities.shape[1]) if start is None else start
    last, (before, said) = jax.lax.scan(one, first, (densities, awake))
    return np.asarray(before), np.asarray(last), np.asarray(said)


def densities(rows=200, owners=4, seed=0):
    return np.random.default_rng(seed).normal(-2.0, 1.5, (rows, owners))


def test_without_a_share_it_is_the_rule_of_bayes():
    """Log evidences telescope: what the mixture said of all rows is the evidence of all rows."""
    logs = densities()
    prior = np.log([0.1, 0.2, 0.3, 0.4])
    _, last, said = followed(logs, 0.0, start=jnp.asarray(prior))
    joint = prior + logs.sum(axis=0)
    np.testing.assert_allclose(said.sum(), logsumexp(joint), rtol=1e-12)
    np.testing.assert_allclose(last, joint - logsumexp(joint), rtol=1e-10, atol=1e-10)
    shared = followed(logs, 1e-2, start=jnp.asarray(prior))[2]
    assert abs(shared.sum() - logsumexp(joint)) > 1.0  # the control


def test_a_row_by_itself_by_hand():
    weights, p, share = np.array([0.5, 0.3, 0.2]), np.array([0.2, 1.0, 3.0]), 0.1
    after = mixing.after(jnp.log(weights), jnp.log(p), share, jnp.ones(3, bool))
    by_hand = (1 - share) * weights * p / (weights @ p) + share / 3
    np.testing.assert_allclose(np.exp(after), by_hand, rtol=1e-12)
    told = mixing.density(jnp.log(weights), jnp.log(p)[None])
    np.testing.assert_allclose(np.exp(told), [weights @ p], rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 1e-3, 0.3, 1.0])
def test_weights_sum_to_one(share):
    rng = np.random.default_rng(1)
    awake = rng.random((200, 4)) < 0.6
    awake[:, 0] = True
    before, last, _ = followed(densities(), share, awake)
    np.testing.assert_allclose(logsumexp(before, axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(logsumexp(last), 0.0, atol=1e-9)


def test_who_sleeps_keeps_the_weight_and_who_speaks_shares_the_rest():
    awake = np.ones((50, 4), bool)
    awake[:, [1, 3]] = False
    prior = jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4]))
    before, last, said = followed(densities(50), 1e-3, awake, prior)
    np.testing.assert_array_equal(before[:, [1, 3]], np.tile(prior[jnp.array([1, 3])], (50, 1)))
    np.testing.assert_array_equal(last[[1, 3]], prior[jnp.array([1, 3])])
    assert abs(last[0] - prior[0]) > 0.05  # the control
    there = jnp.asarray(awake[0])
    start = mixing.among(prior, there)[jnp.array([0, 2])]
    alone = followed(densities(50)[:, [0, 2]], 1e-3, start=start)
    np.testing.assert_allclose(said, alone[2], rtol=1e-12)
    np.testing.assert_allclose(last[[0, 2]] - np.log(0.4), alone[1], rtol=1e-9, atol=1e-12)
    among = np.exp(mixing.among(jnp.asarray(last), there))
    np.testing.assert_allclose(among.sum(), 1.0, rtol=1e-12)
    assert (among[[1, 3]] == 0.0).all()


def test_equal_owners_stay_equal():
    logs = np.repeat(densities(50, owners=1), 4, axis=1)
    _, last, said = followed(logs, 1e-3)
    np.testing.assert_allclose(last, mixing.equal(4), rtol=1e-12)
    np.testing.assert_allclose(said, logs[:, 0], rtol=1e-12)


def changing(seed=0, rows=2000):
    """Log densities of two owners; from the middle on the other one is right."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=rows) + np.where(np.arange(rows) < rows // 2, 0.0, 1.0)
    return np.stack([norm.logpdf(y, 0.0), norm.logpdf(y, 1.0)], axis=1)


def test_the_weights_follow_when_another_owner_becomes_the_best_one():
    """The control is share 0: it takes as many rows to turn as there were before the change."""
    logs = changing()
    (weights, _, said), (stiff, _, bayes) = (followed(logs, share) for share in (1e-3, 0.0))
    assert np.exp(weights[900:1000, 0]).min() > 0.9
    assert np.exp(weights[1100:, 1]).mean() > 0.9
    assert np.exp(stiff[1000:1500, 1]).max() < 1e-6
    assert said[1000:].mean() > bayes[1000:].mean() + 0.1
    best = logs[:1000, 0].sum() + logs[1000:, 1].sum()
    bound = 2 * np.log(2.0) + np.log(1000.0) + 1e-3 * 2000  # Herbster and Warmuth's, two pieces
    assert said.sum() > best - bound
    assert bayes.sum() < best - bound


def test_an_owner_who_thought_a_row_impossible_starts_anew_with_its_share():
    logs = densities(1)[0]
    logs[2] = -np.inf
    after = mixing.after(mixing.equal(4), jnp.asarray(logs), 1e-3, ALL)
    np.testing.assert_allclose(np.exp(after[2]), 1e-3 / 4, rtol=1e-12)
    np.testing.assert_allclose(logsumexp(after), 0.0, atol=1e-12)
    strict = mixing.after(mixing.equal(4), jnp.asarray(logs), 0.0, ALL)
    assert strict[2] == -np.inf
    np.testing.assert_allclose(logsumexp(strict), 0.0, atol=1e-12)
    again = mixing.after(strict, jnp.zeros(4), 0.0, ALL)
    assert again[2] == -np.inf
    assert np.isfinite(np.delete(again, 2)).all()
    told = mixing.density(mixing.equal(4), jnp.asarray(logs)[None])
    np.testing.assert_allclose(told, logsumexp(np.delete(logs, 2)) - np.log(4), rtol=1e-12)


def test_densities_that_underflow_do_no_harm():
    """In single precision exp(-2000) is 0, and its logarithm is not."""
    with jax.enable_x64(False):
        logs = jnp.array([-2000.0, -2001.0, -2500.0])
        after = mixing.after(mixing.equal(3), logs, 1e-3, jnp.ones(3, bool))
    assert after.dtype == np.float32
    assert (np.exp(np.asarray(logs)) == 0.0).all()
    by_hand = np.exp([0.0, -1.0, -500.0]) / (1.0 + np.exp(-1.0))
    np.testing.assert_allclose(np.exp(after), 0.999 * by_hand + 1e-3 / 3, rtol=1e-4)
