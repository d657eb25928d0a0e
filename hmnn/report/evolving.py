"""The paper's figure of the evolving classifier, accuracy over time above and f_t below, and what is lost between."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy import ndarray

Lines = dict[str, Float[ndarray, " steps"]]
"""Method -> a score at each time step."""


def draw(
    accuracy: dict[str, Lines], expected: dict[str, Lines], chances: Float[ndarray, " steps"], folder: Path
) -> list[Path]:
    """Write one figure per protocol, of the accuracy and the expected accuracy of every method."""
    return [_figure(p, accuracy[p], expected[p], chances, folder / f"accuracy-{p}.png") for p in accuracy]


def _figure(protocol: str, accuracy: Lines, expected: Lines, chances: Float[ndarray, " steps"], path: Path) -> Path:
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(9, 8), sharex=True, layout="constrained", height_ratios=(2.6, 1.8, 0.8)
    )
    t, best = np.arange(1, len(chances) + 1), np.maximum(chances, 1 - chances)
    _curves(top, t, accuracy)
    top.plot(t, best, color="black", lw=1.0, ls="--", label="perfect reader")
    top.set(ylabel=f"test accuracy, protocol {protocol}", ylim=(0, 1.02))
    top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)
    # Above, methods that follow lie on each other; expected accuracy is free of the noise of the labels.
    _curves(middle, t, {method: best - score for method, score in expected.items()})
    middle.set(ylabel="expected accuracy lost\nto the perfect reader", yscale="log")
    bottom.plot(t, chances, color="saddlebrown", lw=1.5)
    bottom.axhline(0.5, color="gold", lw=1.2)
    bottom.set(ylabel="$f_t$", xlabel="time step", ylim=(-0.05, 1.05), xticks=t)
    for axis in (top, middle, bottom):
        axis.grid(alpha=0.2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _curves(axis: Axes, t: ndarray, lines: Lines) -> None:
    for title, values in lines.items():
        axis.plot(t, values, marker="o", ms=3.5, lw=1.3, label=title)
