"""From predictions to the record, the table and the figures of the evolving classifier."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn.lab import diagnostics
from hmnn.lab.evolving_mnist.config import Config
from hmnn.lab.evolving_mnist.entries import LABELS, PAPER, tried
from hmnn.lab.evolving_mnist.evolving_digits import CLASSES, ceiling, chances, labelled
from hmnn.lab.experiment import Outcome, compared
from hmnn.methods import Method

SCORES = ("accuracy", "expected_accuracy", "nll", "ece")
SAMPLED = ("sampled_accuracy", "sampled_nll", "sampled_ece")


def at(
    config: Config,
    model: Method,
    state: Any,
    t: int,
    protocol: str,
    seed: int,
    parts: Sequence[str],
) -> dict[str, Any]:
    """The scores of time step t on some parts, at the posterior mean; on test also over draws."""
    sizes = {"validation": config.validation_rows, "test": config.test_rows}
    found: dict[str, Any] = {}
    for part in parts:
        data, f = labelled(t, part, protocol, sizes[part], seed), float(chances(t + 1)[t])
        given = np.asarray(model.predict(state, data.x).mean)
        second = (data.digit + np.int32(1)) % np.int32(CLASSES)
        answer = given.argmax(axis=1)
        labels, odds = np.stack([data.digit, second], axis=1), np.array([f, 1 - f])
        found[part] = {
            **_proper(given, data.y),
            "expected_accuracy": metrics.expected_accuracy(given, labels, odds),
            "lead": float(np.mean(answer == data.digit) - np.mean(answer == second)),
        }
        if part == "test":
            sampled = model.predict(state, data.x, point="sampled", samples=config.draws)
            drawn = np.asarray(sampled.mean)
            found[part] |= {f"sampled_{k}": value for k, value in _proper(drawn, data.y).items()}
            found[part]["reliability"] = diagnostics.reliability(given, data.y)
            found[part]["sampled_reliability"] = diagnostics.reliability(drawn, data.y)
    return found


def noted(found: dict[str, Any]) -> dict[str, float]:
    """The validation scores of a step, for those who follow the run; the test is for its end."""
    return {f"validation {key}": found["validation"][key] for key in ("accuracy", "nll", "ece")}


def _proper(given: np.ndarray, y: np.ndarray) -> dict[str, float]:
    kinds = {"accuracy": metrics.accuracy, "nll": metrics.log_loss, "ece": metrics.ece}
    return {name: score(given, y) for name, score in kinds.items()}


def nothing(parts: Sequence[str]) -> dict[str, Any]:
    """The scores of a time step after the method diverged."""
    return {
        part: dict.fromkeys((*SCORES, "lead", *(SAMPLED if part == "test" else ())), math.nan)
        for part in parts
    }


def validation(steps: list[dict[str, Any]]) -> float:
    """What settings are chosen by, eq. (metric_evolving) on validation data."""
    return float(np.mean([step["validation"]["accuracy"] for step in steps]))


def outcome(
    config: Config,
    results: dict[str, Any],
    chosen: dict[tuple[str, str], dict[str, float]],
    marks: dict[str, float],
    forecast: float,
) -> Outcome:
    """Means over steps and seeds; by step and by seed; HMNN against its rivals; what was tried."""
    found: dict[str, Any] = {
        protocol: {
            m: _method(config, [results[f"{protocol}-{m}-{i}"] for i in range(config.seeds)])
            for m in config.methods
        }
        for protocol in config.protocols
    }
    pairs = {protocol: _pairs(methods) for protocol, methods in found.items()}
    table = [_row(p, m, found[p][m], pairs[p]) for p in config.protocols for m in config.methods]
    best = ceiling(config.steps)
    reader = {"protocol": "both", "method": "perfect reader", "expected": best}
    table.append(dict.fromkeys(table[0], None) | reader)
    first = config.protocols[0]
    names = {m: f"accuracy, {LABELS[m]}, protocol {first}" for m in config.methods}
    ours = {name: found[first][m]["accuracy"] for m, name in names.items()}
    paper = {name: PAPER.get(m) for m, name in names.items()} if first == "paper" else {}
    trials = {p: {m: _tried(config, p, m, marks) for m in config.methods} for p in config.protocols}
    paired = {
        p: {pair: {score: d._asdict() for score, d in by.items()} for pair, by in found_.items()}
        for p, found_ in pairs.items()
    }
    record = found | {"ceiling": best, "paired": paired, "tried": trials}
    record["forecast_seconds"] = forecast
    settings = {p: {m: chosen[p, m] for m in config.methods} for p in config.protocols}
    view: dict[str, Any] = {"chances": chances(config.steps).astype(np.float32)}
    view["labels"] = {m: LABELS[m] for m in config.methods}
    view |= {p: {m: _view(config, p, m, results) for m in config.methods} for p in config.protocols}
    return Outcome(record, table, compared("evolving-mnist", ours, paper), settings, view)


def _view(config: Config, protocol: str, method: str, results: dict[str, Any]) -> dict[str, Any]:
    """Test accuracy by seed and step; reliability and drift signal over all seeds."""
    runs = [results[f"{protocol}-{method}-{i}"] for i in range(config.seeds)]
    tests = [step["test"] for run in runs for step in run]
    names = ("reliability", "sampled_reliability")
    found = {key: diagnostics.pooled([test.get(key) for test in tests]) for key in names}
    signals = [diagnostics.drifts(run) for run in runs]
    leaves = signals[0] if all(signals) else {}
    found["drift"] = {k: np.mean([signal[k] for signal in signals], axis=0) for k in leaves}
    accuracy = np.array([[step["test"]["accuracy"] for step in run] for run in runs], np.float32)
    return {"accuracy": accuracy} | {key: value for key, value in found.items() if value}


def _method(config: Config, runs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The test scores of one method: means, by step, by seed; lags after each crossing of 1/2."""
    keys = (*SCORES, *SAMPLED)
    values = {key: np.array([[step["test"][key] for step in run] for run in runs]) for key in keys}
    lead = np.array([[step["test"]["lead"] for step in run] for run in runs])
    scales = [[step.get("mean_scale", math.nan) for step in run] for run in runs]
    validated = [[step["validation"]["accuracy"] for step in run] for run in runs]
    return {
        **{key: float(value.mean()) for key, value in values.items()},
        "validation": float(np.mean([validation(run) for run in runs])),
        "lag": [metrics.adaptation_lags(row, chances(config.steps)).tolist() for row in lead],
        "by_step": {key: value.mean(axis=0).tolist() for key, value in values.items()},
        "by_seed": {key: value.mean(axis=1).tolist() for key, value in values.items()},
        "validation_by_step": np.mean(validated, axis=0).tolist(),
        "mean_scale_by_step": np.mean(scales, axis=0).tolist(),
    }


