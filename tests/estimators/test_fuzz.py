"""A short run of `benchmarks/fuzz.py`, and the control: it finds what it is for."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fuzz

from hmnn import _check
from hmnn.estimators import HMNNRegressor

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("door", sorted(fuzz.DOORS))
def test_what_is_bad_is_refused_and_what_is_good_is_taken(door, tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "LABELS", ([0, 1], None))  # fewer programs to compile
    monkeypatch.setattr(fuzz, "SMALL", fuzz.SMALL | {"forgetting": "fixed"})
    counts = fuzz.campaign(door, 300, seed=1, folder=tmp_path)
    assert {fault: counts[fault] for fault in fuzz.FAULTS} == dict.fromkeys(fuzz.FAULTS, 0)
    assert 100 < counts["refused"] < 250


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("raw_errors", lambda model: {}["missing"]),
        ("raw_errors", lambda model: np.zeros(3).reshape(2)),
        ("not_finite", lambda model: np.array([1.0, np.nan])),
        ("changed", lambda model: spoiled(model)),
        ("good_calls_failed", lambda model: model.set_params(hidden=(5,)) and None),
    ],
)
def test_the_fuzz_finds_what_it_is_for(fault, wrong, tmp_path):
    door = fuzz.SklearnDoor(np.random.default_rng(0), tmp_path)
    door.labels, door.model = None, HMNNRegressor(hidden=(4,), forgetting="fixed", random_state=0)
    door.good()
    assert fault in fuzz.attempt(door, ("a call", lambda: wrong(door.model)))[0]


def spoiled(model):
    """Learn something, and then complain."""
    model.partial_fit(np.ones((2, 3)), [1.0, 2.0])
    raise _check.fail("x", "good", "bad")


def test_an_error_is_one_line_whatever_the_value_is():
    for value in (np.eye(9), 10**5000, "a\nb", "long" * 999):
        said = str(_check.fail("x", "good", value))
        assert said.startswith("x must be good. Got ")
        assert "\n" not in said
        assert len(said) < 530
