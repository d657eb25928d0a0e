"""The few shapes that all figures are drawn with, as plain dictionaries in the words of plotly."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from hmnn.lab.drawing.palette import GREY, TRUTH, Look, faint

Plot = dict[str, Any]
FEW = 30
"""With fewer points than this, every time step has its dot and its tick."""


def array(values: Any) -> ndarray:
    """Numbers of a record, where null is NaN."""
    return np.array(values, np.float64)


def numbers(values: Any, digits: int = 4) -> list[Any]:
    """Nested lists of numbers with so many significant digits; None for what is not finite."""
    found = np.asarray(values)
    if found.dtype.kind in "iub":
        return found.tolist()
    flat, end = found.astype(np.float64).ravel().tolist(), float("inf")
    rounded: list[Any] = [float(f"{v:.{digits}g}") if abs(v) < end else None for v in flat]
    for size in found.shape[:0:-1]:
        rounded = [rounded[i : i + size] for i in range(0, len(rounded), size)]
    return rounded


def number(value: Any, digits: int = 4) -> Any:
    """One number with so many significant digits; None where it is not finite."""
    return numbers([np.nan if value is None else value], digits)[0]


def across(x: Any) -> Plot:
    """The x of a trace: first number and step if the steps are equal, which takes less space."""
    steps = np.asarray(x)
    if steps.dtype.kind == "i" and len(steps) > 2 and np.ptp(np.diff(steps)) == 0:
        return {"x0": int(steps[0]), "dx": int(steps[1] - steps[0])}
    return {"x": numbers(x)}


def line(name: str, x: Any, y: Any, look: Look, panel: int = 0, **more: Any) -> Plot:
    """A line in one of several stacked panels; lines of one name are shown and hidden together."""
    trace = {"type": "scatter", "mode": "lines", "name": name, "legendgroup": name}
    pen = {"color": look.colour, "dash": look.dash, "width": look.width}
    place = {"line": pen, "yaxis": axis("y", panel), "showlegend": panel == 0}
    return trace | across(x) | {"y": numbers(y)} | place | more


def band(
    name: str, x: Any, lower: Any, upper: Any, look: Look, panel: int = 0, **more: Any
) -> list[Plot]:
    """The area between two lines, shown and hidden with the line of its name."""
    quiet = {"showlegend": False, "hoverinfo": "skip"} | more
    edge, filled = look._replace(width=0.0, dash="solid"), faint(look.colour)
    top = line(name, x, upper, edge, panel, **quiet, fill="tonexty", fillcolor=filled)
    return [line(name, x, lower, edge, panel, **quiet), top]


def dots(name: str, x: Any, y: Any, look: Look, share: Any = None, **more: Any) -> Plot:
    """A line with dots, as large as the share of the rows behind them where it is given."""
    sizes = 7 if share is None else numbers(5 + 22 * np.sqrt(array(share)), 3)
    marker = {"color": look.colour, "size": sizes, "opacity": 0.85}
    return line(name, x, y, look, **more) | {"mode": "lines+markers", "marker": marker}


def markers(name: str, x: list[Any], y: list[Any], **marker: Any) -> Plot:
    """Dots that no legend names."""
    trace = {"type": "scatter", "mode": "markers", "name": name, "showlegend": False}
    return trace | {"x": x, "y": y, "marker": marker}


def printed(x: list[Any], y: list[Any]) -> Plot:
    """The numbers that the paper prints: open grey diamonds."""
    ring = {"symbol": "diamond-open", "size": 13, "color": GREY, "line": {"width": 2}}
    return markers("the paper", x, y, **ring) | {"showlegend": True}


def diagonal(name: str) -> Plot:
    """Where shares are equal."""
    return line(name, [0, 1], [0, 1], TRUTH, hoverinfo="skip")


def axis(letter: str, panel: int) -> str:
    """The name of an axis as traces say it: x, x2, x3."""
    return f"{letter}{panel + 1}" if panel else letter


def stacked(x: str, *y: str, shares: Sequence[float] = (), height: int = 0, **more: Any) -> Plot:
    """The layout of panels one below the other that share their x: its label, then the panels'."""
    shares = shares or [1.0] * len(y)
    gap, free, top = 0.06, 1.0 - 0.06 * (len(y) - 1), 1.0
    layout: Plot = {"height": height or 180 + 200 * len(y)}
    layout["hovermode"] = "x unified" if len(y) == 1 else "closest"
    layout["xaxis"] = {"title": {"text": x}, "anchor": axis("y", len(y) - 1)}
    for i, (label, share) in enumerate(zip(y, shares, strict=True)):
        bottom = top - free * share / sum(shares)
        domain = numbers([max(bottom, 0.0), top])
        layout[axis("yaxis", i)] = {"title": {"text": label}, "domain": domain}
        top = bottom - gap
    for name, value in more.items():
        layout[name] = layout[name] | value if isinstance(layout.get(name), dict) else value
    return layout


