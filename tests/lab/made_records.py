"""Records of every kind, some of them made up, as a run leaves them."""

import json
from pathlib import Path

import numpy as np

from hmnn import store
from hmnn.lab import records
from hmnn.lab.evolving_mnist import config as evolving_config
from hmnn.lab.evolving_mnist import scores as evolving_scores
from hmnn.lab.flag import film
from hmnn.lab.flag.config import Config as FlagConfig
from hmnn.lab.flag.video import Clip
from hmnn.lab.logistic_drift.procedure import _view
from hmnn.lab.two_moons.procedure import _small
from hmnn.lab.vdc_mnist import config as vdc_config
from hmnn.lab.vdc_mnist import scores as vdc_scores

RESULTS = Path(__file__).parents[2] / "results"
OLD = sorted(RESULTS.glob("*/record*.json"))
HOSTILE = "<img src=x onerror=alert(1)>"


def kept(view, folder):
    """A view as the page gets it: written and read."""
    return store.load(store.save(view, folder / "view", finite=False))


def plain(outcome, **about):
    """A record as `hmnn run` writes it."""
    made = {
        "metrics": outcome.metrics,
        "table": outcome.table,
        "summary": outcome.summary,
        "chosen": outcome.chosen,
    }
    return json.loads(
        json.dumps(
            records.plain({"command": "hmnn run", "seed": 0, **about, **made}), allow_nan=False
        )
    )


def old(name):
    return json.loads((RESULTS / name).read_text())


def moons_record(folder):
    """The record of the paper profile with made-up grids."""
    rng = np.random.default_rng(0)

    def panel(t):
        side, p = np.linspace(-2, 2, 8), rng.uniform(0.2, 0.8, (8, 8))
        x, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
        found = {"x": x, "y": y, "across": side, "up": side, "title": f"{45 * t}°"}
        found |= {"probability": p, "lower": p - 0.1, "upper": p + 0.15}
        return _small(found) | {"drift": {"all weights": 0.5, "layers[0].weight": 0.2 * t}}

    view = {scenario: [panel(t) for t in range(5)] for scenario in ("separated", "overlapping")}
    return old("two-moons/record-0.json"), kept(view, folder)


def logistic_record(folder):
    record = old("logistic-drift/record.json")
    rng, steps = np.random.default_rng(0), 60
    angle = np.radians(5 * np.arange(1, steps + 1))
    truth = 10 * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    view = {"truth": truth.astype(np.float32)}
    for method in record["metrics"]:
        mean = np.pad(truth, ((0, 0), (0, 1))) + rng.normal(size=(3, steps, 3))
        rows = [mean, np.full((3, steps, 3), 0.5)]
        rows += [rng.uniform(size=(3, steps, 3))] if method == "hmnn" else []
        view[method] = _view(f"the {method}", np.stack(rows, axis=2))
    return record, kept(view, folder)


