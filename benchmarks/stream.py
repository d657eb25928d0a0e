"""Rows a second through the doors, on one core: river's `learn_many` and one by one, scikit-learn's
`predict_then_fit`.

Two classes need one logit, and that is what the estimators have (7-64-64-1); river's door is
measured with one output for each class (7-64-64-2, categorical) too. Seconds are the processor's,
which other programs do not lengthen.

With --elec2 also the scores of the default settings on Elec2, each row predicted before it is
learned.
"""

import argparse
import json
import time

import harness

ROWS = 20480


def data(rows: int):
    """A table of 7 columns and 2 classes that drift."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 7))
    turn = np.linspace(0.0, np.pi, rows)
    return x, (np.cos(turn) * x[:, 0] + np.sin(turn) * x[:, 1] > 0).astype(int)


def best(function, repeats: int) -> float:
    """The least seconds of the processor, in all threads, of a few calls."""
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return min(seconds)


def classifier(outputs: int):
    """River's door with one logit for two classes, or with an output for each."""
    from hmnn.estimators.river import HMNNClassifier

    model = HMNNClassifier(seed=0)
    model._outputs, model._built = outputs, None  # no parameter: a third class would make it so
    return model


def many(x, y, repeats: int, outputs: int) -> float:
    """Rows a second by `learn_many`, pieces of 1024 rows."""
    import pandas as pd

    names = [f"x{i}" for i in range(x.shape[1])]
    frames = [
        (pd.DataFrame(x[i : i + 1024], columns=names), pd.Series(y[i : i + 1024]))
        for i in range(0, len(x), 1024)
    ]

    def run() -> None:
        model = classifier(outputs)
        for frame, labels in frames:
            model.learn_many(frame, labels)
        model.predict_proba_one(dict(zip(names, x[0].tolist(), strict=True)))

    run()
    return len(x) / best(run, repeats)


def single(x, y, repeats: int, outputs: int) -> float:
    """Rows a second by `predict_one` and `learn_one` in turn."""
    names = [f"x{i}" for i in range(x.shape[1])]
    rows = [
        (dict(zip(names, row.tolist(), strict=True)), int(label))
        for row, label in zip(x, y, strict=True)
    ]

    def run() -> None:
        model = classifier(outputs)
        for row, label in rows:
            model.predict_one(row)
            model.learn_one(row, label)

    run()
    return len(x) / best(run, repeats)


def fused(x, y, repeats: int) -> float:
    """Rows a second by the scikit-learn door's `predict_then_fit`."""
    from hmnn.estimators import HMNNClassifier

    HMNNClassifier(random_state=0).predict_then_fit(x, y)
    return len(x) / best(lambda: HMNNClassifier(random_state=0).predict_then_fit(x, y), repeats)


def elec2() -> dict:
    """Accuracy, log loss, expected calibration error and seconds, compilation included, of the
    default settings."""
    from hmnn import data, metrics
    from hmnn.estimators import HMNNClassifier

    table = data.elec2()
    began = time.perf_counter()
    p = HMNNClassifier(random_state=0).predict_then_fit(table.x, table.y, classes=[0, 1])
    seconds = time.perf_counter() - began
    return {
        "accuracy": metrics.accuracy(p, table.y),
        "log_loss": metrics.log_loss(p, table.y),
        "ece": metrics.ece(p, table.y),
        "seconds": seconds,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument(
        "--elec2", action="store_true", help="score the default settings on Elec2 too"
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    harness.pin(1)
    x, y = data(ROWS)
    figures: dict = {
        f"7-64-64-{outputs}": {
            "learn_many_rows_per_s": many(x, y, arguments.repeats, outputs),
            "one_by_one_rows_per_s": single(x[:2048], y[:2048], arguments.repeats, outputs),
        }
        for outputs in (1, 2)
    }
    figures["7-64-64-1"]["progress_rows_per_s"] = fused(x, y, arguments.repeats)
    if arguments.elec2:
        figures["elec2"] = elec2()
    figures["machine"] = harness.machine()
    print(
        json.dumps(figures, indent=1)
        if arguments.json
        else "\n".join(f"{k}: {v}" for k, v in figures.items())
    )


if __name__ == "__main__":
    main()
