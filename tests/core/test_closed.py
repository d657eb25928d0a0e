"""The closed-form gradient is the gradient: against autodiff at the same noise, in blocks, and in whole filters."""

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hmnn
from hmnn.core import closed, families, filtering, kernels, likelihoods, mixtures, noise, objective, projection
from hmnn.core.families import DropConnect, Gaussian, Noise, Posterior
from hmnn.core.filtering import Model, Plan
from hmnn.core.objective import Batch
from hmnn.core.projection import Descent, Pace, Path

ROWS = 16
NETWORKS = {
    "784-100-100-10": (hmnn.mlp(784, (100, 100), 10), likelihoods.categorical()),
    "130-500-20-500-130": (hmnn.mlp(130, (500, 20, 500), 130), likelihoods.gaussian(0.3)),
    "2-50-50-2": (hmnn.mlp(2, (50, 50), 2), likelihoods.categorical()),
    "2-1": (hmnn.linear(2, 1), likelihoods.bernoulli()),
}
KEEPS, MEMORIES = (0.25, 0.75, 1.0), (0.0, 0.5, 1.0)


def data(name, rows=ROWS):
    first, last = (int(width) for width in (name.split("-")[0], name.split("-")[-1]))
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, first)).astype(np.float32)
    y = x if first == last and first > 2 else rng.integers(0, max(last, 2), rows)
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.array(rows))


def law_of(weights, seed, dtype=None):
    """A posterior near these weights."""
    rng = np.random.default_rng(seed)

    def tree(centre, spread):
        return jax.tree.map(
            lambda w: jnp.asarray(centre + spread * rng.normal(size=w.shape), dtype or w.dtype), weights
        )

    near = tree(0.0, 0.1)
    return Posterior(jax.tree.map(lambda w, d: w.astype(d.dtype) + d, weights, near), tree(-2.5, 0.5))


def problem(name):
    network, likelihood = NETWORKS[name]
    weights = network.init(jax.random.key(0))
    return network.apply, likelihood, law_of(weights, 1), law_of(weights, 2)


def centres(weights):
    """Every kind of centre, written as a tree, so that one compilation does for all."""

    def tree(f):
        return jax.tree.map(f, weights)

    zeros = tree(jnp.zeros_like)
    number, other = tree(lambda w: jnp.full_like(w, -0.2)), tree(lambda w: 0.1 + 0.5 * w)
    return {"zero": (0.0, zeros), "previous": (1.0, zeros), "number": (0.0, number), "tree": (0.0, other)}


def worst(got, want):
    """The largest difference, leaf by leaf, relative to the largest entry of that leaf."""
    errors = jax.tree.map(lambda a, b: np.abs(a - b).max() / np.abs(b).max(), got, want)
    return max(float(e) for e in jax.tree.leaves(errors))


@partial(jax.jit, static_argnums=0)
def both(apply, model, old, theta, batch, words):
    """The gradient in closed form and by autodiff, at the same noise, a minibatch of ten."""
    prior = filtering.prior(model, old)
    epsilon = noise.hashed(words, 0, theta.location, model.family)
    loss = partial(objective.misfit, apply, model.likelihood, batch=batch)
    whole = closed.Turn(jnp.zeros((), jnp.int32), 1)
    ready = closed.ready(prior, theta.location)
    return (
        closed.gradient(loss, theta, model.family, ready, epsilon, 0.1, whole),
        objective.gradient(loss, theta, model.family, prior, epsilon, 0.1),
    )


def check(name, kernel, keep, tolerance=1e-5):
    apply, likelihood, old, theta = problem(name)
    model = Model(kernel, families.assign(theta.location, keep, "all"), likelihood)
    words = noise.words(jax.random.key(4), theta.location)
    assert worst(*both(apply, model, old, theta, data(name), words)) < tolerance


# --- equal to autodiff -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NETWORKS)
def test_the_jump_kernel_has_the_gradient_of_autodiff(name):
    for follow, anchor in centres(problem(name)[2].location).values():
        for keep, memory in itertools.product(KEEPS, MEMORIES):
            check(name, kernels.jump(memory)._replace(centre=kernels.Centre(follow, anchor)), keep)


