"""One position of a figure on a canvas of matplotlib: its panels, traces, marks and axes."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter
from numpy import ndarray

from hmnn.lab.drawing.shapes import Plot, array

POINTS = 0.75
"""Points in a pixel of the page."""
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 3)), "dot": ":"}
SYMBOLS = {"circle": "o", "diamond": "D"}
RGBA = re.compile(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)")
Box = tuple[float, float, float, float]


def draw(whole: Canvas, data: list[Plot], layout: Plot, box: Box, title: str) -> None:
    """Draw the traces in a box of the canvas; the title stands above the box."""
    if "scene" in layout:
        _draw_scene(whole, data, layout["scene"], box, title)
        return
    drawn = [trace for trace in data if trace.get("visible", True) is True]
    axes = _axes(whole, drawn, layout, box)
    for axis, across, up in axes.values():
        _prepare(axis, layout[across], layout[up])
    for pair, (axis, _, _) in axes.items():
        _draw_traces(axis, [trace for trace in drawn if _pair(trace) == pair])
    for axis, across, up in axes.values():
        _finish(axis.xaxis, layout[across])
        _finish(axis.yaxis, layout[up])
    for shape in layout.get("shapes", []):
        _draw_shape(axes, shape)
    for note in layout.get("annotations", []):
        _write(whole, box, next(iter(axes.values()))[0], note)
    if title:
        above = 0.16 if layout.get("annotations") else 0.06
        up = box[1] + box[3] + above / whole.get_size_inches()[1]
        whole.text(box[0] + box[2] / 2, up, title, ha="center", va="bottom", fontsize=10)


def entries(data: list[Plot], layout: Plot) -> dict[str, Plot]:
    """What the legend has: name -> the first trace of that name."""
    found: dict[str, Plot] = {}
    for trace in data:
        if trace.get("type") != "scatter" or trace.get("visible", True) is not True:
            continue
        if trace.get("showlegend", True) and layout.get("showlegend", True):
            found.setdefault(trace["name"], trace)
    return found


def legend_line(trace: Plot) -> Line2D:
    """A line for the legend that looks like a trace."""
    return Line2D([], [], **_style(trace))


def is_square(layout: Plot) -> bool:
    """Whether all panels are equally long on both axes."""
    ups = [value for key, value in layout.items() if key.startswith("yaxis")]
    return bool(ups) and all("scaleanchor" in up for up in ups)


def _pair(trace: Plot) -> tuple[str, str]:
    return trace.get("xaxis", "x"), trace.get("yaxis", "y")


def _axes(whole: Canvas, drawn: list[Plot], layout: Plot, box: Box) -> dict[Any, Any]:
    """The panels by their pair of axes, each with the names of its axes in the layout."""
    names = [key for key in layout if key.startswith("yaxis")]
    pairs = dict.fromkeys(_pair(trace) for trace in drawn)
    pairs |= {("x", f"y{key[5:]}"): None for key in names if "xaxis2" not in layout}
    made, lowest = dict[Any, Any](), layout.get("xaxis", {}).get("anchor", "y")
    for x, y in sorted(pairs):
        across, up = f"xaxis{x[1:]}", f"yaxis{y[1:]}"
        (left, right), (bottom, top) = (layout[k].get("domain", [0, 1]) for k in (across, up))
        place = box[0] + left * box[2], box[1] + bottom * box[3]
        axis = whole.add_axes((*place, (right - left) * box[2], (top - bottom) * box[3]))
        if layout[up].get("scaleanchor"):
            axis.set_aspect("equal")
        if "xaxis2" not in layout and y != lowest:
            axis.tick_params(labelbottom=False)
        elif layout[across]["title"]["text"]:
            axis.set_xlabel(layout[across]["title"]["text"])
        axis.set_ylabel(layout[up]["title"]["text"])
        made[x, y] = axis, across, up
    stacked = [axis for (x, _), (axis, *_) in made.items() if x == "x"]
    for axis in stacked[1:] if "xaxis2" not in layout else ():
        axis.sharex(stacked[0])
    return made


def _prepare(axis: Axes, across: Plot, up: Plot) -> None:
    """What must be known before anything is drawn: logarithms, the order of categories, a grid."""
    kinds = across.get("type"), up.get("type")
    if kinds[0] == "log":
        axis.set_xscale("log")
    if kinds[1] == "log":
        axis.set_yscale("log")
    if kinds[1] == "category":
        axis.yaxis.update_units(up["categoryarray"])
    if across.get("showgrid", True):
        axis.grid(alpha=0.25, which="both" if "log" in kinds else "major")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_traces(axis: Axes, traces: list[Plot]) -> None:
    below = None
    for order, trace in enumerate(traces):
        kind = trace["type"]
        if kind == "heatmap":
            _draw_heatmap(axis, trace)
        elif kind == "contour":
            x, y, z = _grid(trace)
            level, pen = [trace["contours"]["start"]], trace["line"]
            look = {"colors": pen["color"], "linewidths": POINTS * pen["width"]}
            if np.nanmin(z) <= level[0] <= np.nanmax(z):
                axis.contour(x, y, z, levels=level, **look)
        else:
            x, y = _points(trace)
            if trace.get("fill") == "tonexty" and below is not None:
                colour, faint = _colour(trace["fillcolor"])
                axis.fill_between(x, below, y, color=colour, alpha=faint, linewidth=0)
            below = y
            _draw_line(axis, trace, x, y, order)


def _draw_line(axis: Axes, trace: Plot, x: Any, y: Any, order: int) -> None:
    style, size = _style(trace), trace.get("marker", {}).get("size", 6)
    if isinstance(size, list):  # dots of their own sizes, on the line
        areas = np.square(POINTS * array(size))
        axis.scatter(x, y, s=areas, color=style["color"], alpha=0.85, linewidths=0, zorder=2.5)
        style["marker"] = None
    if trace["mode"] == "markers" or style["linewidth"] > 0:
        axis.plot(x, y, **style, zorder=2 + 0.001 * order)
    if bars := trace.get("error_x"):
        ends = np.stack([array(bars["arrayminus"]), array(bars["array"])])
        known = np.isfinite(ends).all(axis=0)
        options = {"fmt": "none", "ecolor": style["color"], "elinewidth": 1.5, "capsize": 3}
        axis.errorbar(x[known], y[known], xerr=ends[:, known], **options)


def _style(trace: Plot) -> dict[str, Any]:
    """How matplotlib draws what plotly calls line and marker."""
    pen, marker, mode = trace.get("line", {}), trace.get("marker", {}), trace["mode"]
    colour = marker.get("color") or pen.get("color", "#333333")
    symbol, size = marker.get("symbol", "circle"), marker.get("size", 6)
    edge = marker.get("line", {})
    open_ = symbol.endswith("-open")
    return {
        "color": pen.get("color", colour),
        "alpha": trace.get("opacity", marker.get("opacity", 1.0) if mode == "markers" else 1.0),
        "linestyle": DASHES[pen.get("dash", "solid")] if "lines" in mode else "none",
        "linewidth": POINTS * pen.get("width", 2.0) if "lines" in mode else 0.0,
        "marker": SYMBOLS[symbol.removesuffix("-open")] if "markers" in mode else None,
        "markersize": POINTS * (8 if isinstance(size, list) else size),
        "markerfacecolor": "none" if open_ else colour,
        "markeredgecolor": colour if open_ else edge.get("color", colour),
        "markeredgewidth": POINTS * edge.get("width", 0.0),
    }


def _draw_heatmap(axis: Axes, trace: Plot) -> None:
    x, y, z = _grid(trace)
    half = trace["dx"] / 2, trace["dy"] / 2
    extent = (x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1])
    colours = _colours(trace["colorscale"])
    limits = {"vmin": trace["zmin"], "vmax": trace["zmax"]}
    smooth = "bilinear" if trace.get("zsmooth") else None
    options = {"origin": "lower", "extent": extent, "cmap": colours, "interpolation": smooth}
    picture = axis.imshow(z, **options, **limits)
    if trace.get("showscale"):
        bar = axis.figure.colorbar(picture, cax=axis.inset_axes((1.04, 0.1, 0.05, 0.8)))
        bar.set_label(trace["colorbar"]["title"]["text"])
        bar.outline.set_visible(False)


def _draw_scene(whole: Canvas, data: list[Plot], scene: Plot, box: Box, title: str) -> None:
    """Surfaces in three dimensions."""
    axis: Any = whole.add_axes(box, projection="3d")
    for trace in (trace for trace in data if trace.get("visible", True)):
        across, up = np.meshgrid(array(trace["x"]), array(trace["y"]))
        look = {"alpha": trace["opacity"], "linewidth": 0, "shade": False}
        scale = {"vmin": trace["cmin"], "vmax": trace["cmax"]}
        colours = _colours(trace["colorscale"])
        axis.plot_surface(across, up, array(trace["z"]), cmap=colours, **look, **scale)
    for letter in "xyz":
        about = scene[f"{letter}axis"]
        axis.set(**{f"{letter}lim": about["range"], f"{letter}label": about["title"]["text"]})
        low, high = about["range"]
        ticks = about.get("tickvals", [0.8 * low, (low + high) / 2, 0.8 * high])
        axis.set(**{f"{letter}ticks": np.round(ticks, 1)})
    axis.view_init(elev=28, azim=-45)
    axis.tick_params(labelsize=7)
    axis.set_title(title, fontsize=10)


def _points(trace: Plot) -> tuple[Any, Any]:
    """x and y of a trace; words stay words."""
    y = trace["y"]
    x = trace["x"] if "x" in trace else _steps(trace, "x", len(y))
    found = [v if len(v) and isinstance(v[0], str) else array(v) for v in (x, y)]
    return found[0], found[1]


def _grid(trace: Plot) -> tuple[Any, Any, Any]:
    z = array(trace["z"])
    return _steps(trace, "x", z.shape[1]), _steps(trace, "y", z.shape[0]), z


def _steps(trace: Plot, letter: str, count: int) -> ndarray:
    """Places at equal steps along one axis."""
    return trace[f"{letter}0"] + trace[f"d{letter}"] * np.arange(count)


def _finish(axis: Any, about: Plot) -> None:
    """Ticks and limits, once everything is drawn."""
    letter = axis.axis_name
    limits = getattr(axis.axes, f"set_{letter}lim")
    if "range" in about:
        limits(*about["range"])
    elif about.get("rangemode") == "tozero":
        limits(0.0)
    if "tickvals" in about:
        axis.set_ticks(about["tickvals"], about.get("ticktext"))
    elif about.get("type") == "log":
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    elif isinstance(about.get("dtick"), int):
        axis.set_major_locator(MultipleLocator(about["dtick"]))
    if form := about.get("tickformat"):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value, form)))
    if about.get("zerolinecolor"):
        line = axis.axes.axvline if letter == "x" else axis.axes.axhline
        line(0.0, color=about["zerolinecolor"], linewidth=1.2, zorder=1)


def _number(value: float, form: str) -> str:
    """A number in one of plotly's formats, in which "~" drops trailing zeros."""
    text = format(value, form.replace("~", ""))
    return text.rstrip("0").rstrip(".") if "~" in form and "." in text else text


