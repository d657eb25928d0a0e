"""What the filter says of new inputs: points, intervals and where the uncertainty comes from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import hmnn
from hmnn import Dataset
from hmnn.core.families import scale

REGRESSION = hmnn.vcl(hmnn.linear(3), "gaussian", epochs=20, learning_rate=1e-2, minibatch=None)
LABELS = hmnn.hmnn(
    hmnn.linear(3),
    "bernoulli",
    epochs=20,
    learning_rate=1e-2,
    minibatch=None,
    keep=0.7,
    keep_where="all",
)
SAMPLES = 5_000


def data(t: int) -> Dataset:
    rng = np.random.default_rng([21, t])
    x = rng.normal(size=(32, 3)).astype(np.float32)
    return Dataset(x, x @ np.array([1.0, -1.0, 0.5], np.float32))


NEW = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def regression():
    return REGRESSION.step(REGRESSION.init(0), data(0))[0]


@pytest.fixture(scope="module")
def labels():
    state = LABELS.init(0)
    for t in range(2):
        state, _ = LABELS.step(state, Dataset(data(t).x, data(t).y > 0))
    return state


def exact(state) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of x w + b under a diagonal Gaussian posterior."""
    location, deviation = state.posterior.location, jax.tree.map(scale, state.posterior.rho)
    mean = NEW @ np.asarray(location.weight).T + np.asarray(location.bias)
    variance = NEW**2 @ np.asarray(deviation.weight).T ** 2 + np.asarray(deviation.bias) ** 2
    return mean, np.sqrt(variance)


def test_without_draws_there_is_a_mean_and_no_interval(regression):
    said = REGRESSION.predict(regression, NEW)
    np.testing.assert_allclose(said.mean, exact(regression)[0], atol=1e-6)
    assert said[1:] == (None,) * 6


def test_the_mean_is_at_the_mean_weights_and_the_location_at_m(labels):
    """With keep = 0.7 the mean of a weight is 0.7 m."""
    m = labels.posterior.location
    outputs = NEW @ np.asarray(m.weight).T + np.asarray(m.bias)
    at_mean, at_location = (
        LABELS.predict(labels, NEW, point=point).mean for point in ("mean", "location")
    )
    np.testing.assert_allclose(at_location, jax.nn.sigmoid(outputs), atol=1e-6)
    np.testing.assert_allclose(at_mean, jax.nn.sigmoid(np.float32(0.7) * outputs), atol=1e-6)
    assert np.abs(at_mean - at_location).max() > 1e-3


@pytest.mark.parametrize("samples", [0, 50])
@pytest.mark.parametrize("point", ["mean", "location", "sampled"])
def test_classes_have_probabilities_and_numbers_have_none(regression, labels, point, samples):
    """Those of 0 and 1, wherever the prediction looks, whose second is the mean of y."""
    how = {"point": point, "samples": samples or int(point == "sampled")}
    said = LABELS.predict(labels, NEW, **how)
    assert said.probabilities.shape == (6, 2)
    np.testing.assert_allclose(said.probabilities.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(said.probabilities[:, 1:], said.mean, atol=1e-6)
    assert REGRESSION.predict(regression, NEW, **how).probabilities is None


def test_sampled_is_the_mean_over_the_draws(regression):
    """Five standard errors of the mean; six rows, so the failure rate of a wrong seed is below
    1e-5."""
    mean, deviation = exact(regression)
    said = REGRESSION.predict(regression, NEW, point="sampled", samples=SAMPLES)
    assert (np.abs(said.mean - mean) < 5 * deviation / np.sqrt(SAMPLES)).all()
    assert (np.asarray(said.mean) != mean).any()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_sampled_interval_is_the_exact_normal_one(regression, level):
    """Five standard errors of a sample quantile, sqrt(p (1 - p) / n) / density."""
    mean, deviation = exact(regression)
    said = REGRESSION.predict(regression, NEW, samples=SAMPLES, level=level)
    p = 0.5 * (1 - level)
    z = stats.norm.ppf(1 - p)
    error = 5 * np.sqrt(p * (1 - p) / SAMPLES) / stats.norm.pdf(z) * deviation
    assert (np.abs(said.upper - (mean + z * deviation)) < error).all()
    assert (np.abs(said.lower - (mean - z * deviation)) < error).all()
    wrong = stats.norm.ppf(1 - 0.4 * p)
    assert not (np.abs(said.upper - (mean + wrong * deviation)) < error).all()


def test_epistemic_and_aleatoric_variance_of_a_linear_model(regression):
    """Five standard errors of a sample variance, sqrt(2 / n) relative."""
    _, deviation = exact(regression)
    said = REGRESSION.predict(regression, NEW, samples=SAMPLES)
    np.testing.assert_allclose(said.epistemic, deviation**2, rtol=5 * np.sqrt(2 / SAMPLES))
    np.testing.assert_allclose(said.aleatoric, 0.5, rtol=1e-6)


def test_law_of_total_variance_for_labels(labels):
    """Var[y] = p (1 - p) of the predictive p, split without remainder."""
    said = LABELS.predict(labels, NEW, point="sampled", samples=SAMPLES)
    total = said.mean * (1 - said.mean)
    np.testing.assert_allclose(said.epistemic + said.aleatoric, total, atol=1e-6)
    assert (np.asarray(said.epistemic) > 1e-5).all()
    elsewhere = LABELS.predict(labels, NEW, point="location").mean
    assert np.abs(elsewhere * (1 - elsewhere) - total).max() > 1e-4


def test_intervals_widen_with_the_level_and_are_nested(labels):
    narrow, middle, wide = (
        LABELS.predict(labels, NEW, point="sampled", samples=SAMPLES, level=level)
        for level in (0.1, 0.5, 0.99)
    )
    for inner, outer in ((narrow, middle), (middle, wide)):
        assert (np.asarray(outer.lower) < inner.lower).all()
        assert (np.asarray(inner.upper) < outer.upper).all()
    assert (np.asarray(wide.lower) >= 0).all()
    assert (np.asarray(wide.upper) <= 1).all()


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a[1:], b[1:], strict=True))


