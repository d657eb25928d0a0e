"""Reliability diagrams: whether the probabilities that methods state can be believed."""

from typing import Any

from hmnn.lab.drawing import shapes
from hmnn.lab.drawing.figure import Figure
from hmnn.lab.drawing.palette import Look, look

READING = (
    "Answers are sorted into 15 bins by the probability that the method gave to its answer; a dot "
    "is a bin, larger where more answers fall into it. On the dashed line a method is right as "
    "often as it says; below it, too sure."
)
KEYS = ("confidence", "accuracy", "share")
Bins = dict[str, Any]
"""{"confidence", "accuracy", "share"} of the bins."""


def diagram(
    found: dict[str, dict[str, Bins]],
    labels: dict[str, str],
    caption: str,
    looks: dict[str, Look] | None = None,
) -> Figure | None:
    """A reliability diagram of {choice: {method: bins}}, with a menu if there are many choices."""
    found = {choice: methods for choice, methods in found.items() if methods}
    if not found:
        return None
    first = next(iter(found.values()))
    data = [shapes.diagonal("perfectly calibrated")]
    for i, (method, bins) in enumerate(first.items()):
        drawn = (looks or {}).get(method) or look(method, i)
        data.append(_trace(labels.get(method, method), bins, drawn))
    across, up = "stated probability of the predicted class", "share of answers that are right"
    layout = shapes.square(across, up)
    if len(found) > 1:
        none: Bins = {key: [] for key in KEYS}
        choices = {c: _put([methods.get(m, none) for m in first]) for c, methods in found.items()}
        layout["updatemenus"] = shapes.menu("Probabilities", choices, range(1, len(data)))
    rows = [
        {"probabilities": choice, "method": labels.get(method, method), **row}
        for choice, methods in found.items()
        for method, bins in methods.items()
        for row in shapes.columns(**{key: bins[key] for key in KEYS})
    ]
    title, plot = "Can the stated probabilities be believed?", {"data": data, "layout": layout}
    return Figure("reliability", title, plot, f"{READING} {caption}", rows)


def _trace(name: str, bins: Bins, drawn: Look) -> shapes.Plot:
    confidence = shapes.array(bins["confidence"])
    return shapes.dots(name, confidence, bins["accuracy"], drawn, bins.get("share"))


def _put(parts: list[Bins]) -> shapes.Plot:
    made = [_trace("", bins, look("")) for bins in parts]
    sizes = [trace["marker"]["size"] for trace in made]
    return {"x": [t["x"] for t in made], "y": [t["y"] for t in made], "marker.size": sizes}
