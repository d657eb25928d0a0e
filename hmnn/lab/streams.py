"""What is shown of models on a stream: scores over time, and whether their words hold."""

from pathlib import Path
from typing import Any

import numpy as np

from hmnn.evaluate.reports import COLUMNS
from hmnn.lab import records
from hmnn.lab.drawing import calibration as reliability
from hmnn.lab.drawing import shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View
from hmnn.lab.drawing.palette import GREY, HUES, VERMILION, Look, faint, look
from hmnn.lab.drawing.shapes import Plot, array

PANELS = {
    "classification": {"accuracy": "accuracy", "log_loss": "log loss (nats)"},
    "regression": {"mae": "mean absolute error", "crps": "CRPS"},
}
MEMBERS = (*HUES, GREY, "#7d5a45")
"""Colours of the members of a bank."""
HEARD = ("names", "weights", "row", "history", "alarms")
"""Fields of `hmnn.evaluate.beliefs.Believed` that are shown."""
TOLD = 5
"""So many alarms are told by their rows in a line."""
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


def forgetting(record: Record, view: View) -> Figure | None:
    """Bands as high as each member of a bank is believed, for every model that has a bank."""
    found = {model: part for model, part in _beliefs(record).items() if len(part["names"]) > 1}
    if not found:
        return None
    names = dict.fromkeys(name for part in found.values() for name in part["names"])
    colours = {name: MEMBERS[place % len(MEMBERS)] for place, name in enumerate(names)}
    # Bands have no edges, so the legend has lines of its own, which show nothing else.
    data = [shapes.line(name, [0], [np.nan], Look(colours[name], width=8.0)) for name in names]
    rows = list[dict[str, Any]]()
    for i, (model, part) in enumerate(found.items()):
        data += _bands(part, colours, i)
        if len(part["alarms"]):
            data.append(_alarms(part["alarms"], i))
        for place, name in enumerate(part["names"]):
            weights = np.asarray(part["history"], np.float64)[:, place]
            rows += shapes.columns(model=model, member=name, row=part["row"], weight=weights)
    layout = shapes.stacked("row of the stream", *(f"weight, {model}" for model in found))
    layout["height"] += 100
    for i in range(len(found)):
        layout[shapes.axis("yaxis", i)]["range"] = [0.0, 1.06]
    changes = record.get("made", {}).get("changes", [])
    layout["shapes"] = [shapes.upright(float(row)) for row in changes]
    told = " Dotted lines are where the law of the data changes." if changes else ""
    caption = (
        "A bank of filters, each with its own belief how fast the world moves. A band is as high "
        "as its filter is believed, by what it predicted; a diamond is an alarm of the drift "
        f"signal.{told} {_made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("forgetting", "Which forgetting is believed", plot, caption, rows)


def beliefs(record: Record) -> list[str]:
    """A line for each model that says what it believes of its own forgetting."""
    found = _beliefs(records.plain(record))
    return [f"{model}: {_said(part)}" for model, part in found.items()]


def _said(part: dict[str, Any]) -> str:
    alarms, best = list(part["alarms"]), int(np.argmax(part["weights"]))
    words = "1 alarm, at row " if len(alarms) == 1 else f"{len(alarms)} alarms, at rows "
    words += ", ".join([*map(str, alarms[:TOLD]), *(["..."] if len(alarms) > TOLD else [])])
    words = words if alarms else "no alarm"
    if len(part["names"]) < 2:
        return f"one filter; {words}"
    weight = f"{part['weights'][best]:.2f}".lstrip("0")
    return f"believed most: {part['names'][best]} ({weight}); {words}"


def _beliefs(record: Record) -> dict[str, dict[str, Any]]:
    """Model -> what `hmnn.evaluate` heard of its forgetting; broken parts are left out."""
    metrics, result = record.get("metrics"), dict[str, dict[str, Any]]()
    for name, scores in metrics.items() if isinstance(metrics, dict) else ():
        part = scores.get("forgetting") if isinstance(scores, dict) else None
        if isinstance(part, dict) and all(isinstance(part.get(key), list) for key in HEARD):
            result[name] = part
    return result


def _bands(part: dict[str, Any], colours: dict[str, str], panel: int) -> list[Plot]:
    """A band for each member, one on top of the other."""
    at, tops = np.asarray(part["row"]), np.cumsum(np.asarray(part["history"], np.float64), axis=1)
    quiet = {"showlegend": False}
    data = [shapes.line("none", at, 0.0 * at, Look(GREY, width=0.0), panel, **quiet)]
    for place, name in enumerate(part["names"]):
        filled = {"fill": "tonexty", "fillcolor": faint(colours[name], 0.7), **quiet}
        edge = Look(colours[name], width=0.0)
        data.append(shapes.line(name, at, tops[:, place], edge, panel, **filled))
    return data


def _alarms(rows: Any, panel: int) -> Plot:
    """Diamonds above the bands."""
    x, y = shapes.numbers(rows, 9), [1.03] * len(rows)
    sign = shapes.markers("alarm", x, y, symbol="diamond", size=8, color=VERMILION)
    return sign | {"yaxis": shapes.axis("y", panel), "showlegend": panel == 0}


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
    """What models believe of their own forgetting, and which failed, and how."""
    failed = record.get("failed")
    found = failed.items() if isinstance(failed, dict) else ()
    return [*beliefs(record), *(f"{model} failed: {why}" for model, why in found)]


FIGURES: tuple[Draw, ...] = (over_rows, calibration, forgetting)
