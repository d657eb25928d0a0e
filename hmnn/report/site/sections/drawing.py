"""The few shapes that all sections are drawn with, as plain dictionaries in the words of plotly."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn.report.site.sections.palette import GREY, TRUTH, Look, faint

Plot = dict[str, Any]


def numbers(values: Any, digits: int = 4) -> list[Any]:
    """Nested lists of numbers with so many significant digits; None where a number is not finite."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.tolist()
    flat, end = array.astype(np.float64).ravel().tolist(), float("inf")
    rounded: list[Any] = [float(f"{value:.{digits}g}") if abs(value) < end else None for value in flat]
    for size in array.shape[:0:-1]:
        rounded = [rounded[i : i + size] for i in range(0, len(rounded), size)]
    return rounded


def number(value: Any, digits: int = 4) -> Any:
    """One number, likewise."""
    return numbers([np.nan if value is None else value], digits)[0]


def across(x: Any) -> dict[str, Any]:
    """The x of a trace: in two numbers if it counts in equal steps, which weighs less."""
    steps = np.asarray(x)
    if steps.dtype.kind == "i" and len(steps) > 2 and np.ptp(np.diff(steps)) == 0:
        return {"x0": int(steps[0]), "dx": int(steps[1] - steps[0])}
    return {"x": numbers(x)}


def line(name: str, x: Any, y: Any, look: Look, panel: int = 0, **more: Any) -> Plot:
    """A line of a figure with panels one below the other; lines of one name are shown and hidden together."""
    trace = {"type": "scatter", "mode": "lines", "name": name, "legendgroup": name, "showlegend": panel == 0}
    pen = {"color": look.colour, "dash": look.dash, "width": look.width}
    return trace | across(x) | {"y": numbers(y), "line": pen, "yaxis": axis("y", panel)} | more


def band(name: str, x: Any, lower: Any, upper: Any, look: Look, panel: int = 0, **more: Any) -> list[Plot]:
    """The area between two lines, shown and hidden with the line of its name."""
    quiet = {"showlegend": False, "hoverinfo": "skip"} | more
    edge = look._replace(width=0.0, dash="solid")
    return [
        line(name, x, lower, edge, panel, **quiet),
        line(name, x, upper, edge, panel, **quiet, fill="tonexty", fillcolor=faint(look.colour)),
    ]


def axis(letter: str, panel: int) -> str:
    """The name of an axis as traces say it: x, x2, x3."""
    return f"{letter}{panel + 1}" if panel else letter


def stacked(x: str, *y: str, shares: Sequence[float] = (), height: int = 0, **more: Any) -> Plot:
    """The layout of panels one below the other that share their x: its label, and the panels' from above."""
    shares = shares or [1.0] * len(y)
    gap, free = 0.06, 1.0 - 0.06 * (len(y) - 1)
    layout: Plot = {"height": height or 180 + 200 * len(y), "hovermode": "x unified" if len(y) == 1 else "closest"}
    layout["xaxis"] = {"title": {"text": x}, "anchor": axis("y", len(y) - 1)}
    top = 1.0
    for i, (label, share) in enumerate(zip(y, shares, strict=True)):
        bottom = top - free * share / sum(shares)
        name = axis("yaxis", i)
        layout[name] = {"title": {"text": label}, "domain": numbers([max(bottom, 0.0), top])}
        top = bottom - gap
    return merged(layout, more)


def logarithmic(layout: Plot, *axes: str) -> None:
    """Make axes logarithmic, with 1, 2 and 5 told."""
    for name in axes:
        layout[name] |= {"type": "log", "dtick": "D2"}


def merged(layout: Plot, more: Plot) -> Plot:
    """A layout with more said of some of its parts."""
    together = {key: value | more[key] for key, value in layout.items() if key in more and isinstance(value, dict)}
    return layout | more | together


def note(text: str, x: float, y: float, **more: Any) -> Plot:
    """Words at a place of the paper, from 0 to 1."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, "showarrow": False} | place | more


def span(left: float, right: float) -> Plot:
    """A faint ground over all panels from left to right."""
    edges = {"x0": left, "x1": right, "y0": 0, "y1": 1, "xref": "x", "yref": "paper"}
    return {"type": "rect", "layer": "below", "line": {"width": 0}, "fillcolor": faint(GREY, 0.13)} | edges


def slider(names: Sequence[str], prefix: str) -> list[Plot]:
    """A slider over frames of these names."""
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": name, "args": [[name], still]} for name in names]
    return [{"active": 0, "currentvalue": {"prefix": prefix}, "steps": steps, "pad": {"t": 45}}]


def menu(name: str, choices: dict[str, dict[str, list[Any]]], traces: Sequence[int]) -> list[Plot]:
    """A choice of what some traces show: label -> what is put into these traces, one value each."""
    buttons = [{"method": "restyle", "label": label, "args": [put, list(traces)]} for label, put in choices.items()]
    place = {"x": 0, "xanchor": "left", "y": 1.12, "yanchor": "bottom"}
    return [{"name": name, "active": 0, "buttons": buttons, "type": "dropdown"} | place]


def square(x: str, y: str) -> Plot:
    """The layout of shares against shares, equally long on both axes, with the diagonal."""
    one = {"range": [-0.02, 1.04], "constrain": "domain", "tickformat": ".1f"}
    return {
        "height": 520,
        "xaxis": {"title": {"text": x}} | one,
        "yaxis": {"title": {"text": y}, "scaleanchor": "x"} | one,
    }


def diagonal(name: str) -> Plot:
    """Where shares are equal."""
    return line(name, [0, 1], [0, 1], TRUTH, hoverinfo="skip")


def dots(name: str, x: Any, y: Any, look: Look, share: Any = None, **more: Any) -> Plot:
    """A line with dots, as large as the share of the rows behind them where it is given."""
    sizes = 7 if share is None else numbers(5 + 22 * np.sqrt(np.asarray(share, np.float64)), 3)
    marker = {"color": look.colour, "size": sizes, "opacity": 0.85}
    return line(name, x, y, look, **more) | {"mode": "lines+markers", "marker": marker}


def printed(x: list[Any], y: list[Any]) -> Plot:
    """The numbers that the paper prints: open grey diamonds."""
    ring = {"symbol": "diamond-open", "size": 13, "color": "#808080", "line": {"width": 2}}
    trace = {"type": "scatter", "mode": "markers", "name": "the paper", "marker": ring, "showlegend": False}
    return trace | {"x": x, "y": y}


def running(values: ndarray, window: int) -> ndarray:
    """The mean of the `window` values about each one, of fewer at the ends."""
    weights = np.ones(min(window, len(values)))
    return np.convolve(values, weights, "same") / np.convolve(np.ones(len(values)), weights, "same")


def columns(**named: Any) -> list[dict[str, Any]]:
    """Rows for the CSV file from columns of numbers or words."""
    lists = {key: value if isinstance(value, list) else numbers(value, 6) for key, value in named.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
