"""The evolving classifier: accuracy over time with f_t below it, HMNN against each other method, and calibration."""

from typing import Any

import numpy as np

from hmnn.report.site.parts import Figure
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View, array
from hmnn.report.site.sections.drawing import Plot, numbers
from hmnn.report.site.sections.palette import BLUE, TRUTH, VERMILION, Look, look


def _protocols(record: Record) -> dict[str, dict[str, Any]]:
    """Protocol -> method -> its scores, in the order of the record."""
    return {name: record["metrics"][name] for name in record["config"]["protocols"]}


def accuracy_over_time(record: Record, view: View) -> Figure:
    """Mean over the seeds, and the range of the seeds as an area where the view has it; f_t in a panel below."""
    protocols = _protocols(record)
    first = next(iter(protocols))
    steps = np.arange(1, len(next(iter(protocols[first].values()))["by_step"]["accuracy"]) + 1)
    made = {protocol: _lines(view, protocol, methods, steps) for protocol, methods in protocols.items()}
    data = made[first]
    layout = drawing.stacked("time step", "test accuracy", height=480)
    if len(made) > 1:
        put = {f"protocol {protocol}": {"y": [t["y"] for t in traces]} for protocol, traces in made.items()}
        layout["updatemenus"] = drawing.menu("Protocol", put, range(len(data)))
    if "chances" in view:
        chances = view["chances"]
        data = [*data, drawing.line("perfect reader", steps, np.maximum(chances, 1 - chances), TRUTH)]
        data.append(drawing.line("f_t", steps, chances, Look("#808080", "solid", 2.0), 1, showlegend=True))
        both = drawing.stacked("time step", "test accuracy", "f_t", shares=(3.0, 1.0), height=600)
        layout = layout | both | {"shapes": [common.level(0.5, 1)]}
        layout["yaxis2"] |= {"range": [-0.05, 1.05]}
    layout["yaxis"] |= {"range": [0, 1.02]}
    layout["hovermode"] = "closest"
    layout["xaxis"] |= {"dtick": 1 if len(steps) < common.FEW else 10}
    caption = (
        f"Every time step brings {record['config'].get('rows')} digits; a digit is named by its label with probability "
        "f_t (below), else by the next one. The dashed line is a reader who never mistakes a digit and always gives "
        "the more probable name. "
        f"Lines are means over {record['config'].get('seeds')} seeds, areas the range of the seeds. Methods are "
        f"switched on and off in the legend. {common.words(record)}."
    )
    rows = [row for protocol, methods in protocols.items() for row in _rows(view, protocol, methods, steps)]
    return Figure("accuracy", "Accuracy over time", {"data": data, "layout": layout}, caption, rows)


def _lines(view: View, protocol: str, methods: dict[str, Any], steps: np.ndarray) -> list[Plot]:
    """Three traces per method, two of them the edges of an area."""
    data = list[Plot]()
    for place, (method, found) in enumerate(methods.items()):
        mean, name, drawn = array(found["by_step"]["accuracy"]), common.label(view, method), look(method, place)
        seeds = view.get(protocol, {}).get(method, {}).get("accuracy", mean[None])
        data += drawing.band(name, steps, seeds.min(axis=0), seeds.max(axis=0), drawn)
        data.append(drawing.line(name, steps, mean, drawn) | {"mode": "lines+markers", "marker": {"size": 5}})
    return data


def _rows(view: View, protocol: str, methods: dict[str, Any], steps: np.ndarray) -> list[dict[str, Any]]:
    rows = list[dict[str, Any]]()
    for method, found in methods.items():
        words = {"protocol": [protocol] * len(steps), "method": [common.label(view, method)] * len(steps)}
        scores = {key: array(found["by_step"][key]) for key in ("accuracy", "expected_accuracy", "nll", "ece")}
        rows += drawing.columns(**words, t=steps, **scores)
    return rows


