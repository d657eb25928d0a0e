"""One wild value spoils neither the scale nor the model; values in new units are followed."""

import numpy as np
import pytest

from hmnn.estimators import HMNNClassifier, HMNNRegressor, scaling, units
from hmnn.estimators import river as dictionaries
from hmnn.estimators.known_columns import empty

ROWS, AT = 1600, 800


def classes(seed=0):
    x = np.random.default_rng(seed).normal(size=(ROWS, 4))
    return x, (x[:, 0] + x[:, 1] > 0).astype(int)


def reading(x, y):
    """The share of rows that were predicted right, from 200 rows after the change on."""
    model = HMNNClassifier(hidden=(16,), forgetting="fixed", random_state=0)
    told = model.predict_then_fit(x, y, classes=[0, 1])
    return np.mean(told.argmax(axis=1)[AT + 200 :] == y[AT + 200 :])


def test_one_cell_of_a_million_costs_nothing_two_hundred_rows_later(monkeypatch):
    x, y = classes()
    clean = reading(x, y)
    x[AT, 0] = 1e6
    assert reading(x, y) > clean - 0.01
    monkeypatch.setattr(scaling, "WILD", np.inf)
    monkeypatch.setattr(units, "NARROW", 0.0)
    assert reading(x, y) < clean - 0.1  # absorbed as it is


def test_columns_in_new_units_are_followed():
    x, y = classes()
    clean = reading(x, y)
    x[AT:] *= 1000.0
    assert reading(x, y) > clean - 0.03


def test_a_target_of_a_million_is_soon_forgotten(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 3))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=ROWS)

    def error(targets):
        model = HMNNRegressor(hidden=(16,), forgetting="fixed", random_state=0)
        mean, _ = model.predict_then_fit(x, targets)
        return np.abs(mean - y)[AT + 1 :].mean()

    clean, wild = error(y), y.copy()
    wild[AT] = 1e6
    assert error(wild) < 1.3 * clean
    monkeypatch.setattr(scaling, "WILD", np.inf)
    monkeypatch.setattr(units, "NARROW", 0.0)
    assert error(wild) > 3.0 * clean


def test_the_river_door_and_batches_are_as_robust():
    x, y = classes(2)
    x[AT, 0] = 1e6
    named = [dict(zip("abcd", row, strict=True)) for row in x.tolist()]
    model = dictionaries.HMNNClassifier(hidden=(16,), seed=0)
    right = 0
    for i, (row, value) in enumerate(zip(named, y.tolist(), strict=True)):
        if i >= AT + 200 and i % 20 == 0:
            right += model.predict_one(row) == value
        model.learn_one(row, value)
    assert right / ((ROWS - AT - 200) // 20) > 0.9
    batches = HMNNClassifier(hidden=(16,), forgetting="fixed", random_state=0)
    for i in range(0, ROWS, 50):
        batches.partial_fit(x[i : i + 50], y[i : i + 50], classes=[0, 1])
    assert batches.score(x[AT + 50 :], y[AT + 50 :]) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_rows_in_one_go_are_rows_one_by_one(seed):
    """Heavy tails, missing values, a constant column, one that begins late, new units."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(1.5, size=(1600, 5)) * [1.0, 1e-3, 1e5, 1.0, 1.0] + [0, 1, 1e8, 0, 0]
    x[:, 3] = 4.0
    x[:300, 4] = np.nan
    x[rng.uniform(size=x.shape) < 0.05] = np.nan
    x[700:, 0] *= 300.0
    parts = scaling.running(empty(5), x)
    alone, rows, moves = empty(5), [], []
    for row in x:
        said = scaling.beside(alone, row[None])
        (part,) = scaling.running(alone, row[None])
        alone = part.after
        rows.append(part.centred[0])
        moves += [part.move] if part.move else []
        np.testing.assert_allclose(said[0], rows[-1], rtol=1e-6, atol=1e-6)
    for one, other in zip(parts[-1].after, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(
        np.concatenate([part.centred for part in parts]), rows, rtol=1e-5, atol=1e-5
    )
    together = [part.move for part in parts if part.move]
    np.testing.assert_allclose(together, moves, rtol=1e-6, atol=1e-6)
    assert len(moves) >= 2  # the maps that are held did move
