"""A time step does not depend on how its weights lie in memory."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hmnn.core import families, filtering, kernels, likelihoods
from hmnn.core.cpu import layout
from hmnn.core.cpu.layout import Layout
from hmnn.core.families import DropConnect, Gaussian, Posterior
from hmnn.core.filtering import Model
from hmnn.core.mixtures import Mixture
from hmnn.core.objective import Batch
from hmnn.core.projection import Descent, Pace
from hmnn.methods import variational
from hmnn.networks import from_functions, mlp

SIZES = (3, (50, 7, 50), 3)  # (50, 3) and (3, 50) both occur: one is turned, the other is not
WEIGHTS = {
    "a": jnp.arange(100.0).reshape(50, 2),
    "b": jnp.arange(5000.0).reshape(2500, 2),
    "c": jnp.zeros((2, 2500)),
    "d": jnp.array(3.0),
    "e": jnp.arange(7.0),
}
FAMILY = {"a": Gaussian(), "b": DropConnect(0.5, 2**30 - 1), "c": Gaussian(), "d": Gaussian(), "e": Gaussian()}


def test_small_leaves_lie_end_to_end_and_short_rows_are_turned_and_all_comes_back():
    places = layout.of(WEIGHTS, FAMILY)
    laid = places.lay(WEIGHTS)
    assert places.groups == ((0, 3, 4), (1,), (2,))
    assert [group.shape for group in laid.groups] == [(108,), (2, 2500), (2, 2500)]
    np.testing.assert_array_equal(laid.groups[0], np.r_[np.arange(100), 3, np.arange(7)])
    jax.tree.map(np.testing.assert_array_equal, places.back(laid), WEIGHTS)


def test_every_part_of_a_tree_that_is_like_the_weights_is_laid_and_nothing_else():
    places = layout.of(WEIGHTS, FAMILY)
    state = optax.adam(1e-3).init(Posterior(WEIGHTS, WEIGHTS))
    laid = places.lay((state, jnp.arange(5.0)))
    assert jax.tree.structure(laid[0][0].mu) == jax.tree.structure(Posterior(*[places.lay(WEIGHTS)] * 2))
    assert laid[0][0].count.shape == ()
    assert laid[1].shape == (5,)
    assert jax.tree.structure(places.back(laid)) == jax.tree.structure((state, jnp.arange(5.0)))


def test_the_counters_of_a_network_that_is_one_number_are_not_laid():
    places = layout.of(jnp.array(2.0), Gaussian())
    state = optax.adam(1e-3).init(Posterior(jnp.array(2.0), jnp.array(1.0)))
    assert jnp.shape(places.lay(state)[0].count) == ()
    assert places.lay(state)[0].mu.location.groups[0] == 0.0


def test_sums_are_those_of_the_leaves():
    values = jax.tree.map(lambda w: jax.lax.complex(w, -w), WEIGHTS)
    places = layout.of(WEIGHTS, FAMILY)
    found = places.sums(places.lay(values))
    jax.tree.map(lambda total, leaf: np.testing.assert_allclose(total, leaf.sum(), rtol=1e-6), found, values)
    unknown = jax.tree.map(lambda w: jax.lax.complex(w, jnp.full_like(w, jnp.nan)), WEIGHTS)
    assert np.isfinite(places.sums(places.lay(unknown))["a"].real)  # a kernel that has no drift signal


def test_rates_lie_with_their_weights():
    family = FAMILY | {"a": DropConnect(0.25, 2**29 - 1), "e": DropConnect(jnp.linspace(0.1, 0.7, 7))}
    member = layout.of(WEIGHTS, family).members(family).groups[0]
    np.testing.assert_allclose(member.keep, np.r_[np.full(100, 0.25), 1.0, np.linspace(0.1, 0.7, 7)], rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(member.last)[[0, 100]], [2**29 - 1, 2**31 - 1])
    np.testing.assert_allclose(np.asarray(member.last[101:]) + 1.0, 2.0**31 * np.linspace(0.1, 0.7, 7), rtol=1e-6)


def fixed(words, i, weights, family):
    """Every mean kept, xi a number per weight that does not depend on its place."""
    return jax.tree.map(lambda w: families.Noise(jnp.ones(w.shape, bool), jnp.full_like(w, 0.3)), weights)


def stepped(optimiser=optax.sgd, kernel=None):
    """Two time steps with fixed noise, and the plan and model they are of."""
    net, rng = mlp(*SIZES), np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(x[:, ::-1].copy()), 64)
    family = families.assign(net.init(jax.random.key(0)), 0.6, "internal")
    model = Model(kernel or kernels.jump(), family, likelihoods.gaussian(), Pace(1e-3, 5))
    plan = filtering.Plan(net.init, Descent(net.apply, optimiser, minibatch=16, source=fixed))

    @jax.jit
    def run():
        state, _ = filtering.step(plan, model, filtering.init(jax.random.key(1), plan, model), batch)
        return filtering.step(plan, model, state, batch)

    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        return *run(), plan, model


@pytest.mark.parametrize("optimiser", [optax.sgd, optax.adam])
def test_a_time_step_is_the_same_either_way(optimiser, monkeypatch):
    state, info, plan, model = stepped(optimiser)
    places = filtering._layout(plan, model)
    assert sorted(len(group) for group in places.groups) == [8]  # there is something to lay
    monkeypatch.setattr(layout, "BY_WEIGHT", ())
    plain, told, *_ = stepped(optimiser)
    assert filtering._layout(plan, model).groups == ()
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5),
        state._replace(key=0),
        plain._replace(key=0),
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), info, told)


class ByLeaf(NamedTuple):
    """A kernel that looks at a leaf as a whole: the jump is as wide as the leaf's means."""

    centre: kernels.Centre

    def __call__(self, mixture, centre):
        spread = jnp.std(mixture.means[0])
        return Mixture(mixture.means, mixture.mean_weights, (mixture.variances[0] + spread**2,), (1.0,))


