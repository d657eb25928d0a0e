"""The paper's figure of the evolving classifier: accuracy over time above, f_t below."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from numpy import ndarray


def draw(lines: dict[str, dict[str, ndarray]], chances: Float[ndarray, " steps"], folder: Path) -> list[Path]:
    """Write one figure per protocol; lines are protocol -> method -> accuracy at each time step."""
    return [_figure(protocol, found, chances, folder / f"accuracy-{protocol}.png") for protocol, found in lines.items()]


def _figure(protocol: str, lines: dict[str, ndarray], chances: Float[ndarray, " steps"], path: Path) -> Path:
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 6), sharex=True, layout="constrained", height_ratios=(2.6, 1.0)
    )
    t = np.arange(1, len(chances) + 1)
    for title, accuracy in lines.items():
        top.plot(t, accuracy, marker="o", ms=3.5, lw=1.3, label=title)
    top.plot(t, np.maximum(chances, 1 - chances), color="black", lw=1.0, ls="--", label="perfect reader")
    top.set(ylabel=f"test accuracy, protocol {protocol}", ylim=(0, 1.02))
    top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)
    bottom.plot(t, chances, color="saddlebrown", lw=1.5)
    bottom.axhline(0.5, color="gold", lw=1.2)
    bottom.set(ylabel="$f_t$", xlabel="time step", ylim=(-0.05, 1.05), xticks=t)
    for axis in (top, bottom):
        axis.grid(alpha=0.2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
