"""Where the default of `level_scale` comes from: accuracy on streams that no reported score uses.

`python benchmarks/defaults.py [--json] [--values 0.03,0.05,0.1]`. Each row is predicted before it
is learned. Streams: 10000 rows of river's generators with seeds from 100 on (reported scores have
0, 1 and 2), and the first tenth of Elec2. River's logistic regression stands beside.
"""

import argparse
import json

import harness

STREAMS = [("hyperplane", seed) for seed in range(100, 104)] + [
    ("sea", 100),
    ("sea", 101),
    ("rbf", 100),
    ("rbf", 101),
]
ROWS, TENTH = 10000, 4531
CLASSES = {"rbf": 5}


def streams() -> dict:
    """Name of a stream -> the stream, and its number of classes."""
    from hmnn.data import generators

    made = {
        f"{name} {seed}": (getattr(generators, name)(ROWS, seed=seed), CLASSES.get(name, 2))
        for name, seed in STREAMS
    }
    return made | {"elec2, first tenth": (generators.electricity(TENTH), 2)}


def accuracies(stream, classes: int, values: list[float]) -> dict:
    """Logistic regression, and the default settings but for `level_scale`."""
    from hmnn import evaluate
    from hmnn.estimators import HMNNClassifier
    from hmnn.evaluate import peers

    models = {"logistic": peers.build("logistic", "classification", classes)}
    models |= {str(value): HMNNClassifier(level_scale=value, random_state=0) for value in values}
    return {
        name: found["accuracy"] for name, found in evaluate.compare(models, stream).metrics.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print a list of rows")
    parser.add_argument("--values", default="0.0,0.03,0.05,0.07,0.1", help="of level_scale")
    arguments = parser.parse_args()
    harness.pin(1)
    values = [float(value) for value in arguments.values.split(",")]
    rows = []
    for name, (stream, classes) in streams().items():
        row = accuracies(stream, classes, values)
        rows.append({"stream": name} | row)
        if not arguments.json:
            print(name, *(f"{key} {value:.4f}" for key, value in row.items()), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
