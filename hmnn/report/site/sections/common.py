"""What several sections show: reliability diagrams and the drift signal; and what every section says of its record."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hmnn.report.site.parts import Figure, Film
from hmnn.report.site.sections import drawing
from hmnn.report.site.sections.palette import GREY, HUES, Look, look

LAYER = re.compile(r"layers\[(\d+)\]\.(weight|bias)")
SETTINGS = ("seed", "profile", "set", "chosen", "settings", "made", "config", "workers", "seconds", "versions")
SMOKE = "This is the smoke profile: it shows that everything runs, and its numbers mean nothing."
QUICK = "This is the quick profile, smaller than the paper's: its numbers are not those of the experiment."
NO_VIEW = "Some figures are missing: there is no view beside this record. Running the command again writes it."


def words(record: dict[str, Any]) -> str:
    """Profile and seed, for captions."""
    found = ", ".join(f"{name} {record[name]}" for name in ("profile", "seed") if record.get(name) is not None)
    return found[:1].upper() + found[1:]


def settings(record: dict[str, Any]) -> dict[str, Any]:
    """What the reader may unfold."""
    return {name: record[name] for name in SETTINGS if record.get(name) not in (None, [], {})}


def table(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the record's table; an old record has none, and gives its summary."""
    rows = record.get("table")
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return rows
    summary = record.get("summary")
    rows = summary if isinstance(summary, list) else []
    return [{key: row.get(key) for key in ("what", "ours", "paper")} for row in rows if isinstance(row, dict)]


def notes(record: dict[str, Any], view: dict[str, Any] | None) -> list[str]:
    """What must be said of a run of an experiment."""
    profile = {"smoke": [SMOKE], "quick": [QUICK]}.get(str(record.get("profile")), [])
    return [*profile, *([] if view else [NO_VIEW])]


Record = dict[str, Any]
View = dict[str, Any]
Draw = Callable[[Record, View], Figure | Film | None]
"""draw(record, view): a figure; None if there is nothing to draw. A view that is missing is empty."""


class Kind(NamedTuple):
    """A kind of record, and how it is shown."""

    title: Callable[[Record], str]
    question: str
    figures: tuple[Draw, ...]
    table: Callable[[Record], list[dict[str, Any]]] = table
    notes: Callable[[Record, View | None], list[str]] = notes


EMPTY: dict[str, Any] = {"confidence": [], "accuracy": [], "share": []}


def reliability(
    found: dict[str, dict[str, dict[str, Any]]],
    labels: dict[str, str],
    name: str,
    caption: str,
    looks: dict[str, Look] | None = None,
) -> Figure | None:
    """A reliability diagram: choice -> method -> {"confidence", "accuracy", "share"}; a menu if there are choices."""
    found = {choice: methods for choice, methods in found.items() if methods}
    if not found:
        return None
    first = next(iter(found.values()))
    data = [drawing.diagonal("perfectly calibrated")]
    for i, (method, part) in enumerate(first.items()):
        data.append(_reliable(labels.get(method, method), part, (looks or {}).get(method) or look(method, i)))
    layout = drawing.square("stated probability of the predicted class", "share of answers that are right")
    if len(found) > 1:
        choices = {c: _put([methods.get(m, EMPTY) for m in first]) for c, methods in found.items()}
        layout["updatemenus"] = drawing.menu("Probabilities", choices, range(1, len(data)))
    rows = [
        {"probabilities": choice, "method": labels.get(method, method), **row}
        for choice, methods in found.items()
        for method, part in methods.items()
        for row in drawing.columns(**{key: part[key] for key in ("confidence", "accuracy", "share")})
    ]
    return Figure(name, "Can the stated probabilities be believed?", {"data": data, "layout": layout}, caption, rows)


RELIABLE = (
    "Answers are sorted into 15 bins by the probability that the method gave to its answer; a dot is a bin, larger "
    "where more answers fall into it. On the dashed line a method is right as often as it says; below it, too sure."
)