@pytest.mark.parametrize("kind", sorted(kernels.KERNELS))
def test_every_kernel_has_the_gradient_of_autodiff(kind):
    for keep in KEEPS:
        for memory in MEMORIES if kind == "ornstein_uhlenbeck" else (None,):
            numbers = {} if memory is None else {"memory": memory, "scale": 0.5}
            check("2-50-50-2", kernels.KERNELS[kind](**numbers), keep)


@pytest.mark.parametrize("jump_prob", [0.0, 1.0])
def test_a_component_that_is_not_there_is_not_felt(jump_prob):
    check("2-50-50-2", kernels.jump(jump_prob=jump_prob, shrink=3.0), 0.75)


def test_families_may_differ_from_leaf_to_leaf_and_rates_from_weight_to_weight():
    apply, likelihood, old, theta = problem("2-50-50-2")
    rng = np.random.default_rng(0)
    rates = jax.tree.map(lambda w: jnp.asarray(rng.uniform(0.05, 1.0, w.shape), jnp.float32), theta.location)
    words = noise.words(jax.random.key(4), theta.location)
    for where in ("all", "internal", "internal_weights", "none"):
        model = Model(kernels.jump(), families.assign(theta.location, rates, where), likelihood)
        closed_form, autodiff = both(apply, model, old, theta, data("2-50-50-2"), words)
        assert worst(closed_form, autodiff) < 1e-5
    flat = Model(kernels.jump(), families.assign(theta.location, 0.5, "all"), likelihood)
    assert worst(both(apply, flat, old, theta, data("2-50-50-2"), words)[0], autodiff) > 1e-2


@pytest.mark.parametrize("kind", sorted(kernels.KERNELS))
def test_in_double_precision_the_gradients_agree_to_ten_digits(float64, kind):
    weights = {"a": jnp.asarray(np.random.default_rng(3).normal(size=(2, 3))), "b": jnp.ones(3), "c": jnp.array(0.3)}
    old, theta = law_of(weights, 1), law_of(weights, 2)
    x = jnp.asarray(np.random.default_rng(4).normal(size=(6, 2)))
    batch = Batch(x, jnp.ones(6), jnp.array(5))
    words = noise.words(jax.random.key(4), weights)
    for keep in KEEPS:
        model = Model(kernels.KERNELS[kind](), families.assign(weights, keep, "all"), likelihoods.gaussian(0.5))
        assert worst(*both(scalar_network, model, old, theta, batch, words)) < 1e-10


def scalar_network(w, x):
    return jnp.tanh(x @ w["a"]) @ w["b"] + w["c"]


def test_a_wrong_sign_of_one_term_is_found():
    apply, likelihood, old, theta = problem("2-50-50-2")
    model = Model(kernels.jump(), families.assign(theta.location, 0.75, "all"), likelihood)
    words = noise.words(jax.random.key(4), theta.location)
    got, _ = both(apply, model, old, theta, data("2-50-50-2"), words)

    @jax.jit
    def signed(own, prior):
        before = filtering.prior(model, old)
        epsilon = noise.hashed(words, 0, theta.location, model.family)

        def energy(theta):
            w = objective.draw(theta, model.family, epsilon)
            q = objective.mixture(theta, model.family)
            parts = jax.tree.map(
                lambda w, q, p: (own * mixtures.log_prob(q, w) - prior * mixtures.log_prob(p, w)).sum(), w, q, before
            )
            loss = objective.misfit(apply, likelihood, w, batch=data("2-50-50-2"))
            return loss + 0.1 * sum(jax.tree.leaves(parts))

        return jax.grad(energy)(theta)

    assert worst(got, signed(1.0, 1.0)) < 1e-5
    assert worst(got, signed(-1.0, 1.0)) > 1e-3
    assert worst(got, signed(1.0, -1.0)) > 1e-3
    assert worst(got, signed(1.01, 1.0)) > 1e-5


