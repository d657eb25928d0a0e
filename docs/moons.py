"""The picture of the README, two moons that turn: `python docs/moons.py` writes docs/img/moons.png
(half a minute)."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from hmnn.data import two_moons
from hmnn.lab.two_moons import PROFILES, Config, build

PATH = Path(__file__).parent / "img" / "moons.png"
GROUNDS, POINTS, UNKNOWN = ("#f3cf85", "#9fc0e6"), ("#b97a00", "#1c4f8f"), "#3a3f47"
HALF, CELLS, SHOWN = 2.0, 121, 260
"""Half the side of a panel, cells along it, points drawn."""


def draw(path: Path, config: Config) -> None:
    """Filter the moons that are apart; a panel per time step."""
    method, stream = (
        build(config),
        two_moons(config.rows, config.noise_separated, config.degrees, 0),
    )
    state, side = method.init(0), np.linspace(-HALF, HALF, CELLS)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2).astype(np.float32)
    with plt.rc_context({"figure.facecolor": "#fbfbf9", "font.size": 10, "text.color": "#22262d"}):
        figure, axes = plt.subplots(
            1, len(stream), figsize=(2.6 * len(stream), 2.9), layout="constrained"
        )
        for t, axis in enumerate(axes):
            state, _ = method.step(state, stream[t])
            middle = (stream[t].x.max(axis=0) + stream[t].x.min(axis=0)) / 2
            found = method.predict(
                state, grid + middle, samples=2 * config.draws, level=config.level
            )
            p, length = (
                np.asarray(a)[:, 1].reshape(CELLS, CELLS)
                for a in (found.mean, found.upper - found.lower)
            )
            _panel(axis, shades(p, length), stream[t].x[:SHOWN] - middle, stream[t].y[:SHOWN])
            axis.set_title(f"t = {t + 1}")
        axes[0].annotate(
            "I do not know",
            (-1.45, -1.35),
            (0.95, -1.75),
            color="white",
            weight="bold",
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.3", "fc": UNKNOWN, "ec": "none"},
            arrowprops={"arrowstyle": "->", "color": UNKNOWN, "lw": 1.5},
        )
        figure.savefig(path, dpi=110)
        plt.close(figure)


def shades(p: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The colour of the likelier class, which goes over to dark grey as the interval of the
    probability grows."""
    first, second, dark = (np.array(to_rgb(colour)) for colour in (*GROUNDS, UNKNOWN))
    ground = (1 - p)[..., None] * first + p[..., None] * second
    doubt = np.clip(length, 0, 1)[..., None] ** 0.8
    return (1 - doubt) * ground + doubt * dark


def _panel(axis: Axes, ground: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    axis.imshow(ground, extent=(-HALF, HALF, -HALF, HALF), origin="lower", interpolation="bilinear")
    for k, colour in enumerate(POINTS):
        axis.scatter(*x[y == k].T, s=7, c=colour, linewidths=0)
    axis.set(xticks=[], yticks=[], xlim=(-HALF, HALF), ylim=(-HALF, HALF))
    axis.spines[:].set_visible(False)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PATH, PROFILES["quick"])
