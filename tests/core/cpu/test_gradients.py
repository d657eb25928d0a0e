"""The closed-form gradient is the gradient: against autodiff at the same noise, in blocks, and in
whole filters."""

import itertools
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import filters
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hmnn
from hmnn._types import Batch
from hmnn.core import families, filtering, kernels, likelihoods, mixtures, noise, objective
from hmnn.core.cpu import gradients, hashing
from hmnn.core.cpu.compilation import ONCE, compiled
from hmnn.core.families import DropConnect, Gaussian, Noise, Posterior
from hmnn.core.filtering import Filter
from hmnn.core.projections import epochs
from hmnn.core.projections.descent import Descent
from hmnn.core.projections.epochs import Path

ROWS = 16
NETWORKS = {
    "784-100-100-10": (hmnn.mlp(784, (100, 100), 10), likelihoods.categorical()),
    "130-500-130": (hmnn.mlp(130, (500,), 130), likelihoods.gaussian(0.3)),
    "2-50-50-2": (hmnn.mlp(2, (50, 50), 2), likelihoods.categorical()),
    "2-1": (hmnn.linear(2, 1), likelihoods.bernoulli()),
}
KEEPS, MEMORIES = (0.25, 0.75, 1.0), (0.0, 0.5, 1.0)


def data(name, rows=ROWS):
    first, last = (int(width) for width in (name.split("-")[0], name.split("-")[-1]))
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, first)).astype(np.float32)
    y = x if first == last and first > 2 else rng.integers(0, max(last, 2), rows)
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(rows))


def law_of(weights, seed):
    """A posterior near these weights. NumPy computes it: JAX would compile for every shape."""
    rng = np.random.default_rng(seed)

    def tree(centre, spread):
        return jax.tree.map(
            lambda w: (centre + spread * rng.normal(size=w.shape)).astype(w.dtype), weights
        )

    near = jax.tree.map(lambda w, d: np.asarray(w) + d, weights, tree(0.0, 0.1))
    return jax.tree.map(jnp.asarray, Posterior(near, tree(-2.5, 0.5)))


@cache
def problem(name):
    network, likelihood = NETWORKS[name]
    weights = network.init(jax.random.key(0))
    return network.apply, likelihood, law_of(weights, 1), law_of(weights, 2)


def centres(weights):
    """Every kind of centre, written as a tree, so that one compilation does for all."""

    def tree(f):
        return jax.tree.map(lambda w: jnp.asarray(f(np.asarray(w))), weights)

    zeros = tree(np.zeros_like)
    number, other = tree(lambda w: np.full_like(w, -0.2)), tree(lambda w: 0.1 + 0.5 * w)
    return {
        "zero": (0.0, zeros),
        "previous": (1.0, zeros),
        "number": (0.0, number),
        "tree": (0.0, other),
    }


def worst(got, want):
    """The largest difference, leaf by leaf, relative to the largest entry of that leaf."""
    got, want = jax.device_get((got, want))  # JAX would compile the difference for every shape
    errors = jax.tree.map(lambda a, b: np.abs(a - b).max() / np.abs(b).max(), got, want)
    return max(float(e) for e in jax.tree.leaves(errors))


class Model(NamedTuple):
    """What a gradient of the free energy depends on, beside the network."""

    kernel: kernels.Kernel
    family: families.Family
    likelihood: likelihoods.Likelihood


@partial(jax.jit, static_argnums=0)
def both(apply, model, old, theta, batch, words):
    """The gradient in closed form and by autodiff, at the same noise, a minibatch of ten."""
    prior = filters.prior(model.kernel, model.family, old)
    epsilon = hashing.hashed(words, 0, theta.location, model.family)
    loss = partial(objective.misfit, apply, model.likelihood, batch=batch)

    def slope(how):
        way = gradients.chosen(how, theta.location, model.family, prior, 1)
        return way(loss, theta, epsilon, 0.1, jnp.zeros((), jnp.int32))

    return slope("closed"), slope("autodiff")


