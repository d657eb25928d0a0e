"""The paper's figure of the logistic drift, and how far the filters are off, over time."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy import ndarray

COLOURS = ("tab:orange", "tab:blue", "tab:green")
NAMES = ("first weight", "second weight", "bias")
WINDOW = 20
"""Time steps over which errors are averaged."""


class Track(NamedTuple):
    """What one method found in several runs: mean and standard deviation of two weights and the bias."""

    title: str
    mean: Float[ndarray, "runs steps 3"]
    deviation: Float[ndarray, "runs steps 3"]
    jumps: Float[ndarray, "runs steps 3"] | None = None
    """Responsibility of the big jump, where the kernel has one."""


def draw(tracks: list[Track], truth: Float[ndarray, "steps 2"], folder: Path) -> list[Path]:
    """Write both figures: the weights, and the errors."""
    return [_weights(tracks, truth, folder / "weights.png"), _errors(tracks, truth, folder / "errors.png")]


def view(tracks: dict[str, Track], truth: Float[ndarray, "steps 2"]) -> dict[str, Any]:
    """The same numbers for the page, in single precision."""
    found: dict[str, Any] = {"truth": truth.astype(np.float32)}
    for method, track in tracks.items():
        arrays = {"mean": track.mean, "deviation": track.deviation} | (
            {} if track.jumps is None else {"jumps": track.jumps.mean(axis=0)}
        )
        small = {name: value.astype(np.float32) for name, value in arrays.items()}
        found[method] = {"title": track.title, **small}
    return found


def _weights(tracks: list[Track], truth: Float[ndarray, "steps 2"], path: Path) -> Path:
    figure, axes = plt.subplots(
        len(tracks),
        1,
        figsize=(11, 1.9 * len(tracks) + 0.5),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, track in zip(axes[:, 0], tracks, strict=True):
        _track(axis, track, truth)
    axes[0, 0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.16), ncols=4, frameon=False, fontsize=9)
    axes[-1, 0].set_xlabel("time step")
    figure.savefig(path, dpi=90)
    plt.close(figure)
    return path


def _track(axis: Axes, track: Track, truth: Float[ndarray, "steps 2"]) -> None:
    """The mean over the runs, two standard deviations of the runs about it, and the truth."""
    steps = np.arange(1, len(truth) + 1)
    middle, spread = track.mean.mean(axis=0), 2.0 * track.mean.std(axis=0, ddof=min(1, len(track.mean) - 1))
    for i, (colour, name) in enumerate(zip(COLOURS, NAMES, strict=True)):
        axis.fill_between(
            steps, middle[:, i] - spread[:, i], middle[:, i] + spread[:, i], color=colour, alpha=0.3, lw=0
        )
        axis.plot(steps, middle[:, i], color=colour, lw=1.2, label=name)
    for i in range(2):
        axis.plot(steps, truth[:, i], color="black", lw=0.7, ls=(0, (4, 3)), label="truth" if i == 0 else None)
    axis.set_title(track.title, fontsize=10, loc="left")
    axis.set(xlim=(1, len(truth)), ylim=(-11.5, 11.5), yticks=[-10, 0, 10])
    axis.grid(alpha=0.2)


def _errors(tracks: list[Track], truth: Float[ndarray, "steps 2"], path: Path) -> Path:
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(11, 5.6), sharex=True, layout="constrained")
    for track in tracks:
        errors = track.mean[:, :, :2] - truth
        top.plot(*_running(errors), lw=1.3, label=track.title)
        bottom.plot(*_running(errors / track.deviation[:, :, :2]), lw=1.3)
    bottom.axhline(1.0, color="black", lw=0.8, ls="--")
    top.set(yscale="log", ylabel="error of the mean (RMS)", xlim=(1, len(truth)))
    bottom.set(yscale="log", ylabel="error / posterior\nstandard deviation (RMS)", xlabel="time step")
    top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9)
    for axis in (top, bottom):
        axis.grid(alpha=0.2, which="both")
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path


def _running(values: Float[ndarray, "runs steps 2"]) -> tuple[ndarray, ndarray]:
    """The root mean square over runs, weights and the last few steps, and the steps it is of."""
    squares = np.mean(values**2, axis=(0, 2))
    window = min(WINDOW, len(squares))
    smooth = np.convolve(squares, np.ones(window) / window, mode="valid")
    return np.arange(window, len(squares) + 1), np.sqrt(smooth)
