"""Any order of {step, predict, save, load, crash} equals a model that replays the list of batches
(B2, C2, C3)."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_checkpoints import same
from test_faults import Crash, failing

import hmnn

METHOD = hmnn.hmnn(hmnn.linear(2), "gaussian", epochs=2, minibatch=4, learning_rate=0.01)
X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
REPLAYED: dict[tuple, object] = {}


def batch(n):
    """Batch number n; -1 is a time step without data."""
    return None if n < 0 else hmnn.Dataset(X, (X @ [1.0, -0.1 * n]).astype(np.float32))


def replay(numbers):
    """The state after these batches, from nothing but the list."""
    if numbers not in REPLAYED:
        REPLAYED[numbers] = (
            METHOD.step(replay(numbers[:-1]), batch(numbers[-1]))[0] if numbers else METHOD.init(0)
        )
    return REPLAYED[numbers]


class Filter(RuleBasedStateMachine):
    """A filter with a disk, beside the list of batches that it should be equal to."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.state, self.seen = METHOD.init(0), ()
        self.saved = None

    @rule(number=st.integers(-1, 2))
    def step(self, number):
        self.state, _ = METHOD.step(self.state, batch(number))
        self.seen += (number,)

    @rule(bad=st.sampled_from([np.nan, np.inf, 1e300]), where=st.sampled_from("xy"))
    def bad_batch(self, bad, where):
        x, y = np.array(X, np.float64), np.ones(8)
        (x if where == "x" else y)[3] = bad
        with pytest.raises(ValueError, match=f"{where} must .* at t = {len(self.seen) + 1}"):
            METHOD.step(self.state, hmnn.Dataset(x, y))

    @rule()
    def predict(self):
        mine, model = (METHOD.predict(s, X, samples=3) for s in (self.state, replay(self.seen)))
        assert same(mine, model)

    @rule()
    def save(self):
        hmnn.save(self.state, self.folder / "state")
        self.saved = self.seen

    @precondition(lambda self: self.saved is not None)
    @rule()
    def load(self):
        self.state = hmnn.load(self.folder / "state", like=METHOD.init(1))
        self.seen = self.saved

    @rule(at=st.integers(0, 25))
    def crash(self, at):
        """The process dies in the middle of a save; a new one finds the state saved before, or the
        one being saved."""
        bad, _ = failing(at, Crash())
        allowed = [self.seen] if self.saved is None else [self.saved, self.seen]
        with suppress(Crash):
            hmnn.save(self.state, self.folder / "state", files=bad)
            allowed = [self.seen]
        try:
            self.state = hmnn.load(self.folder / "state", like=METHOD.init(1))
        except FileNotFoundError:
            assert self.saved is None
            self.state, self.seen = METHOD.init(0), ()
            return
        self.seen = self.saved = next(seen for seen in allowed if same(replay(seen), self.state))

    @invariant()
    def equals_the_replay(self):
        if hasattr(self, "state"):
            assert same(self.state, replay(self.seen))
            assert int(self.state.t) == len(self.seen)

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


Filter.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, derandomize=True
)
TestFilter = Filter.TestCase


def test_the_comparison_sees_one_bit():
    state = replay((0, 1))
    location = jax.tree.map(lambda w: np.nextafter(w, np.float32(9)), state.posterior.location)
    other = state._replace(posterior=state.posterior._replace(location=location))
    assert same(state, replay((0, 1)))
    assert not same(state, other)
