"""Likelihoods equal SciPy's, their closed forms autodiff and quadrature; padding counts nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hmnn._types import Batch
from hmnn.core import likelihoods, prediction
from hmnn.core.likelihoods import LIKELIHOODS
from hmnn.core.likelihoods.protocol import EDGE
from hmnn.core.prediction import Outlook

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(6, 3)) * 2
REALS, COUNTS, BITS = (
    RNG.normal(size=(6, 3)),
    RNG.poisson(2.0, size=(6, 3)),
    RNG.integers(0, 2, size=(6, 3)),
)


def frozen(name):
    """The likelihood, its y, and SciPy's law of y given the outputs."""
    return {
        "gaussian": (likelihoods.gaussian(0.7), REALS, stats.norm(OUTPUTS, 0.7)),
        "learned_gaussian": (likelihoods.learned_gaussian(0.7), REALS, stats.norm(OUTPUTS, 0.7)),
        "poisson": (likelihoods.poisson(), COUNTS, stats.poisson(np.exp(OUTPUTS))),
        "bernoulli": (likelihoods.bernoulli(), BITS, stats.bernoulli(special.expit(OUTPUTS))),
    }[name]


@pytest.mark.parametrize("name", ["gaussian", "learned_gaussian", "poisson", "bernoulli"])
def test_log_prob_mean_and_variance_are_those_of_scipy(float64, name):
    likelihood, y, law = frozen(name)
    log_density = (law.logpdf if "gaussian" in name else law.logpmf)(y)
    outputs = jnp.asarray(OUTPUTS)
    np.testing.assert_allclose(
        likelihood.log_prob(outputs, jnp.asarray(y)), log_density.sum(axis=1), rtol=1e-10
    )
    np.testing.assert_allclose(likelihood.mean(outputs), law.mean(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(outputs), law.var(), rtol=1e-10)
    assert not np.allclose(
        likelihood.log_prob(outputs + 0.1, jnp.asarray(y)), log_density.sum(axis=1), rtol=1e-3
    )


def test_categorical_is_scipys_multinomial(float64):
    y, p, likelihood = (
        np.array([0, 1, 2, 2, 1, 0]),
        special.softmax(OUTPUTS, axis=1),
        likelihoods.categorical(),
    )
    want = stats.multinomial.logpmf(np.eye(3)[y], 1, p)
    np.testing.assert_allclose(
        likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray(y)), want, rtol=1e-10
    )
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(OUTPUTS)), p, rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(jnp.asarray(OUTPUTS)), p * (1 - p), rtol=1e-10)
    assert not np.allclose(
        likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray((y + 1) % 3)), want
    )


def test_two_classes_are_one_logit(float64):
    logit, y = jnp.asarray(OUTPUTS[:, :1]), jnp.asarray(BITS[:, 0])
    two = jnp.concatenate([jnp.zeros_like(logit), logit], axis=1)
    one = likelihoods.bernoulli().log_prob(logit, y)
    np.testing.assert_allclose(likelihoods.categorical().log_prob(two, y), one, rtol=1e-10)


