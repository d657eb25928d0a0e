"""Coverage of the regressor's 95 % intervals on streams of numbers, beside river's regressors.

Each row is predicted before it is learned; default settings, one seed. Needs `hmnn[river]`.
"""

import argparse
import json

import harness

MODELS = ("linear", "hoeffding", "arf")
COLUMNS = ("coverage", "width", "mae", "cpu_seconds")


STREAMS = {
    "trump_approval": "trump",
    "ChickWeights": "chicks",
    "Planes2D": "planes",
    "FriedmanDrift": "friedman",
    "Mv": "mv",
}


def streams(rows: int) -> dict:
    """Streams by name: trump_approval whole, so many rows of the others."""
    from hmnn.data import generators

    made = {"trump": generators.trump} | harness.river_streams(rows, seed=0)
    return {name: made[short]() for name, short in STREAMS.items()}


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
