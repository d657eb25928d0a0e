"""A time step does not depend on how its weights lie in memory."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import families, filtering, kernels, likelihoods
from hmnn.core.cpu import layout
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.cpu.layout import Laid, Layout
from hmnn.core.families import DropConnect, Gaussian, Posterior
from hmnn.core.filtering import Filter
from hmnn.core.mixtures import Mixture
from hmnn.core.projections.descent import Descent
from hmnn.networks import from_functions, mlp

SIZES = (3, (50, 7, 50), 3)  # (50, 3) and (3, 50) both occur: one is turned, the other is not
WEIGHTS = {
    "a": jnp.arange(100.0).reshape(50, 2),
    "b": jnp.arange(5000.0).reshape(2500, 2),
    "c": jnp.zeros((2, 2500)),
    "d": jnp.array(3.0),
    "e": jnp.arange(7.0),
}
FAMILY = {
    "a": Gaussian(),
    "b": DropConnect(0.5, 2**30 - 1),
    "c": Gaussian(),
    "d": Gaussian(),
    "e": Gaussian(),
}


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
    assert jax.tree.structure(laid[0][0].mu) == jax.tree.structure(
        Posterior(*[places.lay(WEIGHTS)] * 2)
    )
    assert laid[0][0].count.shape == ()
    assert laid[1].shape == (5,)
    assert jax.tree.structure(places.back(laid)) == jax.tree.structure((state, jnp.arange(5.0)))


def test_the_counters_of_a_network_that_is_one_number_are_not_laid():
    places = layout.of(jnp.array(2.0), Gaussian())
    state = optax.adam(1e-3).init(Posterior(jnp.array(2.0), jnp.array(1.0)))
    assert jnp.shape(places.lay(state)[0].count) == ()
    assert places.lay(state)[0].mu.location.groups[0] == 0.0


def test_means_are_those_of_the_leaves():
    places, negative = layout.of(WEIGHTS, FAMILY), jax.tree.map(jnp.negative, WEIGHTS)
    unknown = jax.tree.map(lambda w: jnp.full_like(w, jnp.nan), WEIGHTS)
    for second in (negative, unknown):  # unknown is the drift signal of a kernel that has none
        found = places.means(places.lay(WEIGHTS), places.lay(second))
        want = (jax.tree.map(jnp.mean, tree) for tree in (WEIGHTS, second))
        for pair in zip(found, want, strict=True):
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *pair)


def test_rates_lie_with_their_weights():
    family = FAMILY | {
        "a": DropConnect(0.25, 2**29 - 1),
        "e": DropConnect(jnp.linspace(0.1, 0.7, 7)),
    }
    member = layout.of(WEIGHTS, family).members(family).groups[0]
    np.testing.assert_allclose(
        member.keep, np.r_[np.full(100, 0.25), 1.0, np.linspace(0.1, 0.7, 7)], rtol=1e-6
    )
    np.testing.assert_array_equal(np.asarray(member.last)[[0, 100]], [2**29 - 1, 2**31 - 1])
    np.testing.assert_allclose(
        np.asarray(member.last[101:]) + 1.0, 2.0**31 * np.linspace(0.1, 0.7, 7), rtol=1e-6
    )


def fixed(words, i, weights, family):
    """Every mean kept, xi a number per weight that does not depend on its place."""
    return jax.tree.map(
        lambda w: families.Noise(jnp.ones(w.shape, bool), jnp.full_like(w, 0.3)), weights
    )


def parts_of(optimiser=optax.sgd, kernel=None):
    """A filter whose noise is fixed, of leaves that are small and of one that is not."""
    net = mlp(*SIZES)
    family = families.assign(net.init(jax.random.key(0)), 0.6, "internal")
    how = Descent(1e-3, 5, optimiser=optimiser, minibatch=16, source=fixed)
    return Filter(*net, kernel or kernels.jump(), family, likelihoods.gaussian(), how)


def lies(parts):
    """Whether a function of these parts computes with weights that are laid."""
    state, seen = jax.eval_shape(filtering.init, parts, jax.random.key(0)), []

    def look(parts, posterior):
        seen.extend(isinstance(part, Laid) for part in (parts.family, posterior.location))
        return posterior

    back = jax.eval_shape(layout.as_it_lies(look), parts, state.posterior)
    assert jax.tree.structure(back) == jax.tree.structure(state.posterior)
    assert seen in ([True] * 2, [False] * 2)
    return seen[0]


def stepped(parts, lay):
    """What is to be seen of two time steps, and the state after each."""
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(x[:, ::-1].copy()), jnp.ones(64))

    @compiled(ONCE)
    def step(parts, state):
        start = parts.projection.start(parts, state)
        after, notes = lay(filtering.update)(parts, state, batch, start)
        return after, lay(report)(parts, state, after, batch, notes)

    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        first, told = step(parts, filtering.init(parts, jax.random.key(1)))
        second, info = step(parts, first)
    return (told, first._replace(key=0)), (info, second._replace(key=0))


def report(parts, *arguments):
    return parts.projection.report(parts, *arguments)


def difference(a, b):
    apart = jax.tree.map(lambda a, b: np.nanmax(np.abs(np.asarray(a) - b)), a, b)
    return max(jax.tree.leaves(apart))


@pytest.mark.parametrize(
    ("optimiser", "kernel"),
    [(optax.adam, None), (optax.sgd, kernels.static())],
    ids=["adam", "sgd, no drift signal"],
)
def test_a_time_step_is_the_same_either_way(optimiser, kernel):
    parts = parts_of(optimiser, kernel)
    assert lies(parts)  # there is something to lay
    laid, plain = stepped(parts, layout.as_it_lies), stepped(parts, lambda function: function)
    assert jax.tree.structure(laid) == jax.tree.structure(plain)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), laid, plain)
    for info, _ in laid:
        assert np.isfinite(info.free_energy)
        assert np.isnan(info.drift) == (kernel is not None)
    assert difference(laid[0][1].posterior, plain[1][1].posterior) > 1e-3


class ByLeaf(NamedTuple):
    """A kernel that looks at a leaf as a whole: the jump is as wide as the leaf's means."""

    centre: kernels.Centre

    def __call__(self, mixture, centre):
        spread = jnp.std(mixture.means[0])
        return Mixture(
            mixture.means, mixture.mean_weights, (mixture.variances[0] + spread**2,), (1.0,)
        )


