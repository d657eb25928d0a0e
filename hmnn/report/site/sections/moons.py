"""The two moons: what the filter believes over the plane at each time step, and how the intervals go."""

from typing import Any

import numpy as np

from hmnn.report.site.parts import Figure
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View
from hmnn.report.site.sections.drawing import Plot, numbers
from hmnn.report.site.sections.palette import AMBER, BLUE, VERMILION, Look

SCENARIOS = {"separated": "moons apart", "overlapping": "moons that overlap"}
LOOKS = {"separated": Look(BLUE, width=2.2), "overlapping": Look(VERMILION, width=2.2)}
CLASSES = {"first class": AMBER, "second class": BLUE}
BELIEF = [[0, "#f3c46b"], [0.5, "#f7f7f7"], [1, "#74b3dc"]]
"""From a light tone of the first class to one of the second; white where both are equally probable."""
THIN = 2
"""In the surface and in the CSV files, every so many points of the grid."""


def plane(record: Record, view: View) -> Figure | None:
    """Probability above, interval length below, the points of the time step on both; a slider over time."""
    steps = _steps(view)
    if not steps:
        return None
    frames = [{"name": name, "data": _panels(view, t), "traces": list(range(12))} for t, name in enumerate(steps)]
    layout = _plane_layout(view) | {"sliders": drawing.slider(steps, "turned by ")}
    plot = {"data": frames[0]["data"], "layout": layout, "frames": frames}
    caption = (
        "Above, the probability of the second class: white where the network finds both classes equally probable. "
        "Below, the length of the 95 % credible interval of that probability, long where the network does not know; "
        "the white line is where the probability is one half. The dots are some of the points learned at this time "
        "step. Left and right differ in the noise of the data. The CSV file has every second point of the grid, "
        f"in both directions. {_made(record)}"
    )
    return Figure("plane", "What the filter believes, step by step", plot, caption, _grid_rows(view))


def _steps(view: View) -> list[str]:
    return [str(panel["title"]) for panel in view["separated"]] if set(SCENARIOS) <= set(view) else []


def _panels(view: View, t: int) -> list[Plot]:
    """Twelve traces: two scenarios, each with a heatmap of both kinds, a contour and the points on both."""
    data = list[Plot]()
    for column, scenario in enumerate(SCENARIOS):
        panel, above, below = view[scenario][t], _place(column), _place(column + 2)
        place = _even("x", panel["across"]) | _even("y", panel["up"])
        p, length = panel["probability"], panel["upper"] - panel["lower"]
        bars = {"len": 0.45, "thickness": 12, "outlinewidth": 0}
        belief = {"type": "heatmap", "z": numbers(p, 3), "zmin": 0, "zmax": 1, "colorscale": BELIEF, "zsmooth": "fast"}
        bar = {"y": 0.77, "title": {"text": "probability"}} | bars
        data.append(belief | place | above | {"showscale": column == 1, "colorbar": bar})
        unsure = {"type": "heatmap", "z": numbers(length, 3), "zmin": 0, "zmax": 1, "colorscale": "Viridis"}
        bar = {"y": 0.23, "title": {"text": "length"}} | bars
        data.append(unsure | place | below | {"showscale": column == 1, "colorbar": bar, "zsmooth": "fast"})
        rule = {"type": "contour", "z": numbers(p, 3), "contours": {"start": 0.5, "end": 0.5, "coloring": "none"}}
        data.append(rule | place | below | {"line": {"color": "#ffffff", "width": 2}, "hoverinfo": "skip"})
        data[-1] |= {"showscale": False, "showlegend": False}
        data += [_points(panel, label, colour, above) for label, colour in CLASSES.items()]
        data.append(_points(panel, None, "#ffffff", below))
    return data


def _even(letter: str, values: np.ndarray) -> dict[str, float]:
    """Where the grid begins and its step: plotly smooths fast only what it knows to be even."""
    low, high = float(values[0]), float(values[-1])
    return {f"{letter}0": drawing.number(low), f"d{letter}": drawing.number((high - low) / (len(values) - 1))}


