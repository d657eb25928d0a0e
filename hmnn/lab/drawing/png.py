"""Print figures as PNG files: the same descriptions that the page shows, drawn by matplotlib.

A slider or a menu becomes small pictures side by side, one for each of its positions.
"""

import base64
import io
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from PIL import Image

from hmnn.lab.drawing import panels
from hmnn.lab.drawing.figure import Figure, Film
from hmnn.lab.drawing.shapes import Plot

WIDTH, PIXELS, DPI = 9.0, 90.0, 110
"""Inches of a figure with one position; pixels of the page, and printed ones, in an inch."""
EDGES = (0.85, 0.3, 0.6, 0.12)
"""Inches left, right, below and above the panels of one position."""
ENTRY, LETTER, TITLE = 0.24, 0.085, 0.45
"""Inches: height of a line of the legend, width of a letter in it, height of the title."""
INSTANTS = 4
"""Pictures of each strip of a film."""
SECONDS = 0.12
"""Time that each picture of a film is shown."""


class Position(NamedTuple):
    """A figure with its slider and its menu at one place."""

    title: str
    data: list[Plot]


def write(figures: list[Figure | Film], folder: Path) -> list[Path]:
    """Print every figure into a folder as NAME.png, a film also as NAME.gif; where they are."""
    paths = list[Path]()
    for figure in figures:
        path = folder / f"{figure.name}.png"
        if isinstance(figure, Film):
            _print_film(figure, path)
            paths += [path, _animate(figure, path.with_suffix(".gif"))]
        else:
            _print(figure, path)
            paths.append(path)
    return paths


def positions(plot: Plot) -> list[list[Position]]:
    """All positions of the menu (rows) and of the slider (columns); one if there are neither."""
    layout = plot["layout"]
    buttons = [button for menu in layout.get("updatemenus", []) for button in menu["buttons"]]
    choices = [(button["label"], button["args"]) for button in buttons]
    frames = [(frame["name"], frame["data"]) for frame in plot.get("frames", [])]
    return [
        [
            Position(", ".join(filter(None, (choice, name))), _put(data, *arguments))
            for name, data in frames or [("", plot["data"])]
        ]
        for choice, arguments in choices or [("", ({}, []))]
    ]


def _put(data: list[Plot], values: Plot, traces: list[int]) -> list[Plot]:
    """The traces with what a menu puts into them, such as "y" or "marker.size"."""
    made = list(data)
    for key, new in values.items():
        first, _, second = key.partition(".")
        for i, value in zip(traces, new, strict=True):
            made[i] = made[i] | {first: made[i][first] | {second: value} if second else value}
    return made


def _print(figure: Figure, path: Path) -> None:
    layout, grid = figure.plot["layout"], _arranged(figure.plot)
    rows, columns = len(grid), len(grid[0])
    wide, high = _size(layout, rows * columns > 1)
    drawn = [trace for row in grid for position in row for trace in position.data]
    entries = panels.entries(drawn, layout)
    fit = max(1, int(wide * columns / (LETTER * max(map(len, entries), default=1) + 0.6)))
    whole_height = high * rows + TITLE + ENTRY * math.ceil(len(entries) / fit)
    whole = Canvas(figsize=(wide * columns, whole_height))
    FigureCanvasAgg(whole)
    whole.suptitle(figure.title, x=0.02, y=1 - 0.1 / whole_height, ha="left", va="top")
    for i, row in enumerate(grid):
        for j, position in enumerate(row):
            corner = j * wide, (rows - 1 - i) * high
            box = _box(whole, corner, (wide, high), position)
            panels.draw(whole, position.data, layout, box, position.title)
    if entries:
        place = (0.02, 1 - (TITLE - 0.08) / whole_height)
        options = {"ncols": min(fit, len(entries)), "frameon": False, "fontsize": 9}
        handles = [panels.legend_line(trace) for trace in entries.values()]
        whole.legend(handles, entries, loc="upper left", bbox_to_anchor=place, **options)
    whole.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.12)


def _arranged(plot: Plot) -> list[list[Position]]:
    """The positions in rows; where there is a menu or a slider alone, in rows of two or three."""
    grid = positions(plot)
    flat = [position for row in grid for position in row]
    if len(grid) > 1 and len(grid[0]) > 1:
        return grid
    beside = 2 if len(grid) > 1 or "xaxis2" in plot["layout"] else 3
    return [flat[i : i + beside] for i in range(0, len(flat), beside)]


def _size(layout: Plot, many: bool) -> tuple[float, float]:
    """Inches of one position, smaller where there are many."""
    high = layout.get("height", 400) / PIXELS
    if "scene" in layout:
        return 3.6, 3.4
    if "xaxis2" in layout:
        return 0.75 * WIDTH, 0.7 * high
    if panels.is_square(layout):
        return (0.78 * high, 0.78 * high) if many else (high, high)
    return (0.62 * WIDTH, 0.62 * high) if many else (WIDTH, high)


def _box(
    whole: Canvas, corner: tuple[float, float], size: tuple[float, float], position: Position
) -> panels.Box:
    """Left, bottom, width and height of the panels of a position, as shares of the whole."""
    (across, up), (left, right, bottom, top) = whole.get_size_inches(), EDGES
    top += 0.2 if position.title else 0.0
    right += 0.5 if any(trace.get("showscale") for trace in position.data) else 0.0
    wide, high = size[0] - left - right, size[1] - bottom - top
    return (corner[0] + left) / across, (corner[1] + bottom) / up, wide / across, high / up


def _pictures(film: Film) -> list[list[Image.Image]]:
    """The pictures of every strip."""
    files = [[base64.b64decode(p.partition(",")[2]) for p in s["pictures"]] for s in film.strips]
    return [[Image.open(io.BytesIO(file)).convert("RGB") for file in strip] for strip in files]


def _print_film(film: Film, path: Path) -> None:
    """A row for each strip, a column for each of a few instants."""
    strips, count = _pictures(film), min(INSTANTS, len(film.labels))
    at = np.linspace(0, len(film.labels) - 1, count).round().astype(int)
    shape = strips[0][0].height / strips[0][0].width
    whole = Canvas(figsize=(2.3 * count + 1, (2.3 * shape + 0.05) * len(strips) + 0.6))
    FigureCanvasAgg(whole)
    axes = whole.subplots(len(strips), count, squeeze=False)
    for row, strip, pictures in zip(axes, film.strips, strips, strict=True):
        row[0].set_ylabel(strip["label"], fontsize=10)
        for axis, i in zip(row, at, strict=True):
            axis.imshow(pictures[i])
            axis.set(xticks=[], yticks=[])
    for axis, i in zip(axes[0], at, strict=True):
        axis.set_title(film.labels[i], fontsize=10)
    whole.subplots_adjust(left=0.05, right=0.99, bottom=0.01, top=0.9, wspace=0.03, hspace=0.03)
    whole.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.12)


def _animate(film: Film, path: Path) -> Path:
    """The strips side by side, as an animation."""
    instants = zip(*_pictures(film), strict=True)
    frames = [np.concatenate([np.asarray(p) for p in instant], axis=1) for instant in instants]
    made = [Image.fromarray(frame).quantize(64) for frame in frames]
    pace: dict[str, Any] = {"duration": int(1000 * SECONDS), "loop": 0, "optimize": True}
    made[0].save(path, save_all=True, append_images=made[1:], **pace)
    return path
