"""Variational DropConnect: validation over epochs, accuracy when answers are withheld, and calibration."""

from typing import Any

import numpy as np

from hmnn.report.site.parts import Figure
from hmnn.report.site.sections import common, drawing
from hmnn.report.site.sections.common import Kind, Record, View, array
from hmnn.report.site.sections.drawing import Plot
from hmnn.report.site.sections.palette import AMBER, BLUE, GREEN, VERMILION, Look, look

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


def validation(record: Record, view: View) -> Figure:
    """The mean over the seeds and every seed above, the later epochs larger below; without a view, the means alone."""
    curves = {keep: _curves(record, view, keep) for keep in _keeps(record)}
    epochs = view["epochs"] if "epochs" in view else _epochs(record, curves)
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, seeds) in enumerate(curves.items()):
        drawn = _look(keep, place)
        thin, length = drawn._replace(width=0.7), len(epochs)
        for i, values in enumerate(seeds):
            rows += drawing.columns(keep=[keep] * length, curve=[i] * length, epoch=epochs, accuracy=values)
            if len(seeds) > 1:
                faint = {"showlegend": False, "opacity": 0.35}
                data += [drawing.line(_name(keep), epochs, values, thin, axis, **faint) for axis in range(2)]
        data += [drawing.line(_name(keep), epochs, seeds.mean(axis=0), drawn, axis) for axis in range(2)]
        for trial in view.get("trials", {}).get(keep, []):
            dotted = drawn._replace(dash="dot", width=1.0)
            tried, reached = trial
            data += [drawing.line(_name(keep), tried, reached, dotted, i, showlegend=False) for i in range(2)]
    layout = drawing.stacked("epoch", "validation accuracy", "the same, enlarged", height=640)
    late = np.concatenate([seeds[:, len(epochs) // 3 :].ravel() for seeds in curves.values()])
    late = late[np.isfinite(late)]
    if late.size and np.ptp(late) > 0:
        edge = 0.1 * np.ptp(late)
        layout["yaxis2"] |= {"range": drawing.numbers([late.min() - edge, late.max() + edge])}
    layout["yaxis"] |= {"tickformat": ".3~f"}
    layout["yaxis2"] |= {"tickformat": ".4~f"}
    lines = "A line is the mean over the seeds" + (", thin lines are the seeds" if "validation" in view else "")
    caption = (
        "The share of the validation images that the network at the posterior mean gets right, while it is trained. "
        f"{lines}; dotted lines are the best trials of the search, if there was one. Below, the same curves, enlarged "
        f"about their later part. {common.words(record)}."
    )
    return Figure("validation", "Validation over epochs", {"data": data, "layout": layout}, caption, rows)


def _curves(record: Record, view: View, keep: str) -> np.ndarray:
    if keep in view.get("validation", {}):
        return array(view["validation"][keep])
    return array([record["metrics"][keep]["validation_by_chunk"]])


def _epochs(record: Record, curves: dict[str, np.ndarray]) -> np.ndarray:
    return record["config"]["chunk"] * np.arange(1, next(iter(curves.values())).shape[1] + 1)


def rejection(record: Record, view: View) -> Figure:
    """Accuracy on the rest when the most uncertain answers are withheld."""
    withheld = 100 * (1 - array(record["metrics"]["kept"]))
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, found) in enumerate(_keeps(record).items()):
        for by, words in BY.items():
            drawn = _look(keep, place)._replace(dash="solid" if by == "epistemic" else "dash")
            values = array(found["rejection"][by])
            data.append(drawing.line(f"{_name(keep)}, {words}", withheld, values, drawn))
            words_ = {"keep": [keep] * len(values), "by": [by] * len(values)}
            rows += drawing.columns(**words_, withheld=withheld, accuracy=values)
    layout = drawing.stacked("answers withheld, the most uncertain first (%)", "test accuracy on the rest", height=480)
    layout["yaxis"] |= {"tickformat": ".4~f"}
    caption = (
        "When the network may keep silent on the images about which it is least certain, it errs less on the others. "
        "Lines order the images by the variance of the prediction over draws of the weights, dashed lines by the top "
        f"probability. Means over the seeds. {common.words(record)}."
    )
    return Figure("rejection", "What withholding answers gains", {"data": data, "layout": layout}, caption, rows)


def reliability(record: Record, view: View) -> Figure | None:
    """Confidence against accuracy on the test images."""
    kinds = {"posterior mean": "mean", "mean over draws": "sampled"}
    kept = view.get("reliability", {})
    found = {words: {keep: kept[keep][key] for keep in kept if key in kept[keep]} for words, key in kinds.items()}
    labels = {keep: _name(keep) for keep in kept}
    looks = {keep: _look(keep, place) for place, keep in enumerate(_keeps(record))}
    caption = f"{common.RELIABLE} The test images of all seeds together. {common.words(record)}."
    return common.reliability(found, labels, "reliability", caption, looks)


def by_keep(record: Record, view: View) -> Figure:
    """The test accuracy of every seed, and the paper's number."""
    keeps = _keeps(record)
    paper = {row["keep"]: row["paper"] for row in record.get("table", []) if row.get("paper") is not None}
    data, rows = list[Plot](), list[dict[str, Any]]()
    for place, (keep, found) in enumerate(keeps.items()):
        values = array(found["by_seed"]["test"])
        marker = {"color": _look(keep, place).colour, "size": 10, "opacity": 0.85}
        trace = {"type": "scatter", "mode": "markers", "name": _name(keep), "marker": marker, "showlegend": False}
        data.append(trace | {"x": [_name(keep)] * len(values), "y": drawing.numbers(values)})
        rows += drawing.columns(keep=[keep] * len(values), seed=list(range(len(values))), accuracy=values)
    if paper:
        data.append(drawing.printed([_name(keep) for keep in paper], drawing.numbers(list(paper.values()))))
    layout = drawing.stacked("share of the means that are kept (gamma)", "test accuracy", height=420)
    layout["yaxis"] |= {"tickformat": ".4~f"}
    layout["hovermode"] = "closest"
    caption = (
        "A dot is the test accuracy of one seed, by the prediction that validation chose; open diamonds are the "
        f"paper's numbers, where the record has them. {common.words(record)}."
    )
    return Figure("test", "Test accuracy", {"data": data, "layout": layout}, caption, rows)


KIND = Kind(
    lambda record: "Variational DropConnect on MNIST",
    "Does dropping means while training make a Bayesian network classify better?",
    (by_keep, validation, rejection, reliability),
)
