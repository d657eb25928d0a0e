"""Do the doors hold on data that are not clean? `python benchmarks/doors.py [PART ...] [--json]`.

Parts: `wild` (one cell, one target of a million), `units` (columns and targets in other units from
row 1000 on, and a trend), `fit` (batches against scikit-learn's learners), `coverage` (five streams
whose truth is known), `drift` (rows until the alarm, false alarms), `streams` (the development
streams in HMNN_DATA/streams, first 10000 rows, and Elec2). Means of seeds 0, 1, 2; defaults.
"""

import argparse
import json
import os
import warnings

import harness
import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hmnn import metrics
from hmnn.data.generators import electricity
from hmnn.estimators import HMNNClassifier, HMNNRegressor

SEEDS, ROWS, AT = range(3), 4000, 1000
CHANGES = {
    "clean": lambda v: v,
    "/ 1000": lambda v: v / 1000,
    "* 1000": lambda v: v * 1000,
    "+ 1000": lambda v: v + 1000,
    "C to F": lambda v: 1.8 * v + 32,
}


def made(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs like degrees Celsius, two classes, and numbers."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(ROWS, 5))
    numbers = np.sin(z[:, 0]) + 0.5 * z[:, 1] + 0.1 * rng.normal(size=ROWS)
    return 15.0 + 8.0 * z, (z[:, 0] + z[:, 1] * z[:, 2] > 0).astype(int), numbers


def right(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Whether each row was predicted right before it was learned."""
    told = HMNNClassifier(random_state=seed).predict_then_fit(x, y, classes=np.unique(y))
    return told.argmax(axis=1) == np.searchsorted(np.unique(y), y)


def error(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """The absolute error of each row before it was learned."""
    return np.abs(HMNNRegressor(random_state=seed).predict_then_fit(x, y)[0] - y)


def mean(rows: list) -> list:
    """Over seeds."""
    return np.round(np.mean(rows, axis=0), 4).tolist()


def wild() -> dict:
    """Accuracy and mean absolute error after one wild value, against the clean run."""
    cells, targets = [], []
    for seed in SEEDS:
        x, classes, numbers = made(seed)
        clean, calm = right(x, classes, seed), error(x, numbers, seed)
        x[AT, 0], odd = 15.0 + 8e6, numbers.copy()
        spoiled = right(x, classes, seed)
        spans = slice(AT + 300, AT + 800), slice(AT + 1000, None)
        cells.append([spoiled[span].mean() - clean[span].mean() for span in spans])
        odd[AT] = 1e6
        after = error(made(seed)[0], odd, seed)
        targets.append(
            [after[span].mean() / calm[span].mean() for span in (slice(AT + 1, 2000), spans[1])]
        )
    return {
        "cell of 1e6: accuracy minus clean, rows 300 to 800 later and from 1000 on": mean(cells),
        "target of 1e6: error against clean, the next 1000 rows and then": mean(targets),
    }


def units() -> dict:
    """Accuracy and error 500 to 1000 and 1000 to 2000 rows after a change of units."""
    spans, result = (slice(AT + 500, AT + 1000), slice(AT + 1000, AT + 2000)), {}
    for name, change in CHANGES.items():
        both = []
        for seed in SEEDS:
            x, classes, numbers = made(seed)
            x[AT:] = change(x[AT:])
            runs = right(x, classes, seed), error(x, numbers, seed)
            both.append([run[span].mean() for run in runs for span in spans])
        result[f"X {name}: accuracy (2), error (2)"] = mean(both)
    for name, change in list(CHANGES.items())[1:4]:
        rows, unit = [], change(1.0) - change(0.0)
        for seed in SEEDS:
            x, _, numbers = made(seed)
            numbers[AT:] = change(numbers[AT:])
            run = error(x, numbers, seed) / unit
            rows.append([run[span].mean() for span in spans])
        result[f"y {name}: error (2), in old units"] = mean(rows)
    rising = []
    for seed in SEEDS:
        x, classes, numbers = made(seed)
        x[:, 0] += 0.08 * np.arange(ROWS)
        rising.append(
            [right(x, classes, seed)[2000:].mean(), error(x, numbers, seed)[2000:].mean()]
        )
    return result | {"first column rises by .01 deviations a row: accuracy, error": mean(rising)}


def smooth(rows: int, seed: int) -> tuple:
    """A smooth function of five inputs, with noise in the first rows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (rows + 1000, 5))
    f = np.sin(3.0 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3] ** 2
    return x[:rows], f[:rows] + 0.1 * rng.normal(size=rows), x[rows:], f[rows:]


def fit() -> dict:
    """Cross-validation and held-out R2 against scikit-learn's learners."""
    warnings.simplefilter("ignore")
    result = {}
    for name in ("iris", "wine", "breast_cancer"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        folds, rival = StratifiedKFold(5), make_pipeline(StandardScaler(), LogisticRegression())
        ours = [
            cross_val_score(HMNNClassifier(random_state=s), x, y, cv=folds).mean() for s in SEEDS
        ]
        theirs = cross_val_score(rival, x, y, cv=folds).mean()
        result[f"{name}, accuracy"] = {"hmnn": mean(ours), "logistic": round(float(theirs), 4)}
    x, y = datasets.load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)
    for name, build in RIVALS.items():
        scores = [cross_val_score(build(s), x, y, cv=folds).mean() for s in SEEDS]
        result.setdefault("diabetes, R2", {})[name] = mean(scores)
    for rows in (255, 257, 1000):
        for name, build in RIVALS.items():
            scores = []
            for seed in SEEDS:
                a, b, c, d = smooth(rows, seed)
                scores.append(build(seed).fit(a, b).score(c, d))
            result.setdefault(f"smooth function, {rows} rows, R2", {})[name] = mean(scores)
    return result


RIVALS = {
    "hmnn": lambda seed: HMNNRegressor(random_state=seed),
    "ridge": lambda seed: make_pipeline(StandardScaler(), Ridge(1.0)),
    "mlp": lambda seed: make_pipeline(
        StandardScaler(), MLPRegressor(max_iter=1000, random_state=seed)
    ),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
}
KINDS = ("still", "walking", "abrupt", "heteroscedastic", "heavy tails")


def known(kind: str, seed: int, rows: int = 6000) -> tuple:
    """Inputs, the mean function, numbers, and the deviation of their noise."""
    rng = np.random.default_rng(100 + seed)
    x = rng.normal(size=(rows, 5))
    nets = [[rng.normal(size=(5, 16)), rng.normal(size=16), rng.normal(size=16) / 3] for _ in "ab"]
    hidden = [np.tanh(0.7 * x @ net[0] + net[1]) for net in nets]
    truth, deviation = hidden[0] @ nets[0][2], np.full(rows, 0.2)
    if kind == "walking":
        steps = 0.004 * rng.normal(size=(rows, 16))
        truth = (hidden[0] * (nets[0][2] + np.cumsum(steps, axis=0))).sum(axis=1)
    if kind == "abrupt":
        truth = np.where(np.arange(rows) < rows // 2, truth, hidden[1] @ nets[1][2])
    if kind == "heteroscedastic":
        deviation = 0.05 + 0.35 * np.abs(x[:, 0])
    noise = rng.normal(size=rows)
    if kind == "heavy tails":
        noise = rng.standard_t(3, size=rows) / np.sqrt(3.0)
    return x, truth, truth + deviation * noise, deviation


def covered(kind: str, seed: int) -> list:
    """Of the mean function, of y, and of y in the quietest and the loudest fifth."""
    x, truth, y, deviation = known(kind, seed)
    model, of_mean, of_y = HMNNRegressor(random_state=seed), [], []
    for start in range(0, len(x), 500):
        if start >= AT:
            ahead = slice(start, start + 100)
            reach = 1.96 * np.sqrt(model.uncertainty(x[ahead]).epistemic)
            of_mean.append(np.abs(model.predict(x[ahead]) - truth[ahead]) < reach)
        rows = slice(start, start + 500)
        said, std = model.predict_then_fit(x[rows], y[rows])
        of_y.append(np.abs(y[rows] - said) < 1.96 * std)
    inside, order = np.concatenate(of_y)[AT:], np.argsort(deviation[AT:])
    fifth = len(order) // 5
    return [
        np.mean(of_mean),
        inside.mean(),
        inside[order[:fifth]].mean(),
        inside[order[-fifth:]].mean(),
    ]


def coverage() -> dict:
    """Coverage of 95 % intervals."""
    name = "{}: mean function, y, y of the quietest and the loudest fifth"
    return {name.format(kind): mean([covered(kind, seed) for seed in SEEDS]) for kind in KINDS}


def drift() -> dict:
    """Rows until `drift_` alarms after a sudden change, and false alarms before it."""
    delays, false, total = [], 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(9000, 4))
        y = (x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=9000) > 0).astype(int)
        y[8000:] = 1 - y[8000:]
        model = HMNNClassifier(random_state=seed)
        model.predict_then_fit(x, y)
        high = model.drift_ >= 0.5
        false += int((high[1:8000] & ~high[:7999]).sum())
        total += 8000
        delays.append(int(np.argmax(high[8000:])) if high[8000:].any() else None)
    return {"rows until the alarm, by seed": delays, f"false alarms in {total} rows": false}


