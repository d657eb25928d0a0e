"""One suite for every method: it can be started, stepped, asked, and cannot be harmed."""

import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmnn
from hmnn import Dataset
from hmnn._types import Batch

NETWORK = hmnn.linear(2, 2)
COMMON = {"learning_rate": 2e-3, "epochs": 60, "minibatch": None}
SPECIAL: dict[str, dict] = {
    "bbp": {"jump_scale": 1.0, "shrink": 2.0},
    "dropconnect": {"keep_where": "all"},
    "ewc": {"learning_rate": 0.05},
    "lstm": {"hidden": (16, 8), "learning_rate": 0.02},
}
"""What a method needs beyond `COMMON`; of `COMMON` it is given what its signature takes."""
PLACES: dict[str, tuple] = {"lstm": (2, 2, "categorical"), "persistence": (2,), "shrinkage": (2,)}
"""What stands before the settings, where it is not a network and a likelihood."""
SERIES = ("persistence", "shrinkage")
"""Methods that forecast a series and cannot learn classes: they get a series, and are held to all
else."""
SEQUENCES = ("lstm", *SERIES)
"""Methods that read rows in their order: a row that comes twice is not one that counts twice."""
KEY = 7


def closed_form(network, likelihood):
    """The closed-form projection, which has no method of its own."""
    return hmnn.build(network, likelihood, hmnn.jump(), projection=hmnn.natural())


METHODS = {**hmnn.METHODS, "natural": closed_form}


def stream(t: int, rows: int = 64) -> Dataset:
    """Two well separated classes."""
    rng = np.random.default_rng([3, t])
    y = rng.integers(0, 2, rows)
    x = rng.normal(scale=0.5, size=(rows, 2)) + 2.0 * (2 * y[:, None] - 1)
    return Dataset(x.astype(np.float32), y)


def series(t: int, rows: int = 64) -> Dataset:
    """A window on a point that goes slowly round a circle, with noise; the next value is the
    target."""
    rng, angle = np.random.default_rng(5), 0.01 * np.arange(256)
    points = 4.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(
        size=(256, 2)
    )
    return Dataset(*(points[i : i + rows].astype(np.float32) for i in (t, t + 1)))


GOOD = [stream(t) for t in range(4)]