def test_the_default_gaussian_is_least_squares(float64):
    likelihood = likelihoods.gaussian()
    misfit = -likelihood.log_prob(jnp.asarray(OUTPUTS), jnp.asarray(REALS))
    constant = 1.5 * np.log(np.pi)
    np.testing.assert_allclose(misfit, ((OUTPUTS - REALS) ** 2).sum(axis=1) + constant, rtol=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_padded_rows_count_nothing_even_when_they_are_not_numbers(float64, name):
    likelihood, y, _ = frozen(name)
    bad, y = jnp.asarray(OUTPUTS).at[4:].set(jnp.nan), jnp.asarray(y)
    real = (jnp.arange(6) < 4).astype(float)
    got = likelihoods.log_g(likelihood, bad, Batch(bad, y, real))
    want = likelihood.log_prob(jnp.asarray(OUTPUTS[:4]), y[:4]).sum()
    np.testing.assert_allclose(got, want, rtol=1e-10)
    whole = Batch(bad, y, jnp.ones(6))
    assert not np.allclose(likelihoods.log_g(likelihood, jnp.asarray(OUTPUTS), whole), want)
    assert np.isnan(likelihoods.log_g(likelihood, bad, whole))


def test_y_may_be_a_vector_where_there_is_one_output(float64):
    outputs, y = jnp.asarray(OUTPUTS[:, :1]), jnp.asarray(REALS[:, 0])
    flat = likelihoods.gaussian(0.7).log_prob(outputs, y)
    np.testing.assert_allclose(flat, stats.norm.logpdf(REALS[:, 0], OUTPUTS[:, 0], 0.7), rtol=1e-10)


@pytest.mark.parametrize("build", [likelihoods.gaussian, likelihoods.learned_gaussian])
def test_scale_must_be_positive(build):
    with pytest.raises(ValueError, match="scale must be a positive number"):
        build(0.0)


@pytest.mark.parametrize(
    ("name", "good", "bad", "message"),
    [
        ("categorical", [0, 2], [0, 3], "whole numbers from 0 to 2 in one column at t = 4. Got"),
        ("categorical", [0, 2], [[0], [2]], "whole numbers from 0 to 2"),
        ("categorical", [0, 2], [0.0, 1.0], "whole numbers from 0 to 2"),
        ("bernoulli", [[0, 1, 1]], [[0, 1, 2]], "0 or 1 at t = 4"),
        ("poisson", [[0, 7, 1]], [[0, 1, -1]], "counts, whole and not negative at t = 4"),
        ("poisson", [[0, 7, 1]], [[0, 1, 0.5]], "counts, whole and not negative"),
        ("gaussian", [[0.1, -7, 1]], [[0.1, 2]], "3 numbers per row.* at t = 4"),
        ("learned_gaussian", [[0.1, -7, 1]], [0.1, 2], "3 numbers per row"),
    ],
)
def test_labels_that_a_law_cannot_give_are_refused(name, good, bad, message):
    likelihood = LIKELIHOODS[name]()
    likelihood.check(np.array(good), 3, " at t = 4")
    with pytest.raises(ValueError, match=f"y must be {message}"):
        likelihood.check(np.array(bad), 3, " at t = 4")


# --- the quadratic that stands for one row --------------------------------------------------------
ROW = {
    "bernoulli": ([1, 0, 1], [1, 1, 1]),
    "categorical": (2, 0),
    "gaussian": ([0.7, -0.2, 0.1], [0.7, -0.2, 0.3]),
    "learned_gaussian": ([0.7, -0.2, 0.1], [0.7, -0.2, 0.3]),
    "poisson": ([3, 0, 1], [3, 0, 2]),
}
"""Labels of one row of three outputs, and others."""
SAME_WIDTH = sorted(ROW)
"""Likelihoods with one number an output."""


@pytest.mark.parametrize("name", SAME_WIDTH)
def test_the_root_and_the_residual_are_those_of_curvature_and_gradient(float64, name):
    likelihood, outputs = LIKELIHOODS[name](), jnp.array([0.4, -1.0, 0.8])
    y, other = (jnp.asarray(labels) for labels in ROW[name])

    def loss(f, y):
        return -likelihood.log_prob(f[None], y[None])[0]

    root, residual = likelihood.curvature(outputs, y)
    np.testing.assert_allclose(root @ root.T, jax.hessian(loss)(outputs, y), atol=1e-10)
    np.testing.assert_allclose(root @ residual, jax.grad(loss)(outputs, y), atol=1e-10)
    assert not np.allclose(root @ residual, jax.grad(loss)(outputs, other), atol=1e-2)
    assert not np.allclose(root @ root.T, 2 * jax.hessian(loss)(outputs, y), atol=1e-2)


@pytest.mark.parametrize("name", SAME_WIDTH)
def test_far_out_the_root_and_the_residual_are_finite(name):
    y = jnp.asarray(ROW[name][0])
    for outputs in (jnp.array([80.0, -80.0, 0.0]), jnp.array([-80.0, 80.0, 20.0])):
        assert all(jnp.isfinite(part).all() for part in LIKELIHOODS[name]().curvature(outputs, y))
    naive = jax.nn.sigmoid(80.0) * (1.0 - jax.nn.sigmoid(80.0))
    assert not jnp.isfinite(1.0 / jnp.sqrt(naive))  # what the edge is for


# --- uncertain outputs ----------------------------------------------------------------------------
NODES, SHARES = np.polynomial.hermite_e.hermegauss(60)
SHARES = SHARES / SHARES.sum()


def over_outputs(f, outputs, spread):
    """The mean and the variance of f over normal outputs, each by itself, by quadrature."""
    values = f(outputs[..., None] + np.sqrt(spread)[..., None] * NODES)
    first = values @ SHARES
    return first, (values - first[..., None]) ** 2 @ SHARES


def over_three(outputs, spread):
    """The mean and the variance of the softmax over three independent normal logits."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    shares = np.einsum("i,j,k->ijk", shares, shares, shares).ravel() / shares.sum() ** 3
    values = special.softmax(outputs + np.sqrt(spread) * grid, axis=1)
    first = shares @ values
    return first, shares @ (values - first) ** 2


def told(likelihood, outputs, spread):
    """The predictive mean, the epistemic and the aleatoric variance."""
    law, at = likelihood.predictive(jnp.asarray(outputs), jnp.asarray(spread))
    epistemic, aleatoric = likelihood.uncertainty(jnp.asarray(outputs), jnp.asarray(spread))
    return tuple(map(np.asarray, (law.mean(at), epistemic, aleatoric)))


SPREAD = np.random.default_rng(1).uniform(0.05, 0.8, size=OUTPUTS.shape)


@pytest.mark.parametrize("build", [likelihoods.gaussian, likelihoods.learned_gaussian])
def test_a_gaussian_with_uncertain_outputs_is_a_wider_gaussian(float64, build):
    likelihood = build(0.7)
    mean, epistemic, aleatoric = told(likelihood, OUTPUTS, SPREAD)
    np.testing.assert_allclose(mean, OUTPUTS)
    np.testing.assert_allclose(epistemic, SPREAD)
    np.testing.assert_allclose(aleatoric, 0.49, rtol=1e-12)
    law, at = likelihood.predictive(jnp.asarray(OUTPUTS), jnp.asarray(SPREAD))
    exact = stats.norm.logpdf(REALS, OUTPUTS, np.sqrt(0.49 + SPREAD)).sum(axis=1)
    np.testing.assert_allclose(law.log_prob(at, jnp.asarray(REALS)), exact, rtol=1e-10)
    assert not np.allclose(likelihood.log_prob(at, jnp.asarray(REALS)), exact, rtol=1e-2)


def test_the_mean_and_both_variances_of_counts_are_exact(float64):
    mean, epistemic, aleatoric = told(likelihoods.poisson(), OUTPUTS, SPREAD)
    rate, variance = over_outputs(np.exp, OUTPUTS, SPREAD)
    np.testing.assert_allclose(mean, rate, rtol=1e-8)
    np.testing.assert_allclose(epistemic, variance, rtol=1e-8)
    np.testing.assert_allclose(aleatoric, rate, rtol=1e-8)  # E[Var[y]] is E[rate]
    assert not np.allclose(np.exp(OUTPUTS), rate, rtol=1e-2)


def test_the_probit_approximation_of_one_logit_is_good_to_0_015(float64):
    outputs = np.linspace(-6, 6, 25)[:, None]
    plain = 0.0
    for size in (0.1, 1.0, 4.0, 10.0):
        spread = np.full_like(outputs, size)
        exact, _ = over_outputs(special.expit, outputs, spread)
        mean, _, _ = told(likelihoods.bernoulli(), outputs, spread)
        assert np.abs(mean - exact).max() < 0.015
        plain = max(plain, np.abs(special.expit(outputs) - exact).max())
    assert plain > 0.1  # as if the logit were certain


def test_the_probit_approximation_of_three_logits_is_good_to_0_03(float64):
    """Logits with variances of their own, up to 4."""
    rng, worst, plain = np.random.default_rng(2), 0.0, 0.0
    for size in (0.1, 1.0, 4.0):
        for outputs in rng.normal(size=(20, 3)) * 2:
            spread = size * rng.uniform(0.2, 1.0, 3)
            exact, _ = over_three(outputs, spread)
            mean, _, _ = told(likelihoods.categorical(), outputs[None], spread[None])
            worst = max(worst, np.abs(mean[0] - exact).max())
            plain = max(plain, np.abs(special.softmax(outputs) - exact).max())
    assert worst < 0.03
    assert plain > 0.1


def test_a_common_shift_of_the_logits_changes_nothing_and_two_classes_are_one_logit(float64):
    rng, many = np.random.default_rng(3), likelihoods.categorical()
    for classes in (2, 3, 40):  # so many go one by one
        outputs, spread = rng.normal(size=(5, classes)) * 2, rng.uniform(0.1, 3.0, (5, classes))
        for one, other in zip(
            told(many, outputs, spread), told(many, outputs + 7.0, spread), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9)
    outputs, spread = outputs[:, :2], spread[:, :2]
    apart, wide = outputs[:, 1:] - outputs[:, :1], spread.sum(axis=1, keepdims=True)
    pairs = zip(
        told(many, outputs, spread), told(likelihoods.bernoulli(), apart, wide), strict=True
    )
    for one, other in pairs:
        np.testing.assert_allclose(one[:, 1:], other, rtol=1e-9)
    logit_by_logit = special.softmax(outputs / np.sqrt(1 + np.pi / 8 * spread), axis=1)
    assert np.abs(logit_by_logit - told(many, outputs, spread)[0]).max() > 0.01


def test_the_epistemic_variance_of_many_classes_has_its_cross_terms(float64):
    """To first order in the spread, against quadrature."""
    rng = np.random.default_rng(4)
    for outputs in rng.normal(size=(10, 3)):
        spread = 1e-4 * rng.uniform(0.2, 1.0, 3)
        _, exact = over_three(outputs, spread)
        _, epistemic, _ = told(likelihoods.categorical(), outputs[None], spread[None])
        np.testing.assert_allclose(epistemic[0], exact, rtol=1e-3)
        p = special.softmax(outputs)
        assert not np.allclose((p * (1 - p)) ** 2 * spread, exact, rtol=0.05)


@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
def test_the_variance_of_a_class_is_split_and_its_first_part_grows_with_the_spread(float64, name):
    likelihood, first = LIKELIHOODS[name](), []
    for size in (1e-3, 0.3, 3.0, 1e3):
        mean, epistemic, aleatoric = told(likelihood, OUTPUTS, np.full_like(OUTPUTS, size))
        np.testing.assert_allclose(epistemic + aleatoric, mean * (1 - mean), rtol=1e-10)
        assert (epistemic > 0).all()
        assert (aleatoric >= 0).all()
        first.append(epistemic / (mean * (1 - mean)))
    assert (np.diff(first, axis=0) >= -1e-12).all()


def test_a_little_spread_of_the_logits_is_a_little_variance_of_the_probabilities(float64):
    """Exact for one logit; for several, the part of the others, half at most, is left out."""
    little = np.full_like(OUTPUTS, 1e-3)
    _, exact = over_outputs(special.expit, OUTPUTS, little)
    np.testing.assert_allclose(told(likelihoods.bernoulli(), OUTPUTS, little)[1], exact, rtol=0.01)
    exact = np.array([over_three(row, little[0])[1] for row in OUTPUTS])
    share = told(likelihoods.categorical(), OUTPUTS, little)[1] / exact
    assert (share > 0.49).all()
    assert (share < 1.01).all()


@pytest.mark.parametrize("name", SAME_WIDTH)
def test_intervals_stay_where_the_mean_of_y_can_lie(float64, name):
    likelihood = LIKELIHOODS[name]()
    outlook = Outlook(jnp.asarray(OUTPUTS), jnp.full(OUTPUTS.shape, 2.0))
    seen = prediction.from_outlook(likelihood, outlook, 0.9)
    low, high = likelihoods.mean_range(likelihood)
    assert ((low <= seen.lower) & (seen.lower <= seen.mean)).all()
    assert ((seen.mean <= seen.upper) & (seen.upper <= high)).all()
    reach = stats.norm.ppf(0.95) * np.sqrt(seen.epistemic)
    inside = (seen.mean - reach > low) & (seen.mean + reach < high)
    np.testing.assert_allclose((seen.upper - seen.lower)[inside], 2 * reach[inside], rtol=1e-10)
    assert bool(inside.all()) == (name in ("gaussian", "learned_gaussian"))


@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
def test_probabilities_of_classes_sum_to_one_and_are_the_mean(float64, name):
    likelihood = LIKELIHOODS[name]()
    outputs = jnp.asarray(OUTPUTS[:, :1] if name == "bernoulli" else OUTPUTS)
    p = np.asarray(likelihood.probabilities(outputs))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    own = p[:, 1:] if name == "bernoulli" else p
    np.testing.assert_allclose(own, likelihood.mean(outputs), rtol=1e-12)
    assert not isinstance(likelihoods.gaussian(), likelihoods.OfClasses)


# --- a noise that is learned ----------------------------------------------------------------------
LEARNED = likelihoods.learned_gaussian(0.8)


def rows_of(y, weight=None):
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    return Batch(jnp.zeros((len(y), 1)), jnp.asarray(y), jnp.asarray(weight))


def after(noise, y, weight=None, spread=0.0):
    """The noise after rows whose outputs were 0."""
    outputs = jnp.zeros((len(y), 1))
    return LEARNED.learned(noise, outputs, jnp.full_like(outputs, spread), rows_of(y, weight))


def test_before_any_residual_the_noise_is_the_first_guess(float64):
    assert likelihoods.given(LEARNED, likelihoods.first_noise(LEARNED)).scale == pytest.approx(0.8)
    plain = likelihoods.gaussian(0.3)
    assert likelihoods.first_noise(plain) == ()
    assert likelihoods.given(plain, ()) is plain


def test_a_batch_of_one_row_is_the_rule_for_rows(float64):
    """Written out: a mean of squared residuals less the posterior's part, of a hundred rows."""
    noise, rng = LEARNED.first_noise(), np.random.default_rng(3)
    variance, number = 0.64, 10.0
    for y, weight in zip(rng.normal(size=150), rng.uniform(0.2, 3.0, size=150), strict=True):
        noise = after(noise, [y], [weight], spread=0.2)
        number = min(number + weight, 100.0)
        variance += weight / number * (max(y**2 - 0.2, 0.1 * y**2) - variance)
        np.testing.assert_allclose(noise, (variance, number), rtol=1e-10)
    assert number == 100.0


def test_rows_together_count_as_often_as_their_weights_say(float64):
    y, first = np.array([0.5, -1.0, 2.0]), LEARNED.first_noise()
    written = after(first, y[[0, 0, 0, 1]])
    np.testing.assert_allclose(after(first, y, [3.0, 1.0, 0.0]), written, rtol=1e-12)
    assert not np.allclose(after(first, y), written, rtol=1e-2)
    np.testing.assert_allclose(after(first, y, np.zeros(3)), first, rtol=1e-12)


def test_the_noise_is_found_from_residuals_and_follows_them(float64):
    rng, noise = np.random.default_rng(4), LEARNED.first_noise()

    def stream(noise, scale, spread):
        for y in rng.normal(0, np.sqrt(scale**2 + spread), size=(40, 25)):
            noise = after(noise, y, spread=spread)
        return float(LEARNED.given(noise).scale), noise

    found, noise = stream(noise, 2.0, 0.0)
    assert found == pytest.approx(2.0, rel=0.2)
    found, noise = stream(noise, 0.3, 0.0)
    assert found == pytest.approx(0.3, rel=0.2)
    found, _ = stream(noise, 2.0, 0.5)  # the posterior's part is not noise
    assert found == pytest.approx(2.0, rel=0.2)


def test_the_noise_never_vanishes(float64):
    noise = LEARNED.first_noise()
    for _ in range(3):
        noise = after(noise, np.zeros(400))
    assert float(noise.variance) == EDGE
    lucky = after(LEARNED.first_noise(), [0.0])
    assert float(lucky.variance) > 0.5 * 0.64
