"""The evolving classifier: accuracy over time, HMNN against the other methods, and calibration."""

from typing import Any

import numpy as np

from hmnn.lab.drawing import calibration, drift_signal, shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View, label, made
from hmnn.lab.drawing.palette import BLUE, GREY, TRUTH, VERMILION, Look, look
from hmnn.lab.drawing.shapes import Plot, array, numbers


def _protocols(record: Record) -> dict[str, dict[str, Any]]:
    """Protocol -> method -> its scores, in the order of the record."""
    return {name: record["metrics"][name] for name in record["config"]["protocols"]}


def accuracy_over_time(record: Record, view: View) -> Figure:
    """Mean over the seeds and their range; below, what is lost to a perfect reader, and f_t."""
    protocols = _protocols(record)
    first = next(iter(protocols))
    steps = np.arange(1, len(next(iter(protocols[first].values()))["by_step"]["accuracy"]) + 1)
    best = np.maximum(view["chances"], 1 - view["chances"]) if "chances" in view else None
    lines = {p: _lines(view, p, methods, steps, best) for p, methods in protocols.items()}
    data = lines[first]
    layout = shapes.stacked("time step", "test accuracy", height=480)
    if best is not None:
        data = [*data, shapes.line("perfect reader", steps, best, TRUTH)]
        f_t = Look(GREY, "solid", 2.0)
        data.append(shapes.line("f_t", steps, view["chances"], f_t, 2, showlegend=True))
        names = "time step", "test accuracy", "expected accuracy lost", "f_t"
        layout = shapes.stacked(*names, shares=(2.6, 1.8, 0.8), height=780)
        layout |= {"shapes": [shapes.level(0.5, 2)]}
        shapes.logarithmic(layout, "yaxis2")
        layout["yaxis3"] |= {"range": [-0.05, 1.05]}
    if len(lines) > 1:
        put = {f"protocol {p}": {"y": [t["y"] for t in traces]} for p, traces in lines.items()}
        layout["updatemenus"] = shapes.menu("Protocol", put, range(len(lines[first])))
    layout["yaxis"] |= {"range": [0, 1.02]}
    layout["xaxis"] |= {"dtick": 1 if len(steps) < shapes.FEW else 10}
    layout["hovermode"] = "closest"
    config = record["config"]
    caption = (
        f"Every time step brings {config.get('rows')} digits; a digit is named by its label with "
        "probability f_t (below), else by the next one. The dashed line is a reader who never "
        "mistakes a digit and always gives the more probable name; in the middle, how much "
        "expected accuracy, which the noise of the drawn labels leaves alone, each method loses "
        "to that reader, on a logarithmic axis. Lines are means over "
        f"{config.get('seeds')} seeds, areas the range of the seeds. Methods are switched on and "
        f"off in the legend. {made(record)}"
    )
    rows = [row for p, methods in protocols.items() for row in _rows(view, p, methods, steps)]
    plot = {"data": data, "layout": layout}
    return Figure("accuracy", "Accuracy over time", plot, caption, rows)


def _lines(
    view: View, protocol: str, methods: dict[str, Any], steps: np.ndarray, best: Any
) -> list[Plot]:
    """For each method what it loses to the best, its range over the seeds and, last, its mean."""
    data = list[Plot]()
    for place, (method, found) in enumerate(methods.items()):
        mean, name = array(found["by_step"]["accuracy"]), label(view, method)
        drawn = look(method, place)
        seeds = view.get(protocol, {}).get(method, {}).get("accuracy", mean[None])
        if best is not None:
            lost = best - array(found["by_step"]["expected_accuracy"])
            data.append(shapes.line(name, steps, np.where(lost > 0, lost, np.nan), drawn, 1))
        data += shapes.band(name, steps, seeds.min(axis=0), seeds.max(axis=0), drawn)
        dotted: Plot = {"mode": "lines+markers", "marker": {"size": 5}}
        data.append(shapes.line(name, steps, mean, drawn, **dotted))
    return data