# --- the KL term in blocks -------------------------------------------------------------------------------------------
def recorder(_):
    """An optimiser that moves nothing and adds up the gradients."""

    def update(gradient, total, parameters):
        return jax.tree.map(jnp.zeros_like, gradient), jax.tree.map(jnp.add, total, gradient)

    return optax.GradientTransformation(lambda parameters: jax.tree.map(jnp.zeros_like, parameters), update)


def fixed(words, i, weights, family):
    """The same noise at every update."""
    return noise.hashed(
        jnp.full_like(words, 12345) + jnp.arange(words.size, dtype=jnp.uint32).reshape(words.shape), i, weights, family
    )


LEAVES = {"a": (16, 3), "b": (12,), "c": (7, 2, 2), "d": (9, 5), "e": (11, 2), "f": (1, 4), "g": ()}
BLOCKS = {"a": 8, "b": 6, "c": 7, "d": 3, "e": 1, "f": 1, "g": 1}


def test_blocks_are_the_largest_divisor_of_the_rows():
    assert {k: closed.divisor(shape[0], 8) for k, shape in LEAVES.items() if shape} == {
        k: n for k, n in BLOCKS.items() if LEAVES[k]
    }
    assert closed.divisor(784, 8) == 8
    assert closed.divisor(10, 1) == 1


def summed(cycle, kl_blocks, keep=0.6, samples=1):
    """The gradients of `cycle` equal minibatches at fixed noise and fixed theta, added up."""
    weights = jax.tree.map(jnp.zeros, LEAVES, is_leaf=lambda s: isinstance(s, tuple))
    old, theta = law_of(weights, 1), law_of(weights, 2)

    def apply(w, x):
        return x * sum(jnp.sin(leaf).sum() for leaf in jax.tree.leaves(w))

    model = Model(kernels.jump(), families.assign(weights, keep, "all"), likelihoods.gaussian(5.0), Pace(epochs=1))
    descent = Descent(apply, recorder, 1, samples, source=fixed, kl_blocks=kl_blocks)
    batch = Batch(jnp.ones(cycle), jnp.zeros(cycle), jnp.array(cycle))
    start = Path(theta, recorder(None).init(theta), jnp.zeros((), jnp.int32))

    @jax.jit
    def run(old, start):
        prior = filtering.prior(model, old)
        key = jax.random.key(0)
        return projection.project(key, descent, model.pace, model.likelihood, model.family, prior, start, batch)[0]

    return run(old, start).optimiser


CYCLE = 8 * 3 * 7


def test_the_mean_over_a_cycle_of_blocks_is_the_full_gradient(float64):
    full = summed(CYCLE, 1)
    for blocks in (8, 7, 2):
        assert worst(summed(CYCLE, blocks), full) < 1e-10
    assert worst(summed(CYCLE, 8, samples=2), full) < 1e-10
    assert worst(summed(CYCLE - 1, 8), summed(CYCLE - 1, 1)) > 1e-4  # a cycle that is not whole


def test_the_mean_over_a_cycle_of_blocks_is_the_full_gradient_in_single_precision():
    assert worst(summed(CYCLE, 8), summed(CYCLE, 1)) < 1e-5


def test_one_update_pays_one_block_for_all():
    """Without data: rows out of turn have no gradient, rows in turn `blocks` times the full one."""
    weights = {"a": jnp.zeros((16, 3)), "b": jnp.zeros(11)}
    old, theta = law_of(weights, 1), law_of(weights, 2)
    model = Model(kernels.jump(), families.assign(weights, 0.6, "all"), likelihoods.gaussian())
    words = noise.words(jax.random.key(4), weights)

    @partial(jax.jit, static_argnums=1)
    def gradient(update, blocks):
        prior = closed.ready(filtering.prior(model, old), weights)
        epsilon = noise.hashed(words, 0, weights, model.family)
        nothing = lambda w: 0.0 * sum(leaf.sum() for leaf in jax.tree.leaves(w))  # noqa: E731
        return closed.gradient(nothing, theta, model.family, prior, epsilon, 0.1, closed.Turn(update, blocks))

    full = gradient(jnp.array(0), 1)
    for update in (0, 5, 8 + 5):
        part, turn = gradient(jnp.array(update), 8), update % 8
        for got, want in zip(part, full, strict=True):
            rows = slice(2 * turn, 2 * turn + 2)
            np.testing.assert_allclose(got["a"][rows], 8 * want["a"][rows], rtol=1e-4)
            assert not np.delete(got["a"], np.r_[rows], axis=0).any()
            np.testing.assert_allclose(got["b"], want["b"], rtol=1e-4, atol=1e-6)  # 11 rows: one block


