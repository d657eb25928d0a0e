"""A model that says what it believes of its own forgetting is heard along the whole stream."""

from typing import NamedTuple

import numpy as np
import pytest

from hmnn import evaluate
from hmnn.data.tables import blocks
from hmnn.evaluate import peers

ROWS = 12_500
KEPT = 10_000
"""So many time steps a model looks back."""


class Said(NamedTuple):
    names: tuple
    jumps: np.ndarray
    weights: np.ndarray
    steps: np.ndarray
    history: np.ndarray


class Believer(peers.LastLabel):
    """Believes the slow member up to step 3000, then the fast one; two alarms of ten steps each."""

    steps = 0

    def partial_fit(self, x, y):
        self.steps += 1
        return super().partial_fit(x, y)

    def predict_then_fit(self, x, y):
        self.steps += len(y)
        return np.full((len(y), 2), 0.5)

    @property
    def forgetting_(self):
        if not self.steps:
            raise AttributeError("nothing learned")
        steps = np.arange(0, self.steps, 10)[-KEPT // 10 :]
        slow = (steps < 3000).astype(float)
        history = np.stack([slow, 1.0 - slow], axis=1)
        return Said(("slow", "fast"), np.array([0.0, 0.1]), history[-1], steps, history)

    @property
    def drift_(self):
        steps = np.arange(self.steps)[-KEPT:]
        return np.where((steps % 7000 >= 2000) & (steps % 7000 < 2010), 0.9, 0.1)


def stream(rows=ROWS):
    x = np.zeros((rows, 1))
    return blocks(x, np.arange(rows) % 2, "classification", classes=["a", "b"])


def test_a_long_stream_is_heard_from_its_beginning():
    found = evaluate.compare({"mine": Believer()}, stream()).metrics["mine"]["forgetting"]
    assert found["names"] == ("slow", "fast")
    assert found["jumps"].tolist() == [0.0, 0.1]
    assert found["alarms"].tolist() == [2000, 9000]
    assert found["weights"] == pytest.approx([0.24, 0.76])  # 3000 of 12500 steps
    assert len(found["row"]) == len(found["history"]) == 300
    assert np.all(np.diff(found["row"]) > 0)
    slow = found["history"][:, 0]
    assert slow[found["row"] < 3000].min() == 1.0
    assert slow[found["row"] > 3100].max() == 0.0


def test_rows_that_are_learned_together_are_one_time_step():
    found = evaluate.compare({"mine": Believer()}, stream(8000), rows=2)
    found = found.metrics["mine"]["forgetting"]
    assert found["alarms"].tolist() == [2 * 2000 + 1]  # the last row of that time step
    assert found["row"][-1] == 7981  # step 3990, the last one of which it tells


def test_models_that_say_nothing_are_not_asked():
    found = evaluate.compare({"last": peers.LastLabel()}, stream(100)).metrics["last"]
    assert "forgetting" not in found
    trained = Believer()
    trained.steps = 7  # whose steps these are cannot be known
    assert "forgetting" not in evaluate.compare({"a": trained}, stream(100)).metrics["a"]


def test_a_model_that_cannot_say_it_has_failed():
    class Broken(Believer):
        @property
        def drift_(self):
            raise RuntimeError("no\nidea")

    found = evaluate.compare({"mine": Broken()}, stream(100))
    assert found.failed == {"mine": "mine failed at row 100, telling what it believes: no"}
