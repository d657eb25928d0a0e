"""Threads that predict while others learn: no row is lost, and nobody sees half a step."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators import river as dictionaries

pytestmark = pytest.mark.usefixtures("compiled_quickly")

ROWS = 200


@pytest.fixture
def often():
    """Threads change places every ten microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*tasks):
    """Run all tasks at once, the first to its end and the others until then; raise what they do."""
    done, wrong = threading.Event(), []

    def run(task, last):
        try:
            task() if last else repeated(task)
        except BaseException as error:
            wrong.append(error)
        finally:
            if last:
                done.set()

    def repeated(task):
        while not done.is_set():
            task()

    threads = [threading.Thread(target=run, args=(task, i == 0)) for i, task in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def rows(seed=0):
    x = np.random.default_rng(seed).normal(size=(ROWS, 3))
    return x, (x[:, 0] > 0).astype(int)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", [HMNNClassifier, HMNNRegressor])
def test_two_threads_predict_while_one_learns(kind):
    x, y = rows()
    model, alone = (
        kind(hidden=(4,), forgetting="fixed", random_state=0).fit(x[:20], y[:20]) for _ in range(2)
    )

    def learn():
        for i in range(20, ROWS):
            model.partial_fit(x[i : i + 1], y[i : i + 1])

    together(learn, lambda: model.predict(x[:5]), lambda: model.uncertainty(x[:5]))
    for i in range(20, ROWS):
        alone.partial_fit(x[i : i + 1], y[i : i + 1])
    assert int(model.state_.filter.seen) == int(alone.state_.filter.seen)
    np.testing.assert_array_equal(model.predict(x), alone.predict(x))


@pytest.mark.usefixtures("often")
def test_a_refused_batch_of_one_thread_takes_nothing_from_another():
    x, y = rows()
    model = HMNNClassifier(hidden=(4,), forgetting="fixed", random_state=0).fit(x[:20], y[:20])

    def learn():
        for i in range(20, ROWS):
            model.partial_fit(x[i : i + 1], y[i : i + 1])

    def refused():
        with pytest.raises(ValueError, match="y must be one of the classes"):
            model.partial_fit(x[:1], [7])

    together(learn, refused, lambda: model.predict(x[:5]))
    assert int(model.state_.filter.seen) == 1 + ROWS - 20


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("name", ["HMNNClassifier", "HMNNRegressor"])
def test_the_river_door_loses_no_row(name):
    x, y = rows()
    model = getattr(dictionaries, name)(hidden=(4,), forgetting="fixed", seed=0)
    alone = getattr(dictionaries, name)(hidden=(4,), forgetting="fixed", seed=0)
    named = [dict(zip("abc", row, strict=True)) for row in x.tolist()]

    def learn():
        for row, value in zip(named, y.tolist(), strict=True):
            model.learn_one(row, value)

    together(learn, lambda: model.predict_one(named[0]), lambda: model.predict_one(named[1]))
    for row, value in zip(named, y.tolist(), strict=True):
        alone.learn_one(row, value)
    assert model.predict_one(named[2]) == pytest.approx(alone.predict_one(named[2]), abs=1e-5)
    assert int(model._learned.filter.seen) == ROWS


@pytest.mark.usefixtures("often")
def test_two_threads_learn():
    x, y = rows()
    model = HMNNClassifier(hidden=(4,), forgetting="fixed", random_state=0).fit(x[:20], y[:20])

    def learn():
        for i in range(100):
            model.partial_fit(x[i : i + 1], y[i : i + 1])

    threads = [threading.Thread(target=learn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(model.state_.filter.seen) == 201


def test_a_copy_goes_its_own_way():
    x, y = rows()
    for kind in (HMNNClassifier, HMNNRegressor):
        model = kind(hidden=(4,), forgetting="fixed").fit(x[:20], y[:20])
        before = model.predict(x[:3])
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            twin.partial_fit(x[20:40], y[20:40])
            assert int(twin.state_.filter.seen) == 2
        np.testing.assert_array_equal(model.predict(x[:3]), before)


def test_a_call_that_is_stopped_leaves_everything_as_it_was(monkeypatch):
    x, y = rows()
    model = dictionaries.HMNNClassifier(hidden=(4,), forgetting="fixed", seed=0)
    named = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    for row, value in zip(named[:9], y[:9].tolist(), strict=True):
        model.learn_one(row, value)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_take", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.predict_one(named[0])
    model.predict_one(named[0])
    assert int(model._learned.filter.seen) == 9


def stopped(*_):
    raise KeyboardInterrupt