def _place(panel: int) -> dict[str, str]:
    return {"xaxis": drawing.axis("x", panel), "yaxis": drawing.axis("y", panel)}


def _points(panel: dict[str, Any], label: str | None, colour: str, place: dict[str, str]) -> Plot:
    """The points of one class, or small ones of both."""
    which = np.full(len(panel["y"]), True) if label is None else panel["y"] == list(CLASSES).index(label)
    x, y = (numbers(panel["x"][which][:, i], 3) for i in range(2))
    edge = {"color": "#222222", "width": 0.6}
    marker = {"color": colour, "size": 5 if label else 2.5, "line": edge if label else {"width": 0}}
    shown = {"name": label or "points", "legendgroup": label or "points", "showlegend": False, "hoverinfo": "skip"}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker} | shown | place


def _plane_layout(view: View) -> Plot:
    layout: Plot = {"height": 820, "showlegend": False, "margin": {"l": 60, "r": 20, "t": 40, "b": 50}}
    for column, (scenario, words) in enumerate(SCENARIOS.items()):
        reach = _reach(view[scenario])
        for row in range(2):
            panel = column + 2 * row
            wide, high = ([0.0, 0.47], [0.53, 1.0])[column], ([0.54, 1.0], [0.0, 0.46])[row]
            axis = {"range": [-reach, reach], "showgrid": False, "zeroline": False, "constrain": "domain"}
            across = {"domain": wide, "anchor": drawing.axis("y", panel), "title": {"text": "x1" if row else ""}}
            up = {"domain": high, "anchor": drawing.axis("x", panel), "title": {"text": "" if column else "x2"}}
            layout[drawing.axis("xaxis", panel)] = axis | across
            layout[drawing.axis("yaxis", panel)] = axis | up | {"scaleanchor": drawing.axis("x", panel)}
        layout.setdefault("annotations", []).append(drawing.note(words, (0.0, 0.53)[column], 1.01))
    return layout


def _reach(panels: list[dict[str, Any]]) -> float:
    """Half the side of a square about the origin that holds the grids of all time steps."""
    edges = [np.abs(panel[key].astype(np.float64)).max() for panel in panels for key in ("across", "up")]
    return drawing.number(max(edges), 3)


def _grid_rows(view: View) -> list[dict[str, Any]]:
    """Every second point of the grids, in both directions."""
    rows = list[dict[str, Any]]()
    for scenario in SCENARIOS:
        for panel in view[scenario]:
            x, y = np.meshgrid(panel["across"][::THIN], panel["up"][::THIN])
            z = {key: panel[key][::THIN, ::THIN] for key in ("probability", "lower", "upper")}
            words = {"scenario": [scenario] * x.size, "turned": [str(panel["title"])] * x.size}
            given = {"x1": x, "x2": y, **z}
            rows += drawing.columns(**words, **{key: numbers(value.ravel(), 3) for key, value in given.items()})
    return rows