def _pairs(methods: dict[str, Any]) -> dict[str, dict[str, metrics.Difference]]:
    """HMNN minus each other method, seed by seed on the same streams, with a 95 % interval."""
    if "hmnn" not in methods:
        return {}
    seeds = {m: found["by_seed"] for m, found in methods.items()}
    values = {m: {key: np.array(by[key]) for key in SCORES} for m, by in seeds.items()}
    ours = values.pop("hmnn")
    return {
        f"hmnn - {m}": {key: metrics.paired_difference(ours[key], their[key]) for key in SCORES}
        for m, their in values.items()
    }


def _row(protocol: str, method: str, found: dict[str, Any], pairs: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"protocol": protocol, "method": LABELS[method]}
    row["accuracy"] = found["accuracy"]
    row["paper"] = PAPER.get(method) if protocol == "paper" else None
    row |= {"expected": found["expected_accuracy"], "NLL": found["nll"], "ECE": found["ece"]}
    row["lag"] = " ".join(_lag(column) for column in zip(*found["lag"], strict=True)) or "-"
    versus = pairs.get(f"hmnn - {method}", {}).get("expected_accuracy")
    return row | {"HMNN minus it": versus.words() if versus else "-"}


def _lag(over_seeds: tuple[float, ...]) -> str:
    return f"{np.mean(over_seeds):.1f}" if np.isfinite(over_seeds).all() else "never"


def _tried(config: Config, protocol: str, method: str, marks: dict[str, float]) -> list[Any]:
    return [
        {"setting": setting, "validation": marks.get(f"validate-{protocol}-{method}-{i}")}
        for i, setting in enumerate(tried(config, method))
    ]
