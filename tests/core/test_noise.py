"""The hashed noise source: a statistical battery, exact masks, exact quantiles; and the arithmetic
under it.

Seeds are fixed. Were they not: the batteries make fewer than 300 comparisons at 1e-8 each and the
masks five at 1.3e-6, so that one run in a hundred thousand would fail by chance.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hmnn.core import families, noise
from hmnn.core.cpu import arithmetic, hashing
from hmnn.core.families import DropConnect, Gaussian

CHANCE = 1e-8
SHAPE, STEPS = (256, 512), 4
LAGS = (1, 2, 3, 7, 64, 511, 512, 513)
RATES = (0.25, 0.3, 0.5, 0.75, 1.0, 1e-6)


# --- the battery ----------------------------------------------------------------------------------
def sample(keep, words=None, source=hashing.hashed):
    """The noise of a few steps of two leaves; compiled anew, so that a patched mixer is seen."""
    weights = {"a": jnp.zeros(SHAPE), "b": jnp.zeros(SHAPE)}
    family = families.assign(weights, keep, "all" if keep < 1 else "none")
    words = noise.words(jax.random.key(17), weights, STEPS) if words is None else words
    drawn = jax.jit(lambda words: jax.vmap(lambda row: source(row, 0, weights, family))(words))(
        words
    )
    return jax.device_get(drawn)


def p_of_mean(x, mean, variance):
    """The chance of a mean this far from the true one."""
    return 2 * stats.norm.sf(abs(x.mean() - mean) / np.sqrt(variance / x.size))


def p_of_correlation(x, y):
    return 2 * stats.norm.sf(abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(x.size))


def moments(xi, name):
    for order, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        yield f"{name}: moment {order}", p_of_mean(xi**order, mean, variance)
    yield f"{name}: KS", stats.kstest(xi, "norm").pvalue


def correlations(x, name):
    """x has the shape (leaves, steps, weights): along a leaf, across leaves and across steps."""
    for lag in LAGS:
        yield f"{name}: lag {lag}", p_of_correlation(x[0, :, lag:].ravel(), x[0, :, :-lag].ravel())
    yield f"{name}: leaves", p_of_correlation(x[0].ravel(), x[1].ravel())
    yield f"{name}: steps", p_of_correlation(x[:, 1:].ravel(), x[:, :-1].ravel())
    yield f"{name}: two steps", p_of_correlation(x[:, 2:].ravel(), x[:, :-2].ravel())


def battery(drawn, keep):
    """The name and the p-value of every check."""
    xi = np.stack([drawn[k].xi.reshape(STEPS, -1) for k in "ab"]).astype(np.float64)
    yield from moments(xi.ravel(), "normal")
    yield from correlations(xi, "normal")
    yield from correlations(xi**2, "square")
    if keep == 1:
        return
    eta = np.stack([drawn[k].eta.reshape(STEPS, -1) for k in "ab"])
    yield from moments(xi[eta], "normal given kept")
    yield from moments(xi[~eta], "normal given dropped")
    yield from correlations(eta.astype(np.float64), "mask")
    yield "mask: mean", p_of_mean(eta, keep, keep * (1 - keep))
    for name, value in (("normal", xi), ("size", abs(xi)), ("square", xi**2)):
        yield f"mask and {name}", p_of_correlation(eta.ravel(), value.ravel())


def failures(drawn, keep):
    checks = list(battery(drawn, keep))
    assert len(checks) > 25
    return [name for name, p in checks if not p > CHANCE]


@pytest.mark.parametrize("keep", [0.3, 0.75, 1.0])
def test_the_hashed_noise_passes_the_battery(keep):
    assert failures(sample(keep), keep) == []


def test_the_reference_passes_the_battery():
    assert failures(sample(0.3, source=noise.random), 0.3) == []


def one_multiply(shape, seed):
    """A weak mixer: a golden-ratio sequence."""
    return hashing._index(shape, seed[1]) * jnp.uint32(0x9E3779B1) + seed[0]


def keyless(shape, seed, mixed=hashing.mixed):
    """The engine's own, but every step and leaf alike."""
    return mixed(shape, jnp.zeros_like(seed))