def check(name, kernel, keep, tolerance=1e-5):
    apply, likelihood, old, theta = problem(name)
    model = Model(kernel, families.assign(theta.location, keep, "all"), likelihood)
    words = noise.words(jax.random.key(4), theta.location)
    assert worst(*both(apply, model, old, theta, data(name), words)) < tolerance


# --- equal to autodiff ----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["784-100-100-10", "130-500-130", "2-1"])
def test_the_jump_kernel_has_the_gradient_of_autodiff(name):
    for follow, anchor in centres(problem(name)[2].location).values():
        for keep, memory in itertools.product(KEEPS, MEMORIES):
            check(name, kernels.jump(memory)._replace(centre=kernels.Centre(follow, anchor)), keep)


def five_of_six():
    return (jnp.arange(6) < 5).astype(float)


def one_leaf(w, x):
    return jnp.tanh(x @ w)


def check_leaf(kernel, keep, shape=(30, 20), tolerance=1e-5):
    """As `check`, for a single layer: less to compile."""
    weights = jnp.asarray(np.random.default_rng(3).normal(size=shape), jnp.float32)
    model = Model(kernel, families.assign(weights, keep, "all"), likelihoods.gaussian(0.5))
    x = np.random.default_rng(4).normal(size=(6, shape[0])).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.zeros((6, shape[1])), five_of_six())
    words = noise.words(jax.random.key(4), weights)
    assert (
        worst(*both(one_leaf, model, law_of(weights, 1), law_of(weights, 2), batch, words))
        < tolerance
    )


@pytest.mark.parametrize("kind", sorted(kernels.KERNELS))
def test_every_kernel_has_the_gradient_of_autodiff(kind):
    for keep in KEEPS:
        for memory in MEMORIES if kind == "ornstein_uhlenbeck" else (None,):
            numbers = {} if memory is None else {"memory": memory, "scale": 0.5}
            check_leaf(kernels.KERNELS[kind](**numbers), keep)


@pytest.mark.parametrize("jump_prob", [0.0, 1.0])
def test_a_component_that_is_not_there_is_not_felt(jump_prob):
    for keep in KEEPS:
        check_leaf(kernels.jump(jump_prob=jump_prob), keep)
        check_leaf(kernels.reset(jump_prob=jump_prob), keep)


def test_families_may_differ_from_leaf_to_leaf_and_rates_from_weight_to_weight():
    apply, likelihood, old, theta = problem("2-50-50-2")
    rng = np.random.default_rng(0)
    rates = jax.tree.map(
        lambda w: jnp.asarray(rng.uniform(0.05, 1.0, w.shape), jnp.float32), theta.location
    )
    halves = jax.tree.map(lambda w: jnp.asarray(np.full(w.shape, 0.5, np.float32)), rates)
    words = noise.words(jax.random.key(4), theta.location)

    def gradients(keep, where):
        model = Model(kernels.jump(), families.assign(theta.location, keep, where), likelihood)
        return both(apply, model, old, theta, data("2-50-50-2"), words)

    closed_form, autodiff = gradients(rates, "internal_weights")
    assert worst(closed_form, autodiff) < 1e-5
    assert worst(gradients(halves, "internal_weights")[0], autodiff) > 1e-2


@pytest.mark.parametrize("kind", sorted(kernels.KERNELS))
def test_in_double_precision_the_gradients_agree_to_ten_digits(float64, kind):
    weights = {"a": jnp.asarray(np.random.default_rng(3).normal(size=(2, 3))), "b": jnp.array(0.3)}
    old, theta = law_of(weights, 1), law_of(weights, 2)
    x = jnp.asarray(np.random.default_rng(4).normal(size=(6, 2)))
    batch = Batch(x, jnp.ones(6), five_of_six())
    words = noise.words(jax.random.key(4), weights)
    for keep in KEEPS:
        model = Model(
            kernels.KERNELS[kind](),
            families.assign(weights, keep, "all"),
            likelihoods.gaussian(0.5),
        )
        assert worst(*both(scalar_network, model, old, theta, batch, words)) < 1e-10


