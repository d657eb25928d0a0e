"""Columns that change their units or wander: the scaler follows, the model stands."""

import numpy as np
import pytest
from scipy.stats import norm

from hmnn.estimators import HMNNRegressor, scaling, units
from hmnn.estimators.carrying import carried
from hmnn.estimators.known_columns import Move, empty, grown

ROWS, AT = 2100, 900
CHANGES = {
    "a thousandth": lambda x: x / 1000.0,
    "a thousand times": lambda x: x * 1000.0,
    "a thousand more": lambda x: x + 1000.0,
    "Celsius to Fahrenheit": lambda x: 1.8 * x + 32.0,
    "an offset of 1e8": lambda x: x + 1e8,
}


def stream(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 4))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=ROWS)
    return 15.0 + 8.0 * x, y


def error(x, y, forgetting="fixed"):
    """The mean absolute error from 700 rows after the change on."""
    model = HMNNRegressor(hidden=(16,), forgetting=forgetting, random_state=0)
    mean, _ = model.predict_then_fit(x, y)
    return np.abs(mean - y)[AT + 700 :].mean()


@pytest.fixture(scope="module")
def clean():
    return error(*stream())


@pytest.mark.parametrize("name", CHANGES)
def test_inputs_in_new_units_are_followed(name, clean):
    x, y = stream()
    x[AT:] = CHANGES[name](x[AT:])
    assert error(x, y) < 1.08 * clean


@pytest.mark.parametrize("name", CHANGES)
def test_without_the_look_at_units_they_are_not(name, clean, monkeypatch):
    """The negative control: forgetting alone takes thousands of rows."""
    monkeypatch.setattr(units, "FAR", 1e9)
    monkeypatch.setattr(units, "NARROW", 0.0)
    x, y = stream()
    x[AT:] = CHANGES[name](x[AT:])
    assert error(x, y) > 1.15 * clean


def test_a_bank_follows_new_units_of_both_sides():
    x, y = stream()
    clean = error(x, y, "auto")
    x[AT:], y[AT:] = 1.8 * x[AT:] + 32.0, 1000.0 * y[AT:] + 50.0
    assert error(x, y, "auto") / 1000.0 < 1.15 * clean


def test_targets_in_new_units_are_followed(clean):
    x, y = stream()
    for change in (lambda v: 1000.0 * v, lambda v: v / 1000.0, lambda v: v + 1000.0):
        new = y.copy()
        new[AT:] = change(new[AT:])
        unit = change(1.0) - change(0.0)
        assert error(x, new) / unit < 1.15 * clean


def test_the_raw_function_stands_when_maps_are_held_anew():
    x, y = stream()
    model = HMNNRegressor(hidden=(16,), random_state=0)
    model.predict_then_fit(x[:800], y[:800])
    how, before, learned = model._filter(), model.state_.filter, model.state_
    rng = np.random.default_rng(1)
    inputs = Move(rng.uniform(0.5, 2.0, 4), rng.normal(size=4))
    output = Move(np.array([1.7]), np.array([0.4]))
    z = rng.normal(size=(50, 4))  # what was z is now ratio z + shift
    old = how.predict(before, (inputs.ratio * z + inputs.shift).astype(np.float32))
    after = carried(how.few, before, inputs, output)
    new = how.predict(after, z.astype(np.float32))
    np.testing.assert_allclose(output.ratio * new.mean + output.shift, old.mean, atol=1e-5)
    states = before.posterior.members, after.posterior.members
    for group, one, other in zip(how.few.projection.groups, *states, strict=True):
        if not group.expert:  # they say what is added to the last target
            noise, moved = (part.noise.variance for part in (one, other))
            np.testing.assert_allclose(output.ratio[0] ** 2 * moved, noise, rtol=1e-6)
    wrong = how.predict(before, z.astype(np.float32))
    assert np.abs(wrong.mean - old.mean).max() > 0.1
    assert carried(how.few, before, None, None) is before
    assert learned is model.state_


def test_a_constant_is_told_from_small_units_and_from_large_offsets():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=200)
    x = np.column_stack([1e-12 * noise, 1e8 + noise, 1e8 + 0 * noise, 0.1 + 1e-17 * noise, noise])
    z = np.concatenate([part.centred for part in scaling.running(empty(5), x)])[100:]
    assert (z[:, [2, 3]] == 0.0).all()
    np.testing.assert_allclose(z[:, [0, 1, 4]].std(axis=0), 1.0, atol=0.2)
    np.testing.assert_allclose(z[:, 0], z[:, 4], atol=1e-4)


def test_a_wild_value_in_the_first_batch_is_drawn_in():
    x, y = stream()
    calm = HMNNRegressor(hidden=(16,), forgetting="fixed", random_state=0).fit(x[:400], y[:400])
    x[7, 0], y[11] = 1e6, -1e6
    wild = HMNNRegressor(hidden=(16,), forgetting="fixed", random_state=0).fit(x[:400], y[:400])
    x, y = x[400:800], y[400:800]
    assert wild.score(x, y) > calm.score(x, y) - 0.05
    assert calm.score(x, y) > 0.8


def test_columns_that_come_late_know_nothing():
    x = np.random.default_rng(0).normal(size=(1100, 2))
    wide = grown(scaling.running(empty(2), x)[-1].after, 5)
    assert wide.held.tolist() == [True, True, False, False, False]
    assert np.isnan(wide.recent[:, 2:]).all()
    assert (wide.held_unit[2:] == 1.0).all()
    after = scaling.running(wide, np.column_stack([x, x, x[:, 0]])[:, :5])[-1].after
    np.testing.assert_allclose(after.mean[2:4], after.mean[:2], atol=0.1)


def test_surprise_is_the_log_density_in_the_units_of_y():
    x, y = stream()
    y = 1000.0 * y + 5e4
    model = HMNNRegressor(hidden=(16,), forgetting="fixed", random_state=0)
    model.predict_then_fit(x[:700], y[:700])
    assert len(model.surprise_) == 700
    for rows in (slice(700, 701), slice(701, 760)):
        told, learned = model._told(x[rows])
        level, unit = model._map(learned.y)
        weights, means, variances = told.normals
        densities = norm.pdf(y[rows, None], level + unit * means, unit * np.sqrt(variances))
        said = np.log((weights * densities).sum(axis=1)).mean()
        model.partial_fit(x[rows], y[rows])
        np.testing.assert_allclose(model.surprise_[-1], said, rtol=2e-2)
    first = HMNNRegressor(hidden=(16,), forgetting="fixed", random_state=0).partial_fit(
        x[:50], y[:50]
    )
    assert first.surprise_[0] < -1e6  # before anything was seen, y was thought to be about 0