def streams() -> dict:
    """Accuracy and log loss, or error and coverage, of the development streams."""
    result = {}
    for name, read in harness.files(10000).items():
        x, y, classes = harness.arrays(read())
        scores = [(_labels if classes else _numbers)(x, y, seed) for seed in SEEDS]
        kind = "accuracy, log loss, ECE" if classes else "error, coverage"
        result[f"{name}: {kind}"] = mean(scores)
    x, y, _ = harness.arrays(electricity())
    scores = [_labels(x, y, seed) for seed in SEEDS]
    return result | {"Elec2, all rows: accuracy, log loss, ECE": mean(scores)}


def _labels(x: np.ndarray, y: np.ndarray, seed: int) -> list:
    classes = np.unique(y)
    told = HMNNClassifier(random_state=seed).predict_then_fit(x, y, classes=classes)
    place = np.searchsorted(classes, y)
    chance = np.clip(told[np.arange(len(y)), place], 1e-9, 1.0)
    right = (told.argmax(axis=1) == place).mean()
    return [right, -np.log(chance).mean(), metrics.ece(told, place)]


def _numbers(x: np.ndarray, y: np.ndarray, seed: int) -> list:
    said, std = HMNNRegressor(random_state=seed).predict_then_fit(x, y)
    gap = np.abs(said - y)
    return [gap.mean(), (gap < 1.96 * std).mean()]


PARTS = {part.__name__: part for part in (wild, units, fit, coverage, drift, streams)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    for name in given.parts or PARTS:
        if name == "streams" and "HMNN_DATA" not in os.environ:
            continue
        found[name] = PARTS[name]()
        if not given.json:
            for what, value in found[name].items():
                print(f"{name}: {what}: {value}", flush=True)
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
