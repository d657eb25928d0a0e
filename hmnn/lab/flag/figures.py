"""The flag: the forecasts as a film, the error of every method by frame, and the paper's M."""

import base64
from typing import Any

import numpy as np

from hmnn.lab.drawing import drift_signal, shapes
from hmnn.lab.drawing.figure import Draw, Figure, Film, Record, View, label, made
from hmnn.lab.drawing.palette import look
from hmnn.lab.drawing.shapes import Plot, array, numbers

STRIPS = {"truth": "truth", "prediction": "forecast", "error": "error", "width": "interval width"}
SPAN = 9
"""Scored frames that the error over time is averaged over."""


def film(record: Record, view: View) -> Film | None:
    """Truth, forecast, error and interval width of the test frames."""
    if "film" not in view:
        return None
    found, filmed = view["film"], str(view["filmed"])
    shown = {words: _pictures(found[key]) for key, words in STRIPS.items() if key in found}
    strips = [{"label": words, "pictures": pictures} for words, pictures in shown.items()]
    at = np.flatnonzero(np.isin(view["frames"], found["frames"]))
    rows = shapes.columns(frame=view["frames"][at], error=view["errors"][filmed][at])
    tops = {key: f"{126 * float(found['top'][key]):.0f}" for key in found.get("top", {})}
    caption = (
        f"Each test frame as it is (by its principal components), as {label(view, filmed)} "
        "forecast it from the frames before, how far a pixel is off (brightest at "
        f"{tops.get('error', '-')} or more of 255 grey levels), and how wide its 95 % interval is "
        f"(brightest at {tops.get('width', '-')} or more). {made(record)}"
    )
    labels = [f"frame {int(frame)}" for frame in found["frames"]]
    return Film("film", "The forecasts as a film", strips, labels, caption, rows)


def _pictures(strip: dict[str, Any]) -> list[str]:
    """JPEG files as data URIs."""
    content, ends = np.asarray(strip["jpeg"], np.uint8).tobytes(), list(map(int, strip["ends"]))
    files = [content[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [f"data:image/jpeg;base64,{base64.b64encode(file).decode()}" for file in files]


def error_over_frames(record: Record, view: View) -> Figure | None:
    """Each forecast's own M, as a running mean; validation and test on a ground of their own."""
    if "errors" not in view:
        return None
    frames, data, rows = view["frames"], list[Plot](), list[dict[str, Any]]()
    methods = [method for method in record["metrics"]["M"] if method in view["errors"]]
    for place, method in enumerate(methods):
        own, name = array(view["errors"][method]), label(view, method)
        data.append(shapes.line(name, frames, shapes.running(own, SPAN), look(method, place)))
        rows += shapes.columns(method=name, frame=frames, error=own)
    validate, test, last = (float(edge) for edge in view["edges"])
    layout = shapes.stacked("frame", "error of the forecast", height=520, hovermode="closest")
    layout["shapes"] = [shapes.span(test, last), shapes.span(validate, test, 0.06)]
    middle = {"xref": "x", "xanchor": "center", "yanchor": "top"}
    spans = {"validation": (validate + test) / 2, "test": (test + last) / 2}
    layout["annotations"] = [shapes.note(word, x, 1.0, **middle) for word, x in spans.items()]
    layout["yaxis"] |= {"rangemode": "tozero"}
    caption = (
        f"The size of the error of each forecast relative to the frame, as a mean over {SPAN} "
        "frames that move (every frame is stored twice; the second of the two is left out). From "
        "frame 140 on the clip repeats itself, which the method that shows frame t - 140 knows. "
        f"The first seed of every method. {made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("error", "Error over the frames", plot, caption, rows)


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
        edge = {"width": 2, "color": drawn.colour}
        marker = {"color": drawn.colour, "size": 10, "symbol": filled, "line": edge}
        data.append(shapes.markers(name, numbers(values), [name] * len(values), **marker))
        rows += shapes.columns(method=name, seed=list(range(len(values))), M=values)
    paper = {name: row["paper"] for name, row in told.items() if row.get("paper") is not None}
    data.append(shapes.printed(numbers(list(paper.values())), list(paper)))
    rows += [{"method": name, "seed": "paper", "M": value} for name, value in paper.items()]
    across, height = "M on the test frames, smaller is better", 150 + 34 * len(order)
    layout = shapes.stacked(across, "", height=height, hovermode="closest")
    names = [labels[method] for method in order]
    layout["yaxis"] |= {"type": "category", "categoryarray": names, "automargin": True}
    layout["xaxis"] |= {"rangemode": "tozero"}
    caption = (
        "The paper's M, the error of the forecasts relative to the frames, for every seed (dots); "
        'grey diamonds are the numbers that the paper prints. Rows with "diagonal" are ours: one '
        f"weight per component, times the last frame. Protocol paper. {made(record)}"
    )
    return Figure("scores", "All methods", {"data": data, "layout": layout}, caption, rows)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of the two networks of HMNN, layer by layer."""
    found = view.get("drift", {})
    methods = [method for method in record["metrics"]["M"] if method in found]
    signals = {label(view, method): _alone(found[method]) for method in methods}
    length = len(found[methods[0]][drift_signal.ALL]) if methods else 0
    frames = np.arange(length) + record["config"]["window"]
    own = {method: record["chosen"].get(method, {}).get("jump_prob") for method in methods}
    phi = {label(view, m): own[m] or record["config"].get("diagonal_jump_prob") for m in methods}
    return drift_signal.signals(signals, frames, "frame", phi, f"The first seed. {made(record)}")


def _alone(leaves: dict[str, Any]) -> dict[str, Any]:
    """The signals without the mean over all weights where there is only one leaf."""
    only = len(leaves) <= 2
    return {leaf: signal for leaf, signal in leaves.items() if leaf != drift_signal.ALL or not only}


FIGURES: tuple[Draw, ...] = (film, error_over_frames, scores, drift)
