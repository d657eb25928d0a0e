"""Derivatives of networks: dense layers tell theirs as outer products, which nobody multiplies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hmnn._types import Outer
from hmnn.core import jacobians
from hmnn.core.cpu import small
from hmnn.networks import cnn, from_equinox, linear, mlp

pytestmark = pytest.mark.usefixtures("float64")
NETWORKS = {
    "relu": lambda: mlp(3, (4, 5), 2),
    "tanh": lambda: mlp(3, (4,), 3, jnp.tanh),
    "softplus": lambda: mlp(2, (3, 2, 4), 1, jax.nn.softplus),
    "no hidden layer": lambda: mlp(3, (), 2),
    "linear": lambda: linear(3, 2),
    "linear without bias": lambda: linear(2, 3, bias=False),
}


def whole(jacobian):
    """All derivatives in a leaf: an array of rows, outputs, and the leaf's shape."""
    if isinstance(jacobian, Outer):
        return np.einsum("nko,ni->nkoi", jacobian.pulled, jacobian.inputs)
    return np.asarray(jacobian)


def inputs_of(network):
    """How many numbers a row of x has."""
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    return jax.tree.leaves(shapes)[0].shape[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_dense_networks_tell_the_derivatives_that_differentiation_finds(name):
    network = NETWORKS[name]()
    weights = network.init(jax.random.key(1))
    row = jax.random.normal(jax.random.key(2), (inputs_of(network),))
    outputs, told = network.derivatives(weights, row)
    np.testing.assert_allclose(outputs, network.apply(weights, row[None])[0], rtol=1e-12)
    expected = jax.jacobian(lambda w: network.apply(w, row[None])[0])(weights)
    found = jacobians.differentiated(network.apply)(weights, row)
    np.testing.assert_allclose(found[0], outputs, rtol=1e-12)
    leaves = jax.tree.leaves(expected)
    for ours, general, leaf in zip(told, found[1], leaves, strict=True):
        assert isinstance(ours, Outer) == (leaf.ndim == 3)
        one = jax.tree.map(lambda a: a[None], ours)
        np.testing.assert_allclose(whole(one)[0], leaf, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(general, leaf, rtol=1e-10, atol=1e-14)
    assert max(np.abs(leaf).max() for leaf in leaves) > 0.1


def test_another_activation_has_other_derivatives():
    """The control: the comparison above would see a wrong activation."""
    row, first = jnp.array([0.3, -1.0, 0.5]), jax.random.key(1)
    with_tanh, with_softplus = (mlp(3, (4,), 1, f) for f in (jnp.tanh, jax.nn.softplus))
    weights = with_tanh.init(first)
    _, told = with_softplus.derivatives(with_softplus.init(first), row)
    expected = jax.tree.leaves(jax.jacobian(lambda w: with_tanh.apply(w, row[None])[0])(weights))
    assert np.abs(whole(jax.tree.map(lambda a: a[None], told[0]))[0] - expected[0]).max() > 0.05


@pytest.mark.parametrize(
    "network",
    [cnn(1, 4, 2), from_equinox(lambda key: eqx.nn.MLP(2, 1, 3, 1, key=key))],
    ids=["convolutions", "equinox"],
)
def test_other_networks_do_not_tell_theirs(network):
    assert network.derivatives is None


def leaf_of(rows, outputs, as_array):
    """A dense layer's derivatives, as outer products or multiplied out."""
    rng = np.random.default_rng(rows + 10 * outputs)
    outer = Outer(
        jnp.asarray(rng.normal(size=(rows, outputs, 3))), jnp.asarray(rng.normal(size=(rows, 4)))
    )
    return jnp.asarray(whole(outer)) if as_array else outer


@pytest.mark.parametrize("as_array", [False, True], ids=["outer", "array"])
@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 4])
def test_what_corrections_ask_is_answered_as_by_whole_arrays(rows, outputs, as_array):
    rng = np.random.default_rng(0)
    jacobian = leaf_of(rows, outputs, as_array)
    full = whole(leaf_of(rows, outputs, as_array=True))
    flat = full.reshape(rows * outputs, -1)
    variance = jnp.asarray(rng.uniform(0.1, 2.0, (3, 4)))
    roots = jnp.asarray(rng.normal(size=(rows, outputs, outputs)))
    directions = jnp.asarray(rng.normal(size=(rows, outputs)))
    expected = (flat * np.asarray(variance).reshape(-1)) @ flat.T
    found = jacobians.covariance(jacobian, variance)
    assert found.shape == (rows, outputs, rows, outputs)
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=1e-10)
    np.testing.assert_allclose(
        np.reshape(jacobians.variances(jacobian, variance), -1), np.diag(expected), rtol=1e-10
    )
    np.testing.assert_allclose(
        jacobians.pulled(jacobian, directions),
        (np.asarray(directions).reshape(-1) @ flat).reshape(3, 4),
        rtol=1e-10,
    )
    turned = np.einsum("nkj,nkoi->njoi", roots, full)
    np.testing.assert_allclose(
        jacobians.squares(jacobian, roots), (turned**2).sum(axis=(0, 1)), rtol=1e-10
    )
    wrong = np.einsum("njk,nkoi->njoi", roots, full)  # the control: L J is not L' J
    assert outputs == 1 or np.abs((wrong**2 - turned**2).sum(axis=(0, 1))).max() > 0.1


@pytest.mark.parametrize("size", [1, 2, 5, 26, 32, 40])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_small_matrices_are_inverted_as_numpy_does(size, scale):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size))
    matrix = scale * root @ root.T / size
    expected = np.linalg.inv(np.eye(size) + matrix)
    found = jax.jit(small.inverted)(jnp.asarray(matrix))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert np.abs(np.linalg.inv(matrix) - expected).max() > 1e-2  # the control: I is added


def test_singular_and_huge_matrices_are_inverted_too():
    """In single precision, several at once, as a bank does."""
    direction = np.random.default_rng(0).normal(size=26).astype(np.float32)
    matrix = np.stack([c * np.outer(direction, direction) for c in (0.0, 1.0, 1e4)])
    found = jax.vmap(small.inverted)(jnp.asarray(matrix))
    assert found.dtype == jnp.float32
    expected = np.linalg.inv(np.eye(26) + matrix.astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.isfinite(found).all()
