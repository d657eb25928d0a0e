"""The figures of the flag: frames side by side, the error over time, and a film of a forecast with its interval."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy import ndarray
from PIL import Image

SHOWN = ("hmnn_diagonal", "hmnn_paper", "bbp", "dropconnect", "lstm", "persistence")
COLOURS = {
    "persistence": "#888888",
    "shrinkage": "#444444",
    "loop": "#c9a227",
    "lstm": "#7b5ea7",
    "dropconnect": "#d1495b",
    "bbp": "#3d9970",
    "hmnn_paper": "#2a6fbb",
    "hmnn_diagonal": "#0b2545",
}
SPAN = 9
"""Scored frames that the error over time is averaged over."""
FILM = 30
"""Frames of the film, every second one of the video."""


class Scene(NamedTuple):
    """One run of every method, and what it was of."""

    clip: Any
    """Codes, energy of each frame, and the way back to pixels."""
    window: int
    forecasts: dict[str, dict[str, ndarray]]
    """Method -> mean (and sd) of the forecasts of frames window + 1, window + 2, ..."""
    labels: dict[str, str]
    edges: tuple[int, int, int]
    """First validation frame, first test frame, last frame."""
    filmed: str
    """The method in the film."""

    def shown(self) -> bool:
        """Whether there is something to film."""
        return bool(np.isfinite(self.forecasts[self.filmed]["mean"]).all())


def draw(scene: Scene, folder: Path) -> list[Path]:
    """Write frames.png, error.png and, unless the filmed method diverged, film.gif."""
    paths = [_frames(scene, folder / "frames.png"), _error(scene, folder / "error.png")]
    return [*paths, _film(scene, folder / "film.gif")] if scene.shown() else paths


def _frames(scene: Scene, path: Path) -> Path:
    """Truth on top, the methods below it, one column per time."""
    _, first, last = scene.edges
    steps = max((last - first) // 8, 1) * 2
    times = list(range(first, last + 1, steps))[:4]
    rows = ["truth", *(kind for kind in SHOWN if kind in scene.forecasts)]
    height, width = scene.clip.shape
    across, up = 1.8 * len(times) + 1.1, 1.8 * len(rows) * height / width + 0.3
    figure, axes = plt.subplots(len(rows), len(times), figsize=(across, up), squeeze=False)
    for row, kind in zip(axes, rows, strict=True):
        for axis, t in zip(row, times, strict=True):
            codes = scene.clip.codes[t] if kind == "truth" else scene.forecasts[kind]["mean"][t - scene.window - 1]
            axis.imshow(scene.clip.pixels(codes[None])[0], cmap="gray", vmin=0, vmax=255 / 126)
            axis.set(xticks=[], yticks=[])
        label = "truth" if kind == "truth" else scene.labels[kind].replace(", ", ",\n")
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=10)
    for axis, t in zip(axes[0], times, strict=True):
        axis.set_title(f"frame {t}", fontsize=10)
    figure.subplots_adjust(left=1.08 / across, right=0.99, top=1 - 0.25 / up, bottom=0.01, wspace=0.03, hspace=0.03)
    figure.savefig(path, dpi=80)
    plt.close(figure)
    return path


def _error(scene: Scene, path: Path) -> Path:
    """Each forecast's own M, on the frames that move, as a running mean."""
    validate, test, last = scene.edges
    start = scene.window + 2 - scene.window % 2
    frames = np.arange(start, last + 1, 2)
    figure, axis = plt.subplots(figsize=(9, 4.2), layout="constrained")
    axis.axvspan(validate, test, color="#f3ead3", lw=0)
    axis.axvspan(test, last, color="#e3ecf5", lw=0)
    for kind, colour in COLOURS.items():
        errors = scene.clip.codes[frames] - scene.forecasts[kind]["mean"][frames - scene.window - 1]
        own = np.sqrt(np.square(errors).sum(axis=1) / scene.clip.energy[frames])
        weights = np.ones(min(SPAN, len(own)))
        smooth = np.convolve(own, weights, "same") / np.convolve(np.ones_like(own), weights, "same")
        axis.plot(frames, smooth, color=colour, lw=2.2 if kind.startswith("hmnn") else 1.3, label=scene.labels[kind])
    top = axis.get_ylim()[1]
    for left, right, text in ((validate, test, "validation"), (test, last, "test")):
        axis.text((left + right) / 2, 0.98 * min(top, 0.4), text, ha="center", va="top", fontsize=9, color="#555555")
    axis.set(xlabel="frame", ylabel="error of the forecast", ylim=(0, min(top, 0.4)), xlim=(frames[0], last))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path


def _film(scene: Scene, path: Path) -> Path:
    """Truth, forecast, and how wide the 95 % interval of each pixel is, half the size of the video."""
    _, first, last = scene.edges
    forecast = scene.forecasts[scene.filmed]
    times = range(first, last + 1, 2)[:FILM]
    shares = np.square(scene.clip.axes).T
    widths = {t: 3.92 * np.sqrt(shares @ np.square(forecast["sd"][t - scene.window - 1])) for t in times}
    top = max(float(width.max()) for width in widths.values())
    pictures = [_picture(scene, forecast, t, widths[t].reshape(scene.clip.shape), top) for t in times]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=120, loop=0, optimize=True)
    return path


def _picture(scene: Scene, forecast: dict[str, ndarray], t: int, width: ndarray, top: float) -> Image.Image:
    truth, mean = scene.clip.pixels(np.stack([scene.clip.codes[t], forecast["mean"][t - scene.window - 1]]))
    figure, axes = plt.subplots(1, 3, figsize=(5.4, 2.1), dpi=72)
    panels = ((truth, f"truth, frame {t}", "gray", 255 / 126), (mean, "forecast", "gray", 255 / 126))
    for axis, (pixels, title, colours, high) in zip(
        axes, (*panels, (width, "interval width", "magma", top)), strict=True
    ):
        axis.imshow(pixels[::2, ::2], cmap=colours, vmin=0, vmax=high)
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    figure.subplots_adjust(left=0.01, right=0.99, top=0.88, bottom=0.01, wspace=0.03)
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="png")
        plt.close(figure)
        return Image.open(buffer).convert("RGB").quantize(64)