def _rows(view: View, protocol: str, methods: dict[str, Any], steps: np.ndarray) -> list[Plot]:
    rows, keys = list[Plot](), ("accuracy", "expected_accuracy", "nll", "ece")
    for method, found in methods.items():
        scores = {key: array(found["by_step"][key]) for key in keys}
        rows += shapes.columns(protocol=protocol, method=label(view, method), t=steps, **scores)
    return rows


def paired_differences(record: Record, view: View) -> Figure | None:
    """HMNN minus each other method, with the interval over the seeds; one colour per protocol."""
    paired = {p: found for p, found in record["metrics"]["paired"].items() if found}
    if not paired:
        return None
    rivals = list(dict.fromkeys(key for found in paired.values() for key in found))
    data, rows = list[Plot](), list[dict[str, Any]]()
    for i, (protocol, found) in enumerate(paired.items()):
        some = {key: found[key]["expected_accuracy"] for key in rivals if key in found}
        names = ("mean", "lower", "upper")
        ends = {key: array([d[key] for d in some.values()]) for key in names}
        mean, lower, upper = ends.values()
        place = array([-rivals.index(key) for key in some]) + 0.12 * (1 - 2 * i)
        bars: Plot = {"array": numbers(upper - mean), "arrayminus": numbers(mean - lower)}
        bars |= {"type": "data", "symmetric": False, "thickness": 2, "width": 5}
        colour, symbol = ((BLUE, "circle"), (VERMILION, "diamond"))[i % 2]
        marker = {"color": colour, "size": 9, "symbol": symbol}
        dots = shapes.markers(f"protocol {protocol}", numbers(mean), numbers(place), **marker)
        data.append(dots | {"error_x": bars, "showlegend": True})
        rows += shapes.columns(protocol=protocol, pair=list(some), **ends)
    across, height = "HMNN minus the other, expected accuracy", 160 + 55 * len(rivals)
    layout = shapes.stacked(across, "", height=height, hovermode="closest")
    others = [label(view, key.removeprefix("hmnn - ")) for key in rivals]
    ticks = {"tickvals": [-i for i in range(len(rivals))], "ticktext": others}
    layout["yaxis"] |= ticks | {"zeroline": False}
    zero = {"zeroline": True, "zerolinewidth": 2, "zerolinecolor": GREY}
    layout["xaxis"] |= zero | {"tickformat": "+.3f"}
    caption = (
        "How much more often HMNN is right than each other method, averaged over time, seed by "
        "seed on the same data; the bar is a 95 % interval over the seeds. Right of zero HMNN is "
        "better; where a bar crosses zero, these seeds do not tell. Expected accuracy leaves out "
        f"the noise of the drawn labels. {made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("paired", "HMNN against the others", plot, caption, rows)


def reliability(record: Record, view: View) -> Figure | None:
    """Confidence against accuracy, by protocol and by how the prediction is made."""
    kinds = {"posterior mean": "reliability", "mean over draws": "sampled_reliability"}
    found = dict[str, dict[str, Any]]()
    for protocol, methods in _protocols(record).items():
        kept = {m: view[protocol][m] for m in methods if m in view.get(protocol, {})}
        for words, key in kinds.items():
            bins = {m: parts[key] for m, parts in kept.items() if key in parts}
            found[f"{words}, protocol {protocol}"] = bins
    names = {m: label(view, m) for methods in _protocols(record).values() for m in methods}
    return calibration.diagram(found, names, f"All time steps and seeds together. {made(record)}")


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of HMNN in the first protocol, layer by layer."""
    config = record["config"]
    protocol, steps = config["protocols"][0], np.arange(1, config["steps"] + 1)
    signal = view.get(protocol, {}).get("hmnn", {}).get("drift", {})
    caption = f"HMNN, protocol {protocol}, mean over the seeds. {made(record)}"
    return drift_signal.signals({"": signal}, steps, "time step", config.get("jump_prob"), caption)


FIGURES: tuple[Draw, ...] = (accuracy_over_time, paired_differences, reliability, drift)
