"""The logistic drift: weights that go round in a circle, what the methods say of them, and how far they are off."""

from typing import Any

import numpy as np
from numpy import ndarray

from hmnn.report.site.parts import Figure
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View
from hmnn.report.site.sections.drawing import Plot
from hmnn.report.site.sections.palette import TRUTH, look

SHOWN = ("hmnn", "kurle")
"""Methods that are drawn at first; the others wait in the legend."""
WEIGHTS = ("first weight", "second weight", "bias")
WINDOW = 20
"""Time steps over which errors are averaged."""


def _methods(record: Record, view: View) -> list[str]:
    return [method for method in record["metrics"] if isinstance(view.get(method), dict)]


def weights(record: Record, view: View) -> Figure | None:
    """The first run of every method: mean and 95 % credible interval of both weights and the bias, and the truth."""
    methods = _methods(record, view)
    if not methods:
        return None
    truth = view["truth"]
    steps = np.arange(1, len(truth) + 1)
    data = [drawing.line("truth", steps, truth[:, i], TRUTH, i) for i in range(2)]
    for place, method in enumerate(methods):
        data += _paths(view[method], steps, method, place)
    layout = drawing.stacked("time step", *WEIGHTS, shares=(3.0, 3.0, 2.0), height=720)
    caption = (
        "The true weights (dashed) and what each method says of them: posterior mean, and as an area its 95 % credible "
        "interval, which is narrow; zoom in to see it. Methods are switched on and off in the legend. "
        f"The first of {len(view[methods[0]]['mean'])} runs. {common.words(record)}."
    )
    return Figure("weights", "The weights over time", {"data": data, "layout": layout}, caption, _rows(view, methods))


def _paths(found: dict[str, Any], steps: ndarray, method: str, place: int) -> list[Plot]:
    name, drawn, data = str(found["title"]), look(method, place), list[Plot]()
    visible: dict[str, Any] = {"visible": True if method in SHOWN else "legendonly"}
    for i in range(len(WEIGHTS)):
        mean, half = found["mean"][0, :, i], 1.96 * found["deviation"][0, :, i]
        data += drawing.band(name, steps, mean - half, mean + half, drawn, i, **visible)
        data.append(drawing.line(name, steps, mean, drawn, i, **visible))
    return data


def _rows(view: View, methods: list[str]) -> list[dict[str, Any]]:
    truth = np.pad(view["truth"], ((0, 0), (0, 1)))
    steps = np.arange(1, len(truth) + 1)
    rows = list[dict[str, Any]]()
    for method in methods:
        named = {"method": [method] * len(steps), "t": steps}
        for i, name in enumerate(("w1", "w2", "bias")):
            parts = {"mean": view[method]["mean"][0, :, i], "sd": view[method]["deviation"][0, :, i]}
            named |= {f"{key} of {name}": drawing.numbers(value) for key, value in parts.items()}
            named |= {f"true {name}": drawing.numbers(truth[:, i])}
        rows += drawing.columns(**named)
    return rows


def errors(record: Record, view: View) -> Figure | None:
    """How far the mean is off, and how that compares to the standard deviation that the method states."""
    methods = _methods(record, view)
    if not methods:
        return None
    truth, data, rows = view["truth"], list[Plot](), list[dict[str, Any]]()
    for place, method in enumerate(methods):
        found, drawn = view[method], look(method, place)
        off = (found["mean"][:, :, :2] - truth).astype(np.float64)
        steps, error = _running(off)
        _, ratio = _running(off / found["deviation"][:, :, :2])
        data += [drawing.line(str(found["title"]), steps, y, drawn, i) for i, y in enumerate((error, ratio))]
        rows += drawing.columns(method=[method] * len(steps), t=steps, error=error, ratio=ratio)
    lines = drawing.line("as it should be", steps, np.ones(len(steps)), TRUTH, 1, showlegend=True)
    layout = drawing.stacked("time step", "error of the mean", "error / stated deviation", height=620)
    drawing.logarithmic(layout, "yaxis", "yaxis2")
    caption = (
        f"Root mean squares over both weights, all runs and the last {WINDOW} time steps. Above, how far the posterior "
        "mean is from the truth. Below, the same error divided by the posterior standard deviation: 1 (dashed) for a "
        f"method that knows how well it does, more for one that is too sure. Both axes are "
        f"logarithmic. {common.words(record)}."
    )
    title = "How far off, and does the method know?"
    return Figure("errors", title, {"data": [*data, lines], "layout": layout}, caption, rows)


def _running(values: ndarray) -> tuple[ndarray, ndarray]:
    """The root mean square over runs, weights and the last few steps, and the steps it is of."""
    squares = np.mean(values**2, axis=(0, 2))
    window = min(WINDOW, len(squares))
    return np.arange(window, len(squares) + 1), np.sqrt(np.convolve(squares, np.ones(window) / window, "valid"))


def scores(record: Record, view: View) -> Figure:
    """Every run of every method as a dot: error against honesty; all of it is in the record."""
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (method, found) in enumerate(record["metrics"].items()):
        drawn = look(method, place)
        symbol = "diamond" if drawn.dash != "solid" else "circle"
        marker = {"color": drawn.colour, "size": 11, "symbol": symbol, "opacity": 0.8}
        x, y = (common.array(found[key]) for key in ("rmse_by_run", "z_rms_by_run"))
        data.append(drawing.line(method, x, y, drawn) | {"mode": "markers", "marker": marker})
        rows += drawing.columns(method=[method] * len(x), rmse=x, z_rms=y)
    layout = drawing.stacked("root mean squared error of the posterior mean", "error / stated deviation", height=440)
    layout["hovermode"] = "closest"
    drawing.logarithmic(layout, "xaxis", "yaxis")
    layout["shapes"] = [common.level(1.0, 0)]
    caption = (
        "A dot is one run, after its first time steps. Left is a smaller error; the dotted line is where errors are as "
        f"large as the method says; above it the method is too sure. Both axes are logarithmic. {common.words(record)}."
    )
    return Figure("scores", "Every run", {"data": data, "layout": layout}, caption, rows)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of the methods whose kernel has a big jump."""
    signals = {
        str(view[method]["title"]): {"weights": view[method]["jumps"][:, 0], "bias": view[method]["jumps"][:, 2]}
        for method in _methods(record, view)
        if "jumps" in view[method]
    }
    steps = np.arange(1, len(view.get("truth", ())) + 1)
    caption = f"{common.DRIFT} Mean over the runs. {common.words(record)}."
    return common.drift(signals, steps, "time step", record["config"].get("jump_prob"), "drift", caption)


KIND = Kind(
    lambda record: "A logistic regression whose weights go round",
    "Does the filter follow weights that go round in a circle, and does it know how well?",
    (weights, errors, scores, drift),
)
