"""The logistic drift: what the methods say of weights that go round, and how far they are off."""

from typing import Any

import numpy as np
from numpy import ndarray

from hmnn.lab.drawing import drift_signal, shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View, made
from hmnn.lab.drawing.palette import TRUTH, look
from hmnn.lab.drawing.shapes import Plot

SHOWN = ("hmnn", "kurle")
"""Methods that are drawn at first; the others wait in the legend."""
WEIGHTS = ("first weight", "second weight", "bias")
WINDOW = 20
"""Time steps over which errors are averaged."""


def _methods(record: Record, view: View) -> list[str]:
    return [method for method in record["metrics"] if isinstance(view.get(method), dict)]


def weights(record: Record, view: View) -> Figure | None:
    """The first run of every method: mean and 95 % interval of the weights, and the truth."""
    if not (methods := _methods(record, view)):
        return None
    truth = view["truth"]
    steps = np.arange(1, len(truth) + 1)
    data = [shapes.line("truth", steps, truth[:, i], TRUTH, i) for i in range(2)]
    for place, method in enumerate(methods):
        data += _paths(view[method], steps, method, place)
    layout = shapes.stacked("time step", *WEIGHTS, shares=(3.0, 3.0, 2.0), height=720)
    caption = (
        "The true weights (dashed) and what each method says of them: posterior mean, and as an "
        "area its 95 % credible interval, which is narrow; zoom in to see it. Methods are switched "
        f"on and off in the legend. The first of {len(view[methods[0]]['mean'])} runs. "
        f"{made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("weights", "The weights over time", plot, caption, _rows(view, methods))


def _paths(found: dict[str, Any], steps: ndarray, method: str, place: int) -> list[Plot]:
    name, drawn, data = str(found["title"]), look(method, place), list[Plot]()
    visible: dict[str, Any] = {"visible": True if method in SHOWN else "legendonly"}
    for i in range(len(WEIGHTS)):
        mean, half = found["mean"][0, :, i], 1.96 * found["deviation"][0, :, i]
        data += shapes.band(name, steps, mean - half, mean + half, drawn, i, **visible)
        data.append(shapes.line(name, steps, mean, drawn, i, **visible))
    return data


def _rows(view: View, methods: list[str]) -> list[dict[str, Any]]:
    truth = np.pad(view["truth"], ((0, 0), (0, 1)))
    rows = list[dict[str, Any]]()
    for method in methods:
        named: dict[str, Any] = {"method": method, "t": np.arange(1, len(truth) + 1)}
        for i, name in enumerate(("w1", "w2", "bias")):
            for key, part in (("mean", "mean"), ("sd", "deviation")):
                named[f"{key} of {name}"] = shapes.numbers(view[method][part][0, :, i])
            named[f"true {name}"] = shapes.numbers(truth[:, i])
        rows += shapes.columns(**named)
    return rows


def errors(record: Record, view: View) -> Figure | None:
    """How far the mean is off, and how that compares to the deviation that the method states."""
    if not (methods := _methods(record, view)):
        return None
    truth, data, rows = view["truth"], list[Plot](), list[dict[str, Any]]()
    for place, method in enumerate(methods):
        found, name = view[method], str(view[method]["title"])
        off = (found["mean"][:, :, :2] - truth).astype(np.float64)
        steps, error = _running(off)
        _, ratio = _running(off / found["deviation"][:, :, :2])
        pairs = enumerate((error, ratio))
        data += [shapes.line(name, steps, y, look(method, place), i) for i, y in pairs]
        rows += shapes.columns(method=method, t=steps, error=error, ratio=ratio)
    right = shapes.line("as it should be", steps, np.ones(len(steps)), TRUTH, 1, showlegend=True)
    names = "error of the mean", "error / stated deviation"
    layout = shapes.stacked("time step", *names, height=620)
    shapes.logarithmic(layout, "yaxis", "yaxis2")
    caption = (
        f"Root mean squares over both weights, all runs and the last {steps[0]} time steps. Above, "
        "how far the posterior mean is from the truth. Below, the same error divided by the "
        "posterior standard deviation: 1 (dashed) for a method that knows how well it does, more "
        f"for one that is too sure. Both axes are logarithmic. {made(record)}"
    )
    plot = {"data": [*data, right], "layout": layout}
    return Figure("errors", "How far off, and does the method know?", plot, caption, rows)


def _running(values: ndarray) -> tuple[ndarray, ndarray]:
    """The root mean square over runs, weights and the last few steps, and the steps it is of."""
    squares = np.mean(values**2, axis=(0, 2))
    window = min(WINDOW, max(len(squares) // 4, 1))
    means = np.convolve(squares, np.ones(window) / window, "valid")
    return np.arange(window, len(squares) + 1), np.sqrt(means)


def scores(record: Record, view: View) -> Figure:
    """Every run of every method as a dot: error against honesty; all of it is in the record."""
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (method, found) in enumerate(record["metrics"].items()):
        drawn = look(method, place)
        symbol = "diamond" if drawn.dash != "solid" else "circle"
        marker = {"color": drawn.colour, "size": 11, "symbol": symbol, "opacity": 0.8}
        x, y = (shapes.array(found[key]) for key in ("rmse_by_run", "z_rms_by_run"))
        data.append(shapes.line(method, x, y, drawn, mode="markers", marker=marker))
        rows += shapes.columns(method=method, rmse=x, z_rms=y)
    across = "root mean squared error of the posterior mean"
    layout = shapes.stacked(across, "error / stated deviation", height=440, hovermode="closest")
    shapes.logarithmic(layout, "xaxis", "yaxis")
    layout["shapes"] = [shapes.level(1.0)]
    caption = (
        "A dot is one run, after its first time steps. Left is a smaller error; the dotted line is "
        "where errors are as large as the method says; above it the method is too sure. Both axes "
        f"are logarithmic. {made(record)}"
    )
    return Figure("scores", "Every run", {"data": data, "layout": layout}, caption, rows)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of the methods whose kernel has a big jump."""
    found = [view[method] for method in _methods(record, view) if "jumps" in view[method]]
    signals = {
        str(method["title"]): {"weights": method["jumps"][:, 0], "bias": method["jumps"][:, 2]}
        for method in found
    }
    steps, phi = np.arange(1, len(view.get("truth", ())) + 1), record["config"].get("jump_prob")
    caption = f"Mean over the runs. {made(record)}"
    return drift_signal.signals(signals, steps, "time step", phi, caption)


FIGURES: tuple[Draw, ...] = (weights, errors, scores, drift)