def test_who_looks_at_a_leaf_as_a_whole_finds_it_whole():
    assert lies(parts_of())
    assert not lies(parts_of(kernel=ByLeaf(kernels.jump().centre)))
    assert not lies(parts_of(optimiser=optax.lamb))
    assert not lies(parts_of(optimiser=lambda rate: optax.sgd(rate)))  # nobody knows what it does


def cut_apart(kernel):
    """Moved end to end and moved leaf by leaf."""
    leaves = [jnp.linspace(-1.0, 2.0, 5), jnp.array([3.0, 0.1])]
    laws = [Mixture((m, jnp.zeros(())), (0.6, 0.4), (m**2 + 0.1,), (1.0,)) for m in leaves]
    whole = jax.tree.map(lambda *a: jnp.concatenate(a) if jnp.ndim(a[0]) else a[0], *laws)
    one = kernel(whole, jnp.concatenate(leaves))
    parts = [kernel(law, m) for law, m in zip(laws, leaves, strict=True)]

    def flat(tree, size):
        return [np.broadcast_to(leaf, (size,)) for leaf in jax.tree.leaves(tree)]

    pairs = zip(flat(parts[0], 5), flat(parts[1], 2), strict=True)
    return flat(one, 7), [np.concatenate(pair) for pair in pairs]


@pytest.mark.parametrize("kind", sorted(kernels.KERNELS))
def test_our_own_kernels_say_that_they_move_every_weight_by_itself_and_do(kind):
    kernel = kernels.KERNELS[kind]()
    assert kernel.weightwise
    assert lies(parts_of(kernel=kernel))
    np.testing.assert_allclose(*cut_apart(kernel), rtol=1e-6)


def test_a_kernel_that_looks_at_a_leaf_as_a_whole_would_be_found():
    together, apart = cut_apart(ByLeaf(kernels.jump().centre))
    assert not np.allclose(together, apart, rtol=1e-2)


@pytest.mark.parametrize(
    ("shape", "likelihood"),
    [((8,), "gaussian"), ((8, 3), "gaussian"), ((), "learned_gaussian")],
    ids=["y", "x", "noise"],
)
def test_data_and_noise_that_are_shaped_like_the_weights_are_left_alone(shape, likelihood):
    """Eight rows of three columns, and a network that is one array."""
    net = from_functions(lambda key: jnp.ones(shape), lambda w, x: x[:, :1] * jnp.sum(w))
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("f")
    how = hmnn.descent(epochs=2, source=fixed)
    method = hmnn.build(net, likelihood, kernels.jump(), projection=how)
    assert lies(method.parts)
    state, info = method.step(method.init(0), (x, x[:, 0]))
    batch = Batch(x, x[:, 0], np.ones(8, "f"))
    plain, other = compiled(ONCE)(filtering.step)(method.parts, method.init(0), batch)
    np.testing.assert_allclose(state.posterior.location, plain.posterior.location, rtol=1e-5)
    np.testing.assert_allclose(info.free_energy, other.free_energy, rtol=1e-5)


class ByWeight(NamedTuple):
    """A kernel that has a number of its own for every weight."""

    centre: kernels.Centre
    widths: jax.Array

    def __call__(self, mixture, centre):
        variance = mixture.variances[0] + self.widths**2
        return Mixture(mixture.means, mixture.mean_weights, (variance,), (1.0,))


def test_a_kernel_may_have_a_number_for_every_weight():
    net = from_functions(lambda key: jnp.zeros((4,)), lambda w, x: x @ w[:, None])
    kernel = ByWeight(kernels.jump().centre, jnp.array([0.0, 0.0, 9.0, 9.0]))
    method = hmnn.build(net, "gaussian", kernel)
    rng = np.random.default_rng(0)
    state, _ = method.step(
        method.init(0), (np.zeros((5, 4), np.float32), rng.normal(size=(5, 1)).astype("f"))
    )
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
