"""A8 and A9: kernels that are special cases of each other, and where the weights go without
data."""

import filters
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hmnn.core import filtering, kernels, mixtures
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.families import DropConnect, Gaussian, Posterior, rho_of, scale
from hmnn.core.filtering import State
from hmnn.core.mixtures import Mixture

W = np.linspace(-3, 3, 13)


def law():
    return DropConnect(0.3).mixture(Posterior(jnp.array([1.2]), rho_of(jnp.array([0.4]))))


def logs(kernel, law, centre=0.0):
    moved = kernel(law, jnp.array([centre]))
    return np.asarray(mixtures.log_prob(moved, jnp.asarray(W)))


def test_the_static_kernel_changes_nothing(float64):
    before = law()
    assert kernels.static()(before, jnp.array([0.0])) is before
    still = kernels.jump(memory=1.0, jump_scale=1e-9, shrink=2.0)
    np.testing.assert_allclose(
        logs(still, before), mixtures.log_prob(before, jnp.asarray(W)), rtol=1e-10
    )
    assert not np.allclose(
        logs(kernels.jump(memory=0.99, jump_scale=1e-9, shrink=2.0), before), logs(still, before)
    )


def test_memory_zero_forgets_everything_and_is_the_reset_kernel(float64):
    numbers = {"jump_scale": 0.7, "shrink": 3.0, "jump_prob": 0.2}
    other = Gaussian().mixture(Posterior(jnp.array([-9.0]), rho_of(jnp.array([2.0]))))
    forget, reset = kernels.jump(memory=0.0, **numbers), kernels.reset(**numbers)
    for before in (law(), other):
        np.testing.assert_allclose(logs(forget, before, 0.5), logs(reset, law(), 0.5), rtol=1e-12)
    remember = kernels.jump(memory=0.01, **numbers)
    assert not np.allclose(logs(remember, other, 0.5), logs(reset, other, 0.5), rtol=1e-4)


def test_ornstein_uhlenbeck_is_the_jump_kernel_that_always_jumps(float64):
    memory, size = 0.8, 1.7
    flow = kernels.ornstein_uhlenbeck(memory, size)
    always = kernels.jump(memory, size * np.sqrt(1 - memory**2), 3.0, 1.0, "zero")
    np.testing.assert_allclose(logs(flow, law(), 0.5), logs(always, law(), 0.5), rtol=1e-12)
    assert not np.allclose(
        logs(flow, law(), 0.5), logs(always._replace(jump_prob=0.9), law(), 0.5), rtol=1e-3
    )


def test_centre_is_what_was_asked_for(float64):
    m = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(3.0)}
    tree = {"a": jnp.array([5.0, 6.0]), "b": jnp.array(7.0)}
    zero, number = kernels.jump(centre="zero").centre.at(m), kernels.jump(centre=4).centre.at(m)
    for k in m:
        assert (kernels.jump(centre="previous").centre.at(m)[k] == m[k]).all()
        assert (kernels.jump(centre=tree).centre.at(m)[k] == tree[k]).all()
        assert (zero[k] == 0).all()
        assert (number[k] == 4).all()
        between = kernels.Centre(0.3, 4.0).at(m)[k]
        np.testing.assert_allclose(between, 0.3 * m[k] + 0.7 * 4.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: kernels.jump(memory=1.3), r"memory must be in \[0, 1\]. Got 1.3."),
        (lambda: kernels.jump(memory=float("nan")), "memory must be in"),
        (lambda: kernels.jump(jump_prob=-0.1), "jump_prob must be in"),
        (lambda: kernels.jump(jump_scale=0.0), "jump_scale must be a positive number"),
        (lambda: kernels.reset(shrink=1.0), "shrink must be greater than 1"),
        (lambda: kernels.ornstein_uhlenbeck(scale=-1), "scale must be a positive number"),
        (lambda: kernels.jump(centre="here"), "centre must be one of 'zero', 'previous'"),
    ],
)
def test_numbers_out_of_their_domain_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# --- A9: time steps without data ------------------------------------------------------------------
@compiled(ONCE)
def wait(parts, posterior, steps):
    zero = jnp.zeros((), jnp.int32)
    state = State(posterior, (), (), jax.random.key(0), zero, zero)
    after = jax.lax.fori_loop(0, steps, lambda _, s: filtering.rest(parts, s), state)
    return after.posterior.location, scale(after.posterior.rho), after.t