@pytest.mark.parametrize(
    ("mixer", "found"),
    [(one_multiply, "normal: lag 1"), (keyless, "normal: steps")],
    ids=["one multiply", "no key"],
)
def test_a_weak_mixer_fails_the_battery(monkeypatch, mixer, found):
    monkeypatch.setattr(hashing, "mixed", mixer)
    assert found in failures(sample(0.3), 0.3)


def test_the_raw_words_are_fair_bits():
    """Each bit, each byte, each pair of neighbouring top bytes, and each bit against its
    neighbours."""
    words = noise.words(jax.random.key(18), jnp.zeros(()), STEPS)[:, 0]
    raw = np.asarray(jax.jit(jax.vmap(lambda seed: hashing.mixed(SHAPE, seed)))(words)).reshape(
        STEPS, -1
    )
    bits = np.stack([(raw >> k) & 1 for k in range(32)]).astype(np.float64)
    for k in range(32):
        assert p_of_mean(bits[k], 0.5, 0.25) > CHANCE, k
        assert p_of_correlation(bits[k, :, 1:].ravel(), bits[k, :, :-1].ravel()) > CHANCE, k
        assert p_of_correlation(bits[k].ravel(), bits[k - 1].ravel()) > CHANCE, k
    for shift in (0, 8, 16, 24):
        assert (
            stats.chisquare(np.bincount(((raw >> shift) & 255).ravel(), minlength=256)).pvalue
            > CHANCE
        ), shift
    top = (raw >> 24).astype(np.int64)
    pairs = 256 * top[:, 1:] + top[:, :-1]
    assert stats.chisquare(np.bincount(pairs.ravel(), minlength=65536)).pvalue > CHANCE
    weak = np.asarray(one_multiply(SHAPE, words[0])).ravel()
    assert (
        not p_of_correlation((weak[1:] & 1).astype(float), (weak[:-1] & 1).astype(float)) > CHANCE
    )


# --- shapes and keys ------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (4, 3, 2, 2)], ids=str)
def test_every_shape_has_standard_normals_and_exact_masks(shape):
    w, draws = jnp.zeros(shape), 20000
    words = noise.words(jax.random.key(3), w, draws)
    drawn = jax.jit(jax.vmap(lambda row: hashing.hashed(row, 0, w, DropConnect(0.3))))(words)
    assert drawn.xi.shape == drawn.eta.shape == (draws, *shape)
    xi, eta = (
        np.asarray(drawn.xi, np.float64).reshape(draws, -1),
        np.asarray(drawn.eta).reshape(draws, -1),
    )
    for name, p in itertools.chain(
        moments(xi.ravel(), "normal"), [("mask", p_of_mean(eta, 0.3, 0.21))]
    ):
        assert p > CHANCE, name
    first = xi[:, 0]
    for other in xi.T[1:]:
        assert p_of_correlation(first, other) > CHANCE


@pytest.mark.parametrize("shape", [(1000,), (300, 7), (5, 3, 4, 2), (1, 900)], ids=str)
def test_no_two_weights_of_a_leaf_share_a_word(shape):
    seed = jnp.array([5, 2**32 - 7], jnp.uint32)
    words = np.asarray(hashing.mixed(shape, seed))
    assert words.shape == shape
    assert len(np.unique(words)) == words.size


def test_words_are_threefry_words_of_the_key_for_each_draw_and_leaf():
    weights = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}
    words = noise.words(jax.random.key(0), weights, 50, 2)
    assert words.shape == (50, 2, 2, 2)
    assert words.dtype == jnp.uint32
    assert len(np.unique(words)) == words.size
    assert (words == noise.words(jax.random.key(0), weights, 50, 2)).all()
    assert (words != noise.words(jax.random.key(1), weights, 50, 2)).all()
    assert noise.words(jax.random.key(0), weights).shape == (2, 2)