def test_who_looks_at_a_leaf_as_a_whole_finds_it_whole():
    *_, plan, model = stepped()
    assert filtering._layout(plan, model).groups
    assert not filtering._layout(plan, model._replace(kernel=ByLeaf(kernels.jump().centre))).groups
    masked = plan.descent._replace(optimiser=lambda rate: optax.lamb(rate))
    assert not filtering._layout(plan._replace(descent=masked), model).groups


@pytest.mark.parametrize("kernel", [kernels.jump(), kernels.reset(), kernels.static(), kernels.ornstein_uhlenbeck()])
def test_our_own_kernels_move_every_weight_by_itself(kernel):
    *_, plan, model = stepped()
    assert filtering._layout(plan, model._replace(kernel=kernel)).groups


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m - m.mean(),
        lambda m: m * jnp.arange(m.size, dtype=m.dtype).reshape(m.shape),
        lambda m: jnp.sort(m, axis=0),
        lambda m: jnp.cumsum(m, axis=-1),
        lambda m: m[::-1],
        lambda m: m.T.reshape(m.shape),
        lambda m: jax.nn.softmax(m, axis=-1),
        jax.jit(lambda m: jnp.flip(m)),
        lambda m: m + jax.random.normal(jax.random.key(0), m.shape),
        lambda m: m + jnp.arange(4.0),
        lambda m: m * np.ones((2, 3), np.float32),
    ],
)
def test_what_looks_along_an_axis_does_not_treat_every_weight_by_itself(move):
    assert not layout.weight_by_weight(move)


@pytest.mark.parametrize("move", [jnp.exp, lambda m: jnp.where(m > 0, m, 0.5), lambda m: m + jnp.zeros_like(m) * 3.0])
def test_what_is_done_to_every_weight_alike_treats_it_by_itself(move):
    assert layout.weight_by_weight(move)


class ByWeight(NamedTuple):
    """A kernel that has a number of its own for every weight."""

    centre: kernels.Centre
    widths: jax.Array

    def __call__(self, mixture, centre):
        variance = mixture.variances[0] + self.widths**2
        return Mixture(mixture.means, mixture.mean_weights, (variance,), (1.0,))


def test_a_kernel_may_have_a_number_for_every_weight():
    net = from_functions(lambda key: jnp.zeros((4,)), lambda w, x: x @ w[:, None])
    method = variational.build(net, "gaussian", ByWeight(kernels.jump().centre, jnp.array([0.0, 0.0, 9.0, 9.0])))
    rng = np.random.default_rng(0)
    state, _ = method.step(method.init(0), (np.zeros((5, 4), np.float32), rng.normal(size=(5, 1)).astype("f")))
    widths = jax.nn.softplus(state.posterior.rho)
    assert widths[2:].min() > widths[:2].max()


def test_without_groups_all_lies_as_it_is():
    places = Layout(WEIGHTS)
    assert (
        jax.tree.structure(places.lay(WEIGHTS))
        == jax.tree.structure(WEIGHTS)
        == jax.tree.structure(places.back(WEIGHTS))
    )
    assert places.members(FAMILY) is FAMILY
