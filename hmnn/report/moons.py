"""The paper's three figures of the two moons: data, interval length, probability surface."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from numpy import ndarray

COLOURS = np.array(["#f2b134", "#2a6fbb"])
DOTS = 400
"""Points drawn of each data set; all are used for training."""


class Panel(NamedTuple):
    """One scenario at one time step: some data, and the prediction on a grid."""

    title: str
    x: Float[ndarray, "rows 2"]
    y: Int[ndarray, " rows"]
    across: Float[ndarray, " side"]
    up: Float[ndarray, " side"]
    probability: Float[ndarray, "side side"]
    lower: Float[ndarray, "side side"]
    upper: Float[ndarray, "side side"]


def draw(panels: dict[str, list[Panel]], folder: Path) -> list[Path]:
    """Write the three figures; one row per scenario, one column per time step."""
    plots: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "data": (_data, {}),
        "interval-length": (_length, {}),
        "surface": (_surface, {"projection": "3d"}),
    }
    return [_figure(panels, folder / f"{name}.png", plot, options) for name, (plot, options) in plots.items()]


def view(panel: Panel) -> dict[str, Any]:
    """A panel for the page: the points that are drawn, and half precision."""
    small = {name: value.astype(np.float16) for name, value in panel._asdict().items() if isinstance(value, ndarray)}
    return small | {"title": panel.title, "x": small["x"][:DOTS], "y": panel.y[:DOTS].astype(np.uint8)}


def _figure(panels: dict[str, list[Panel]], path: Path, plot: Callable[..., Any], options: dict[str, Any]) -> Path:
    columns = max(len(row) for row in panels.values())
    figure, axes = plt.subplots(
        len(panels),
        columns,
        figsize=(3.1 * columns, 3.2 * len(panels)),
        squeeze=False,
        subplot_kw=options,
        layout="constrained",
    )
    limit = max(abs(edge) for row in panels.values() for p in row for edge in (*p.across, *p.up))
    image = None
    for row, (scenario, steps) in zip(axes, panels.items(), strict=True):
        for axis, panel in zip(row, steps, strict=True):
            image = plot(axis, panel)
            axis.set_title(f"{scenario}, {panel.title}", fontsize=10)
            axis.set(xlim=(-limit, limit), ylim=(-limit, limit))
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.6, label="length of the 95 % credible interval")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _dots(axis: Axes, panel: Panel, size: float) -> None:
    axis.scatter(
        panel.x[:DOTS, 0], panel.x[:DOTS, 1], c=COLOURS[panel.y[:DOTS]], s=size, edgecolors="white", linewidths=0.3
    )
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])


def _data(axis: Axes, panel: Panel) -> None:
    _dots(axis, panel, 14.0)


def _length(axis: Axes, panel: Panel) -> Any:
    image = axis.pcolormesh(
        panel.across, panel.up, panel.upper - panel.lower, vmin=0, vmax=1, cmap="viridis", shading="nearest"
    )
    axis.contour(panel.across, panel.up, panel.probability, levels=[0.5], colors="white", linewidths=1.2)
    _dots(axis, panel, 7.0)
    return image


def _surface(axis: Any, panel: Panel) -> None:
    across, up = np.meshgrid(panel.across, panel.up)
    axis.plot_surface(across, up, panel.lower, color="pink", alpha=0.25, linewidth=0)
    axis.plot_surface(across, up, panel.upper, color="grey", alpha=0.25, linewidth=0)
    axis.plot_surface(across, up, panel.probability, cmap="cividis", vmin=0, vmax=1, alpha=0.9, linewidth=0)
    axis.set_zlim(0, 1)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_zticks([0, 0.5, 1])
    axis.set_zlabel("probability of the second class", fontsize=8)
    axis.view_init(elev=32, azim=-60)