def scalar_network(w, x):
    return jnp.tanh(x @ w["a"]).sum(axis=1) + w["b"]


def test_a_wrong_sign_of_one_term_is_found():
    apply, likelihood, old, theta = problem("2-50-50-2")
    model = Model(kernels.jump(), families.assign(theta.location, 0.75, "all"), likelihood)
    words = noise.words(jax.random.key(4), theta.location)
    got, _ = both(apply, model, old, theta, data("2-50-50-2"), words)

    @compiled(ONCE)
    def signed(own, prior):
        before = filters.prior(model.kernel, model.family, old)
        epsilon = hashing.hashed(words, 0, theta.location, model.family)

        def energy(theta):
            w = objective.draw(theta, model.family, epsilon)
            q = objective.mixture(theta, model.family)
            parts = jax.tree.map(
                lambda w, q, p: (
                    own * mixtures.log_prob(q, w) - prior * mixtures.log_prob(p, w)
                ).sum(),
                w,
                q,
                before,
            )
            loss = objective.misfit(apply, likelihood, w, batch=data("2-50-50-2"))
            return loss + 0.1 * sum(jax.tree.leaves(parts))

        return jax.grad(energy)(theta)

    assert worst(got, signed(1.0, 1.0)) < 1e-5
    assert worst(got, signed(-1.0, 1.0)) > 1e-3
    assert worst(got, signed(1.0, -1.0)) > 1e-3
    assert worst(got, signed(1.01, 1.0)) > 1e-5


# --- the KL term in blocks ------------------------------------------------------------------------
def recorder(_):
    """An optimiser that moves nothing and adds up the gradients."""

    def update(gradient, total, parameters):
        return jax.tree.map(jnp.zeros_like, gradient), jax.tree.map(jnp.add, total, gradient)

    return optax.GradientTransformation(
        lambda parameters: jax.tree.map(jnp.zeros_like, parameters), update
    )


def fixed(words, i, weights, family):
    """The same noise at every update."""
    return hashing.hashed(
        jnp.full_like(words, 12345) + jnp.arange(words.size, dtype=jnp.uint32).reshape(words.shape),
        i,
        weights,
        family,
    )


LEAVES = {"a": (16, 3), "b": (12,), "c": (7, 2, 2), "d": (11, 2), "e": ()}
BLOCKS = {"a": 8, "b": 6, "c": 7, "d": 1}
CYCLE = 8 * 3 * 7


def test_blocks_are_the_largest_divisor_of_the_rows():
    assert {k: gradients.divisor(LEAVES[k][0], 8) for k in BLOCKS} == BLOCKS
    assert gradients.divisor(784, 8) == 8
    assert gradients.divisor(10, 8) == 5
    assert gradients.divisor(10, 1) == 1


@pytest.fixture
def small_leaves_too(monkeypatch):
    monkeypatch.setattr(gradients, "SMALL", 0)


def waves(w):
    return sum(jnp.sin(leaf).sum() for leaf in jax.tree.leaves(w))


def turns(blocks, updates, loss=waves):
    """Gradients at fixed noise and fixed theta, one for each update."""
    weights = jax.tree.map(jnp.zeros, LEAVES, is_leaf=lambda s: isinstance(s, tuple))
    old, theta = law_of(weights, 1), law_of(weights, 2)
    family = families.assign(weights, 0.6, "all")
    epsilon = hashing.hashed(noise.words(jax.random.key(4), weights), 0, weights, family)

    @compiled(ONCE)
    def run(old, theta, updates):
        prior = filters.prior(kernels.jump(), family, old)
        ready = gradients.ready(prior, family, weights)

        def one(update):
            turn = gradients.Turn(update, blocks)
            return gradients.gradient(loss, theta, family, ready, epsilon, 0.1, turn)

        return jax.lax.map(one, updates)

    return jax.device_get(run(old, theta, jnp.asarray(updates, jnp.int32)))


