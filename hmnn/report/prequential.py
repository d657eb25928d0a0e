"""Figures of models on a stream: scores over time, and whether stated probabilities and intervals hold."""

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

PANELS = {
    "classification": {"accuracy": "accuracy", "log_loss": "log loss (nats)"},
    "regression": {"mae": "mean absolute error", "crps": "CRPS"},
}
CALIBRATION = {
    "classification": ("reliability", "confidence", "accuracy", "probability of the predicted class", "share right"),
    "regression": ("coverage", "level", "covered", "level of the interval", "share of rows inside"),
}
"""Name of the figure, keys of across and up, and their labels."""


def draw(
    task: str, curves: dict[str, dict[str, Any]], calibration: dict[str, dict[str, Any]], folder: Path
) -> list[Path]:
    """Write the curves, and the calibration if a model has one."""
    paths = [_curves(task, curves, folder / "curves.png")]
    shown = {name: found for name, found in calibration.items() if found}
    if shown:
        paths.append(_calibration(task, shown, list(curves), folder / f"{CALIBRATION[task][0]}.png"))
    return paths


def _curves(task: str, curves: dict[str, dict[str, Any]], path: Path) -> Path:
    panels = PANELS[task]
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 3 * len(panels)), sharex=True, layout="constrained")
    for axis, (key, label) in zip(axes, panels.items(), strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            values = np.asarray(curve[key], float)
            if not np.isnan(values).all():
                axis.plot(curve["row"], values, label=name, color=f"C{i}", linewidth=1.3)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend(ncols=min(len(curves), 5), fontsize=8)
    axes[-1].set_xlabel("row")
    return _save(figure, path)


def _calibration(task: str, shown: dict[str, dict[str, Any]], order: list[str], path: Path) -> Path:
    _, across, up, *labels = CALIBRATION[task]
    figure, axis = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    for name, found in shown.items():
        _dots(axis, found, across, up, name, f"C{order.index(name)}")
    axis.set(xlabel=labels[0], ylabel=labels[1], xlim=(0, 1.02), ylim=(0, 1.02))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return _save(figure, path)


def _dots(axis: Axes, found: dict[str, Any], across: str, up: str, name: str, colour: str) -> None:
    """A line, with dots as large as the share of rows behind them."""
    x, y = np.asarray(found[across], float), np.asarray(found[up], float)
    sizes = [6 + 120 * math.sqrt(share) * 0.5 for share in found["share"]] if "share" in found else 16
    axis.plot(x, y, color=colour, linewidth=1, label=name)
    axis.scatter(x, y, s=sizes, color=colour, alpha=0.7)


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
