"""Coverage of the regressor's 95 % intervals on streams of numbers, beside river's regressors.

Each row is predicted before it is learned; default settings, one seed. Needs `hmnn[river]`.
"""

import argparse
import json
from itertools import islice

import harness

MODELS = ("linear", "hoeffding", "arf")
COLUMNS = ("coverage", "width", "mae", "cpu_seconds")


def streams(rows: int) -> dict:
    """Streams by name: trump_approval and ChickWeights whole, so many rows of river's
    generators."""
    from river import datasets
    from river.datasets import synth

    from hmnn.data import generators

    friedman = synth.FriedmanDrift("lea", position=(rows // 4, rows // 2, 3 * rows // 4), seed=0)
    pairs = {
        "ChickWeights": datasets.ChickWeights(),
        "Planes2D": islice(iter(synth.Planes2D(seed=0)), rows),
        "FriedmanDrift": islice(iter(friedman), rows),
        "Mv": map(numbers, islice(iter(synth.Mv(seed=0)), rows)),
    }
    made = {
        name: generators.from_river(name, "regression", source, {})
        for name, source in pairs.items()
    }
    return {"trump_approval": generators.trump()} | made


def numbers(pair: tuple) -> tuple:
    """Words as columns of 0 and 1: Mv has a colour of three, a yes or no, and a size of two."""
    row, target = pair
    words = {3: ("green", "red", "brown"), 7: ("yes",), 8: ("normal",)}
    kept = {name: value for name, value in row.items() if name not in words}
    return kept | {
        f"{name}={word}": float(row[name] == word) for name in words for word in words[name]
    }, target


def scores(stream, seed: int) -> dict:
    """Model -> what it scored."""
    from hmnn import evaluate
    from hmnn.estimators import HMNNRegressor
    from hmnn.evaluate import peers

    models = {name: peers.build(name, "regression", seed=seed) for name in MODELS}
    report = evaluate.compare({"hmnn": HMNNRegressor(random_state=seed)} | models, stream)
    return {
        name: {column: found[column] for column in COLUMNS}
        for name, found in report.metrics.items()
    }


def lines(figures: dict) -> list[str]:
    """A Markdown table."""
    said = ["| stream | model | coverage of 95 % | width | MAE |", "|---|---|---|---|---|"]
    for stream, models in figures.items():
        for model, found in models.items():
            bounds = [
                f"{found[c]:.3f}" if found[c] == found[c] else "-" for c in ("coverage", "width")
            ]
            said.append(f"| {stream} | {model} | {bounds[0]} | {bounds[1]} | {found['mae']:.3f} |")
    return said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--rows", type=int, default=5000, help="of each generator")
    parser.add_argument("--seed", type=int, default=0, help="of the models")
    arguments = parser.parse_args()
    harness.pin(1)
    figures = {
        name: scores(stream, arguments.seed) for name, stream in streams(arguments.rows).items()
    }
    if arguments.json:
        plain = {
            s: {
                m: {c: v if v == v else None for c, v in found.items()}
                for m, found in models.items()
            }
            for s, models in figures.items()
        }
        print(
            json.dumps(
                {
                    "rows": arguments.rows,
                    "seed": arguments.seed,
                    "streams": plain,
                    "machine": harness.machine(),
                },
                indent=1,
            )
        )
    else:
        print("\n".join(lines(figures)))


if __name__ == "__main__":
    main()
