"""The scores of the default settings on all streams to develop on, beside other models.

`python benchmarks/streams.py [--json] [--rows 10000] [--streams a,b] [--models hmnn,arf,...]
[--seeds 0,1,2] [--set name=value ...] [--grid]`. Each row is predicted before it is learned; means
over seeds of the models, the streams stay the same. The streams: those in HMNN_DATA/streams, Elec2,
river's data sets and generators (`harness.development`); `--rows` of each, but for `elec2-tenth`
and `elec2-all`. The other models: `rivals.py`; river's forest, which is slow, runs with the first
seed only unless `--seeds` is given.

Labels: accuracy, log loss, expected calibration error, and mean confidence minus accuracy ("over":
below 0 the model knows more than it says). Numbers: mean absolute error, CRPS of a normal law (for
a model without deviations the absolute error), coverage and width of 95 % intervals. Seconds are
the processor's, the least over seeds: with several, compilation is not in it.

`--set name=value` is a setting of our model. `--grid` runs 24 single settings of it, jump_scale by
level_scale, beside the default, and prints the best of each stream; with `forgetting="fixed"` where
the model has that.
"""

import argparse
import ast
import json
import sys
import time
from itertools import product

import harness
import rivals

SCORES = {
    "classification": ("accuracy", "log_loss", "ece", "over"),
    "regression": ("mae", "crps", "coverage", "width"),
}
JUMPS, LEVELS = (1e-6, 0.002, 0.007, 0.02, 0.05, 0.1), (0.0, 0.03, 0.1, 0.3)
SLOW = ("arf",)


def ours(x, y, classes: int, seed: int, **settings):
    """Our model with its defaults but for these settings."""
    from hmnn.estimators import HMNNClassifier, HMNNRegressor

    if classes:
        model = HMNNClassifier(random_state=seed, **settings)
        return model.predict_then_fit(x, y, classes=range(classes))
    return HMNNRegressor(random_state=seed, **settings).predict_then_fit(x, y)


def single(settings: dict) -> dict:
    """These settings for one filter: without a bank where there is one."""
    from hmnn.estimators import HMNNClassifier

    known = HMNNClassifier().get_params()
    return ({"forgetting": "fixed"} if "forgetting" in known else {}) | settings


def scored(found, y, classes: int) -> dict:
    """What these predictions score."""
    import numpy as np

    from hmnn import metrics

    if classes:
        accuracy = metrics.accuracy(found, y)
        return {
            "accuracy": accuracy,
            "log_loss": metrics.log_loss(found, y),
            "ece": metrics.ece(found, y),
            "over": float(found.max(axis=1).mean()) - accuracy,
        }
    mean, std = found
    known, reach = not np.isnan(std).any(), 1.959964 * std
    crps = metrics.crps_gaussian(mean, std if known else np.zeros_like(std), y)
    return {
        "mae": float(np.abs(y - mean).mean()),
        "crps": float(crps.mean()),
        "coverage": metrics.coverage(mean - reach, mean + reach, y) if known else None,
        "width": metrics.width(mean - reach, mean + reach) if known else None,
    }


def run(model, data: tuple, seeds: list[int], settings: dict) -> dict:
    """The means over seeds of what a model scores, and its seconds."""
    x, y, classes = data
    rows = []
    for seed in seeds:
        began = time.process_time()
        found = model(x, y, classes, seed, **settings)
        spent = time.process_time() - began
        rows.append(scored(found, y, classes) | {"seconds": spent})
    means = {
        key: None if value is None else sum(row[key] for row in rows) / len(rows)
        for key, value in rows[0].items()
    }
    return {"seeds": seeds} | means | {"seconds": min(row["seconds"] for row in rows)}