# --- the mask -------------------------------------------------------------------------------------
def forced(monkeypatch, words, family):
    """The noise of these very words."""
    monkeypatch.setattr(hashing, "mixed", lambda shape, seed: jnp.asarray(words, jnp.uint32))
    weight, seeds = jnp.zeros(len(words)), jnp.zeros((1, 2), jnp.uint32)
    return jax.device_get(jax.jit(lambda: hashing.hashed(seeds, 0, weight, family))())


@pytest.mark.parametrize("keep", RATES)
def test_the_mask_keeps_exactly_the_rounded_number_of_words(monkeypatch, keep):
    """Of the 2^31 equally likely words, round(keep 2^31) keep the mean: those up to `last`, and no
    other."""
    member = families.assign(jnp.zeros(3), keep, "all")
    count = round(keep * 2**31)
    assert member.last + 1 == count
    assert abs(count / 2**31 - keep) <= 2.0**-32
    around = sorted(
        {k for k in (0, 1, count - 2, count - 1, count, count + 1, 2**31 - 1) if 0 <= k < 2**31}
    )
    for sign in (0, 2**31):
        drawn = forced(monkeypatch, [k + sign for k in around], member)
        assert list(drawn.eta) == [k < count for k in around]
        assert np.isfinite(drawn.xi).all()
        assert ((drawn.xi <= 0) if sign else (drawn.xi >= 0)).all()


def test_a_rate_of_eight_bits_would_be_seen():
    count = round(0.3 * 2**31)
    assert abs(round(0.3 * 256) / 256 - 0.3) > 2**-31 >= abs(count / 2**31 - 0.3)


@pytest.mark.parametrize("keep", RATES)
def test_a_traced_rate_is_exact_in_single_precision(keep):
    last = jax.jit(lambda rate: hashing.last_kept(DropConnect(rate)))(jnp.float32(keep))
    assert abs(int(last) + 1 - keep * 2**31) <= max(1, 2**-23 * keep * 2**31)


@pytest.mark.parametrize("keep", RATES)
def test_the_mask_is_kept_at_its_rate(keep):
    w = jnp.zeros((1024, 2048))
    family = families.assign(w, keep, "all")
    drawn = jax.jit(lambda words: hashing.hashed(words, 0, w, family).eta.sum())
    kept = int(drawn(noise.words(jax.random.key(9), w)))
    if keep == 1:
        assert kept == w.size
    else:
        assert stats.binomtest(kept, w.size, keep).pvalue > 2 * stats.norm.sf(4.8)
        assert stats.binomtest(
            kept, w.size, min(1.0, keep * 1.01 + 1e-5)
        ).pvalue < 2 * stats.norm.sf(4.8)


def test_each_weight_may_have_its_own_rate():
    w = jnp.zeros((4, 50000))
    rates = np.array([0.1, 0.3, 0.9, 1.0])
    family = families.assign(
        w, jnp.broadcast_to(jnp.asarray(rates, jnp.float32)[:, None], w.shape), "all"
    )
    eta = np.asarray(
        jax.jit(lambda words: hashing.hashed(words, 0, w, family).eta)(
            noise.words(jax.random.key(2), w)
        )
    )
    for row, rate in zip(eta[:3], rates, strict=False):
        assert p_of_mean(row, rate, rate * (1 - rate)) > CHANCE
    assert eta[3].all()


# --- the normal -----------------------------------------------------------------------------------
LOW = np.unique(
    np.concatenate([np.geomspace(1, 2**31 - 1, 4000), np.linspace(0, 2**31 - 1, 4000)]).astype(
        np.int64
    )
)


def test_the_normal_is_the_quantile_of_its_word(monkeypatch):
    """|xi| has P(|N| > |xi|) = (low + 1/2) / 2^31; near 0 only its absolute error is small."""
    exact = special.ndtri(1 - (LOW + 0.5) / 2**32)
    exact = np.where(LOW < 2**30, -special.ndtri((LOW + 0.5) / 2**32), exact)
    for sign, side in ((1, 0), (-1, 2**31)):
        xi = forced(monkeypatch, LOW + side, Gaussian()).xi
        np.testing.assert_allclose(xi, sign * exact, rtol=2e-6, atol=4e-4)
        large = exact > 0.1
        np.testing.assert_allclose(xi[large], sign * exact[large], rtol=1e-5)
    assert 6 < exact.max() < 6.5


