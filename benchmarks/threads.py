"""One thread learns while two predict: is every row that was acknowledged in the model?

`python benchmarks/threads.py [--rows 100000] [--door sklearn|river|unlocked] [--json]`. The doors
learn row by row (river) or ten rows at a time (scikit-learn), threads change places every ten
microseconds, and what the model has counted at the end is compared with what was acknowledged.
"unlocked" is river's door without its lock: the control that must lose rows.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable

import harness
import numpy as np

harness.pin(2)

from hmnn.estimators import HMNNClassifier  # noqa: E402
from hmnn.estimators import river as dictionaries  # noqa: E402

AT_ONCE = 10
"""Rows of one call of the scikit-learn door."""


class Unlocked(dictionaries.HMNNClassifier):
    """River's door as it would be without turns: every call works on the model itself."""

    learn_one = dictionaries.HMNNClassifier.learn_one.__wrapped__
    predict_proba_one = dictionaries.HMNNClassifier.predict_proba_one.__wrapped__


def through_river(kind: type, x: np.ndarray, y: np.ndarray) -> tuple[Callable, Callable, Callable]:
    """Learn all rows one by one; predict one; how many the model has."""
    model = kind(hidden=(8,), seed=0)
    rows = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    model.learn_one(rows[0], 0)
    model.learn_one(rows[0], 1)

    def learn(acknowledge: Callable[[int], None]) -> None:
        for row, value in zip(rows, y.tolist(), strict=True):
            model.learn_one(row, value)
            acknowledge(1)

    def held() -> int:
        model.predict_proba_one(rows[0])
        return int(model._learned.filter.seen) - 2

    return learn, lambda: model.predict_proba_one(rows[1]), held


def through_sklearn(x: np.ndarray, y: np.ndarray) -> tuple[Callable, Callable, Callable]:
    """Learn all rows, ten at a time; predict one; how many the model has."""
    model = HMNNClassifier(hidden=(8,), random_state=0)
    model.partial_fit(x[:AT_ONCE], y[:AT_ONCE], classes=[0, 1])

    def learn(acknowledge: Callable[[int], None]) -> None:
        for i in range(0, len(x), AT_ONCE):
            model.partial_fit(x[i : i + AT_ONCE], y[i : i + AT_ONCE])
            acknowledge(len(x[i : i + AT_ONCE]))

    def held() -> int:
        return (int(model.state_.filter.seen) - 1) * AT_ONCE

    return learn, lambda: model.predict_proba(x[:1]), held


def campaign(door: str, rows: int) -> dict:
    """Learn in one thread, predict in two, and count."""
    x = np.random.default_rng(0).normal(size=(rows, 3))
    y = (x[:, 0] > 0).astype(int)
    if door == "sklearn":
        learn, predict, held = through_sklearn(x, y)
    else:
        kind = Unlocked if door == "unlocked" else dictionaries.HMNNClassifier
        learn, predict, held = through_river(kind, x, y)
    done, acknowledged, answers, errors = threading.Event(), [], [], []

    def ask() -> None:
        while not done.is_set():
            attempt(lambda: answers.append(len(predict())))

    def attempt(task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:
            errors.append(error)

    predict()  # compiled before the others begin
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    attempt(lambda: learn(acknowledged.append))
    done.set()
    for thread in threads:
        thread.join()
    counts = {"acknowledged": sum(acknowledged), "in_the_model": held()}
    lost = counts["acknowledged"] - counts["in_the_model"]
    return {
        "door": door,
        **counts,
        "lost": lost,
        "predictions": len(answers),
        "errors": len(errors),
    }


def main() -> None:
    """Run a campaign and print its counts; exit code 1 if a row was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--door", choices=["sklearn", "river", "unlocked"], default="river")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sys.setswitchinterval(1e-5)
    counts = campaign(options.door, options.rows)
    print(
        json.dumps(counts)
        if options.json
        else ", ".join(f"{name} {value}" for name, value in counts.items())
    )
    sys.exit(counts["lost"] != 0 or counts["errors"] > 0)


if __name__ == "__main__":
    main()
