"""Copies, other processes and event loops: a trained model goes everywhere, or says why not."""

import asyncio
import copy
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
from joblib import Parallel, delayed

import hmnn
from hmnn.estimators import HMNNClassifier, HMNNRegressor
from hmnn.estimators import river as door

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
ROWS = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
KINDS = [HMNNClassifier, HMNNRegressor, door.HMNNClassifier, door.HMNNRegressor]
NAMES = ["classifier", "regressor", "river classifier", "river regressor"]
SENTENCE = (
    "This process was forked after JAX had begun, and JAX's threads do not survive a fork: "
    "start processes by spawn, by forkserver or by joblib's loky."
)


def learn(model, start, stop):
    """More rows, through whichever door."""
    if isinstance(model, door.DictionaryModel):
        for row, y in zip(ROWS[start:stop], Y[start:stop].tolist(), strict=True):
            model.learn_one(row, y)
    elif isinstance(model, HMNNClassifier):
        model.partial_fit(X[start:stop], Y[start:stop], classes=[0, 1])
    else:
        model.partial_fit(X[start:stop], Y[start:stop])
    return model


def told(model):
    """What a model says of some rows, to the last bit."""
    if isinstance(model, door.HMNNClassifier):
        return [model.predict_proba_one(row)[1] for row in ROWS[:3]]
    if isinstance(model, door.HMNNRegressor):
        return [model.predict_one(row) for row in ROWS[:3]]
    if isinstance(model, HMNNClassifier):
        return model.predict_proba(X[:8])[:, 1].tolist()
    return model.predict(X[:8]).tolist()


def trained(kind):
    """A small model after 30 rows; those of river's door still wait."""
    seed = "seed" if issubclass(kind, door.DictionaryModel) else "random_state"
    return learn(kind(hidden=(4,), forgetting="fixed", **{seed: 0}), 0, 30)


def before_and_after(model):
    """What a model says, and what it says after 30 rows more."""
    return told(model), told(learn(model, 30, 60))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_says_and_learns_the_same(kind, again):
    model = trained(kind)
    twin, said = again(model), told(model)
    first, second = before_and_after(twin)
    assert first == said == told(model)
    assert second == told(learn(model, 30, 60)) != said


def test_models_go_to_other_processes_and_come_back():
    models = [trained(kind) for kind in KINDS]
    there = Parallel(n_jobs=2, backend="loky")(delayed(before_and_after)(m) for m in models)
    assert there == [before_and_after(m) for m in models]
    back = Parallel(n_jobs=2, backend="loky")(delayed(learn)(m, 0, 30) for m in models)
    assert [told(m) for m in back] == [told(learn(m, 0, 30)) for m in models]


REST = range(30, 60)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_an_event_loop_predicts_while_threads_learn(kind):
    model, straight = trained(kind), trained(kind)

    async def serve():
        def rows():
            for i in REST:
                learn(model, i, i + 1)

        task = asyncio.create_task(asyncio.to_thread(rows))
        answers = [await asyncio.to_thread(told, model)]
        while not task.done():
            answers.append(await asyncio.to_thread(told, model))
        await task
        return answers

    answers = asyncio.run(serve())
    for i in REST:
        learn(straight, i, i + 1)
    assert told(model) == pytest.approx(told(straight), abs=1e-5)
    assert np.isfinite(answers).all()


def in_a_fork(task):
    """What a task returns or raises in a forked child, which is killed if it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            answer = task()
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, str(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    return answer, os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_fork_of_a_process_in_which_jax_runs_is_told_so(kind, tmp_path):
    model = trained(kind)
    said = told(model)
    tasks = [lambda: told(model), lambda: learn(model, 30, 60), lambda: copy.deepcopy(model)]
    tasks.append(lambda: trained(kind))
    model.save(tmp_path / "model")
    tasks.append(lambda: kind.load(tmp_path / "model"))
    if hasattr(model, "advance"):
        tasks.append(model.advance)
    else:  # this one looks whether all is finite
        tasks.append(lambda: model.save(tmp_path / "another"))
    for task in tasks:
        assert in_a_fork(task) == (f"RuntimeError: {SENTENCE}", 0)
    assert told(model) == said


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
def test_a_method_in_a_fork_is_told_so_too(tmp_path):
    method = hmnn.hmnn(hmnn.linear(3, 2), "categorical", epochs=1)
    state = method.init(0)
    hmnn.save(state, tmp_path / "state")
    for task in (
        lambda: method.init(0),
        lambda: method.step(state, hmnn.Dataset(X, Y)),
        lambda: method.predict(state, X),
        lambda: hmnn.load(tmp_path / "state", like=state),
        lambda: hmnn.load(tmp_path / "state"),
    ):
        assert in_a_fork(task) == (f"RuntimeError: {SENTENCE}", 0)


EARLY = """
import os, threading
import numpy as np
import hmnn
from hmnn.estimators.whole import whole
class Slow:
    @whole
    def call(self, wait):
        held.set()
        wait.wait()
slow, held, go = Slow(), threading.Event(), threading.Event()
thread = threading.Thread(target=slow.call, args=(go,))
thread.start()
held.wait()
child = os.fork()
go.set()
if child == 0:
    import signal
    signal.alarm(120)
    slow.call(go)
    x = np.arange(40.0).reshape(20, 2)
    model = hmnn.HMNNClassifier(hidden=(4,), forgetting="fixed").fit(x, x[:, 0] > 20)
    os._exit(model.predict(x)[-1] * 7)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_before_jax_has_begun_computes():
    """Also if another thread of the parent was in the middle of a call."""
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
