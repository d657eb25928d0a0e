"""Where the default of `level_scale` comes from: accuracy on streams that no reported score uses.

`python benchmarks/defaults.py [--json] [--values 0.03,0.05,0.1]`. Each row is predicted before it is learned. Streams:
10000 rows of river's generators with seeds from 100 on (reported scores have 0, 1 and 2), and the first tenth of Elec2.
River's logistic regression stands beside.
"""

import argparse
import json

import harness

STREAMS = [("hyperplane", seed) for seed in range(100, 104)] + [("sea", 100), ("sea", 101), ("rbf", 100), ("rbf", 101)]
ROWS = 10000


def streams() -> dict:
    """Name of a stream -> rows and labels."""
    import numpy as np

    from hmnn import data
    from hmnn.data import generators

    made = {}
    for name, seed in STREAMS:
        x, y = (np.concatenate(part) for part in zip(*getattr(generators, name)(ROWS, seed=seed), strict=True))
        made[f"{name} {seed}"] = x, y
    table = data.elec2()
    tenth = len(table.x) // 10
    return made | {"elec2, first tenth": (table.x[:tenth], table.y[:tenth])}


def ours(x, y, value: float) -> float:
    """The accuracy of the default settings but for `level_scale`."""
    import numpy as np

    from hmnn.estimators import HMNNClassifier

    classes = np.unique(y)
    p = HMNNClassifier(level_scale=value, random_state=0).progress(x, y, classes=classes)
    return float((classes[p.argmax(axis=1)] == y).mean())


def logistic(x, y) -> float:
    """The accuracy of river's logistic regression, or softmax regression for more than two classes."""
    from river import linear_model, preprocessing

    two = len(set(y.tolist())) == 2
    kind = linear_model.LogisticRegression if two else linear_model.SoftmaxRegression
    model, right = preprocessing.StandardScaler() | kind(), 0
    for row, label in zip(x.tolist(), y.tolist(), strict=True):
        features = dict(enumerate(row))
        right += model.predict_one(features) == label
        model.learn_one(features, label)
    return right / len(y)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a list of rows")
    parser.add_argument("--values", default="0.0,0.03,0.05,0.07,0.1", help="of level_scale")
    arguments = parser.parse_args()
    harness.pin(1)
    values = [float(value) for value in arguments.values.split(",")]
    rows = []
    for name, (x, y) in streams().items():
        row = {"stream": name, "logistic": logistic(x, y)} | {str(value): ours(x, y, value) for value in values}
        rows.append(row)
        if not arguments.json:
            print(name, *(f"{key} {value:.4f}" for key, value in row.items() if key != "stream"), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