def _draw_shape(axes: dict[Any, Any], shape: Plot) -> None:
    """A dotted line or a ground, over one panel or over all of them."""
    wanted = shape["yref"]
    for (_, y), (axis, _, _) in axes.items():
        if wanted not in ("paper", y):
            continue
        if shape["type"] == "rect":
            colour, faint = _colour(shape["fillcolor"])
            axis.axvspan(shape["x0"], shape["x1"], color=colour, alpha=faint, linewidth=0, zorder=0)
            continue
        pen = shape["line"]
        look = {"color": pen["color"], "linewidth": pen["width"], "linestyle": DASHES[pen["dash"]]}
        if shape["xref"] == "paper":
            axis.axhline(shape["y0"], **look, zorder=1)
        else:
            axis.axvline(shape["x0"], **look, zorder=1)


def _write(whole: Canvas, box: Box, axis: Axes, note: Plot) -> None:
    """Words at a place of the box, or at an x of the first panel."""
    options: Plot = {"ha": note["xanchor"], "va": note["yanchor"], "fontsize": 9}
    y = box[1] + note["y"] * box[3]
    if note["xref"] == "paper":
        whole.text(box[0] + note["x"] * box[2], y, note["text"], **options)
    else:
        options["transform"] = axis.get_xaxis_transform()
        axis.text(note["x"], note["y"], note["text"], **options)


def _colours(scale: Any) -> Any:
    """A colour scale: one of plotly's names, or pairs of a place and a colour."""
    if isinstance(scale, str):
        return scale.lower()
    return LinearSegmentedColormap.from_list("scale", [tuple(pair) for pair in scale])


def _colour(text: str) -> tuple[str, float]:
    """A colour and its opacity."""
    found = RGBA.fullmatch(text)
    if found is None:
        return text, 1.0
    return "#" + "".join(f"{int(found[i]):02x}" for i in (1, 2, 3)), float(found[4])