@pytest.mark.parametrize("keep", [0.3, 0.75])
def test_the_normal_of_a_masked_word_is_the_quantile_within_its_side(monkeypatch, keep):
    count = round(keep * 2**31)
    drawn = forced(monkeypatch, LOW, families.assign(jnp.zeros(len(LOW)), keep, "all"))
    tail = np.where(count > LOW, (LOW + 0.5) / count, (LOW - count + 0.5) / (2**31 - count))
    np.testing.assert_allclose(drawn.xi, -special.ndtri(tail / 2), rtol=5e-6, atol=4e-4)


# --- the arithmetic, compiled, for XLA has been seen to simplify (x + c) - c ----------------------
def relative(function, exact, x):
    """The largest relative error of a function, compiled, at these single-precision numbers."""
    x = np.asarray(x, np.float32)
    want = exact(x.astype(np.float64))
    return np.max(np.abs(np.asarray(jax.jit(function)(x), np.float64) - want) / np.abs(want))


def softplus64(x):
    return np.logaddexp(0, x)


WIDE = np.concatenate([np.linspace(-27, 50, 20001), [-27.0, 0.0, 50.0], np.linspace(-1, 1, 2001)])


def test_exp2_is_accurate():
    assert relative(arithmetic.exp2, np.exp2, np.linspace(-126, 127, 100001)[:-1]) < 5e-7
    assert float(jax.jit(arithmetic.exp2)(jnp.float32(-1e9))) == pytest.approx(2.0**-126, rel=5e-7)
    assert (
        relative(
            lambda x: arithmetic.exp2(x, arithmetic.EXP2[:-1]), np.exp2, np.linspace(-9, 9, 1001)
        )
        > 5e-7
    )


def test_log_is_accurate():
    x = np.concatenate([np.geomspace(1.2e-38, 3e38, 100001), np.linspace(0.5, 2, 20001)]).astype(
        np.float32
    )
    error = np.abs(
        np.asarray(jax.jit(arithmetic.log)(x), np.float64) - np.log(x.astype(np.float64))
    )
    assert (error < 5e-7 * np.maximum(1, np.abs(np.log(x.astype(np.float64))))).all()
    assert error[np.abs(np.log(x)) < 2].max() < 1e-6


@pytest.mark.parametrize(
    ("function", "exact"),
    [(arithmetic.softplus, softplus64), (arithmetic.logistic, special.expit)],
    ids=["softplus", "logistic"],
)
def test_softplus_and_its_slope_are_relatively_accurate_however_small(function, exact):
    assert relative(function, exact, WIDE[WIDE > -4]) < 5e-7
    assert (
        relative(function, exact, WIDE) < 2e-6
    )  # the exponent itself is rounded: 39 in single precision
    assert relative(function, exact, [0.0]) < 2e-7
    assert relative(lambda x: jnp.log(1 + jnp.exp(x)), softplus64, [-27.0]) > 0.9  # what it is for


def test_the_gradient_of_softplus_is_the_logistic():
    assert relative(jax.vmap(jax.grad(arithmetic.softplus)), special.expit, WIDE) < 2e-6
    assert relative(jax.vmap(jax.grad(families.scale)), special.expit, WIDE[WIDE > -26.9]) < 2e-6
    assert (
        relative(jax.vmap(jax.grad(lambda x: arithmetic.softplus(x) ** 2)), special.expit, WIDE)
        > 0.1
    )


def test_double_precision_is_the_library_s_own(float64):
    x = jnp.asarray(WIDE)
    for ours, exact in (
        (arithmetic.exp2, np.exp2),
        (arithmetic.softplus, softplus64),
        (arithmetic.logistic, special.expit),
    ):
        np.testing.assert_allclose(jax.jit(ours)(x), exact(WIDE), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(arithmetic.log)(jnp.exp(x)), WIDE, rtol=1e-12, atol=1e-12)