def scene():
    """A clip of noise, and forecasts of it that are off by a known amount."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(80, 6)))[0].T
    codes, centre = rng.normal(size=(300, 6)), np.full(80, 1.0)
    energy = np.square(codes @ axes + centre).sum(axis=1)
    clip = Clip(codes, centre, axes, energy, np.zeros(300), energy, (8, 10))
    kinds = [kind for kind in old("flag/record.json")["metrics"]["M"] if kind != "hmnn"]
    sure = {"mean": codes[37:299] + 0.1, "sd": np.full((262, 6), 0.2)}
    signal = {
        "drift of all weights": np.full(262, 0.5),
        "drift of layers[0].bias": np.linspace(0, 1, 262),
    }
    seen = {kind: sure | (signal if kind.startswith("hmnn") else {}) for kind in kinds}
    return film.Scene(FlagConfig(), clip, seen, "hmnn_paper")


def flag_record(folder):
    return old("flag/record.json"), kept(film.view(scene()), folder)


def evolving_record(folder, seeds=3):
    """The real table and record of made-up time steps."""
    config = evolving_config.Config(seeds=seeds, settings=1)
    rng = np.random.default_rng(0)

    def step(t):
        bins = {
            "confidence": np.array([0.3, 0.9]),
            "accuracy": np.array([0.2, 0.8]),
            "share": np.array([0.25, 0.75]),
        }
        names = (*evolving_scores.SCORES, *evolving_scores.SAMPLED, "lead")
        test = {name: rng.uniform(0.5, 0.9) for name in names}
        found = {
            "validation": {"accuracy": 0.7},
            "test": test | {"reliability": bins, "sampled_reliability": bins},
        }
        return found | {
            "mean_scale": 0.1,
            "drift of all weights": 0.5,
            "drift of layers[1].weight": 0.04 * t,
        }

    names = [f"{p}-{m}-{i}" for p in config.protocols for m in config.methods for i in range(seeds)]
    results = {name: [step(t) for t in range(config.steps)] for name in names}
    chosen = {(p, m): {} for p in config.protocols for m in config.methods}
    outcome = evolving_scores.outcome(config, results, chosen, {}, 1.0)
    return plain(outcome, experiment="evolving-mnist", profile="paper", config=vars(config)), kept(
        outcome.view, folder
    )


def vdc_record(folder):
    config = vdc_config.Config(epochs=40)
    rng = np.random.default_rng(0)
    bins = {
        "confidence": np.array([0.3, 0.9]),
        "accuracy": np.array([0.2, 0.8]),
        "share": np.array([0.25, 0.75]),
    }

    def run():
        curves = {name: np.linspace(1, 0.98, len(vdc_scores.KEPT)) for name in vdc_scores.CURVES}
        names = [
            f"{point}_{score}" for point in vdc_scores.POINTS for score in vdc_scores.SCORES[1:]
        ]
        test = {name: rng.uniform(0.97, 0.98) for name in names} | curves
        test |= {"reliability": bins, "sampled_reliability": bins}
        chosen = {point: rng.uniform(0.97, 0.98) for point in vdc_scores.POINTS}
        return {"validation": np.sort(rng.uniform(0.9, 0.98, 8)), "chosen": chosen, "test": test}

    runs = {str(keep): [run() for _ in range(config.seeds)] for keep in config.keeps}
    trials = {"0.25": [{"reports": {"2": 0.9, "4": 0.95}, "settings": {}}]}
    outcome = vdc_scores.outcome(config, runs, vdc_config.each(config, {}), trials, 1.0)
    return plain(outcome, experiment="vdc-mnist", profile="paper", config=vars(config)), kept(
        outcome.view, folder
    )


def stream_record(folder):
    return old("elec2/record.json"), None


def regression_record(folder):
    curve = {"row": [10, 20, 25], "mae": [1.0, 2.0, 3.0], "crps": [None, None, None]}
    names = ("hmnn", HOSTILE)
    return {
        "command": "hmnn stream trump",
        "stream": "trump",
        "seed": 0,
        "task": "regression",
        "made": {"rows": 25, "changes": [12]},
        "settings": {"window": 10},
        "metrics": {name: {"mae": 1.0, "rmse": 2.0} for name in names},
        "curves": dict.fromkeys(names, curve),
        "calibration": {"hmnn": {"level": [0.5, 0.9], "covered": [0.4, 0.8]}, HOSTILE: {}},
        "failed": {"arf": HOSTILE},
    }, None


MADE = {
    "moons": (moons_record, ["plane", "surface", "over-time", "drift"]),
    "logistic": (logistic_record, ["weights", "errors", "scores", "drift"]),
    "flag": (flag_record, ["film", "error", "scores", "drift"]),
    "evolving": (evolving_record, ["accuracy", "paired", "reliability", "drift"]),
    "vdc": (vdc_record, ["test", "validation", "rejection", "reliability"]),
    "stream": (stream_record, ["curves", "reliability"]),
    "regression": (regression_record, ["curves", "coverage"]),
}