def _reliable(name: str, part: dict[str, Any], drawn: Look) -> drawing.Plot:
    return drawing.dots(name, array(part["confidence"]), part["accuracy"], drawn, part.get("share"))


def _put(parts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    made = [_reliable("", part, Look(HUES[0])) for part in parts]
    return {
        "x": [trace["x"] for trace in made],
        "y": [trace["y"] for trace in made],
        "marker.size": [trace["marker"]["size"] for trace in made],
    }


def drift(signals: dict[str, dict[str, Any]], x: Any, x_label: str, phi: Any, name: str, caption: str) -> Figure | None:
    """The drift signal: panel -> leaf -> its value at each x; phi, or panel -> phi, is its value before the data."""
    signals = {panel: leaves for panel, leaves in signals.items() if leaves}
    if not signals:
        return None
    data, rows = list[drawing.Plot](), list[dict[str, Any]]()
    seen = list(dict.fromkeys(leaf for leaves in signals.values() for leaf in leaves))
    order = sorted(seen, key=lambda leaf: (leaf != ALL, leaf))
    for i, (panel, leaves) in enumerate(signals.items()):
        for place, leaf in enumerate(name for name in order if name in leaves):
            shown = {"showlegend": _first(data, layer(leaf)), "mode": "lines+markers" if len(x) < FEW else "lines"}
            data.append(drawing.line(layer(leaf), x, leaves[leaf], _leaf(leaf, place), i) | shown)
            rows += drawing.columns(panel=[panel] * len(x), weights=[layer(leaf)] * len(x), at=x, signal=leaves[leaf])
    labels = [f"big jump, {panel}" if panel else "probability of a big jump" for panel in signals]
    layout = drawing.stacked(x_label, *labels)
    layout["xaxis"] |= {"tickvals": drawing.numbers(x)} if len(x) < FEW / 3 else {}
    before = [phi.get(panel) if isinstance(phi, dict) else phi for panel in signals]
    layout["shapes"] = [level(float(value), i) for i, value in enumerate(before) if value is not None]
    return Figure(name, "Where do the weights jump? The drift signal", {"data": data, "layout": layout}, caption, rows)


ALL, FEW = "all weights", 30
DRIFT = (
    "The probability, given the new weights, that a weight was reached by the big jump of the kernel rather than the "
    "small one, averaged over the weights of a layer. The dotted line is the probability of a big jump before the data "
    "are seen: above it the layer moves more than usual, below it the layer stays."
)


def _leaf(leaf: str, place: int) -> Look:
    """A hue for each layer, dots for its biases, a thick grey line for all weights."""
    if leaf == ALL:
        return Look(GREY, "solid", 3.0)
    if found := LAYER.fullmatch(leaf):
        return Look(HUES[int(found[1]) % len(HUES)], "solid" if found[2] == "weight" else "dot")
    return look(leaf, place)


def _first(data: list[drawing.Plot], name: str) -> bool:
    return all(trace["name"] != name for trace in data)


def level(value: float, panel: int) -> drawing.Plot:
    """A dotted line across a panel."""
    pen = {"color": GREY, "width": 1, "dash": "dot"}
    place = {"xref": "paper", "x0": 0, "x1": 1, "yref": drawing.axis("y", panel), "y0": value, "y1": value}
    return {"type": "line", "line": pen} | place


def layer(leaf: str) -> str:
    """A leaf as a reader calls it: "layers[0].weight" is "layer 1, weights"."""
    if found := LAYER.fullmatch(leaf):
        return f"layer {int(found[1]) + 1}, {'weights' if found[2] == 'weight' else 'biases'}"
    return leaf


def label(view: View, method: str) -> str:
    """A method as the run's table calls it; its own name if there is no view."""
    return str(view.get("labels", {}).get(method, method))


def array(values: Any) -> np.ndarray:
    """Numbers of a record, where null is NaN."""
    return np.array(values, np.float64)