def waited(kernel, family, steps, m=3.0, s=0.2):
    posterior = Posterior(jnp.array([m]), rho_of(jnp.array([s])))
    m, s, t = wait(filters.moving(kernel, family), posterior, steps)
    assert t == steps
    return float(m[0]), float(s[0])


@pytest.mark.parametrize("steps", [0, 1, 7, 2000])
def test_without_data_the_variance_tends_to_the_stationary_one_and_the_mean_to_the_centre(
    float64, steps
):
    memory, sigma, shrink, phi, mu = 0.95, 0.3, 4.0, 0.25, -1.0
    jump = phi * sigma**2 + (1 - phi) * (sigma / shrink) ** 2
    rest = jump / (1 - memory**2)
    m, s = waited(kernels.jump(memory, sigma, shrink, phi, mu), Gaussian(), steps)
    assert m == pytest.approx(mu + memory**steps * (3.0 - mu), rel=1e-9)
    assert s**2 == pytest.approx(rest + memory ** (2 * steps) * (0.2**2 - rest), rel=1e-7)
    if steps == 2000:
        assert (m, s**2) == (pytest.approx(mu), pytest.approx(rest))
        assert s**2 != pytest.approx(jump / (1 - memory), rel=0.1)


def test_without_data_ornstein_uhlenbeck_reaches_its_own_scale(float64):
    assert waited(kernels.ornstein_uhlenbeck(0.9, 1.4), Gaussian(), 2000) == (
        pytest.approx(0),
        pytest.approx(1.4),
    )
    assert waited(kernels.ornstein_uhlenbeck(0.9, 1.4), Gaussian(), 1)[1] < 1


def test_without_data_and_centred_at_the_previous_mean_the_mean_stays(float64):
    m, s = waited(kernels.jump(0.9, 0.5, 2.0, 1.0, "previous"), Gaussian(), 2000)
    assert (m, s**2) == (pytest.approx(3.0), pytest.approx(0.25 / (1 - 0.81)))
    assert waited(kernels.jump(0.9, 0.5, 2.0, 1.0, "zero"), Gaussian(), 1)[0] == pytest.approx(2.7)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_without_data_dropconnect_centred_at_zero_moves_as_its_components_do(float64, keep):
    """Both components shrink alike, so the matched member is exact: m -> alpha m, s^2 -> alpha^2
    s^2 + sigma^2."""
    m, s = waited(kernels.jump(0.9, 0.5, 2.0, 1.0, "zero"), DropConnect(keep), 1)
    assert (m, s**2) == (pytest.approx(2.7), pytest.approx(0.81 * 0.04 + 0.25))
    assert waited(kernels.jump(0.9, 0.5, 2.0, 1.0, 1.0), DropConnect(keep), 1)[0] != pytest.approx(
        2.8, rel=1e-3
    )


def test_without_data_the_static_kernel_does_nothing(float64):
    for family in (Gaussian(), DropConnect(0.4)):
        assert waited(kernels.static(), family, 50) == (pytest.approx(3.0), pytest.approx(0.2))


def test_without_data_every_family_keeps_the_mean_of_the_moved_law(float64):
    for centre in ("zero", 2.0):
        kernel, family = kernels.jump(0.7, 0.5, 2.0, 0.5, centre), DropConnect(0.4)
        before = Posterior(jnp.array([3.0]), rho_of(jnp.array([0.2])))
        target = filters.prior(kernel, family, before)
        m, _ = waited(kernel, family, 1)
        assert 0.4 * m == pytest.approx(float(mixtures.mean(target)[0]))


def test_without_data_a_dropped_weight_centred_at_the_previous_mean_stays_and_never_grows(float64):
    kernel, family = kernels.jump(0.5, 0.5, 2.0, 0.5, "previous"), DropConnect(0.4)
    assert waited(kernel, family, 50)[0] == pytest.approx(waited(kernel, family, 0)[0])
    # Pulling to m instead of E[w], as a step with data does, would let the mean grow at once.
    before = Posterior(jnp.array([3.0]), rho_of(jnp.array([0.2])))
    assert mixtures.mean(filters.prior(kernel, family, before))[0] > 0.4 * 3.0


def test_a_law_with_one_variance_has_no_drift_signal(float64):
    one = kernels.ornstein_uhlenbeck()(
        Gaussian().mixture(Posterior(jnp.zeros(1), jnp.zeros(1))), jnp.zeros(1)
    )
    assert isinstance(one, Mixture)
    assert jnp.isnan(mixtures.widest(one, jnp.ones(1))).all()