def candidates(given: argparse.Namespace) -> dict:
    """Name -> the model, its seeds and its settings; a model that cannot run is left out, aloud."""
    seeds = [int(seed) for seed in (given.seeds or "0,1,2").split(",")]
    names = (given.models or ("hmnn" if given.grid else ",".join(MODELS))).split(",")
    chosen: dict = {}
    refuse("model", names, MODELS)
    for name in names:
        reason = rivals.missing(name)
        if reason:
            say(given, f"{name} is left out: {reason}.")
            continue
        few = name in rivals.SURE or (name in SLOW and not given.seeds)
        settings = given.settings if name == "hmnn" else {}
        chosen[name] = (MODELS[name], seeds[:1] if few else seeds, settings)
    if given.grid:
        for jump, level in product(JUMPS, LEVELS):
            settings = given.settings | single({"jump_scale": jump, "level_scale": level})
            chosen[f"jump {jump:g} level {level:g}"] = (ours, seeds, settings)
    return chosen


MODELS = {"hmnn": ours} | rivals.MODELS


def refuse(what: str, names: list[str], known: dict) -> None:
    """Stop if a name is not known."""
    for name in names:
        if name not in known:
            raise SystemExit(f"{what} must be one of {', '.join(known)}. Got {name}.")


def say(given: argparse.Namespace, words: str) -> None:
    """Print now; aside, where the output is one JSON value."""
    print(words, file=sys.stderr if given.json else None, flush=True)


def line(cells: list) -> str:
    """A line of the table."""
    words = ["-" if c is None else f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells]
    return f"{words[0]:16s} {words[1]:22s}" + "".join(f"{word:>10s}" for word in words[2:])


def best(stream: str, rows: list[dict]) -> list[str]:
    """The best single settings of a stream, by both scores, beside the first row: the default."""
    labels, (default, *others) = "accuracy" in rows[0], rows
    first, second = ("accuracy", "log_loss") if labels else ("mae", "crps")
    top = (max if labels else min)(others, key=lambda row: row[first])
    low = min(others, key=lambda row: row[second])
    return [
        f"{stream}: {score} of the default {default[score]:.4f}, of the best of {len(others)} "
        f"single settings {row[score]:.4f} ({row['model']}): "
        + (
            f"{100 * (default[score] - row[score]):+.2f} points"
            if score == "accuracy"
            else f"{100 * (default[score] / row[score] - 1):+.2f} %"
        )
        for score, row in ((first, top), (second, low))
    ]


def table(given: argparse.Namespace) -> list[dict]:
    """Run all, say it while it goes, and give it back."""
    known, rows, heading = harness.development(given.rows), [], ""
    models, chosen = candidates(given), given.streams.split(",") if given.streams else list(known)
    refuse("stream", chosen, known)
    for stream in chosen:
        try:
            made = known[stream]()
        except ValueError as error:
            say(given, f"{stream} is left out: {error}")
            continue
        data, mine = harness.arrays(made), []
        if made.task != heading:
            say(given, "\n" + line(["stream", "model", "rows", *SCORES[made.task], "seconds"]))
        heading = made.task
        about = {"rows": len(data[1]), "columns": data[0].shape[1], "classes": data[2]}
        for name, (model, seeds, settings) in models.items():
            try:
                found = run(model, data, seeds, settings)
            except Exception as error:
                say(given, f"{stream} {name} failed: {error}".splitlines()[0])
                continue
            row = {"stream": stream, "model": name, **about, **found, "settings": settings}
            mine.append(row)
            scores = [row[score] for score in SCORES[made.task]]
            say(given, line([stream, name, row["rows"], *scores, row["seconds"]]))
        if given.grid and len(mine) > 1:
            say(given, "\n".join(best(stream, mine)))
        rows += mine
    return rows


def setting(words: str) -> tuple:
    """NAME=VALUE; a value that is no number, True, False or None is a word."""
    name, value = words.split("=", 1)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one list of objects")
    parser.add_argument("--rows", type=int, default=10000, help="of each stream")
    parser.add_argument("--streams", help="names, with commas between")
    parser.add_argument("--models", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--seeds", help="of the models: 0,1,2 if not given")
    parser.add_argument("--set", action="append", default=[], type=setting, metavar="NAME=VALUE")
    parser.add_argument("--grid", action="store_true", help="24 single settings beside the default")
    given = parser.parse_args()
    given.settings = dict(given.set)
    harness.pin(1)
    rows = table(given)
    if given.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