def square(x: str, y: str) -> Plot:
    """The layout of shares against shares, equally long on both axes."""
    one = {"range": [-0.02, 1.04], "constrain": "domain", "tickformat": ".1f"}
    up = {"title": {"text": y}, "scaleanchor": "x"} | one
    return {"height": 520, "xaxis": {"title": {"text": x}} | one, "yaxis": up}


def logarithmic(layout: Plot, *axes: str) -> None:
    """Make axes logarithmic, with 1, 2 and 5 told."""
    for name in axes:
        layout[name] |= {"type": "log", "dtick": "D2"}


def note(text: str, x: float, y: float, **more: Any) -> Plot:
    """Words at a place of the whole drawing, which goes from 0 to 1."""
    place = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "x": x, "y": y} | place | more


def level(value: float, panel: int = 0) -> Plot:
    """A dotted horizontal line across a panel."""
    place = {"xref": "paper", "yref": axis("y", panel), "x0": 0, "x1": 1, "y0": value, "y1": value}
    return {"type": "line", "line": {"color": GREY, "width": 1, "dash": "dot"}} | place


def upright(x: float) -> Plot:
    """A dotted vertical line through all panels."""
    place = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {"type": "line", "line": {"color": GREY, "width": 1, "dash": "dot"}} | place


def span(left: float, right: float, opacity: float = 0.13) -> Plot:
    """A faint ground over all panels from left to right."""
    place = {"xref": "x", "yref": "paper", "x0": left, "x1": right, "y0": 0, "y1": 1}
    ground = {"layer": "below", "line": {"width": 0}, "fillcolor": faint(GREY, opacity)}
    return {"type": "rect"} | ground | place


def slider(names: Sequence[str], prefix: str) -> list[Plot]:
    """A slider over frames of these names."""
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
    still |= {"transition": {"duration": 0}}
    steps = [{"method": "animate", "label": name, "args": [[name], still]} for name in names]
    return [{"active": 0, "currentvalue": {"prefix": prefix}, "steps": steps, "pad": {"t": 45}}]


def menu(name: str, choices: dict[str, Plot], traces: Sequence[int]) -> list[Plot]:
    """A choice of what some traces show: label -> what is put into these traces, one value each."""
    args = {label: [put, list(traces)] for label, put in choices.items()}
    buttons = [{"method": "restyle", "label": label, "args": args[label]} for label in choices]
    place = {"x": 0, "xanchor": "left", "y": 1.12, "yanchor": "bottom"}
    return [{"name": name, "active": 0, "buttons": buttons, "type": "dropdown"} | place]


def running(values: ndarray, window: int) -> ndarray:
    """The mean of the `window` values about each one, of fewer at the ends."""
    weights = np.ones(min(window, len(values)))
    return np.convolve(values, weights, "same") / np.convolve(np.ones(len(values)), weights, "same")


def columns(**named: Any) -> list[dict[str, Any]]:
    """Rows for the CSV file from columns of numbers or words; a single word stands in every row."""
    length = max(len(value) for value in named.values() if not isinstance(value, str))
    lists = {
        key: [v] * length if isinstance(v, str) else v if isinstance(v, list) else numbers(v, 6)
        for key, v in named.items()
    }
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