def test_draws_are_fixed_by_the_seed_and_the_time(regression):
    said = REGRESSION.predict(regression, NEW, samples=SAMPLES)
    assert equal(said, REGRESSION.predict(regression, NEW, samples=SAMPLES))
    later = regression._replace(t=regression.t + 1)
    assert not equal(said, REGRESSION.predict(later, NEW, samples=SAMPLES))
    other = regression._replace(key=jax.random.key(1))
    assert not equal(said, REGRESSION.predict(other, NEW, samples=SAMPLES))


def test_draws_are_the_same_for_all_rows(regression):
    together = REGRESSION.predict(regression, NEW, samples=SAMPLES)
    single = [
        REGRESSION.predict(regression, NEW[i : i + 1], samples=SAMPLES) for i in range(len(NEW))
    ]
    for field in ("mean", "lower", "upper", "epistemic", "aleatoric"):
        rows = np.concatenate([getattr(one, field) for one in single])
        np.testing.assert_allclose(rows, getattr(together, field), atol=1e-6)
    twice = REGRESSION.predict(regression, np.concatenate([NEW[:1], NEW[:1]]), samples=SAMPLES)
    np.testing.assert_array_equal(twice.lower[0], twice.lower[1])


def test_prediction_before_any_data_is_the_initial_law():
    state = REGRESSION.init(0)
    said = REGRESSION.predict(state, NEW, samples=SAMPLES)
    np.testing.assert_array_equal(said.mean, np.zeros((6, 1)))
    expected = np.log(2) ** 2 * (1 + (NEW**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(said.epistemic, expected, rtol=5 * np.sqrt(2 / SAMPLES))


def test_data_narrow_the_interval(regression):
    before = REGRESSION.predict(REGRESSION.init(0), NEW, samples=SAMPLES)
    after = REGRESSION.predict(regression, NEW, samples=SAMPLES)
    assert (np.asarray(after.epistemic) < before.epistemic).all()


def test_no_rows_give_no_rows(regression):
    assert REGRESSION.predict(regression, NEW[:0], samples=SAMPLES).lower.shape == (0, 1)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, 95, "0.9", None, float("nan"), True, [0.9]])
def test_a_level_out_of_domain_is_refused(regression, level):
    with pytest.raises(ValueError, match=r"^level must be in \(0, 1\)\. Got "):
        REGRESSION.predict(regression, NEW, samples=SAMPLES, level=level)


@pytest.mark.parametrize("samples", [-1, 1.5, "3", None, True, jnp.float32(3)])
def test_a_number_of_draws_out_of_domain_is_refused(regression, samples):
    with pytest.raises(ValueError, match=r"^samples must be a whole number of at least 0\. Got "):
        REGRESSION.predict(regression, NEW, samples=samples)


def test_sampled_needs_draws(regression):
    with pytest.raises(
        ValueError, match=r"^samples must be a whole number of at least 1\. Got 0\.$"
    ):
        REGRESSION.predict(regression, NEW, point="sampled")


@pytest.mark.parametrize("point", ["median", None, 3])
def test_an_unknown_point_is_refused(regression, point):
    with pytest.raises(
        ValueError, match=r"^point must be one of 'mean', 'location', 'sampled'\. Got "
    ):
        REGRESSION.predict(regression, NEW, point=point)
