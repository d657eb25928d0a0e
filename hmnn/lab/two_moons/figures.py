"""The two moons: what the filter believes over the plane, and how its intervals go."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hmnn.lab.drawing import drift_signal, shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View, made
from hmnn.lab.drawing.palette import AMBER, BLUE, VERMILION, Look
from hmnn.lab.drawing.shapes import Plot, array, numbers

SCENARIOS = {"separated": "moons apart", "overlapping": "moons that overlap"}
LOOKS = {"separated": Look(BLUE, width=2.2), "overlapping": Look(VERMILION, width=2.2)}
CLASSES = {"first class": AMBER, "second class": BLUE}
BELIEF = [[0, "#f3c46b"], [0.5, "#f7f7f7"], [1, "#74b3dc"]]
"""From a light tone of the first class to one of the second; white where both are as probable."""
ENDS = [[0, "#909090"], [1, "#909090"]]
THIN = 2
"""In the surface and in the CSV files, every so many points of the grid."""


def plane(record: Record, view: View) -> Figure | None:
    """Probability above, interval length below, the points on both; a slider over time."""
    if not (steps := _steps(view)):
        return None
    frames = _frames(_panels, view, steps)
    layout = _plane_layout(view) | {"sliders": shapes.slider(steps, "turned by ")}
    caption = (
        "Above, the probability of the second class: white where the network finds both classes "
        "equally probable. Below, the length of the 95 % credible interval of that probability, "
        "long where the network does not know; the white line is where the probability is one "
        "half. The dots are some of the points learned at this time step. Left and right differ "
        "in the noise of the data. The CSV file has every second point of the grid, in both "
        f"directions. HMNN. {made(record)}"
    )
    plot = {"data": frames[0]["data"], "layout": layout, "frames": frames}
    title = "What the filter believes, step by step"
    return Figure("plane", title, plot, caption, _grid_rows(view))


def _steps(view: View) -> list[str]:
    if not set(SCENARIOS) <= set(view):
        return []
    return [str(panel["title"]) for panel in view["separated"]]


def _frames(draw: Callable[[View, int], list[Plot]], view: View, steps: list[str]) -> list[Plot]:
    found = [draw(view, t) for t in range(len(steps))]
    pairs = zip(steps, found, strict=True)
    return [{"name": n, "data": data, "traces": list(range(len(data)))} for n, data in pairs]


def _panels(view: View, t: int) -> list[Plot]:
    """Twelve traces: in each scenario both heatmaps, a contour, and the points on both."""
    data = list[Plot]()
    for column, scenario in enumerate(SCENARIOS):
        panel, above, below = view[scenario][t], _place(column), _place(column + 2)
        grid = _even("x", panel["across"]) | _even("y", panel["up"])
        p, length = numbers(panel["probability"], 3), numbers(panel["upper"] - panel["lower"], 3)
        data.append(_heat(p, BELIEF, "probability", 0.77, column == 1) | grid | above)
        data.append(_heat(length, "Viridis", "length", 0.23, column == 1) | grid | below)
        half = {"start": 0.5, "end": 0.5, "coloring": "none"}
        rule: Plot = {"type": "contour", "z": p, "contours": half}
        rule |= {"line": {"color": "#ffffff", "width": 2}, "hoverinfo": "skip"}
        data.append(rule | {"showscale": False, "showlegend": False} | grid | below)
        data += [_points(panel, label, colour, above) for label, colour in CLASSES.items()]
        data.append(_points(panel, None, "#ffffff", below))
    return data


def _heat(z: list[Any], colours: Any, title: str, height: float, shown: bool) -> Plot:
    bar = {"y": height, "title": {"text": title}, "len": 0.45, "thickness": 12, "outlinewidth": 0}
    scale = {"zmin": 0, "zmax": 1, "colorscale": colours, "zsmooth": "fast"}
    return {"type": "heatmap", "z": z, "showscale": shown, "colorbar": bar} | scale


def _even(letter: str, values: np.ndarray) -> dict[str, float]:
    """Where the grid begins and its step: plotly smooths fast only what it knows to be even."""
    low, high = float(values[0]), float(values[-1])
    step = shapes.number((high - low) / (len(values) - 1))
    return {f"{letter}0": shapes.number(low), f"d{letter}": step}


def _place(panel: int) -> dict[str, str]:
    return {"xaxis": shapes.axis("x", panel), "yaxis": shapes.axis("y", panel)}


def _points(panel: dict[str, Any], label: str | None, colour: str, place: dict[str, str]) -> Plot:
    """The points of one class, or small ones of both."""
    which = np.full(len(panel["y"]), True)
    if label is not None:
        which = panel["y"] == list(CLASSES).index(label)
    edge = {"color": "#222222", "width": 0.6} if label else {"width": 0}
    marker = {"color": colour, "size": 5 if label else 2.5, "line": edge}
    x, y = (numbers(panel["x"][which][:, i], 3) for i in range(2))
    return shapes.markers(label or "points", x, y, **marker) | {"hoverinfo": "skip"} | place


def _plane_layout(view: View) -> Plot:
    """Two rows and two columns of panels, equally long on both axes."""
    layout: Plot = {"height": 820, "showlegend": False}
    layout |= {"margin": {"l": 60, "r": 20, "t": 40, "b": 50}, "annotations": []}
    wide, high = ([0.0, 0.47], [0.53, 1.0]), ([0.54, 1.0], [0.0, 0.46])
    for panel in range(4):
        row, column = divmod(panel, 2)
        reach = _reach(view[list(SCENARIOS)[column]])
        axis: Plot = {"range": [-reach, reach], "showgrid": False, "zeroline": False}
        axis |= {"constrain": "domain"}
        across: Plot = {"domain": wide[column], "anchor": shapes.axis("y", panel)}
        across |= {"title": {"text": "x1" if row else ""}}
        up: Plot = {"domain": high[row], "anchor": shapes.axis("x", panel)}
        up |= {"title": {"text": "" if column else "x2"}, "scaleanchor": shapes.axis("x", panel)}
        layout[shapes.axis("xaxis", panel)] = axis | across
        layout[shapes.axis("yaxis", panel)] = axis | up
    for words, x in zip(SCENARIOS.values(), (0.0, 0.53), strict=True):
        layout["annotations"].append(shapes.note(words, x, 1.01))
    return layout


def _reach(panels: list[dict[str, Any]]) -> float:
    """Half the side of a square about the origin that holds the grids of all time steps."""
    edges = [np.abs(array(panel[key])).max() for panel in panels for key in ("across", "up")]
    return shapes.number(max(edges), 3)


def _grid_rows(view: View) -> list[dict[str, Any]]:
    """Every second point of the grids, in both directions."""
    rows = list[dict[str, Any]]()
    for scenario in SCENARIOS:
        for panel in view[scenario]:
            x, y = np.meshgrid(panel["across"][::THIN], panel["up"][::THIN])
            z = {key: panel[key][::THIN, ::THIN] for key in ("probability", "lower", "upper")}
            given = {key: numbers(v.ravel(), 3) for key, v in {"x1": x, "x2": y, **z}.items()}
            rows += shapes.columns(scenario=scenario, turned=str(panel["title"]), **given)
    return rows


def surface(record: Record, view: View) -> Figure | None:
    """The probability as a surface between the ends of its interval; a slider over time."""
    if not (steps := _steps(view)):
        return None
    traces = list(range(6))
    frames = _frames(_surfaces, view, steps)
    reach = max(_reach(view[scenario]) for scenario in SCENARIOS)
    flat = {"range": [-reach, reach]}
    titles = {"xaxis": "x1", "yaxis": "x2"}
    scene: Plot = {name: flat | {"title": {"text": text}} for name, text in titles.items()}
    scene["zaxis"] = {"title": {"text": "p"}, "range": [0, 1], "tickvals": [0, 0.5, 1]}
    eye, centre = {"x": 1.15, "y": -1.15, "z": 0.8}, {"x": 0, "y": 0, "z": -0.15}
    scene |= {"camera": {"eye": eye, "center": centre}}
    scene |= {"aspectmode": "manual", "aspectratio": {"x": 1, "y": 1, "z": 0.6}}
    layout: Plot = {"height": 560, "margin": dict.fromkeys("lrtb", 0), "showlegend": False}
    shown = {words: [i // 3 == k for i in traces] for k, words in enumerate(SCENARIOS.values())}
    menu = shapes.menu("Data", {words: {"visible": v} for words, v in shown.items()}, traces)
    layout |= {"scene": scene, "sliders": shapes.slider(steps, "turned by "), "updatemenus": menu}
    caption = (
        "The probability p of the second class as a surface, between the lower and the upper end "
        "of its 95 % credible interval, in grey: where the three are together the network knows, "
        "where they part it does not. Drag to turn. Every second point of the grid is drawn. "
        f"HMNN. {made(record)}"
    )
    first = [trace | {"visible": i < 3} for i, trace in enumerate(_surfaces(view, 0))]
    plot = {"data": first, "layout": layout, "frames": frames}
    return Figure("surface", "The same as a surface", plot, caption, _grid_rows(view))


def _surfaces(view: View, t: int) -> list[Plot]:
    """Six surfaces: both ends of the interval and the probability between, of both scenarios."""
    data = list[Plot]()
    for panel in (view[scenario][t] for scenario in SCENARIOS):
        place = {"x": numbers(panel["across"][::THIN], 3), "y": numbers(panel["up"][::THIN], 3)}
        for key in ("lower", "upper", "probability"):
            look: Plot = {"colorscale": ENDS, "opacity": 0.3, "hoverinfo": "skip"}
            if key == "probability":
                look = {"colorscale": BELIEF, "opacity": 1.0}
            z = numbers(panel[key][::THIN, ::THIN], 3)
            shape = {"type": "surface", "z": z, "name": key, "showscale": False}
            data.append(shape | {"cmin": 0, "cmax": 1} | look | place)
    return data


def over_time(record: Record, view: View) -> Figure:
    """Accuracy above, interval lengths below; all of it is in the record."""
    found, degrees = record["metrics"], record["config"]["degrees"]
    data, rows = list[Plot](), list[dict[str, Any]]()
    for scenario, words in SCENARIOS.items():
        look, by = LOOKS[scenario], found[scenario]["interval_length"]
        accuracy = array(found[scenario]["accuracy"])
        lengths = {f"{where} data": array(by[f"{where}_data_by_t"]) for where in ("on", "off")}
        data.append(shapes.dots(words, degrees, accuracy, look))
        for (key, length), dash in zip(lengths.items(), ("solid", "dash"), strict=True):
            drawn, more = look._replace(dash=dash), {"panel": 1, "showlegend": True}
            data.append(shapes.dots(f"{words}, {key}", degrees, length, drawn, **more))
        at = array(degrees)
        rows += shapes.columns(scenario=scenario, degrees=at, accuracy=accuracy, **lengths)
    layout = shapes.stacked("turned by (degrees)", "accuracy", "mean interval length")
    layout["yaxis2"] |= {"rangemode": "tozero"}
    layout["xaxis"] |= {"tickvals": numbers(degrees)}
    caption = (
        "Above, the share of fresh points that the network at the posterior mean gets right. "
        "Below, the mean length of the 95 % credible interval on fresh points (lines) and on "
        f"points of the grid that are farther than {record['config'].get('off_data')} from all "
        f"data (dashed). HMNN. {made(record)}"
    )
    title, plot = "Accuracy and interval length over time", {"data": data, "layout": layout}
    return Figure("over-time", title, plot, caption, rows)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of both scenarios, layer by layer."""
    panels = {words: view.get(scenario, []) for scenario, words in SCENARIOS.items()}
    signals = {
        words: {leaf: array([step["drift"][leaf] for step in steps]) for leaf in steps[0]["drift"]}
        for words, steps in panels.items()
        if steps and all("drift" in step for step in steps)
    }
    degrees, phi = array(record["config"]["degrees"]), record["config"].get("jump_prob")
    caption = f"HMNN. {made(record)}"
    return drift_signal.signals(signals, degrees, "turned by (degrees)", phi, caption)


FIGURES: tuple[Draw, ...] = (plane, surface, over_time, drift)
