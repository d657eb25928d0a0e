"""Variational DropConnect: validation over epochs, withheld answers, and calibration."""

from typing import Any

import numpy as np

from hmnn.lab.drawing import calibration, shapes
from hmnn.lab.drawing.figure import Draw, Figure, Record, View, made
from hmnn.lab.drawing.palette import AMBER, BLUE, GREEN, VERMILION, Look, look
from hmnn.lab.drawing.shapes import Plot, array, numbers

KEEPS = {"0.25": Look(BLUE), "0.5": Look(AMBER), "0.75": Look(VERMILION), "1.0": Look(GREEN)}
"""1.0 is Bayes by Backprop, and has its colour."""
BY = {"epistemic": "by the variance over draws", "confidence": "by the top probability"}


def _keeps(record: Record) -> dict[str, dict[str, Any]]:
    """Keep -> its scores."""
    named = [str(keep) for keep in record["config"]["keeps"]]
    return {keep: record["metrics"][keep] for keep in named}


def _look(keep: str, place: int) -> Look:
    return KEEPS.get(keep) or look(keep, place)


def _name(keep: str) -> str:
    return "keep 1.0 (BBP)" if keep == "1.0" else f"keep {keep}"


def by_keep(record: Record, view: View) -> Figure:
    """The test accuracy of every seed, and the paper's number."""
    table = record.get("table", [])
    paper = {row["keep"]: row["paper"] for row in table if row.get("paper") is not None}
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, found) in enumerate(_keeps(record).items()):
        values, name = array(found["by_seed"]["test"]), _name(keep)
        marker = {"color": _look(keep, place).colour, "size": 10, "opacity": 0.85}
        data.append(shapes.markers(name, [name] * len(values), numbers(values), **marker))
        rows += shapes.columns(keep=keep, seed=list(range(len(values))), accuracy=values)
    if paper:
        data.append(shapes.printed(list(map(_name, paper)), numbers(list(paper.values()))))
    layout = shapes.stacked("share of the means that are kept (gamma)", "test accuracy", height=420)
    layout["yaxis"] |= {"tickformat": ".4~f"}
    layout["hovermode"] = "closest"
    caption = (
        "A dot is the test accuracy of one seed, by the prediction that validation chose; open "
        f"diamonds are the paper's numbers, where the record has them. {made(record)}"
    )
    return Figure("test", "Test accuracy", {"data": data, "layout": layout}, caption, rows)


def validation(record: Record, view: View) -> Figure:
    """The mean over the seeds and every seed above, the later epochs enlarged below."""
    curves = {keep: _curves(record, view, keep) for keep in _keeps(record)}
    length = next(iter(curves.values())).shape[1]
    epochs = view.get("epochs", record["config"]["chunk"] * np.arange(1, length + 1))
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, seeds) in enumerate(curves.items()):
        drawn = _look(keep, place)
        lines: list[tuple[Any, Any, Look, Plot]] = [(epochs, seeds.mean(axis=0), drawn, {})]
        faint = {"showlegend": False, "opacity": 0.35}
        for i, values in enumerate(seeds):
            curve = [i] * len(epochs)
            rows += shapes.columns(keep=keep, curve=curve, epoch=epochs, accuracy=values)
            if len(seeds) > 1:
                lines.insert(0, (epochs, values, drawn._replace(width=0.7), faint))
        for tried, reached in view.get("trials", {}).get(keep, []):
            dotted = drawn._replace(dash="dot", width=1.0)
            lines.append((tried, reached, dotted, {"showlegend": False}))
        name = _name(keep)
        data += [
            shapes.line(name, x, y, thin, i, **more) for x, y, thin, more in lines for i in range(2)
        ]
    layout = shapes.stacked("epoch", "validation accuracy", "the same, enlarged", height=640)
    late = np.concatenate([seeds[:, length // 3 :].ravel() for seeds in curves.values()])
    late = late[np.isfinite(late)]
    if late.size and np.ptp(late) > 0:
        edge = 0.1 * np.ptp(late)
        layout["yaxis2"] |= {"range": numbers([late.min() - edge, late.max() + edge])}
    layout["yaxis"] |= {"tickformat": ".3~f"}
    layout["yaxis2"] |= {"tickformat": ".4~f"}
    also = ", thin lines are the seeds" if "validation" in view else ""
    caption = (
        "The share of the validation images that the network at the posterior mean gets right, "
        f"while it is trained. A line is the mean over the seeds{also}; dotted lines are the best "
        "trials of the search, if there was one. Below, the same curves, enlarged about their "
        f"later part. {made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("validation", "Validation over epochs", plot, caption, rows)


def _curves(record: Record, view: View, keep: str) -> np.ndarray:
    """The curve of every seed; without a view, their mean alone."""
    if keep in view.get("validation", {}):
        return array(view["validation"][keep])
    return array([record["metrics"][keep]["validation_by_chunk"]])


def rejection(record: Record, view: View) -> Figure:
    """Accuracy on the rest when the most uncertain answers are withheld."""
    withheld = 100 * (1 - array(record["metrics"]["kept"]))
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, found) in enumerate(_keeps(record).items()):
        for by, words in BY.items():
            drawn = _look(keep, place)._replace(dash="solid" if by == "epistemic" else "dash")
            values = array(found["rejection"][by])
            data.append(shapes.line(f"{_name(keep)}, {words}", withheld, values, drawn))
            rows += shapes.columns(keep=keep, by=by, withheld=withheld, accuracy=values)
    across = "answers withheld, the most uncertain first (%)"
    layout = shapes.stacked(across, "test accuracy on the rest", height=480)
    layout["yaxis"] |= {"tickformat": ".4~f"}
    caption = (
        "When the network may keep silent on the images about which it is least certain, it errs "
        "less on the others. Lines order the images by the variance of the prediction over draws "
        "of the weights, dashed lines by the top probability. Means over the seeds. "
        f"{made(record)}"
    )
    plot = {"data": data, "layout": layout}
    return Figure("rejection", "What withholding answers gains", plot, caption, rows)


def reliability(record: Record, view: View) -> Figure | None:
    """Confidence against accuracy on the test images."""
    kinds = {"posterior mean": "mean", "mean over draws": "sampled"}
    kept = view.get("reliability", {})
    found = {
        words: {keep: kept[keep][key] for keep in kept if key in kept[keep]}
        for words, key in kinds.items()
    }
    looks = {keep: _look(keep, place) for place, keep in enumerate(_keeps(record))}
    caption = f"The test images of all seeds together. {made(record)}"
    return calibration.diagram(found, {keep: _name(keep) for keep in kept}, caption, looks)


FIGURES: tuple[Draw, ...] = (by_keep, validation, rejection, reliability)
