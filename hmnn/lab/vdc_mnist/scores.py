"""From trained networks to the record, the table and what the figures need."""

import math
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn._types import Dataset
from hmnn.lab import diagnostics
from hmnn.lab.experiment import Outcome, compared
from hmnn.lab.vdc_mnist.config import BEST, EXPERIMENT, GRID, Config, Trials
from hmnn.methods import Method

PAPER = {"0.25": 0.9838, "0.5": 0.9827, "0.75": 0.9825, "1.0": 0.9814}
"""Test accuracy of the best runs, as the paper prints it."""
KEPT = np.linspace(0.5, 1.0, 51)
"""Shares of the test images that are answered, in the rejection curves."""
POINTS = ("mean", "sampled")
"""What may predict, as validation chooses: the posterior mean, or the mean over draws."""
SCORES = ("validation", "test", "nll", "ece")
Runs = dict[str, list[dict[str, Any]]]
"""keep -> the result of every seed."""
CURVES = ("epistemic", "confidence")
"""What an answer is withheld by: the variance over draws, or 1 - the top probability."""


def test(config: Config, model: Method, state: Any, data: Dataset) -> dict[str, Any]:
    """Scores at the posterior mean and over draws, and accuracy when some answers are withheld."""
    at_mean = model.predict(state, data.x, samples=config.draws)
    drawn = np.asarray(model.predict(state, data.x, point="sampled", samples=config.draws).mean)
    given, right = np.asarray(at_mean.mean), drawn.argmax(axis=1) == data.y
    epistemic = np.asarray(at_mean.epistemic).sum(axis=1)
    return {
        **_proper("mean", given, data.y),
        **_proper("sampled", drawn, data.y),
        "epistemic": metrics.rejection_curve(right, epistemic, KEPT),
        "confidence": metrics.rejection_curve(right, 1 - drawn.max(axis=1), KEPT),
        "reliability": diagnostics.reliability(given, data.y),
        "sampled_reliability": diagnostics.reliability(drawn, data.y),
    }


def validation(config: Config, model: Method, state: Any, data: Dataset) -> dict[str, float]:
    """The accuracy on validation data of either prediction, by which one is chosen."""
    draws = {"mean": {}, "sampled": {"samples": config.draws}}
    given = {p: model.predict(state, data.x, point=p, **draws[p]).mean for p in POINTS}
    return {point: metrics.accuracy(np.asarray(p), data.y) for point, p in given.items()}


def _proper(point: str, given: np.ndarray, y: np.ndarray) -> dict[str, float]:
    kinds = {"test": metrics.accuracy, "nll": metrics.log_loss, "ece": metrics.ece}
    return {f"{point}_{name}": score(given, y) for name, score in kinds.items()}


def nothing(config: Config) -> dict[str, Any]:
    """The result of a run that diverged."""
    curves = {name: np.full(len(KEPT), math.nan) for name in CURVES}
    return {
        "validation": np.full(config.epochs // config.chunk, math.nan),
        "chosen": dict.fromkeys(POINTS, math.nan),
        "test": {f"{point}_{score}": math.nan for point in POINTS for score in SCORES[1:]} | curves,
    }


def outcome(
    config: Config, runs: Runs, configs: dict[str, Config], trials: Trials, forecast: float
) -> Outcome:
    """Means over the seeds, each seed by itself, and every keep against 1.0 seed by seed."""
    found: dict[str, Any] = {keep: _keep(results) for keep, results in runs.items()}
    pairs = {
        f"{keep} - 1.0": metrics.paired_difference(_tests(value), _tests(found["1.0"]))
        for keep, value in found.items()
        if "1.0" in found and keep != "1.0"
    }
    table = [_row(keep, value, pairs.get(f"{keep} - 1.0")) for keep, value in found.items()]
    names = {keep: f"test accuracy, keep {keep}" for keep in found}
    ours = {names[keep]: value["test"] for keep, value in found.items()}
    summary = compared(EXPERIMENT, ours, {name: PAPER.get(keep) for keep, name in names.items()})
    chosen = {k: {field: getattr(own, field)[0] for field in GRID} for k, own in configs.items()}
    view = _view(config, runs, trials)
    paired = {key: pair._asdict() for key, pair in pairs.items()}
    record = found | {"paired": paired, "tried": trials, "kept": KEPT.tolist()}
    return Outcome(record | {"forecast_seconds": forecast}, table, summary, chosen, view)


def _view(config: Config, runs: Runs, trials: Trials) -> dict[str, Any]:
    """What the figures need beside the record; keeps without a trial of a search are left out."""
    best = {keep: _reports(tried)[:BEST] for keep, tried in trials.items()}
    curves = {keep: np.stack([run["validation"] for run in runs[keep]]) for keep in runs}
    return {
        "epochs": np.arange(config.chunk, config.epochs + 1, config.chunk).astype(np.int32),
        "validation": {keep: rows.astype(np.float32) for keep, rows in curves.items()},
        "trials": {keep: rows for keep, rows in best.items() if rows},
        "reliability": {keep: _calibration(results) for keep, results in runs.items()},
    }


def _calibration(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Reliability at the posterior mean and over draws, of all seeds; nothing if a run has none."""
    names = {"mean": "reliability", "sampled": "sampled_reliability"}
    kept = {name: [run["test"].get(key) for run in runs] for name, key in names.items()}
    found = {name: diagnostics.pooled(parts) for name, parts in kept.items()}
    return {name: value for name, value in found.items() if value}


def _tests(found: dict[str, Any]) -> np.ndarray:
    return np.array(found["by_seed"]["test"])


def _keep(runs: list[dict[str, Any]]) -> dict[str, Any]:
    by_seed = dict[str, list[float]]()
    for point in POINTS:
        by_seed[f"{point}_validation"] = [float(run["chosen"][point]) for run in runs]
        for name in (f"{point}_{score}" for score in SCORES[1:]):
            by_seed[name] = [float(run["test"][name]) for run in runs]
    curves = np.stack([run["validation"] for run in runs])
    point = max(POINTS, key=lambda point: np.nan_to_num(np.mean(by_seed[f"{point}_validation"])))
    by_seed |= {score: by_seed[f"{point}_{score}"] for score in SCORES}
    return {
        "point": point,
        **{key: float(np.mean(values)) for key, values in by_seed.items()},
        "by_seed": by_seed,
        "validation_by_chunk": curves.mean(axis=0).tolist(),
        "rejection": {
            name: np.mean([run["test"][name] for run in runs], axis=0).tolist() for name in CURVES
        },
    }


def _row(keep: str, found: dict[str, Any], versus: metrics.Difference | None) -> dict[str, Any]:
    row = {
        "keep": keep,
        "validation": found["validation"],
        "test": found["test"],
        "paper": PAPER.get(keep),
    }
    row |= {"at the mean": found["mean_test"], "over draws": found["sampled_test"]}
    row |= {"NLL": found["nll"], "ECE": found["ece"]}
    row["95 % answered"] = float(np.interp(0.95, KEPT, found["rejection"]["epistemic"]))
    return row | {"minus keep 1.0": versus.words() if versus else "-"}


def _reports(trials: list[dict[str, Any]]) -> list[np.ndarray]:
    """Epochs and validation accuracies of the trials of a search that told any, two rows each."""
    told = [trial["reports"] for trial in trials if trial["reports"]]
    pairs = [[(int(step), value) for step, value in reports.items()] for reports in told]
    return [np.array(pair, np.float32).T for pair in pairs]