def mean(gradients):
    return jax.tree.map(lambda g: g.astype(np.float64).mean(axis=0), gradients)


@pytest.mark.usefixtures("small_leaves_too")
def test_the_mean_over_a_cycle_of_blocks_is_the_full_gradient():
    with jax.enable_x64(True):
        full, parts = turns(1, [0]), turns(8, np.arange(5, 5 + CYCLE))
    assert worst(mean(parts), mean(full)) < 1e-10
    assert (
        worst(mean(jax.tree.map(lambda g: g[:-1], parts)), mean(full)) > 1e-4
    )  # a cycle that is not whole


@compiled(ONCE)
def projected(parts, old, start, batch):
    """A whole descent, and how many of its epochs were undone."""
    prior = parts.projection.prior(parts, old)
    path = Path(start, parts.projection.optimiser(0.1).init(start), jnp.zeros((), jnp.int32))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        path, _, undone = epochs.descend(parts, prior, path, jax.random.key(0), (), batch)
        return path, undone


@pytest.mark.usefixtures("small_leaves_too")
def test_an_epoch_of_whole_cycles_sums_to_the_full_gradient():
    """Through the projection: 24 minibatches, 8 and 6 blocks, an offset that the epoch chooses."""
    weights = {"a": jnp.zeros((16, 3)), "b": jnp.zeros(12)}
    old, theta = law_of(weights, 1), law_of(weights, 2)
    family = families.assign(weights, 0.6, "all")
    batch = Batch(jnp.ones(24), jnp.zeros(24), jnp.ones(24))
    how = Descent(epochs=1, optimiser=recorder, minibatch=1, source=fixed)

    def summed(blocks):
        parts = Filter(
            lambda key: weights,
            lambda w, x: x * waves(w),
            kernels.jump(),
            family,
            likelihoods.gaussian(5.0),
            replace(how, kl_blocks=blocks),
        )
        return projected(parts, old, theta, batch)[0].optimiser

    assert worst(summed(8), summed(1)) < 2e-6


@pytest.mark.usefixtures("small_leaves_too")
def test_one_update_pays_one_block_for_all():
    """Without data: rows out of turn have no gradient, rows in turn `blocks` times the full one."""
    updates = [0, 5, 8 + 5]
    nothing = lambda w: 0.0 * waves(w)  # noqa: E731
    full, parts = mean(turns(1, [0], nothing)), turns(8, updates, nothing)
    for part, whole in zip(parts, full, strict=True):
        for i, update in enumerate(updates):
            rows = slice(2 * (update % 8), 2 * (update % 8) + 2)
            np.testing.assert_allclose(part["a"][i, rows], 8 * whole["a"][rows], rtol=1e-4)
            assert not np.delete(part["a"][i], np.r_[rows], axis=0).any()
            for leaf in ("d", "e"):  # one block
                np.testing.assert_allclose(part[leaf][i], whole[leaf], rtol=1e-4, atol=1e-6)


def test_small_leaves_pay_all_of_it_at_every_update():
    full, parts = mean(turns(1, [0])), turns(8, [0, 5])
    assert all(worst(jax.tree.map(lambda g, i=i: g[i], parts), full) < 1e-6 for i in (0, 1))


@pytest.mark.parametrize(
    ("size", "minibatch", "rule", "blocks"),
    [
        (128, None, "uniform", 1),
        (128 * 31, 128, "uniform", 1),
        (128 * 63, 128, "uniform", 1),
        (128 * 64, 128, "uniform", 2),
        (128 * 256, 128, "uniform", 8),
        (50000, 128, "uniform", 10),
        (390 * 100, 100, "uniform", 10),
        (10**6, 100, "uniform", 10),
        (50000, 128, "geometric", 1),
    ],
)
def test_the_number_of_blocks_follows_that_of_the_minibatches(size, minibatch, rule, blocks):
    how = Descent(minibatch=minibatch, kl_weights=rule)
    assert epochs.blocks(how, size) == blocks
    assert epochs.blocks(replace(how, kl_blocks=5), size) == 5


