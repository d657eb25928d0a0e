import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from hmnn.data import files
from hmnn.lab import search_points, settings
from hmnn.lab.experiment import Quiet
from hmnn.lab.flag import EXPERIMENT
from hmnn.lab.flag.config import PROFILES, Config
from hmnn.lab.flag.entries import FIXED, LABELS, PAPER, grid
from hmnn.lab.flag.procedure import _best, _watch, score
from hmnn.lab.flag.scores import _test, first_pass
from hmnn.lab.flag.video import clip

pytest.importorskip("av")
pytestmark = pytest.mark.skipif(
    not any(s.name == "vtflag.mpg" and s.verified for s in files.status()),
    reason="vtflag.mpg is not on this machine (see docs/data.md)",
)
SMOKE = PROFILES["smoke"]


@pytest.fixture(scope="module", autouse=True)
def _promotion():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        yield


@pytest.fixture(scope="module")
def outcome():
    return EXPERIMENT.run(SMOKE, 0, Quiet())


def test_the_record_has_every_method_and_the_papers_numbers_stand_beside_ours(outcome):
    wanted = {"persistence", "shrinkage", "loop", "lstm", "dropconnect", "bbp", "hmnn"}
    for key in ("M", "M_first_pass"):
        assert wanted <= set(outcome.metrics[key])
        assert all(np.isfinite(value) for value in outcome.metrics[key].values())
    assert outcome.metrics["hmnn_is"] in ("hmnn_paper", "hmnn_diagonal")
    assert outcome.metrics["M"]["hmnn"] == outcome.metrics["M"][outcome.metrics["hmnn_is"]]
    assert {row["method"]: row["paper"] for row in outcome.table}["HMNN"] == "0.1891"
    assert {row["what"]: row["paper"] for row in outcome.summary}["M, HMNN"] == PAPER["hmnn_paper"]
    assert outcome.chosen["hmnn_paper"] in grid(SMOKE, "hmnn_paper")
    json.dumps(outcome.metrics)


def test_what_needs_no_training_scores_as_the_notes_say(outcome):
    """On the validation frames: they are whole in every profile."""
    found = outcome.metrics["M_first_pass"]
    assert [f"{found[kind]:.4f}" for kind in ("persistence", "shrinkage")] == ["0.2028", "0.1827"]


def test_the_whole_test_path_without_training():
    paper = PROFILES["paper"]
    runs = {
        kind: _watch((paper, "paper", kind, {}, 0, paper.last), Quiet(), kind) for kind in FIXED
    }
    found = {kind: f"{_test(paper, clip(), run):.4f}" for kind, run in runs.items()}
    assert found == {"persistence": "0.2162", "shrinkage": "0.1932", "loop": "0.0341"}


def test_a_stopped_job_goes_on_to_the_same_bits(tmp_path):
    class Stopped(Exception):
        pass

    class Stopping(Quiet):
        ticks = 0

        def tick(self, label, steps=1):
            Stopping.ticks += 1
            if Stopping.ticks == 60:
                raise Stopped

    argument = (SMOKE, "paper", "hmnn_diagonal", grid(SMOKE, "hmnn_diagonal")[0], 3, 120)
    with pytest.raises(Stopped):
        _watch(argument, Stopping(tmp_path), "part")
    resumed, straight = _watch(argument, Quiet(tmp_path), "part"), _watch(argument, Quiet(), "part")
    for key in ("mean", "sd"):
        np.testing.assert_array_equal(resumed[key], straight[key])


def test_settings_are_chosen_by_their_own_methods_validation_scores():
    tried = grid(Config(), "hmnn_paper")
    assert len(tried) == 27
    marks = {f"validate-hmnn_paper-{i}": 0.2 for i in range(27)} | {
        "validate-hmnn_paper-7": 0.1,
        "validate-bbp-3": 0.0,
    }
    assert _best(tried, "hmnn_paper", marks) == tried[7]
    assert _best(tried, "hmnn_paper", marks | {"validate-hmnn_paper-3": float("nan")}) == tried[7]
    assert [len(grid(Config(), kind)) for kind in ("bbp", "dropconnect", "lstm")] == [3, 3, 3]
    assert set(LABELS) >= {"hmnn_paper", "hmnn_diagonal"}


def test_a_setting_that_diverges_is_never_chosen():
    setting = {"learning_rate": 1e3}
    result = _watch((SMOKE, "paper", "dropconnect_diagonal", setting, 0, 148), Quiet(), "part")
    assert np.isnan(result["mean"]).all()
    marks = {
        "validate-dropconnect_diagonal-0": first_pass(SMOKE, clip(), result),
        "validate-dropconnect_diagonal-1": 9.0,
    }
    assert _best([setting, {"learning_rate": 1.0}], "dropconnect_diagonal", marks) == {
        "learning_rate": 1.0
    }


@pytest.mark.filterwarnings(
    "ignore:.* not finite and were undone"
)  # before there are enough of them to give up
def test_a_filter_that_diverges_costs_its_row_and_not_the_run(outcome, tmp_path):
    wild = replace(SMOKE, learning_rate=1e30, jump_probs=(0.25,))
    result = _watch(
        (wild, "paper", "hmnn_paper", grid(wild, "hmnn_paper")[0], 0, 152), Quiet(), "part"
    )
    assert np.isnan(result["sd"]).all()
    found = EXPERIMENT.run(wild, 0, Quiet())
    assert np.isnan(found.metrics["M"]["hmnn_paper"])
    assert found.metrics["hmnn_is"] == "hmnn_diagonal"
    assert found.metrics["M"]["hmnn"] == outcome.metrics["M"]["hmnn_diagonal"]
    assert "film" in found.view
    none = EXPERIMENT.run(replace(wild, diagonal_learning_rate=1e30), 0, Quiet())
    assert np.isnan(none.metrics["M"]["hmnn"])
    assert "film" not in none.view


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"validate_from": 30},
            r"window, validate_from, test_from, last must rise in "
            r"this order\. Got 36, 30, 150, 152",
        ),
        ({"test_from": 154}, "must rise in this order"),
        ({"protocols": ("clean",)}, r"protocols must be 'paper', or 'paper' and 'clean'\. Got"),
        ({"protocols": ("paper", "dirty")}, "protocols must be"),
        ({"seeds": 0}, r"seeds must be a whole number of at least 1\. Got 0\."),
    ],
)
def test_settings_that_make_no_run_are_refused_before_it(change, said):
    with pytest.raises(ValueError, match=said):
        EXPERIMENT.run(replace(SMOKE, **change), 0, Quiet())


def test_what_a_search_says_is_best_is_what_a_run_then_takes():
    for kind in ("paper", "random"):
        point = search_points.point(EXPERIMENT.search["hmnn"], kind, 0, 3)
        told = settings.override(Config(), settings.words(point))
        fields = {"jump_prob": "jump_probs", "memory": "memories", "keep": "keeps"}
        assert grid(told, "hmnn_paper") == [
            {name: point[field][0] for name, field in fields.items()}
        ]


def test_the_score_of_a_search_sees_no_test_frame():
    seen = []
    value = score(SMOKE, 0, lambda step, score: seen.append((step, score)))
    assert np.isfinite(value)
    assert seen
    assert max(step for step, _ in seen) < SMOKE.test_from
