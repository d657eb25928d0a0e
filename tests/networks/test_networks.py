"""Any network can be filtered; what is no network is refused with a reason."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn import Dataset
from hmnn.core import noise
from hmnn.core.families import Noise
from hmnn.methods import method as programs

ROWS = 32


def flax_network():
    linen = pytest.importorskip("flax.linen", reason="flax is an optional extra")
    return hmnn.from_flax(
        linen.Sequential(
            [linen.Dense(4, use_bias=False), jnp.tanh, linen.Dense(1, use_bias=False)]
        ),
        np.zeros((1, 3), np.float32),
    )


def functions_network():
    def init(key):
        return {"w": 0.1 * jax.random.normal(key, (3, 1))}

    return hmnn.from_functions(init, lambda weights, x: x @ weights["w"])


def equinox_network():
    free = {"use_bias": False, "use_final_bias": False}
    return hmnn.from_equinox(
        lambda key: eqx.nn.MLP(3, 1, 4, 1, activation=jnp.tanh, key=key, **free)
    )


def quiet(key, i, weights, family):
    """No noise: many leaves of random numbers take XLA long to compile."""
    return jax.tree.map(lambda w: Noise(None, jnp.zeros_like(w)), weights)


NETWORKS = {
    "linear": (lambda: hmnn.linear(3, bias=False), (3,)),
    "mlp": (lambda: hmnn.mlp(3, (4,), 1), (3,)),
    "cnn": (lambda: hmnn.cnn(1, 5, 1, width=2), (1, 5, 5)),
    "rnn": (lambda: hmnn.rnn(1, 3, 1), (4, 1)),
    "from_equinox": (equinox_network, (3,)),
    "from_flax": (flax_network, (3,)),
    "from_functions": (functions_network, (3,)),
}


def data(shape: tuple[int, ...], t: int) -> Dataset:
    x = np.random.default_rng([31, t]).normal(size=(ROWS, *shape)).astype(np.float32)
    return Dataset(x, x.reshape(ROWS, -1).sum(axis=1) / np.sqrt(np.prod(shape), dtype=np.float32))


def build(network, source=noise.random):
    return hmnn.kurle(
        network,
        "gaussian",
        epochs=100,
        learning_rate=2e-3,
        minibatch=None,
        keep_where="none",
        source=source,
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_network_is_filtered(name):
    make, shape = NETWORKS[name]
    network = make()
    method = build(network, noise.random if name in ("linear", "from_functions") else quiet)
    state, new = method.init(1), data(shape, 99)
    losses = [np.square(new.y).mean()]  # of the first state, at which every network gives 0
    for t in range(2):
        state, info = method.step(state, data(shape, t))
        assert bool(info.finite)
        outputs = network.apply(state.posterior.location, jnp.asarray(new.x))
        assert outputs.shape == (ROWS, 1)
        losses.append(np.square(outputs[:, 0] - new.y).mean())
    assert losses[2] < 0.5 * losses[0], losses
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.posterior))


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_floating_point_arrays_fixed_by_the_key(name):
    network = NETWORKS[name][0]()
    first, again, other = (network.init(jax.random.key(seed)) for seed in (0, 0, 1))
    assert jax.tree.leaves(first)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(first))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, again)))
    assert not all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, other)))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_does_not_see_the_other_rows(name):
    make, shape = NETWORKS[name]
    network = make()
    weights, x = network.init(jax.random.key(0)), jnp.asarray(data(shape, 0).x[:4])
    together = network.apply(weights, x)
    single = jnp.concatenate([network.apply(weights, x[i : i + 1]) for i in range(4)])
    np.testing.assert_allclose(single, together, atol=1e-6)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (
            lambda: hmnn.linear(3),
            lambda: hmnn.linear(inputs=3, outputs=1),
            lambda: hmnn.linear(3, bias=False),
        ),
        (
            lambda: hmnn.mlp(3, (4,), 1),
            lambda: hmnn.mlp(3, hidden=[np.int64(4)], outputs=1, activation=jax.nn.relu),
            lambda: hmnn.mlp(3, (4,), 1, activation=jnp.tanh),
        ),
        (
            lambda: hmnn.cnn(1, 5, 1, 2),
            lambda: hmnn.cnn(1, side=5, outputs=1, width=2),
            lambda: hmnn.cnn(1, 6, 1, 2),
        ),
        (
            lambda: hmnn.rnn(1, 3, 1),
            lambda: hmnn.rnn(inputs=1, width=3, outputs=1),
            lambda: hmnn.rnn(1, 4, 1),
        ),
    ],
    ids=["linear", "mlp", "cnn", "rnn"],
)
def test_the_same_arguments_give_the_same_object(one, same, other):
    assert one() is same()
    assert one() is not other()


def test_the_same_arguments_compile_once():
    def run(network):
        method = build(network)
        method.step(method.init(1), data((3,), 0))

    run(hmnn.linear(3, bias=False))
    before = programs.laid_update._cache_size()
    run(hmnn.linear(inputs=3, outputs=1, bias=False))
    assert programs.laid_update._cache_size() == before


def test_an_mlp_has_the_widths_it_was_asked_for():
    weights = hmnn.mlp(7, (5, 3), 2).init(jax.random.key(0))
    assert [layer.weight.shape for layer in weights.layers] == [(5, 7), (3, 5), (2, 3)]
    assert [layer.weight.shape for layer in hmnn.mlp(7, (), 2).init(jax.random.key(0)).layers] == [
        (2, 7)
    ]


@pytest.mark.parametrize("side", [4, 5, 7, 8, 28])
def test_a_cnn_takes_images_of_any_side(side):
    network = hmnn.cnn(2, side, 3, width=2)
    weights = jax.eval_shape(network.init, jax.random.key(0))
    assert jax.eval_shape(network.apply, weights, jnp.zeros((6, 2, side, side))).shape == (6, 3)


def test_a_recurrent_network_takes_any_length_and_minds_the_order():
    network = hmnn.rnn(1, 3, 1)
    weights = network.init(jax.random.key(0))
    x = jnp.arange(6.0).reshape(1, 6, 1)
    assert network.apply(weights, x[:, :2]).shape == (1, 1)
    assert (
        float(jnp.abs(network.apply(weights, x) - network.apply(weights, x[:, ::-1])).max()) > 1e-3
    )


def linear_module(key):
    return eqx.nn.Linear(2, 1, key=key)


@pytest.mark.parametrize("build", [linear_module(jax.random.key(0)), None, "mlp", 3])
def test_from_equinox_needs_a_function_of_a_key(build):
    with pytest.raises(
        ValueError, match=r"^build must be a function of a key that makes the module\. Got "
    ):
        hmnn.from_equinox(build)


def test_from_equinox_needs_a_module_that_can_be_called():
    with pytest.raises(
        ValueError, match=r"^build must be a function of a key that makes a callable module\. Got "
    ):
        hmnn.from_equinox(lambda key: jnp.zeros(3))
    with pytest.raises(
        ValueError, match=r"^weights must be one or more arrays of float32 or float64\. Got \[\]\.$"
    ):
        hmnn.from_equinox(lambda key: eqx.nn.Identity())


def test_from_equinox_leaves_what_is_no_weight_alone():
    class Shifted(eqx.Module):
        linear: eqx.nn.Linear
        shift: jax.Array

        def __call__(self, x):
            return self.linear(x) + self.shift.astype(x.dtype)

    network = hmnn.from_equinox(lambda key: Shifted(linear_module(key), jnp.array([3])))
    weights = network.init(jax.random.key(0))
    assert weights.shift is None
    zeros = jax.tree.map(jnp.zeros_like, weights)
    np.testing.assert_array_equal(network.apply(zeros, jnp.ones((2, 2))), [[3.0], [3.0]])


def test_from_functions_needs_two_functions_and_floating_point_weights():
    def zeros(key):
        return jnp.zeros(2)

    with pytest.raises(ValueError, match=r"^init must be a function\. Got 3\.$"):
        hmnn.from_functions(3, abs)
    with pytest.raises(ValueError, match=r"^apply must be a function\. Got None\.$"):
        hmnn.from_functions(zeros, None)
    for bad in (
        lambda key: jnp.zeros(2, jnp.int32),
        lambda key: {},
        lambda key: (jnp.zeros(2), jnp.ones(2, bool)),
    ):
        with pytest.raises(
            ValueError, match=r"^weights must be one or more arrays of float32 or float64\. Got \["
        ):
            hmnn.from_functions(bad, abs)


def test_weights_in_half_precision_are_refused():
    for dtype in (jnp.bfloat16, jnp.float16):
        with pytest.raises(
            ValueError, match=r"^weights must be one or more arrays of float32 or float64\. Got"
        ):
            hmnn.from_functions(lambda key, dtype=dtype: jnp.ones(2, dtype), lambda w, x: x @ w)


def test_from_flax_needs_a_module_with_nothing_but_params():
    linen = pytest.importorskip("flax.linen", reason="flax is an optional extra")
    x = np.zeros((1, 3), np.float32)
    for bad in (None, "dense", linen.Dense, abs):
        with pytest.raises(
            ValueError, match=r"^module must be a Flax linen module \(with init and apply\)\. Got "
        ):
            hmnn.from_flax(bad, x)
    with pytest.raises(
        ValueError, match=r"only collection is 'params'\. Got \['batch_stats', 'params'\]\.$"
    ):
        hmnn.from_flax(linen.BatchNorm(use_running_average=True), x)


def test_a_network_that_loses_rows_is_refused():
    network = functions_network()
    lossy = hmnn.from_functions(network.init, lambda weights, x: network.apply(weights, x)[:-1])
    method = hmnn.kurle(lossy, "gaussian", minibatch=None)
    with pytest.raises(ValueError, match=r"^network must be one that gives one row per row of x"):
        method.step(method.init(1), data((3,), 0))
    with pytest.raises(ValueError, match=r"^network must be one that gives one row per row of x"):
        method.predict(method.init(1), data((3,), 0).x)
