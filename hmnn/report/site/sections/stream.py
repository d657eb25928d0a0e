"""Models on a stream, predict then learn: scores over time, and whether probabilities or intervals hold."""

from typing import Any

import numpy as np

from hmnn.report.site.parts import Figure
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View, array
from hmnn.report.site.sections.drawing import Plot
from hmnn.report.site.sections.palette import look

PANELS = {
    "classification": {"accuracy": "accuracy", "log_loss": "log loss (nats)"},
    "regression": {"mae": "mean absolute error", "crps": "CRPS"},
}
COLUMNS = {
    "classification": ("accuracy", "log_loss", "brier", "ece", "seconds", "cpu_seconds"),
    "regression": ("mae", "rmse", "crps", "coverage", "width", "seconds", "cpu_seconds"),
}


def over_rows(record: Record, view: View) -> Figure | None:
    """Windowed means of two scores, model by model."""
    panels, curves = PANELS[record["task"]], record["curves"]
    if not curves:
        return None
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (model, curve) in enumerate(curves.items()):
        at = np.asarray(curve["row"])
        scores = {key: array(curve[key]) for key in panels}
        for i, values in enumerate(scores.values()):
            if np.isfinite(values).any():
                data.append(drawing.line(model, at, values, look(model, place), i))
        rows += drawing.columns(model=[model] * len(at), row=at, **scores)
    layout = drawing.stacked("row of the stream", *panels.values(), height=600)
    changes = record.get("made", {}).get("changes", [])
    edge = {"color": "#808080", "width": 1, "dash": "dot"}
    layout["shapes"] = [
        {"type": "line", "x0": row, "x1": row, "y0": 0, "y1": 1, "yref": "paper", "line": edge} for row in changes
    ]
    told = " Dotted lines are where the law of the data changes." if changes else ""
    caption = (
        f"Every row is predicted and then learned; a point is the mean over the last {_of(record, 'window')} rows. A "
        f"model that states no probabilities or intervals has no second curve.{told} {_made(record)}"
    )
    return Figure("curves", "Scores along the stream", {"data": data, "layout": layout}, caption, rows)


def calibration(record: Record, view: View) -> Figure | None:
    """The reliability of classifiers, or how often the intervals of regressors hold."""
    found = {model: part for model, part in record["calibration"].items() if part}
    if record["task"] == "classification":
        return common.reliability({"": found}, {}, "reliability", f"{common.RELIABLE} {_made(record)}")
    if not found:
        return None
    data, rows = [drawing.diagonal("as it should be")], list[dict[str, Any]]()
    for place, (model, part) in enumerate(found.items()):
        x, y = array(part["level"]), array(part["covered"])
        data.append(drawing.dots(model, x, y, look(model, place)))
        rows += drawing.columns(model=[model] * len(x), level=x, covered=y)
    caption = (
        "How many rows lie in intervals of a stated level. On the dashed line as many as stated; below it the "
        f"intervals are too narrow. {_made(record)}"
    )
    layout = drawing.square("level of the interval", "share of rows inside")
    return Figure("coverage", "Do the intervals hold?", {"data": data, "layout": layout}, caption, rows)


def _of(record: Record, setting: str) -> Any:
    return record.get("settings", {}).get(setting)


def _made(record: Record) -> str:
    rows = record.get("made", {}).get("rows")
    return f"{rows} rows of {record['stream']}, seed {record.get('seed')}."


def _table(record: Record) -> list[dict[str, Any]]:
    """One row per model; a stream's record has no table of its own."""
    columns = COLUMNS.get(str(record.get("task")), ())
    metrics = record.get("metrics")
    found = metrics if isinstance(metrics, dict) else {}
    return [
        {"model": model, **{column: scores.get(column) for column in columns}}
        for model, scores in found.items()
        if isinstance(scores, dict)
    ]


def _notes(record: Record, view: View | None) -> list[str]:
    failed = record.get("failed")
    return [f"{model} failed: {why}" for model, why in failed.items()] if isinstance(failed, dict) else []


KIND = Kind(
    lambda record: f"Stream: {record['stream']}",
    "Which model predicts a drifting stream best, row by row, and can it be believed?",
    (over_rows, calibration),
    _table,
    _notes,
)
