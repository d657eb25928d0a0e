"""A descent does not depend on which way round its matrices lie."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hmnn.core import families, filtering, kernels, layout, likelihoods, projection
from hmnn.core.filtering import Model
from hmnn.core.objective import Batch
from hmnn.core.projection import Descent, Pace, Path
from hmnn.networks import mlp

SIZES = (3, (50, 7, 50), 3)  # (50, 3) and (3, 50) both occur: one is turned, the other is not


def test_short_rows_are_turned_and_come_back():
    tree = {
        "short": jnp.arange(100.0).reshape(50, 2),
        "long": jnp.zeros((2, 50)),
        "square": jnp.zeros((5, 5)),
        "v": 1.0,
    }
    turned = layout.turn(tree)
    assert layout.turns(tree)
    assert not layout.turns(turned)
    assert [np.shape(turned[k]) for k in tree] == [(2, 50), (2, 50), (5, 5), ()]
    np.testing.assert_array_equal(layout.back(turned, tree)["short"], tree["short"])


def noiseless(words, i, weights, family):
    """Every mean kept, xi a number per weight that does not depend on its place."""
    return jax.tree.map(lambda w: families.Noise(jnp.ones(w.shape, bool), jnp.full_like(w, 0.3)), weights)


def test_a_descent_is_the_same_either_way(monkeypatch):
    net = mlp(*SIZES)
    weights = net.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(x[:, ::-1].copy()), 64)
    model = Model(kernels.jump(), families.assign(weights, 0.6, "all"), likelihoods.gaussian(), Pace(1e-2, 5))
    plan = filtering.Plan(
        net.init, Descent(net.apply, lambda rate: optax.sgd(rate, 0.9), minibatch=16, source=noiseless)
    )
    state = filtering.init(jax.random.key(1), plan, model)

    def run():
        start = Path(filtering.first_guess(state.key, plan, model), state.optimiser, state.rejected)
        parts = (plan.descent, model.pace, model.likelihood, model.family, filtering.prior(model, state.posterior))
        return jax.jit(lambda: projection.project(jax.random.key(2), *parts, start, batch)[0])()

    turned = run()
    monkeypatch.setattr(layout, "turns", lambda weights: False)
    plain = run()
    assert layout._turned(np.zeros((50, 3)))  # there is something to turn
    assert jax.tree.map(np.shape, turned) == jax.tree.map(np.shape, plain)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), turned, plain)
    assert any(
        np.abs(a - b).max() > 1e-3
        for a, b in zip(*map(jax.tree.leaves, (turned.posterior, start_of(state, plan, model))), strict=True)
    )


def start_of(state, plan, model):
    return filtering.first_guess(state.key, plan, model)
