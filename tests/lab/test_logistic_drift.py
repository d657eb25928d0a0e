from dataclasses import replace

import jax
import numpy as np
import pytest

from hmnn.data.drift import drifting_weights
from hmnn.lab import logistic_drift
from hmnn.lab.experiment import Quiet
from hmnn.lab.logistic_drift import procedure

SMOKE = logistic_drift.PROFILES["smoke"]


@pytest.fixture(scope="module")
def outcome():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        return procedure.run(SMOKE, 0, Quiet())


def test_a_run_scores_every_method_in_every_run(outcome):
    assert list(outcome.metrics) == ["hmnn", "hmnn_keep", "kurle", "laplace", "hmnn_full"]
    for scores in outcome.metrics.values():
        assert np.isfinite([scores["rmse"], scores["z_rms"]]).all()
        assert len(scores["rmse_by_run"]) == SMOKE.runs
        assert len(set(scores["rmse_by_run"])) == SMOKE.runs  # other data in every run
    assert [row["method"] for row in outcome.table] == list(outcome.metrics)
    assert all(row["paper"] is None for row in outcome.summary)
    assert outcome.chosen["jump_scale"] == SMOKE.jump_scale


def test_the_filter_with_correlations_follows_the_weights_and_knows_how_well():
    """The goal of the experiment, on a short stream of the full size: 50 steps, of which 40
    count."""
    config = replace(logistic_drift.PROFILES["paper"], steps=50)
    path = procedure._job((config, "hmnn_full", 5), Quiet(), "hmnn_full")
    scores = procedure._scores(path[None], drifting_weights(50))
    assert scores["rmse"] < 0.25
    assert 0.6 < scores["z_rms"] < 1.5
    static = procedure._job(
        (replace(config, full_jump_scale=1e-3), "hmnn_full", 5), Quiet(), "static"
    )
    assert (
        procedure._scores(static[None], drifting_weights(50))["rmse"] > 3.0
    )  # without jumps it stays behind


def test_scores_are_those_of_known_errors():
    truth = drifting_weights(30)
    paths = np.zeros((2, 30, 2, 3))
    paths[:, :, 0, :2], paths[:, :, 1] = truth + 0.5, 0.25
    paths[:, :10, 0] = 99.0  # the first ten steps do not count
    scores = procedure._scores(paths, truth)
    assert scores["rmse"] == pytest.approx(0.5)
    assert scores["z_rms"] == pytest.approx(2.0)
    paths[:, 10, 0] = 99.0  # the eleventh does
    assert procedure._scores(paths, truth)["rmse"] > 1


@pytest.mark.parametrize("method", procedure.SEARCH)
def test_a_search_score_is_finite_and_depends_on_what_is_searched(method):
    search, reports = procedure.SEARCH[method], []
    field, values = next(iter(search.grid.items()))
    assert hasattr(SMOKE, field)
    low, high = (
        search.score(replace(SMOKE, **{field: v}), 0, lambda *said: reports.append(said))
        for v in (min(values), max(values))
    )
    assert np.isfinite([low, high]).all()
    assert low != high
    assert reports[-1] == (SMOKE.validation_steps - 1, pytest.approx(high))


def test_validation_data_are_not_those_of_a_run():
    config = SMOKE
    validation = procedure._validation(config, 0)
    assert validation.made["degrees"] == -config.degrees
    assert validation.made["seed"] not in [
        100 * seed + i for seed in range(5) for i in range(config.runs)
    ]
