"""The flag: a film of the forecasts, the error of every method frame by frame, and the paper's M."""

import base64
from typing import Any

import numpy as np

from hmnn.report.site.parts import Figure, Film
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View, array
from hmnn.report.site.sections.drawing import Plot
from hmnn.report.site.sections.palette import look

STRIPS = {"truth": "truth", "prediction": "forecast", "error": "error", "width": "interval width"}
SPAN = 9
"""Scored frames that the error over time is averaged over."""


def film(record: Record, view: View) -> Film | None:
    """Truth, forecast, error and interval width of the test frames."""
    if "film" not in view:
        return None
    found, label = view["film"], common.label(view, str(view["filmed"]))
    frames = [int(frame) for frame in found["frames"]]
    strips = [{"label": words, "pictures": _pictures(found[key])} for key, words in STRIPS.items() if key in found]
    at = np.flatnonzero(np.isin(view["frames"], found["frames"]))
    rows = drawing.columns(frame=view["frames"][at], error=view["errors"][str(view["filmed"])][at])
    tops = {key: f"{126 * float(found['top'][key]):.0f}" for key in found.get("top", {})}
    caption = (
        f"Each test frame as it is (by its principal components), as {label} forecast it from the frames before, how "
        f"far a pixel is off (brightest at {tops.get('error', '-')} or more of 255 grey levels), and how wide its 95 % "
        f"interval is (brightest at {tops.get('width', '-')} or more). {common.words(record)}."
    )
    return Film("film", "The forecasts as a film", strips, [f"frame {frame}" for frame in frames], caption, rows)


def _pictures(strip: dict[str, Any]) -> list[str]:
    """JPEG files as data URIs."""
    content, ends = np.asarray(strip["jpeg"], np.uint8).tobytes(), [int(end) for end in strip["ends"]]
    files = [content[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [f"data:image/jpeg;base64,{base64.b64encode(file).decode()}" for file in files]


def error_over_frames(record: Record, view: View) -> Figure | None:
    """Each forecast's own M, as a running mean; validation and test on a ground of their own."""
    if "errors" not in view:
        return None
    frames, data, rows = view["frames"], list[Plot](), list[dict[str, Any]]()
    methods = [method for method in record["metrics"]["M"] if method in view["errors"]]
    for place, method in enumerate(methods):
        own = array(view["errors"][method])
        data.append(drawing.line(common.label(view, method), frames, drawing.running(own, SPAN), look(method, place)))
        rows += drawing.columns(method=[common.label(view, method)] * len(frames), frame=frames, error=own)
    validate, test, last = (float(edge) for edge in view["edges"])
    layout = drawing.stacked("frame", "error of the forecast", height=520)
    layout |= {"shapes": [drawing.span(test, last)], "hovermode": "closest"}
    middle = {"xref": "x", "xanchor": "center", "yanchor": "top"}
    layout["annotations"] = [
        drawing.note("validation", (validate + test) / 2, 1.0, **middle),
        drawing.note("test", (test + last) / 2, 1.0, **middle),
    ]
    layout["shapes"].append(drawing.span(validate, test) | {"fillcolor": "rgba(128,128,128,0.06)"})
    layout["yaxis"] |= {"rangemode": "tozero"}
    caption = (
        f"The size of the error of each forecast relative to the frame, as a mean over {SPAN} frames that move (every "
        "frame is stored twice; the second of the two is left out). From frame 140 on the clip repeats itself, which "
        f"the method that shows frame t - 140 knows. The first seed of every method. {common.words(record)}."
    )
    return Figure("error", "Error over the frames", {"data": data, "layout": layout}, caption, rows)


def scores(record: Record, view: View) -> Figure:
    """The paper's M of every method and seed, and the paper's own numbers."""
    by_seed = record["metrics"]["by_seed"]["paper"]["M"]
    told = {str(row["what"]).removeprefix("M, "): row for row in record["summary"]}
    labels = dict(zip(by_seed, told, strict=True))
    data, rows = list[Plot](), list[dict[str, Any]]()
    order = sorted(by_seed, key=lambda method: -float(np.mean(array(by_seed[method]))))
    for place, method in enumerate(order):
        values, drawn, name = array(by_seed[method]), look(method, place), labels[method]
        filled = "circle" if drawn.dash == "solid" else "circle-open"
        marker = {"color": drawn.colour, "size": 10, "symbol": filled, "line": {"width": 2, "color": drawn.colour}}
        trace = {"type": "scatter", "mode": "markers", "name": name, "marker": marker, "showlegend": False}
        data.append(trace | {"x": drawing.numbers(values), "y": [name] * len(values)})
        rows += drawing.columns(method=[name] * len(values), seed=list(range(len(values))), M=values)
    paper = {name: row["paper"] for name, row in told.items() if row.get("paper") is not None}
    data.append(drawing.printed(drawing.numbers(list(paper.values())), list(paper)))
    rows += [{"method": name, "seed": "paper", "M": value} for name, value in paper.items()]
    layout = drawing.stacked("M on the test frames, smaller is better", "", height=150 + 34 * len(order))
    layout |= {"hovermode": "closest"}
    layout["yaxis"] |= {"type": "category", "categoryarray": [labels[m] for m in order], "automargin": True}
    layout["xaxis"] |= {"rangemode": "tozero"}
    caption = (
        "The paper's M, the error of the forecasts relative to the frames, for every seed (dots); grey diamonds are "
        'the numbers that the paper prints. Rows with "diagonal" are ours: one weight per component, times the last '
        f"frame. Protocol paper. {common.words(record)}."
    )
    return Figure("scores", "All methods", {"data": data, "layout": layout}, caption, rows)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of the two networks of HMNN, layer by layer."""
    methods = [method for method in record["metrics"]["M"] if method in view.get("drift", {})]
    signals = {common.label(view, method): _alone(view["drift"][method]) for method in methods}
    length = len(view["drift"][methods[0]][common.ALL]) if methods else 0
    frames = np.arange(length) + record["config"]["window"]
    own = {method: record["chosen"].get(method, {}).get("jump_prob") for method in methods}
    phi = {common.label(view, method): own[method] or record["config"]["jump_prob"] for method in methods}
    caption = f"{common.DRIFT} The first seed. {common.words(record)}."
    return common.drift(signals, frames, "frame", phi, "drift", caption)


def _alone(leaves: dict[str, Any]) -> dict[str, Any]:
    """Without the mean over all weights where there is only one leaf."""
    return {leaf: signal for leaf, signal in leaves.items() if leaf != common.ALL or len(leaves) > 2}


KIND = Kind(
    lambda record: "The waving flag",
    "Can a filter forecast the next frame of a video while it watches it?",
    (film, error_over_frames, scores, drift),
)
