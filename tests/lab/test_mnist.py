"""The two MNIST experiments at their smallest, the scores they use, and that no choice sees test
data."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hmnn import metrics
from hmnn._types import Dataset
from hmnn.core.cpu.hashing import hashed
from hmnn.data import files
from hmnn.lab import (
    duration,
    evolving_mnist,
    optimisers,
    records,
    search_points,
    settings,
    vdc_mnist,
)
from hmnn.lab.evolving_mnist import entries
from hmnn.lab.evolving_mnist import procedure as evolving_procedure
from hmnn.lab.evolving_mnist import scores as evolving_scores
from hmnn.lab.evolving_mnist.config import ABLATION, EVERY, OURS
from hmnn.lab.evolving_mnist.config import PROFILES as EVOLVING
from hmnn.lab.evolving_mnist.evolving_digits import chances, labelled
from hmnn.lab.experiment import Quiet
from hmnn.lab.jobs import Job
from hmnn.lab.vdc_mnist import config as vdc_config
from hmnn.lab.vdc_mnist import procedure as vdc_procedure
from hmnn.lab.vdc_mnist import scores as vdc_scores
from hmnn.methods import bbp, vcl
from hmnn.networks import linear

needs_mnist = pytest.mark.skipif(
    not all(s.verified for s in files.status() if "ubyte" in s.name),
    reason="MNIST is not on this machine (see docs/data.md)",
)
SMOKE, VDC = EVOLVING["smoke"], vdc_config.PROFILES["smoke"]


@pytest.fixture(scope="module", autouse=True)
def _promotion():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam counts in integers
        yield


class Stopped(Exception):
    pass


class Stopping(Quiet):
    """A monitor that ends the job at its second tick."""

    ticks = []

    def tick(self, label, steps=1):
        Stopping.ticks.append(label)
        if len(Stopping.ticks) == 2:
            raise Stopped


def stop_and_resume(work, argument, folder):
    Stopping.ticks.clear()
    with pytest.raises(Stopped):
        work(argument, Stopping(folder), "part")
    resumed, straight = work(argument, Quiet(folder), "part"), work(argument, Quiet(), "part")
    assert len(Stopping.ticks) == 2
    return resumed, straight


# The scores.


def test_expected_accuracy_is_the_mean_of_accuracy_over_drawn_labels():
    rng = np.random.default_rng(0)
    p, digit = rng.dirichlet(np.ones(10) * 0.1, 200), rng.integers(0, 10, 200)
    both = np.stack([digit, (digit + 1) % 10], axis=1)
    drawn = [metrics.accuracy(p, np.where(rng.random(200) < 0.7, *both.T)) for _ in range(4000)]
    expected = metrics.expected_accuracy(p, both, np.array([0.7, 0.3]))
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - expected) < 5 * error
    assert (
        abs(np.mean(drawn) - metrics.expected_accuracy(p, both[:, ::-1], np.array([0.7, 0.3])))
        > 5 * error
    )


def test_adaptation_lags_count_steps_after_the_majority_turns():
    f = (
        chances()
    )  # the majority turns at t = 7 and t = 17, counted from 1; at 6 and 16 there is none
    follows = np.sign(np.round(f - 0.5, 9))
    assert metrics.adaptation_lags(follows, f).tolist() == [0, 0]
    late = np.concatenate([[1.0], np.roll(follows, 2)[1:]])
    late[:2] = 1.0
    assert metrics.adaptation_lags(late, f).tolist() == [2, 2]
    assert metrics.adaptation_lags(np.ones(19), f).tolist() == [np.inf, 0]
    assert metrics.adaptation_lags(np.full(19, np.nan), f).tolist() == [np.inf, np.inf]
    assert metrics.adaptation_lags(follows[:5], f[:5]).tolist() == []


def test_the_rejection_curve_is_the_accuracy_of_the_most_certain():
    right, kept = np.array([True, False, True, True]), np.array([0.25, 0.5, 0.75, 1.0])
    doubts = np.array([0.1, 0.9, 0.2, 0.3])
    np.testing.assert_allclose(metrics.rejection_curve(right, doubts, kept), [1, 1, 1, 0.75])
    np.testing.assert_allclose(metrics.rejection_curve(right, -doubts, kept), [0, 0.5, 2 / 3, 0.75])
    tied = np.minimum(
        doubts, doubts[right].max()
    )  # some right answers and the wrong one cannot be told apart
    curve, turned = (metrics.rejection_curve(right[::s], tied[::s], kept) for s in (1, -1))
    np.testing.assert_allclose(curve, [1, 1, 2.5 / 3, 0.75])
    np.testing.assert_allclose(curve, turned)  # the order of the rows says nothing


def test_paired_differences_have_students_interval():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=5), rng.normal(size=5)
    found = metrics.paired_difference(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    np.testing.assert_allclose(found[:3], [np.mean(a - b), interval.low, interval.high], rtol=1e-9)
    alone = metrics.paired_difference(a[:1], b[:1])
    assert np.isnan(alone.lower)
    assert alone.words() == f"{a[0] - b[0]:+.4f}"


# The evolving classifier.


@pytest.fixture(scope="module")
def evolving():
    return evolving_procedure.run(SMOKE, 0, Quiet())


@needs_mnist
def test_the_record_of_the_evolving_classifier(evolving):
    found = evolving.metrics
    for protocol in ("paper", "clean"):
        assert list(found[protocol]) == list(EVERY)
        for scores in found[protocol].values():
            assert np.isfinite(
                [scores[k] for k in ("accuracy", "expected_accuracy", "nll", "ece")]
            ).all()
            assert np.shape(scores["by_step"]["accuracy"]) == (SMOKE.steps,)
            assert np.mean(scores["by_seed"]["nll"]) == pytest.approx(scores["nll"])
        assert (
            np.mean([s["expected_accuracy"] for s in found[protocol].values()]) > 0.25
        )  # chance is 0.1
        pair = found["paired"][protocol]["hmnn - vcl"]["accuracy"]
        assert pair["lower"] < pair["mean"] < pair["upper"]
        by_seed = [found[protocol][m]["by_seed"]["accuracy"] for m in ("hmnn", "vcl")]
        assert pair["mean"] == pytest.approx(np.mean(np.subtract(*by_seed)))
    json.dumps(records.plain(found), allow_nan=False)
    assert {row["method"]: row["paper"] for row in evolving.table[:6]} == {
        "HMNN": 0.786,
        "Kurle et al.": 0.784,
        "BBP": 0.780,
        "EWC": 0.760,
        "VCL": 0.744,
        "BBP (T = 1)": 0.503,
    }
    assert evolving.table[-1]["expected"] == found["ceiling"]
    assert all(row.keys() == evolving.table[0].keys() for row in evolving.table)


@needs_mnist
def test_the_setting_of_a_method_is_the_best_on_validation_and_what_was_tried_is_told(evolving):
    for protocol in ("paper", "clean"):
        for method, tried in evolving.metrics["tried"][protocol].items():
            assert len(tried) == SMOKE.settings
            best = max(tried, key=lambda trial: trial["validation"])
            assert evolving.chosen[protocol][method] == best["setting"]


@needs_mnist
def test_choosing_settings_sees_no_test_data(monkeypatch):
    def guarded(t, part, *rest):
        if part == "test":
            raise AssertionError("test data")
        return labelled(t, part, *rest)

    monkeypatch.setattr(evolving_scores, "labelled", guarded)
    config = replace(SMOKE, steps=1)
    for trial in evolving_procedure._trials(config, "clean", "hmnn", 0):
        assert "test" not in (found := trial.work(trial.argument, Quiet(), trial.name)[0])
        assert {"validation", "mean_scale"} <= set(found)
    evolving_procedure.score("hmnn", config, 0, lambda step, value: None)
    (test, _) = evolving_procedure._tests(config, "clean", "hmnn", {}, 0)
    with pytest.raises(AssertionError, match="test data"):  # the guard does see it
        test.work(test.argument, Quiet(), test.name)


def test_the_best_setting_is_its_own_methods_and_never_one_that_diverged():
    config = replace(SMOKE, settings=4)
    tried = entries.tried(config, "vcl")
    marks = {f"validate-paper-vcl-{i}": mark for i, mark in enumerate([0.5, np.nan, 0.7, 0.6])}
    marks |= {"validate-clean-vcl-0": 0.9, "validate-paper-ewc-1": 0.9}
    assert evolving_procedure._best(config, "paper", "vcl", marks) == tried[2]
    assert evolving_procedure._best(replace(SMOKE, settings=1), "paper", "vcl", {}) == tried[0]


def test_every_method_has_as_many_settings_as_ours_and_its_own_come_first():
    paper = EVOLVING["paper"]
    for config in (paper, OURS):
        for method in EVERY:
            tried = entries.tried(config, method)
            assert len(tried) == 16
            assert len({tuple(setting.items()) for setting in tried}) == 16
            assert tried[0] == {
                field: getattr(entries.own(config, method), field) for field in tried[0]
            }
    assert {(s["memory"], s["keep"]) for s in entries.tried(paper, "hmnn")} == {
        (a, g) for a in (0.25, 0.5, 0.75, 1.0) for g in (0.25, 0.5, 0.75, 1.0)
    }
    assert {s["strength"] for s in entries.tried(paper, "ewc")} == {10, 100, 1000, 10000}
    assert {1e-3, 1e-4, 1e-5} <= {s["learning_rate"] for s in entries.tried(paper, "vcl")}


def test_every_method_but_the_one_that_cannot_follow_has_a_recipe_search_and_reads_what_it_tries():
    searched = dict(evolving_procedure.RECIPES.values())
    assert set(searched) == set(EVERY) - {"bbp_once"}
    points_ = [
        [
            search_points.point(evolving_procedure.SEARCH[f"recipe{name}"], "random", 0, i)
            for i in range(24)
        ]
        for name in ("", "-bbp", "-vcl", "-kurle")
    ]
    assert points_[0] == points_[1] == points_[2]  # nobody is luckier in what is tried
    assert [list(point.values()) for point in points_[3]] == [
        list(point.values()) for point in points_[0]
    ]
    for (
        method,
        grid,
    ) in searched.items():  # an unread field would make a search smaller than it looks
        for field, values in grid.items():
            built = {
                made(replace(OURS, recipes="one", **{field: value}), method) for value in values
            }
            assert len(built) == (1 if (method, field) == ("vcl", "jump_scale") else len(values)), (
                method,
                field,
            )


def test_each_method_has_its_own_recipe_unless_told_otherwise(monkeypatch):
    monkeypatch.setitem(entries.OWN, "vcl", {"learning_rate": 3e-4, "epochs": 100})
    config = replace(OURS, settings=1, seeds=1, steps=3)
    (job,) = evolving_procedure._tests(config, "paper", "vcl", {}, 0)
    assert (job.argument[0].learning_rate, job.argument[0].epochs) == (3e-4, 100)
    assert entries.tried(config, "vcl")[0]["learning_rate"] == 3e-4
    (job,) = evolving_procedure._tests(
        config, "paper", "vcl", {"learning_rate": 1e-3}, 0
    )  # what validation chose
    assert (job.argument[0].learning_rate, job.argument[0].epochs) == (1e-3, 100)
    assert made(job.argument[0], "vcl") == made(replace(OURS, recipes="one", epochs=100), "vcl")
    (job,) = evolving_procedure._tests(
        replace(config, epochs=7), "paper", "vcl", {}, 0
    )  # what a user has set
    assert (job.argument[0].learning_rate, job.argument[0].epochs) == (3e-4, 7)
    assert made(replace(OURS, recipes="one"), "vcl") != made(OURS, "vcl")
    assert made(replace(OURS, recipes="one"), "hmnn") == made(OURS, "hmnn")
    with pytest.raises(ValueError, match=r"recipes must be one of 'one', 'own'. Got 'all'."):
        entries.build(replace(OURS, recipes="all"), "vcl")


def test_a_search_moves_around_its_config_and_no_recipe_that_was_found_before(monkeypatch):
    seen = []
    monkeypatch.setitem(entries.OWN, "vcl", {"learning_rate": 3e-4})
    monkeypatch.setattr(
        evolving_procedure, "build", lambda config, method: seen.append(config) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        evolving_procedure.score("vcl", OURS, 0, lambda step, value: None)
    assert seen[0].recipes == "one"
    assert entries.own(seen[0], "vcl").learning_rate == OURS.learning_rate


def made(config, method):
    """What the method is told, in words."""
    told, build = [], getattr(entries, method)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            entries,
            method,
            lambda *parts, **settings: told.append(settings) or build(*parts, **settings),
        )
        entries.build(config, method)
    return str(told)


def test_the_ablation_puts_one_setting_at_a_time_back_to_the_papers():
    paper = EVOLVING["paper"]
    differ = {field for field in vars(paper) if getattr(paper, field) != getattr(OURS, field)}
    assert {field for change in ABLATION.values() for field in change} == differ - {"recipes"}
    assert all(len(change) == 1 for change in ABLATION.values())
    assert all(change == {f: getattr(paper, f) for f in change} for change in ABLATION.values())


@needs_mnist
@pytest.mark.parametrize("method", ["hmnn", "bbp_once"])
def test_a_stopped_method_goes_on_to_the_same_bits(method, tmp_path):
    (job,) = evolving_procedure._tests(replace(SMOKE, seeds=1), "clean", method, {}, 3)
    resumed, straight = stop_and_resume(job.work, job.argument, tmp_path)
    jax.tree.map(np.testing.assert_array_equal, resumed, straight)
    assert len(straight) == SMOKE.steps


@needs_mnist
def test_a_setting_that_diverges_costs_its_scores_and_not_the_run():
    argument = (replace(SMOKE, learning_rate=1e30), "paper", "vcl", 0, ("validation",))
    found = evolving_procedure._follow(argument, Quiet(), "wild")
    assert len(found) == SMOKE.steps
    assert np.isnan(evolving_scores.validation(found))


def test_a_cosine_ends_each_time_step_at_rest_and_is_one_object():
    rule = optimisers.optimiser("sgd", "cosine", 10)
    assert rule is optimisers.optimiser("sgd", "cosine", 10)
    made, weights = rule(0.5), jnp.ones(())
    state, sizes = made.init(weights), []
    for _ in range(11):
        update, state = made.update(weights, state, weights)
        sizes.append(-float(update))
    np.testing.assert_allclose(sizes, 0.25 * (1 + np.cos(np.pi * np.arange(11) / 10)), atol=1e-6)


@needs_mnist
def test_a_filter_with_a_cosine_learns():
    config = replace(SMOKE, schedule="cosine", optimiser="adam", learning_rate=1e-2, steps=2)
    found = evolving_procedure._follow(
        (config, "clean", "vcl", 0, ("validation",)), Quiet(), "cosine"
    )
    assert found[1]["validation"]["accuracy"] > 0.3


# Variational DropConnect.


@pytest.fixture(scope="module")
def vdc():
    return vdc_procedure.run(VDC, 0, Quiet())


@needs_mnist
def test_the_record_of_variational_dropconnect(vdc, tmp_path):
    for keep in ("0.5", "1.0"):
        scores = vdc.metrics[keep]
        assert np.isfinite([scores[k] for k in ("validation", "test", "nll", "ece")]).all()
        assert len(scores["validation_by_chunk"]) == VDC.epochs // VDC.chunk
        assert scores["mean_validation"] == pytest.approx(scores["validation_by_chunk"][-1])
        other = {"mean": "sampled", "sampled": "mean"}[scores["point"]]
        assert scores["validation"] >= scores[f"{other}_validation"]
        assert scores["test"] == scores[f"{scores['point']}_test"]
        assert scores["rejection"]["epistemic"][-1] == pytest.approx(
            scores["sampled_test"]
        )  # nothing withheld
    json.dumps(records.plain(vdc.metrics), allow_nan=False)
    pair = vdc.metrics["paired"]["0.5 - 1.0"]
    assert pair["mean"] == pytest.approx(vdc.metrics["0.5"]["test"] - vdc.metrics["1.0"]["test"])
    assert [row["paper"] for row in vdc.table] == [0.9827, 0.9814]
    assert vdc_scores.PAPER["0.25"] == 0.9838


def test_validation_chooses_between_the_mean_and_draws_and_not_the_test():
    def run(mean, sampled):
        scores = {"mean_test": 0.9, "sampled_test": 0.8} | dict.fromkeys(
            ("mean_nll", "mean_ece", "sampled_nll", "sampled_ece"), 0.1
        )
        curves = {"epistemic": np.ones(51), "confidence": np.ones(51)}
        return {
            "validation": np.array([mean]),
            "chosen": {"mean": mean, "sampled": sampled},
            "test": scores | curves,
        }

    assert vdc_scores._keep([run(0.5, 0.6), run(0.5, 0.55)])["test"] == 0.8
    assert vdc_scores._keep([run(0.6, 0.5)])["test"] == 0.9


@needs_mnist
def test_without_a_prior_a_few_images_are_learnt():
    """512 images say less than the prior of 13000 weights, so that the smoke profile itself stays
    near chance."""
    config = replace(VDC, temperature=0.0, learning_rates=(2e-3,), epochs=50)
    assert (
        vdc_procedure._train((vdc_config.each(config, {})["1.0"], 0), Quiet(), "free")[
            "validation"
        ][-1]
        > 0.4
    )


@needs_mnist
def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path):
    argument = (vdc_config.each(VDC, {})["0.5"], 3)
    resumed, straight = stop_and_resume(vdc_procedure._train, argument, tmp_path)
    np.testing.assert_array_equal(resumed["validation"], straight["validation"])
    jax.tree.map(np.testing.assert_array_equal, resumed["test"], straight["test"])


@needs_mnist
def test_the_score_of_a_trial_sees_no_test_data_and_is_told_chunk_by_chunk(monkeypatch):
    asked, part, told = [], vdc_procedure.part, []
    monkeypatch.setattr(
        vdc_procedure, "part", lambda config, name: asked.append(name) or part(config, name)
    )
    config = replace(VDC, **{field: values[0] for field, values in vdc_config.GRID.items()})
    value = vdc_procedure.SEARCH["0.5"].score(config, 0, lambda *said: told.append(said))
    assert set(asked) == {"train", "validation"}
    assert [epoch for epoch, _ in told] == [2, 4]  # and not at the end, where nobody is ended early
    assert 0 <= value <= 1
    vdc_procedure._train((vdc_config.each(replace(VDC, epochs=5), {})["0.5"], 0), Quiet(), "whole")
    assert asked[-1] == "test"  # what the search never asked for


def fixed(seeds, i, weights, family):
    """The same noise at every update."""
    words = jnp.arange(seeds.size, dtype=seeds.dtype).reshape(seeds.shape)
    return hashed(words, i, weights, family)


def test_short_steps_of_bayes_by_backprop_are_one_long_descent():
    """With the noise held fixed, 4 steps of 5 epochs and one of 20 end at the same theta, as k
    chunks of epochs must.

    Not so where the prior follows the posterior: VCL is the control.
    """
    rng = np.random.default_rng(0)
    data = Dataset(
        rng.normal(size=(64, 5)).astype(np.float32), rng.integers(0, 3, 64).astype(np.int32)
    )

    def end(method, steps, epochs, **law):
        options = {
            "epochs": epochs,
            "minibatch": None,
            "source": fixed,
            "keep": 0.5,
            "keep_where": "all",
        }
        model = method(linear(5, 3), "categorical", **options, **law)
        state = model.init(0)
        for _ in range(steps):
            state, _ = model.step(state, data)
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.posterior)])

    law = {"jump_scale": 0.5, "shrink": 2.0}
    np.testing.assert_allclose(end(bbp, 4, 5, **law), end(bbp, 1, 20, **law), rtol=1e-5, atol=1e-6)
    assert np.abs(end(vcl, 4, 5) - end(vcl, 1, 20)).max() > 1e-4


def trial(number, value, **settings):
    point = {field: list(values[0]) for field, values in vdc_config.GRID.items()}
    return {
        "number": number,
        "state": "complete",
        "value": value,
        "settings": point | settings,
        "reports": {"5": value},
    }


ENDED_EARLY = ({"2": 0.9, "6": 0.97}, {"2": 0.1, "6": 0.98}, {"2": 0.99})


def test_settings_come_from_the_best_trial_of_each_keep(tmp_path):
    for keep, rate in (("0.5", 1e-4), ("1.0", 1e-5)):
        pruned = [
            trial(8 + k, None) | {"state": "pruned", "reports": reports}
            for k, reports in enumerate(ENDED_EARLY)
        ]
        trials = [*pruned, trial(0, 0.97), trial(3, 0.98, learning_rates=[rate])]
        record = {"experiment": "vdc-mnist", "method": keep, "trials": trials}
        (tmp_path / f"{keep}.json").write_text(json.dumps(record))
    config = replace(VDC, search=f"{tmp_path}/0.5.json, {tmp_path}/1.0.json")
    found = vdc_config.each(config, vdc_config.read(config))
    assert {keep: own.learning_rates for keep, own in found.items()} == {
        "0.5": (1e-4,),
        "1.0": (1e-5,),
    }
    assert found["0.5"].jump_probs == (0.25,)
    order = [trial["number"] for trial in vdc_config.read(config)["0.5"]]
    assert order == [
        3,
        0,
        9,
        8,
        10,
    ]  # by their score, and if ended early by how far they came, then by the last one
    record["trials"][-1]["settings"]["samples"] = [5]
    (tmp_path / "1.0.json").write_text(json.dumps(record))
    few = vdc_config.each(replace(config, samples_at_most=2), vdc_config.read(config))["1.0"]
    assert (few.samples, few.learning_rates) == (
        (2,),
        (1e-5,),
    )  # the best trial's, with fewer draws
    with pytest.raises(
        ValueError, match=r"search must be a search with a trial of keep = 1\.0 that came"
    ):
        vdc_config.read(replace(VDC, search=f"{tmp_path}/0.5.json"))
    with pytest.raises(
        ValueError, match=r"search must be a search\.json of `hmnn sweep vdc-mnist`\. Got"
    ):
        vdc_config.read(replace(VDC, search=str(tmp_path / "nowhere.json")))


def test_a_setting_is_refused_where_a_search_would_find_it_and_one_keep_has_one_file(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"^learning_rates must be left to the search, or set together with trials=0",
    ):
        vdc_procedure.run(replace(vdc_config.PROFILES["paper"], learning_rates=(1e-4,)), 0, Quiet())
    record = {"experiment": "vdc-mnist", "method": "0.5", "trials": [trial(0, 0.97)]}
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"^search must be one file for keep = 0\.5\. Got"):
        vdc_config.read(replace(VDC, keeps=(0.5,), search=f"{tmp_path}/a.json,{tmp_path}/b.json"))


def test_a_run_that_goes_on_has_the_settings_it_began_with(tmp_path):
    vdc_procedure._as_begun(keeper := Quiet(tmp_path), {"0.5": {"samples": (1,)}})
    vdc_procedure._as_begun(keeper, {"0.5": {"samples": (1,)}})
    with pytest.raises(
        ValueError, match=r"^search must be such that this run keeps the settings it began with, "
    ):
        vdc_procedure._as_begun(keeper, {"0.5": {"samples": (5,)}})
    vdc_procedure._as_begun(Quiet(), {"0.5": {"samples": (5,)}})


def test_what_a_search_says_is_best_is_what_a_run_then_takes():
    def hinted(experiment, name, profile):
        found = experiment.SEARCH[name]
        point = search_points.point(found, "paper", 0, 0)
        config = experiment.PROFILES[profile]
        return settings.override(config, settings.words(point | found.fixed)), replace(
            config, **point
        )

    for keep in ("0.25", "1.0"):
        told, searched = hinted(vdc_mnist, keep, "paper")
        vdc_config.refuse_both(told)
        assert vdc_config.each(told, {}) == {
            keep: replace(vdc_config.each(searched, {})[keep], trials=0)
        }
    for name, method in (("vcl", "vcl"), ("recipe", "hmnn"), ("recipe-ewc", "ewc")):
        for profile in ("paper", "ours"):
            told, searched = hinted(evolving_mnist, name, profile)
            assert (told.methods, len(entries.tried(told, method))) == ((method,), 1)
            assert made(told, method) == made(replace(searched, recipes="one"), method)


@needs_mnist
def test_a_run_searches_first_keeps_what_it_tried_and_does_not_try_it_again(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    config, said = replace(VDC, keeps=(1.0,), seeds=1, epochs=5, trials=2, samples_at_most=1), []
    monkeypatch.setattr(duration, "say", lambda monitor, line: said.append(line))
    outcome = vdc_procedure.run(config, 0, Quiet(tmp_path / "new"))
    tried = outcome.metrics["tried"]["1.0"]
    assert len(tried) == 2
    best = max(
        (trial for trial in tried if trial["state"] == "complete"), key=lambda trial: trial["value"]
    )
    assert outcome.chosen["1.0"]["jump_scales"] == best["settings"]["jump_scales"][0]
    assert said[0].startswith("search of 2 trials: about")
    again = vdc_procedure.run(config, 0, Quiet(tmp_path / "new"))
    assert again.metrics["tried"] == outcome.metrics["tried"]
    assert len(said) == 3  # the second run has nothing to search, and says only that no job is left
    short = vdc_procedure.run(
        replace(config, trials=1, search_epochs=2), 0, Quiet()
    )  # its trial tells nothing
    assert "trials" not in short.view or not short.view["trials"]
    with pytest.raises(ValueError, match=r"trials must be a whole number of at least 0\. Got -1\."):
        vdc_procedure.run(replace(config, trials=-1), 0, Quiet())


def test_one_value_for_all_keeps_or_one_for_each():
    found = vdc_config.each(replace(VDC, learning_rates=(1e-3, 1e-4), samples=(5,)), {})
    assert [(own.keeps, own.learning_rates, own.samples) for own in found.values()] == [
        ((0.5,), (1e-3,), (5,)),
        ((1.0,), (1e-4,), (5,)),
    ]
    with pytest.raises(
        ValueError, match=r"samples must be 1 or 2 values, as many as keeps\. Got \(1, 2, 5\)\."
    ):
        vdc_config.each(replace(VDC, samples=(1, 2, 5)), {})
    with pytest.raises(ValueError, match=r"epochs must be a multiple of 5\. Got 7\."):
        vdc_config.each(replace(VDC, epochs=7), {})


def test_the_forecast_counts_what_is_left(tmp_path):
    keeper = Quiet(tmp_path, {}, workers=2)
    work = [Job(name, None, None, 4) for name in ("one", "two", "three")]
    cost = {"one": 100.0, "two": 60.0, "three": 50.0}
    assert (
        duration.tell(keeper, work, cost) == 110.0
    )  # the third begins when the second ends, not half of it before
    assert duration.tell(Quiet(), work, cost) == 210.0
    keeper.checkpoint("three", {"w": np.ones(2)}, [1.0, 2.0])
    assert duration.tell(keeper, work, cost) == 100.0
    keeper.keep("one", {"result": {"value": 1.0}})
    assert duration.tell(keeper, work, cost) == 60.0
    for name in ("two", "three"):
        keeper.keep(name, {"result": {"value": 1.0}})
    assert duration.tell(keeper, work, cost) == 0.0
    assert [duration.words(s) for s in (0.2, 89.0, 600.0, 11000.0)] == [
        "1 s",
        "89 s",
        "10 min",
        "3 h 03 min",
    ]
