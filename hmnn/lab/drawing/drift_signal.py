"""The drift signal: how probable it is that the weights of a layer have just made a big jump."""

import re
from typing import Any

from hmnn.lab.drawing import shapes
from hmnn.lab.drawing.figure import Figure
from hmnn.lab.drawing.palette import GREY, HUES, Look, look

LAYER = re.compile(r"layers\[(\d+)\]\.(weight|bias)")
ALL = "all weights"
READING = (
    "The probability, given the new weights, that a weight was reached by the big jump of the "
    "kernel rather than the small one, averaged over the weights of a layer. The dotted line is "
    "the probability of a big jump before the data are seen: above it the layer moves more than "
    "usual, below it the layer stays."
)


def signals(
    found: dict[str, dict[str, Any]], x: Any, x_label: str, phi: Any, caption: str
) -> Figure | None:
    """Panels of drift signals, {panel: {leaf of the network: its signal at each x}}.

    phi is the probability of a big jump before the data are seen, or {panel: phi}.
    """
    found = {panel: leaves for panel, leaves in found.items() if leaves}
    if not found:
        return None
    data, rows = list[shapes.Plot](), list[dict[str, Any]]()
    seen = dict.fromkeys(leaf for leaves in found.values() for leaf in leaves)
    order = sorted(seen, key=lambda leaf: (leaf != ALL, leaf))
    mode = "lines+markers" if len(x) < shapes.FEW else "lines"
    for i, (panel, leaves) in enumerate(found.items()):
        for place, leaf in enumerate(name for name in order if name in leaves):
            name, values = layer(leaf), leaves[leaf]
            first = all(trace["name"] != name for trace in data)
            more = {"mode": mode, "showlegend": first}
            data.append(shapes.line(name, x, values, _look(leaf, place), i, **more))
            rows += shapes.columns(panel=panel, weights=name, at=x, signal=values)
    names = [f"big jump, {panel}" if panel else "probability of a big jump" for panel in found]
    layout = shapes.stacked(x_label, *names)
    layout["xaxis"] |= {"tickvals": shapes.numbers(x)} if len(x) < shapes.FEW / 3 else {}
    before = [phi.get(panel) if isinstance(phi, dict) else phi for panel in found]
    layout["shapes"] = [shapes.level(float(p), i) for i, p in enumerate(before) if p is not None]
    title, plot = "Where do the weights jump? The drift signal", {"data": data, "layout": layout}
    return Figure("drift", title, plot, f"{READING} {caption}", rows)


def layer(leaf: str) -> str:
    """A leaf as a reader calls it: "layers[0].weight" is "layer 1, weights"."""
    if found := LAYER.fullmatch(leaf):
        kind = "weights" if found[2] == "weight" else "biases"
        return f"layer {int(found[1]) + 1}, {kind}"
    return leaf


def _look(leaf: str, place: int) -> Look:
    """A hue for each layer, dots for its biases, a thick grey line for all weights."""
    if leaf == ALL:
        return Look(GREY, "solid", 3.0)
    if found := LAYER.fullmatch(leaf):
        dash = "solid" if found[2] == "weight" else "dot"
        return Look(HUES[int(found[1]) % len(HUES)], dash)
    return look(leaf, place)