def paired_differences(record: Record, view: View) -> Figure | None:
    """HMNN minus each other method, with the interval over the seeds; one colour per protocol."""
    paired = {protocol: found for protocol, found in record["metrics"]["paired"].items() if found}
    if not paired:
        return None
    rivals = list(dict.fromkeys(key for found in paired.values() for key in found))
    data, rows = list[Plot](), list[dict[str, Any]]()
    looks = (Look(BLUE), Look(VERMILION))
    for i, (protocol, found) in enumerate(paired.items()):
        some = {key: found[key]["expected_accuracy"] for key in rivals if key in found}
        mean, lower, upper = (array([d[key] for d in some.values()]) for key in ("mean", "lower", "upper"))
        place = array([-rivals.index(key) for key in some]) + 0.12 * (1 - 2 * i)
        bars = {"type": "data", "symmetric": False, "array": numbers(upper - mean), "arrayminus": numbers(mean - lower)}
        marker = {"color": looks[i % 2].colour, "size": 9, "symbol": ("circle", "diamond")[i % 2]}
        trace = {"type": "scatter", "mode": "markers", "name": f"protocol {protocol}", "x": numbers(mean)}
        data.append(trace | {"y": numbers(place), "marker": marker, "error_x": bars | {"thickness": 2, "width": 5}})
        words = {"protocol": [protocol] * len(some), "pair": list(some)}
        rows += drawing.columns(**words, mean=mean, lower=lower, upper=upper)
    names = [common.label(view, key.removeprefix("hmnn - ")) for key in rivals]
    layout = drawing.stacked("HMNN minus the other, expected accuracy", "", height=160 + 55 * len(rivals))
    layout["yaxis"] |= {"tickvals": [-i for i in range(len(rivals))], "ticktext": names, "zeroline": False}
    layout["xaxis"] |= {"zeroline": True, "zerolinewidth": 2, "zerolinecolor": "#808080", "tickformat": "+.3f"}
    layout["hovermode"] = "closest"
    caption = (
        "How much more often HMNN is right than each other method, averaged over time, seed by seed on the same data; "
        "the bar is a 95 % interval over the seeds. Right of zero HMNN is better; where a bar crosses zero, these "
        f"seeds do not tell. Expected accuracy leaves out the noise of the drawn labels. {common.words(record)}."
    )
    return Figure("paired", "HMNN against the others", {"data": data, "layout": layout}, caption, rows)


def reliability(record: Record, view: View) -> Figure | None:
    """Confidence against accuracy, by protocol and by how the prediction is made."""
    kinds = {"posterior mean": "reliability", "mean over draws": "sampled_reliability"}
    found = {
        f"{words}, protocol {protocol}": {
            m: view[protocol][m][key] for m in methods if key in view.get(protocol, {}).get(m, {})
        }
        for protocol, methods in _protocols(record).items()
        for words, key in kinds.items()
    }
    labels = {method: common.label(view, method) for methods in _protocols(record).values() for method in methods}
    caption = f"{common.RELIABLE} All time steps and seeds together. {common.words(record)}."
    return common.reliability(found, labels, "reliability", caption)


def drift(record: Record, view: View) -> Figure | None:
    """The drift signal of HMNN in the first protocol, layer by layer."""
    protocol = record["config"]["protocols"][0]
    signal = view.get(protocol, {}).get("hmnn", {}).get("drift", {})
    steps = np.arange(1, record["config"]["steps"] + 1)
    caption = f"{common.DRIFT} HMNN, protocol {protocol}, mean over the seeds. {common.words(record)}."
    return common.drift({"": signal}, steps, "time step", record["config"].get("jump_prob"), "drift", caption)


KIND = Kind(
    lambda record: "Labels that evolve",
    "Does a filter follow labels that evolve, and better than methods made to remember or to start anew?",
    (accuracy_over_time, paired_differences, reliability, drift),
)
