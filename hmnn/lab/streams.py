"""What is shown of models on a stream: scores over time, and whether their words hold."""

from pathlib import Path
from typing import Any

import numpy as np

from hmnn.evaluate.reports import COLUMNS
from hmnn.lab import records
from hmnn.lab.drawing import calibration as reliability
from hmnn.lab.drawing import shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View
from hmnn.lab.drawing.palette import look
from hmnn.lab.drawing.shapes import Plot, array

PANELS = {
    "classification": {"accuracy": "accuracy", "log_loss": "log loss (nats)"},
    "regression": {"mae": "mean absolute error", "crps": "CRPS"},
}
QUESTION = "Which model predicts a drifting stream best, row by row, and can it be believed?"


def draw(report: Record, folder: Path) -> list[Path]:
    """Print the figures of a comparison of models into a folder, as PNG files.

    Args:
        report: what `hmnn.evaluate.compare(...).record()` returns, or record.json of `hmnn stream`.
        folder: where the files go; it must be there.
    """
    from hmnn.lab.drawing import png  # matplotlib, only for those who draw

    record = records.plain(report)
    return png.write([figure for draw in FIGURES if (figure := draw(record, {}))], folder)


def over_rows(record: Record, view: View) -> Figure | None:
    """Windowed means of two scores, model by model."""
    panels, curves = PANELS[record["task"]], record["curves"]
    if not curves:
        return None
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (model, curve) in enumerate(curves.items()):
        at, scores = np.asarray(curve["row"]), {key: array(curve[key]) for key in panels}
        for i, values in enumerate(scores.values()):
            if np.isfinite(values).any():
                data.append(shapes.line(model, at, values, look(model, place), i))
        rows += shapes.columns(model=model, row=at, **scores)
    layout = shapes.stacked("row of the stream", *panels.values(), height=600)
    changes = record.get("made", {}).get("changes", [])
    layout["shapes"] = [shapes.upright(float(row)) for row in changes]
    told = " Dotted lines are where the law of the data changes." if changes else ""
    window = record.get("settings", {}).get("window")
    caption = (
        f"Every row is predicted and then learned; a point is the mean over the last {window} "
        "rows. A model that states no probabilities or intervals has no second curve."
        f"{told} {_made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("curves", "Scores along the stream", plot, caption, rows)


def calibration(record: Record, view: View) -> Figure | None:
    """The reliability of classifiers, or how often the intervals of regressors hold."""
    found = {model: part for model, part in record["calibration"].items() if part}
    if record["task"] == "classification":
        return reliability.diagram({"": found}, {}, _made(record))
    if not found:
        return None
    data, rows = [shapes.diagonal("as it should be")], list[dict[str, Any]]()
    for place, (model, part) in enumerate(found.items()):
        x, y = array(part["level"]), array(part["covered"])
        data.append(shapes.dots(model, x, y, look(model, place)))
        rows += shapes.columns(model=model, level=x, covered=y)
    caption = (
        "How many rows lie in intervals of a stated level. On the dashed line as many as stated; "
        f"below it the intervals are too narrow. {_made(record)}"
    )
    plot = {"data": data, "layout": shapes.square("level of the interval", "share of rows inside")}
    return Figure("coverage", "Do the intervals hold?", plot, caption, rows)


def _made(record: Record) -> str:
    rows = record.get("made", {}).get("rows")
    seed = f", seed {record['seed']}" if record.get("seed") is not None else ""
    return f"{rows} rows of {record['stream']}{seed}."


def table(record: Record) -> list[dict[str, Any]]:
    """One row per model; a stream's record has no table of its own."""
    columns, metrics = COLUMNS.get(str(record.get("task")), ()), record.get("metrics")
    found = metrics if isinstance(metrics, dict) else {}
    return [
        {"model": model, **{column: scores.get(column) for column in columns}}
        for model, scores in found.items()
        if isinstance(scores, dict)
    ]


def notes(record: Record) -> list[str]:
    """Which models failed, and how."""
    failed = record.get("failed")
    found = failed.items() if isinstance(failed, dict) else ()
    return [f"{model} failed: {why}" for model, why in found]


FIGURES: tuple[Draw, ...] = (over_rows, calibration)