# --- whole descents -------------------------------------------------------------------------------
SMALL = hmnn.linear(2, 2)


@cache
def reached(gradient, optimiser=optax.sgd, samples=1, source=hashing.hashed, family=None):
    """The posterior after four epochs of four minibatches."""
    weights = SMALL.init(jax.random.key(0))
    family = (
        families.assign(weights, 0.75, "all") if family is None else weights_like(weights, family)
    )
    settings = {"minibatch": 16, "samples": samples, "source": source, "gradient": gradient}
    how = Descent(1e-2, 4, optimiser=optimiser, **settings)
    parts = Filter(*SMALL, kernels.jump(), family, likelihoods.categorical(), how)
    theta, batch = law_of(weights, 2), data("2-50-50-2", 64)
    path, undone = projected(parts, law_of(weights, 1), theta, batch)
    assert int(undone) == 0
    assert apart(path.posterior, theta) > 1e-2
    return path.posterior


def weights_like(weights, members):
    return jax.tree.structure(weights).unflatten(members)


def apart(a, b):
    return max(
        float(np.abs(x - y).max())
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


@pytest.mark.parametrize(
    ("optimiser", "samples"), [(optax.sgd, 1), (optax.adam, 2)], ids=["sgd", "adam"]
)
def test_descents_by_closed_form_and_by_autodiff_reach_the_same_posterior(optimiser, samples):
    ours, reference = (reached(way, optimiser, samples) for way in ("closed", "autodiff"))
    assert apart(ours, reference) < 1e-4


def test_the_rule_takes_the_closed_form_where_it_can():
    ours = reached("auto", optax.sgd, 1)
    assert apart(ours, reached("closed", optax.sgd, 1)) == 0
    other = reached("closed", source=noise.random)
    assert apart(ours, other) > 1e-3  # the descents above shared their noise


# --- any other family -----------------------------------------------------------------------------
class Doubled(NamedTuple):
    """N(2 m, s^2): a family of somebody else's."""

    factor: float = 2.0

    @property
    def keep(self):
        return None

    def draw(self, m, s, noise: Noise):
        return self.factor * m + s * noise.xi

    def mixture(self, posterior):
        return Gaussian().mixture(posterior._replace(location=self.factor * posterior.location))

    def match(self, target):
        found = Gaussian().match(target)
        return found._replace(location=found.location / self.factor)


def test_a_family_of_somebody_else_s_goes_by_autodiff():
    weights = SMALL.init(jax.random.key(0))
    ours, plain = (Doubled(), DropConnect(0.5)), (Gaussian(), DropConnect(0.5))
    assert not gradients.applies(weights_like(weights, ours), weights)
    assert gradients.applies(weights_like(weights, plain), weights)
    assert apart(reached("auto", family=ours), reached("autodiff", family=ours)) == 0
    assert apart(reached("auto", family=ours), reached("auto", family=plain)) > 1e-3


def test_a_filter_of_somebody_else_s_family_runs():
    parts = Filter(
        lambda key: jnp.zeros(2),
        lambda w, x: x @ w,
        kernels.jump(),
        Doubled(),
        likelihoods.gaussian(0.5),
        Descent(5e-4, 200),
    )
    x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    y = x @ np.array([1.0, -2.0], np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(64))
    state = filtering.init(parts, jax.random.key(0))
    state, info = compiled(ONCE)(filtering.step)(parts, state, batch)
    assert bool(info.finite)
    np.testing.assert_allclose(2.0 * state.posterior.location, [1.0, -2.0], atol=0.3)
