"""One suite for every method: what `hmnn.METHODS` lists can be started, stepped, asked, and cannot be harmed."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn import Dataset

NETWORK = hmnn.linear(2, 2)
COMMON = {"learning_rate": 2e-3, "epochs": 60, "minibatch": None}
SPECIAL: dict[str, dict] = {"bbp": {"jump_scale": 1.0}}
"""What a method needs beyond `COMMON`; of `COMMON` it is given what its signature takes."""
KEY = 7


def stream(t: int, rows: int = 64) -> Dataset:
    """Two well separated classes."""
    rng = np.random.default_rng([3, t])
    y = rng.integers(0, 2, rows)
    x = rng.normal(scale=0.5, size=(rows, 2)) + 2.0 * (2 * y[:, None] - 1)
    return Dataset(x.astype(np.float32), y)


GOOD = [stream(t) for t in range(4)]
NEW = stream(99)


@pytest.fixture(scope="module", params=list(hmnn.METHODS))
def method(request):
    build = hmnn.METHODS[request.param]
    parameters = inspect.signature(build).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    settings = {name: value for name, value in COMMON.items() if anything or name in parameters}
    return build(NETWORK, "categorical", **settings | SPECIAL.get(request.param, {}))


@pytest.fixture(scope="module")
def learnt(method):
    """The states before and after each of four good batches."""
    states = [method.init(KEY)]
    for data in GOOD:
        states.append(method.step(states[-1], data)[0])
    return states


def bits(tree) -> list:
    """Every leaf as bytes, so that equal means bitwise equal."""

    def raw(leaf):
        leaf = jnp.asarray(leaf)
        values = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        return values.shape, str(values.dtype), np.asarray(values).tobytes()

    return [raw(leaf) for leaf in jax.tree.leaves(tree)]


def accuracy(method, state, data: Dataset) -> float:
    return float((np.argmax(method.predict(state, data.x).mean, axis=1) == data.y).mean())


def test_the_list_of_methods_is_not_empty_and_names_functions():
    assert hmnn.METHODS
    assert all(callable(build) for build in hmnn.METHODS.values())


def test_learns_two_easy_classes(method, learnt):
    assert accuracy(method, learnt[-1], NEW) > 0.9
    assert accuracy(method, learnt[-1], NEW._replace(y=1 - NEW.y)) < 0.1


@pytest.mark.parametrize("rows", [1, 8, 9, 64])
def test_predicts_one_finite_row_per_row_of_x(method, learnt, rows):
    x = np.resize(NEW.x, (rows, 2))
    for state in (learnt[0], learnt[-1]):
        mean = method.predict(state, x).mean
        assert mean.shape == (rows, 2)
        assert np.isfinite(mean).all()


def test_prediction_does_not_depend_on_the_other_rows(method, learnt):
    whole = method.predict(learnt[-1], NEW.x).mean
    single = np.concatenate([method.predict(learnt[-1], NEW.x[i : i + 1]).mean for i in range(5)])
    np.testing.assert_allclose(single, whole[:5], atol=1e-6)


def test_step_and_predict_leave_their_state_as_it_was(method, learnt):
    before = bits(learnt[1])
    after, _ = method.step(learnt[1], GOOD[1])
    method.step(learnt[1], None)
    method.predict(learnt[1], NEW.x)
    assert bits(learnt[1]) == before
    assert bits(after) != before


def test_the_same_key_gives_the_same_bits(method, learnt):
    state = method.init(jax.random.key(KEY))
    for data in GOOD:
        state, _ = method.step(state, data)
    assert bits(state) == bits(learnt[-1])
    assert bits(method.predict(state, NEW.x)) == bits(method.predict(learnt[-1], NEW.x))


def test_a_step_without_data_moves_time_and_nothing_breaks(method, learnt):
    state = learnt[2]
    moved, _ = method.step(state, None)
    assert int(moved.t) == int(state.t) + 1
    assert np.isfinite(method.predict(moved, NEW.x).mean).all()
    again, _ = method.step(moved, GOOD[2])
    assert int(again.t) == int(state.t) + 2
    assert accuracy(method, again, NEW) > 0.9


def test_a_step_without_data_is_legal_before_any_data(method):
    state, _ = method.step(method.init(KEY), None)
    state, _ = method.step(state, GOOD[0])
    assert np.isfinite(method.predict(state, NEW.x).mean).all()


X, Y = GOOD[2].x, GOOD[2].y
BAD = {
    "NaN in x": Dataset(np.where(np.arange(128).reshape(64, 2) == 30, np.nan, X), Y),
    "infinity in x": Dataset(np.where(np.arange(128).reshape(64, 2) == 30, -np.inf, X), Y),
    "1e300 in x": Dataset(np.where(np.arange(128).reshape(64, 2) == 30, 1e300, X.astype(np.float64)), Y),
    "2**31 + 5 in y": Dataset(X, np.where(np.arange(64) == 30, 2**31 + 5, Y)),
    "NaN in y": Dataset(X, np.where(np.arange(64) == 30, np.nan, Y)),
    "too many columns": Dataset(np.hstack([X, X]), Y),
    "too few columns": Dataset(X[:, :1], Y),
    "x without columns": Dataset(X[:, 0], Y),
    "an unknown label": Dataset(X, np.where(np.arange(64) == 30, 2, Y)),
    "a negative label": Dataset(X, np.where(np.arange(64) == 30, -1, Y)),
    "half a label": Dataset(X, Y + 0.5),
    "a column too many in y": Dataset(X, np.stack([Y, Y], axis=1)),
    "no rows": Dataset(X[:0], Y[:0]),
    "too few labels": Dataset(X, Y[:-1]),
    "too many labels": Dataset(X[:-1], Y),
    "one label": Dataset(X, Y[0]),
    "strings in x": Dataset(X.astype(str), Y),
    "strings in y": Dataset(X, Y.astype(str)),
    "objects in x": Dataset(X.astype(object), Y),
    "complex x": Dataset(X.astype(complex), Y),
    "dates in y": Dataset(X, Y.astype("datetime64[s]")),
    "rows of different lengths": Dataset([[1.0, 2.0], [3.0]], [0, 1]),
    "None as x": Dataset(None, Y),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_batch_raises_and_never_changes_the_model(method, learnt, kind):
    before = bits(learnt[2])
    with pytest.raises(ValueError, match=r"^[xy] .*must .*at t = 3\b.*Got "):
        method.step(learnt[2], BAD[kind])
    assert bits(learnt[2]) == before
    going_on, _ = method.step(learnt[2], GOOD[2])
    assert bits(going_on) == bits(learnt[3])


@pytest.mark.parametrize("data", [[X, Y], (X,), (X, Y, Y), X, "data", 3], ids=lambda d: type(d).__name__)
def test_what_is_no_dataset_is_refused(method, learnt, data):
    with pytest.raises(ValueError, match=r"^data must be a Dataset\(x, y\) or None\. Got "):
        method.step(learnt[2], data)


@pytest.mark.parametrize("x", [np.full((3, 2), np.nan), np.zeros((3, 3)), np.zeros(2), np.full((3, 2), 1e300), "x"])
def test_bad_inputs_to_predict_are_refused(method, learnt, x):
    with pytest.raises(ValueError, match=r"^x must be|^x must fit"):
        method.predict(learnt[2], x)


WHOLE = Dataset(np.rint(4 * X), Y)
FORMS = {
    "float64": Dataset(WHOLE.x.astype(np.float64), Y),
    "float16": Dataset(WHOLE.x.astype(np.float16), Y),
    "int64": Dataset(WHOLE.x.astype(np.int64), Y),
    "int8": Dataset(WHOLE.x.astype(np.int8), Y.astype(np.uint8)),
    "bool labels": Dataset(WHOLE.x, Y.astype(bool)),
    "uint64 labels": Dataset(WHOLE.x, Y.astype(np.uint64)),
    "Fortran order": Dataset(np.asfortranarray(WHOLE.x), Y),
    "strided": Dataset(np.repeat(WHOLE.x, 2, axis=0)[::2], np.repeat(Y, 2)[::2]),
    "reversed twice": Dataset(WHOLE.x[::-1].copy()[::-1], Y[::-1].copy()[::-1]),
    "big-endian": Dataset(WHOLE.x.astype(">f4"), Y.astype(">i8")),
    "lists": Dataset(WHOLE.x.tolist(), Y.tolist()),
    "JAX arrays": Dataset(jnp.asarray(WHOLE.x), jnp.asarray(Y, jnp.int32)),
    "a bare tuple": (WHOLE.x, Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_arrays_changes_no_bit(method, learnt, form):
    expected, _ = method.step(learnt[1], WHOLE)
    got, _ = method.step(learnt[1], FORMS[form])
    assert bits(got) == bits(expected)
    assert bits(method.predict(got, FORMS[form][0])) == bits(method.predict(expected, WHOLE.x))


def test_read_only_arrays_are_welcome_and_stay_as_they_were(method, learnt):
    x, y = WHOLE.x.copy(), Y.copy()
    x.flags.writeable = y.flags.writeable = False
    expected, _ = method.step(learnt[1], WHOLE)
    got, _ = method.step(learnt[1], Dataset(x, y))
    assert bits(got) == bits(expected)
    np.testing.assert_array_equal(x, WHOLE.x)
    np.testing.assert_array_equal(y, Y)


def test_nothing_is_shared_with_the_callers_arrays(method, learnt):
    x, y = WHOLE.x.copy(), Y.astype(np.int32)
    expected, _ = method.step(learnt[1], WHOLE)
    expected_mean = bits(method.predict(expected, WHOLE.x).mean)
    got, _ = method.step(learnt[1], Dataset(x, y))
    x[:], y[:] = np.nan, 77
    assert bits(got) == bits(expected)
    inputs = WHOLE.x.copy()
    mean = method.predict(got, inputs).mean
    inputs[:] = np.nan
    assert bits(mean) == expected_mean


@pytest.mark.parametrize("key", ["0", 1.5, None, True, np.zeros(2, np.uint32), jax.random.split(jax.random.key(0))])
def test_what_is_no_key_is_refused(method, key):
    with pytest.raises(ValueError, match=r"^key must be one jax\.random\.key\(seed\) or a whole number\. Got "):
        method.init(key)