@pytest.mark.parametrize(
    ("size", "minibatch", "rule", "blocks"),
    [
        (128, None, "uniform", 1),
        (128 * 31, 128, "uniform", 1),
        (128 * 63, 128, "uniform", 1),
        (128 * 64, 128, "uniform", 2),
        (50000, 128, "uniform", 8),
        (390 * 100, 100, "uniform", 8),
        (10**6, 100, "uniform", 8),
        (50000, 128, "geometric", 1),
    ],
)
def test_the_number_of_blocks_follows_that_of_the_minibatches(size, minibatch, rule, blocks):
    descent = Descent(scalar_network, minibatch=minibatch, kl_weights=rule)
    assert projection.blocks(descent, size) == blocks
    assert projection.blocks(descent._replace(kl_blocks=5), size) == 5


# --- whole filters ---------------------------------------------------------------------------------------------------
SMALL = hmnn.mlp(2, (8,), 2)


def filtered(gradient, optimiser=optax.sgd, samples=1, source=noise.hashed, family=None):
    """Two time steps of four epochs of four minibatches."""
    family = families.assign(SMALL.init(jax.random.key(0)), 0.75, "all") if family is None else family
    model = Model(kernels.jump(), family, likelihoods.categorical(), Pace(1e-3, 4))
    plan = Plan(SMALL.init, Descent(SMALL.apply, optimiser, 16, samples, source=source, gradient=gradient))
    batch = data("2-50-50-2", 64)
    step = jax.jit(lambda state, start: filtering.step(plan, model, state, batch, start))
    state = filtering.init(jax.random.key(1), plan, model)
    state, _ = step(state, filtering.first_guess(state.key, plan, model))
    state, info = step(state, state.posterior)
    assert bool(info.finite)
    return state.posterior


def apart(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize(("optimiser", "samples"), [(optax.sgd, 2), (optax.adam, 1)], ids=["sgd", "adam"])
def test_filters_by_closed_form_and_by_autodiff_reach_the_same_posterior(optimiser, samples):
    ours, reference = (filtered(way, optimiser, samples) for way in ("closed", "autodiff"))
    assert apart(ours, reference) < 1e-4


def test_the_rule_takes_the_closed_form_where_it_can():
    ours = filtered("auto")
    assert apart(ours, filtered("closed")) == 0
    assert apart(ours, filtered("closed", source=noise.random)) > 1e-3  # the filters above shared their noise


# --- any other family ------------------------------------------------------------------------------------------------
class Doubled(NamedTuple):
    """N(2 m, s^2): a family of somebody else's."""

    @property
    def keep(self):
        return None

    def draw(self, m, s, noise: Noise):
        return 2.0 * m + s * noise.xi

    def mixture(self, posterior):
        return Gaussian().mixture(posterior._replace(location=2.0 * posterior.location))

    def match(self, target):
        found = Gaussian().match(target)
        return found._replace(location=0.5 * found.location)


def test_a_family_of_somebody_else_s_goes_by_autodiff():
    weights = SMALL.init(jax.random.key(0))
    leaves, structure = jax.tree.flatten(weights)
    assert closed.applies(families.assign(weights, 0.5, "internal"), weights)
    one_other = structure.unflatten([Doubled(), DropConnect(0.5), *[Gaussian()] * (len(leaves) - 2)])
    assert not closed.applies(one_other, weights)
    ours = filtered("auto", family=one_other)
    assert apart(ours, filtered("autodiff", family=one_other)) == 0
    plain = structure.unflatten([Gaussian(), DropConnect(0.5), *[Gaussian()] * (len(leaves) - 2)])
    assert apart(ours, filtered("auto", family=plain)) > 1e-3