@pytest.fixture(scope="module", params=list(METHODS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def case(name):
    """Classes, or a series for the methods that know nothing else."""
    return FORECAST if name in SERIES else CLASSES


@pytest.fixture(scope="module")
def method(name):
    build = METHODS[name]
    parameters = inspect.signature(build).parameters
    settings = {name: value for name, value in COMMON.items() if name in parameters}
    places = PLACES.get(name, (NETWORK, "categorical"))
    return build(*places, **settings | SPECIAL.get(name, {}))


class Case(NamedTuple):
    """Data of one kind, good and bad."""

    good: list[Dataset]
    new: Dataset
    flipped: Dataset
    right: Any
    """right(mean, y) says of each row whether the prediction is right."""
    bad: dict[str, Dataset]
    whole: Dataset
    """Made of whole numbers, so that it can be written in many forms."""
    forms: dict[str, Any]


@pytest.fixture(scope="module")
def learnt(method, case):
    """The states before and after each of four good batches."""
    states = [method.init(KEY)]
    for data in case.good:
        states.append(method.step(states[-1], data)[0])
    return states


def bits(tree) -> list:
    """Every leaf as bytes, so that equal means bitwise equal."""

    def raw(leaf):
        leaf = jnp.asarray(leaf)
        values = (
            jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        )
        return values.shape, str(values.dtype), np.asarray(values).tobytes()

    return [raw(leaf) for leaf in jax.tree.leaves(tree)]


def accuracy(case, method, state, data: Dataset) -> float:
    return float(case.right(np.asarray(method.predict(state, data.x).mean), data.y).mean())


def test_the_list_of_methods_is_not_empty_and_names_functions():
    assert hmnn.METHODS
    assert all(callable(build) for build in hmnn.METHODS.values())


def test_learns_what_is_easy(method, case, learnt):
    assert accuracy(case, method, learnt[-1], case.new) > 0.9
    assert accuracy(case, method, learnt[-1], case.flipped) < 0.1


@pytest.mark.parametrize("rows", [1, 8, 9, 64])
def test_predicts_one_finite_row_per_row_of_x(method, case, learnt, rows):
    x = np.resize(case.new.x, (rows, 2))
    for state in (learnt[0], learnt[-1]):
        mean = method.predict(state, x).mean
        assert mean.shape == (rows, 2)
        assert np.isfinite(mean).all()


def test_classes_have_probabilities_and_numbers_have_none(name, method, case, learnt):
    """Of two logits they are the mean itself."""
    said = method.predict(learnt[-1], case.new.x)
    if name in SERIES:
        assert said.probabilities is None
    else:
        np.testing.assert_array_equal(said.probabilities, said.mean)
        np.testing.assert_allclose(said.probabilities.sum(axis=1), 1.0, atol=1e-6)


def test_prediction_does_not_depend_on_the_other_rows(method, case, learnt):
    whole = method.predict(learnt[-1], case.new.x).mean
    single = np.concatenate(
        [method.predict(learnt[-1], case.new.x[i : i + 1]).mean for i in range(5)]
    )
    np.testing.assert_allclose(single, whole[:5], atol=1e-6)


def test_step_and_predict_leave_their_state_as_it_was(method, case, learnt):
    before = bits(learnt[1])
    after, _ = method.step(learnt[1], case.good[1])
    method.step(learnt[1], None)
    method.predict(learnt[1], case.new.x)
    assert bits(learnt[1]) == before
    assert bits(after) != before


def test_the_same_key_gives_the_same_bits(method, case, learnt):
    state = method.init(jax.random.key(KEY))
    for data in case.good:
        state, _ = method.step(state, data)
    assert bits(state) == bits(learnt[-1])
    assert bits(method.predict(state, case.new.x)) == bits(method.predict(learnt[-1], case.new.x))


def test_a_step_without_data_moves_time_and_nothing_breaks(method, case, learnt):
    state = learnt[2]
    moved, _ = method.step(state, None)
    assert int(moved.t) == int(state.t) + 1
    assert np.isfinite(method.predict(moved, case.new.x).mean).all()
    again, _ = method.step(moved, case.good[2])
    assert int(again.t) == int(state.t) + 2
    assert accuracy(case, method, again, case.new) > 0.9


def test_a_step_without_data_is_legal_before_any_data(method, case):
    state, _ = method.step(method.init(KEY), None)
    state, _ = method.step(state, case.good[0])
    assert np.isfinite(method.predict(state, case.new.x).mean).all()


def spoilt(x: np.ndarray, y: np.ndarray) -> dict[str, Dataset]:
    """What must be refused, whatever the task."""
    at, row = (
        np.arange(128).reshape(64, 2) == 30,
        (np.arange(64) == 30).reshape(64, *[1] * (y.ndim - 1)),
    )
    return {
        "NaN in x": Dataset(np.where(at, np.nan, x), y),
        "infinity in x": Dataset(np.where(at, -np.inf, x), y),
        "1e300 in x": Dataset(np.where(at, 1e300, x.astype(np.float64)), y),
        "NaN in y": Dataset(x, np.where(row, np.nan, y)),
        "1e300 in y": Dataset(x, np.where(row, 1e300, y.astype(np.float64))),
        "too many columns": Dataset(np.hstack([x, x]), y),
        "too few columns": Dataset(x[:, :1], y),
        "x without columns": Dataset(x[:, 0], y),
        "a column too many in y": Dataset(x, np.column_stack([y, y])),
        "no rows": Dataset(x[:0], y[:0]),
        "too few labels": Dataset(x, y[:-1]),
        "too many labels": Dataset(x[:-1], y),
        "one label": Dataset(x, y[0]),
        "strings in x": Dataset(x.astype(str), y),
        "strings in y": Dataset(x, y.astype(str)),
        "objects in x": Dataset(x.astype(object), y),
        "complex x": Dataset(x.astype(complex), y),
        "dates in y": Dataset(x, y.astype(int).astype("datetime64[s]")),
        "rows of different lengths": Dataset([[1.0, 2.0], [3.0]], [0, 1]),
        "None as x": Dataset(None, y),
    }


def written(whole: Dataset) -> dict[str, Any]:
    """The same whole numbers in many forms."""
    x, y = whole
    return {
        "float64": Dataset(x.astype(np.float64), y),
        "float16": Dataset(x.astype(np.float16), y),
        "int64": Dataset(x.astype(np.int64), y),
        "int8": Dataset(x.astype(np.int8), y.astype(np.int8)),
        "Fortran order": Dataset(np.asfortranarray(x), y),
        "strided": Dataset(np.repeat(x, 2, axis=0)[::2], np.repeat(y, 2, axis=0)[::2]),
        "reversed twice": Dataset(x[::-1].copy()[::-1], y[::-1].copy()[::-1]),
        "big-endian": Dataset(x.astype(">f4"), y.astype(">i8")),
        "lists": Dataset(x.tolist(), y.tolist()),
        "JAX arrays": Dataset(jnp.asarray(x), jnp.asarray(y, jnp.int32)),
        "a bare tuple": (x, y),
    }


X, Y = GOOD[2].x, GOOD[2].y
LABELS = {
    "2**31 + 5 in y": Dataset(X, np.where(np.arange(64) == 30, 2**31 + 5, Y)),
    "an unknown label": Dataset(X, np.where(np.arange(64) == 30, 2, Y)),
    "a negative label": Dataset(X, np.where(np.arange(64) == 30, -1, Y)),
    "half a label": Dataset(X, Y + 0.5),
}
WHOLE = Dataset(np.rint(4 * X), Y)
CLASSES = Case(
    good=GOOD,
    new=stream(99),
    flipped=stream(99)._replace(y=1 - stream(99).y),
    right=lambda mean, y: np.argmax(mean, axis=1) == y,
    bad=spoilt(X, Y) | LABELS,
    whole=WHOLE,
    forms=written(WHOLE)
    | {
        "bool labels": Dataset(WHOLE.x, Y.astype(bool)),
        "uint64 labels": Dataset(WHOLE.x, Y.astype(np.uint64)),
        "uint8 labels": Dataset(WHOLE.x, Y.astype(np.uint8)),
    },
)
STEPS = Dataset(np.rint(4 * series(2).x), np.rint(4 * series(2).y).astype(np.int64))
FORECAST = Case(
    good=[series(t) for t in range(4)],
    new=series(5),
    flipped=series(5)._replace(y=-series(5).y),
    right=lambda mean, y: np.linalg.norm(mean - y, axis=1) < np.linalg.norm(mean + y, axis=1),
    bad=spoilt(*series(2)),
    whole=STEPS,
    forms=written(STEPS),
)


@pytest.mark.parametrize("kind", CLASSES.bad)
def test_a_bad_batch_raises_and_never_changes_the_model(method, case, learnt, kind):
    if kind not in case.bad:
        pytest.skip("this method has no labels")
    before = bits(learnt[2])
    with pytest.raises(ValueError, match=r"^[xy] .*must .*at t = 3\b.*Got "):
        method.step(learnt[2], case.bad[kind])
    assert bits(learnt[2]) == before
    going_on, _ = method.step(learnt[2], case.good[2])
    assert bits(going_on) == bits(learnt[3])


NO_DATASET = [[X, Y], (X,), (X, Y, Y, Y), X, "data", 3]


@pytest.mark.parametrize("data", NO_DATASET, ids=lambda data: type(data).__name__)
def test_what_is_no_dataset_is_refused(method, case, learnt, data):
    with pytest.raises(ValueError, match=r"^data must be a Dataset\(x, y\).* or None\. Got "):
        method.step(learnt[2], data)


BAD_WEIGHTS = {
    "too few": np.ones(63),
    "too many": np.ones(65),
    "a column": np.ones((64, 1)),
    "one number": 1.0,
    "all 0": np.zeros(64),
    "negative": np.where(np.arange(64) == 30, -1.0, 1.0),
    "NaN": np.where(np.arange(64) == 30, np.nan, 1.0),
    "infinite": np.where(np.arange(64) == 30, np.inf, 1.0),
    "1e300": np.where(np.arange(64) == 30, 1e300, 1.0),
    "strings": ["1"] * 64,
    "None": None,
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
def test_bad_weights_are_refused_and_never_change_the_model(method, case, learnt, kind):
    before = bits(learnt[2])
    with pytest.raises(ValueError, match=r"^weight must .*at t = 3\b.*Got "):
        method.step(learnt[2], Batch(*case.good[2], BAD_WEIGHTS[kind]))
    assert bits(learnt[2]) == before


def test_weight_1_is_no_weight_and_weight_0_is_no_row(method, case, learnt):
    """In every bit, and whatever stands in the row that does not count."""
    x, y = case.good[2]
    ones, _ = method.step(learnt[2], Batch(x, y, np.ones(64)))
    assert bits(ones) == bits(learnt[3])
    out = np.isin(np.arange(64), [0, 30, 63])
    elsewhere = np.where(out[:, None], np.float32(50.0), x)
    without, _ = method.step(learnt[2], Dataset(x[~out], y[~out]))
    for rows in (x, elsewhere):
        uncounted, _ = method.step(learnt[2], Batch(rows, y, np.where(out, 0, 1)))
        assert bits(uncounted) == bits(without)
    assert bits(without) != bits(learnt[3])


def test_weight_2_is_the_row_twice(name, method, case, learnt):
    if name in SEQUENCES:
        pytest.skip("the order of the rows matters to this method")
    x, y = (part[:24] for part in stream(7))
    y = np.where(np.arange(24) < 6, 1 - y, y)  # wrong ones, so that counting them is noticed
    rows = np.concatenate([np.arange(24), np.arange(8)])
    twice, told = method.step(learnt[1], Dataset(x[rows], y[rows]))
    heavy, said = method.step(learnt[1], Batch(x, y, np.where(np.arange(24) < 8, 2.0, 1.0)))
    plain, _ = method.step(learnt[1], Dataset(x, y))
    new = case.new.x
    means = [np.asarray(method.predict(state, new).mean) for state in (twice, heavy, plain)]
    np.testing.assert_allclose(means[1], means[0], atol=2e-5)
    assert np.abs(means[2] - means[0]).max() > 1e-3
    for field in ("misfit", "surprise", "log_evidence", "free_energy"):
        if getattr(told, field) is not None:
            np.testing.assert_allclose(getattr(said, field), getattr(told, field), rtol=1e-4)


@pytest.mark.parametrize(
    "x", [np.full((3, 2), np.nan), np.zeros((3, 3)), np.zeros(2), np.full((3, 2), 1e300), "x"]
)
def test_bad_inputs_to_predict_are_refused(method, case, learnt, x):
    with pytest.raises(ValueError, match=r"^x must be|^x must fit"):
        method.predict(learnt[2], x)


@pytest.mark.parametrize("form", CLASSES.forms)
def test_the_form_of_the_arrays_changes_no_bit(method, case, learnt, form):
    if form not in case.forms:
        pytest.skip("this method has no labels")
    expected, _ = method.step(learnt[1], case.whole)
    got, _ = method.step(learnt[1], case.forms[form])
    assert bits(got) == bits(expected)
    assert bits(method.predict(got, case.forms[form][0])) == bits(
        method.predict(expected, case.whole.x)
    )


def test_read_only_arrays_are_welcome_and_stay_as_they_were(method, case, learnt):
    x, y = case.whole.x.copy(), case.whole.y.copy()
    x.flags.writeable = y.flags.writeable = False
    expected, _ = method.step(learnt[1], case.whole)
    got, _ = method.step(learnt[1], Dataset(x, y))
    assert bits(got) == bits(expected)
    np.testing.assert_array_equal(x, case.whole.x)
    np.testing.assert_array_equal(y, case.whole.y)


def test_nothing_is_shared_with_the_callers_arrays(method, case, learnt):
    x, y = case.whole.x.copy(), case.whole.y.astype(np.int32)
    expected, _ = method.step(learnt[1], case.whole)
    expected_mean = bits(method.predict(expected, case.whole.x).mean)
    got, _ = method.step(learnt[1], Dataset(x, y))
    x[:], y[:] = np.nan, 77
    assert bits(got) == bits(expected)
    inputs = case.whole.x.copy()
    mean = method.predict(got, inputs).mean
    inputs[:] = np.nan
    assert bits(mean) == expected_mean


@pytest.mark.parametrize(
    "key", ["0", 1.5, None, True, np.zeros(2, np.uint32), jax.random.split(jax.random.key(0))]
)
def test_what_is_no_key_is_refused(method, key):
    with pytest.raises(
        ValueError, match=r"^key must be one jax\.random\.key\(seed\) or a whole number\. Got "
    ):
        method.init(key)