def surface(record: Record, view: View) -> Figure | None:
    """The probability as a surface between the ends of its interval; a slider over time."""
    steps = _steps(view)
    if not steps:
        return None
    frames = [{"name": name, "data": _surfaces(view, t), "traces": list(range(6))} for t, name in enumerate(steps)]
    reach = max(_reach(view[scenario]) for scenario in SCENARIOS)
    flat = {"range": [-reach, reach]}
    scene = {
        "xaxis": {"title": {"text": "x1"}} | flat,
        "yaxis": {"title": {"text": "x2"}} | flat,
        "zaxis": {"title": {"text": "p"}, "range": [0, 1], "tickvals": [0, 0.5, 1]},
        "camera": {"eye": {"x": 1.15, "y": -1.15, "z": 0.8}, "center": {"x": 0, "y": 0, "z": -0.15}},
        "aspectmode": "manual",
        "aspectratio": {"x": 1, "y": 1, "z": 0.6},
    }
    layout: Plot = {"height": 560, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "showlegend": False, "scene": scene}
    shown = {words: {"visible": [i // 3 == k for i in range(6)]} for k, words in enumerate(SCENARIOS.values())}
    layout |= {"sliders": drawing.slider(steps, "turned by "), "updatemenus": drawing.menu("Data", shown, range(6))}
    caption = (
        "The probability p of the second class as a surface, between the lower and the upper end of its 95 % credible "
        "interval, in grey: where the three are together the network knows, where they part it does not. Drag to turn. "
        f"Every second point of the grid is drawn. {_made(record)}"
    )
    first = [trace | {"visible": i < 3} for i, trace in enumerate(_surfaces(view, 0))]
    plot = {"data": first, "layout": layout, "frames": frames}
    return Figure("surface", "The same as a surface", plot, caption, _grid_rows(view))


def _surfaces(view: View, t: int) -> list[Plot]:
    """Six surfaces: both ends of the interval and the probability between them, of both scenarios."""
    data = list[Plot]()
    for scenario in SCENARIOS:
        panel = view[scenario][t]
        place: Plot = {"x": numbers(panel["across"][::THIN], 3), "y": numbers(panel["up"][::THIN], 3)}
        for key in ("lower", "upper", "probability"):
            plain = {"colorscale": [[0, "#909090"], [1, "#909090"]], "opacity": 0.3, "hoverinfo": "skip"}
            look = {"colorscale": BELIEF, "opacity": 1.0} if key == "probability" else plain
            shape = {"type": "surface", "z": numbers(panel[key][::THIN, ::THIN], 3), "cmin": 0, "cmax": 1}
            data.append(shape | look | place | {"showscale": False, "name": key})
    return data


def over_time(record: Record, view: View) -> Figure:
    """Accuracy above, interval lengths below; all of it is in the record."""
    found, degrees = record["metrics"], record["config"]["degrees"]
    data, rows = list[Plot](), list[dict[str, Any]]()
    for scenario, words in SCENARIOS.items():
        look, by = LOOKS[scenario], found[scenario]["interval_length"]
        values = {
            "accuracy": found[scenario]["accuracy"],
            "on data": by["on_data_by_t"],
            "off data": by["off_data_by_t"],
        }
        values = {key: common.array(value) for key, value in values.items()}
        dash = look._replace(dash="dash")
        data.append(drawing.dots(words, degrees, values["accuracy"], look))
        for key, drawn in (("on data", look), ("off data", dash)):
            trace = drawing.dots(f"{words}, {key}", degrees, values[key], drawn, panel=1)
            data.append(trace | {"showlegend": True})
        rows += drawing.columns(scenario=[scenario] * len(degrees), degrees=common.array(degrees), **values)
    layout = drawing.stacked("turned by (degrees)", "accuracy", "mean interval length", yaxis2={"rangemode": "tozero"})
    layout["xaxis"] |= {"tickvals": numbers(degrees)}
    caption = (
        "Above, the share of fresh points that the network at the posterior mean gets right. Below, the mean length of "
        "the 95 % credible interval on fresh points (lines) and on points of the grid that are farther than "
        f"{record['config'].get('off_data')} from all data (dashed). {_made(record)}"
    )
    return Figure(
        "over-time", "Accuracy and interval length over time", {"data": data, "layout": layout}, caption, rows
    )


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of both scenarios, layer by layer."""
    degrees = np.asarray(record["config"]["degrees"], np.float64)
    panels = {words: view.get(scenario, []) for scenario, words in SCENARIOS.items()}
    signals = {
        words: {leaf: np.array([step["drift"][leaf] for step in steps]) for leaf in steps[0]["drift"]}
        for words, steps in panels.items()
        if steps and all("drift" in step for step in steps)
    }
    caption = f"{common.DRIFT} {_made(record)}"
    return common.drift(signals, degrees, "turned by (degrees)", record["config"].get("jump_prob"), "drift", caption)


def _made(record: Record) -> str:
    return f"HMNN. {common.words(record)}."


KIND = Kind(
    lambda record: "Two moons that turn",
    "Where does the filter know, and where does it say that it does not?",
    (plane, surface, over_time, drift),
)
