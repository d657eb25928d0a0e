"""The figures of variational DropConnect: validation over epochs, and accuracy when answers are withheld."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from numpy import ndarray

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


class Scene(NamedTuple):
    """What the figures show; the keys are values of keep."""

    epochs: Int[ndarray, " points"]
    validation: dict[str, ndarray]
    """Accuracy, one row per seed."""
    trials: dict[str, list[ndarray]]
    """The best trials of the search, each with two rows: epochs, accuracy."""
    kept: Float[ndarray, " shares"]
    rejection: dict[str, dict[str, ndarray]]
    """What an answer was withheld by -> accuracy on the rest."""


def draw(scene: Scene, folder: Path) -> list[Path]:
    """Write both figures."""
    return [_validation(scene, folder / "validation.png"), _rejection(scene, folder / "rejection.png")]


def view(scene: Scene) -> dict[str, Any]:
    """The same numbers for the page; keeps without a trial of a search are left out."""
    return {
        "epochs": scene.epochs.astype(np.int32),
        "validation": {keep: rows.astype(np.float32) for keep, rows in scene.validation.items()},
        "trials": {keep: [row.astype(np.float32) for row in rows] for keep, rows in scene.trials.items() if rows},
        "kept": scene.kept.astype(np.float32),
        "rejection": {
            keep: {by: accuracy.astype(np.float32) for by, accuracy in curves.items()}
            for keep, curves in scene.rejection.items()
        },
    }


def _validation(scene: Scene, path: Path) -> Path:
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
    for axis in (top, bottom):
        for colour, keep in zip(_colours(scene), scene.validation, strict=True):
            _curves(axis, scene, keep, colour)
        axis.set_ylabel("validation accuracy")
        axis.grid(alpha=0.2)
    late = np.concatenate([rows[:, rows.shape[1] // 3 :].ravel() for rows in scene.validation.values()])
    late = late[np.isfinite(late)]
    if late.size and np.ptp(late) > 0:
        bottom.set_ylim(late.min() - 0.1 * np.ptp(late), late.max() + 0.1 * np.ptp(late))
    bottom.set_xlabel("epoch")
    top.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _curves(axis: Axes, scene: Scene, keep: str, colour: str) -> None:
    """The mean over seeds, every seed behind it, and the best trials of the search in dotted lines."""
    rows = scene.validation[keep]
    axis.plot(scene.epochs, rows.mean(axis=0), color=colour, lw=1.4, label=f"keep {keep}")
    if len(rows) > 1:
        axis.plot(scene.epochs, rows.T, color=colour, lw=0.6, alpha=0.2)
    for epochs, accuracy in scene.trials.get(keep, []):
        axis.plot(epochs, accuracy, color=colour, lw=0.6, ls=":")


def _rejection(scene: Scene, path: Path) -> Path:
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    styles = {"epistemic": "-", "confidence": "--"}
    for colour, (keep, curves) in zip(_colours(scene), scene.rejection.items(), strict=True):
        for by, accuracy in curves.items():
            axis.plot(1 - scene.kept, accuracy, color=colour, lw=1.3, ls=styles[by], label=f"keep {keep}, by {by}")
    axis.set(xlabel="share of answers withheld, the most uncertain first", ylabel="test accuracy on the rest")
    axis.legend(loc="lower right", frameon=False, fontsize=8)
    axis.grid(alpha=0.2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _colours(scene: Scene) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(scene.validation))]
