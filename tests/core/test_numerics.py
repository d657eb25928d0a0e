"""B1: single precision, far out: densities and gradients stay finite, s stays above its floor."""

import itertools

import filters
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods, mixtures, objective
from hmnn.core.families import RHO_FLOOR, DropConnect, Gaussian, Noise, Posterior, scale
from hmnn.core.filtering import Filter
from hmnn.core.projections.descent import Descent

RHO = [-120.0, -90.0, -27.0, -22.0, -10.0, 0.0, 50.0]
M = [0.0, 1.0, -1e4, 1e4]
XI = [0.0, 1.3, -4.0]
GRID = np.array(list(itertools.product(M, RHO, XI, [True, False])), dtype=np.float32)


def finite(tree):
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def laws(kernel, family, m, rho):
    posterior = Posterior(m, rho)
    return posterior, filters.prior(kernel, family, posterior)


@jax.jit
def gradients(kernel, family, grid):
    """The gradient of log q - log P pi, q having moved by one since the last step, for every row of
    the grid."""

    def one(row):
        m, rho, xi, eta = row
        posterior, prior = laws(kernel, family, m, rho)
        moved = posterior._replace(location=m + 1.0)
        kept = (
            None if family.keep is None else (eta > 0) | (family.keep == 1)
        )  # keep = 1 never drops
        epsilon = Noise(kept, xi)
        return objective.gradient(lambda w: 0.0 * w, moved, family, prior, epsilon, 1.0)

    return jax.vmap(one)(grid)


@jax.jit
def log_densities(kernel, family, grid, w):
    def one(row, w):
        _, prior = laws(kernel, family, row[0], row[1])
        return jax.value_and_grad(lambda w: mixtures.log_prob(prior, w))(w)

    return jax.vmap(lambda w: jax.vmap(lambda row: one(row, w))(grid))(w)


KERNELS = [
    *(
        kernels.jump(memory=a, jump_prob=p, centre=c)
        for a in (0.0, 1.0)
        for p in (0.0, 1.0)
        for c in ("zero", "previous")
    ),
    kernels.jump(),
]
FAMILIES = [Gaussian(), DropConnect(1.0), DropConnect(0.5)]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_gradients_are_finite_for_extreme_parameters(family):
    for kernel in KERNELS:
        got = gradients(kernel, family, jnp.asarray(GRID))
        bad = ~(jnp.isfinite(got.location) & jnp.isfinite(got.rho))
        assert not bad.any(), f"{kernel}: not finite at (m, rho, xi, eta) = {GRID[np.argmax(bad)]}"


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_densities_and_their_gradients_in_w_are_finite_for_extreme_weights(family):
    w = jnp.array([0.0, 1.85, -100.0, 1e4, -1e4])
    for kernel in KERNELS:
        assert finite(log_densities(kernel, family, jnp.asarray(GRID), w)), kernel


def test_the_naive_density_is_not_finite():
    """The negative control: log of a sum of densities, with the paper's settings, dies at |w| =
    1.85."""
    sigma = np.float32(np.exp(-2))

    def naive(w):
        parts = [
            0.5 * jnp.exp(-0.5 * (w / s) ** 2) / s for s in (sigma, sigma / np.float32(np.exp(5)))
        ]
        return jnp.log(sum(parts))

    assert not finite(jax.value_and_grad(naive)(jnp.float32(1.95)))
    assert not finite(
        jax.value_and_grad(lambda rho: jnp.log(jnp.log1p(jnp.exp(rho))))(jnp.float32(-120.0))
    )
    law = kernels.reset()(
        Gaussian().mixture(Posterior(jnp.zeros(()), jnp.zeros(()))), jnp.zeros(())
    )
    assert finite(jax.value_and_grad(lambda w: mixtures.log_prob(law, w))(jnp.float32(1.95)))


def test_the_scale_has_a_floor_and_no_ceiling():
    s = scale(jnp.array(RHO))
    assert (s >= scale(jnp.array(RHO_FLOOR))).all()
    assert (1 / s**2 < jnp.inf).all()
    assert float(s[-1]) == pytest.approx(50)
    assert float(jax.nn.softplus(jnp.float32(-120.0))) == 0  # what the floor is for


@jax.jit
def one_step(parts, batch):
    return filtering.step(parts, filtering.init(parts, jax.random.key(0)), batch)


@pytest.mark.parametrize("start", [-120.0, 50.0])
def test_a_step_from_extreme_parameters_stays_finite_and_above_the_floor(start):
    far = Filter(
        lambda key: jnp.full(2, 1e4),
        lambda w, x: x @ w,
        kernels.jump(),
        DropConnect(0.5),
        likelihoods.gaussian(1.0),
        Descent(1e-3, 5, start_rho=(start, start)),
    )
    after, info = one_step(far, Batch(jnp.ones((4, 2)), jnp.zeros(4), jnp.ones(4)))
    assert finite(after.posterior)
    assert int(info.rejected) == 0
    assert (scale(after.posterior.rho) >= scale(jnp.array(RHO_FLOOR))).all()
