"""The pictures of docs/idea.md and docs/concepts, made by hmnn: `python docs/figures.py` writes
docs/img/idea."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

import hmnn
from hmnn.core import kernels, mixtures
from hmnn.core.families import scale
from hmnn.core.mixtures import Mixture

FOLDER = Path(__file__).parent / "img" / "idea"
BLUE, GOLD, RED, GREY, INK = "#2a6fbb", "#e0a11b", "#c8404f", "#8a8f98", "#22262d"
SHADES = LinearSegmentedColormap.from_list("classes", ["#f6dfae", "#fbfbf9", "#b9d0ea"])
STYLE = {
    # A ground of its own, so that a figure is read on light and on dark pages.
    "figure.facecolor": "#fbfbf9",
    "axes.facecolor": "#fbfbf9",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "text.color": INK,
    "axes.titlesize": 10,
    "legend.frameon": False,
}


def turning(t: int, rows: int = 250) -> hmnn.Dataset:
    """Two classes, divided by a line that turns by 9 degrees a time step."""
    x = np.random.default_rng(t).normal(size=(rows, 2)).astype(np.float32)
    angle = np.deg2rad(9.0 * t)
    return hmnn.Dataset(x, (x @ [np.cos(angle), np.sin(angle)] > 0).astype(np.int32))


def chain() -> Figure:
    """A network at four times: the data that it sees, and its weights."""
    model = hmnn.hmnn(
        hmnn.mlp(2, (4,), 1, jnp.tanh),
        "bernoulli",
        memory=1.0,
        jump_scale=0.2,
        optimiser="adam",
        learning_rate=0.02,
    )
    state, shown = model.init(2), {}
    for t in range(16):
        state, _ = model.step(state, turning(t))
        shown[t] = state
    figure, axes = plt.subplots(2, 4, figsize=(7.6, 4.3), layout="constrained")
    for (top, bottom), t in zip(axes.T, (0, 5, 10, 15), strict=True):
        _wires(
            top, [np.asarray(leaf) for leaf in jax.tree.leaves(shown[t].posterior.location)][::2]
        )
        _border(bottom, model, shown[t], turning(t, 120))
        top.set_title(f"t = {t + 1}")
    axes[0, 0].set_ylabel("hidden:\nweights of the network")
    axes[1, 0].set_ylabel("seen:\ndata, learned border")
    return figure


def _wires(axis: Axes, layers: list[np.ndarray]) -> None:
    """A network drawn with its weights: blue above 0, red below, thick if large."""
    sizes = [layers[0].shape[1], *(layer.shape[0] for layer in layers)]
    places = [[(i, j - (size - 1) / 2) for j in range(size)] for i, size in enumerate(sizes)]
    for left, right, layer in zip(places[:-1], places[1:], layers, strict=True):
        for (a, b), w in np.ndenumerate(layer.T):
            ends = np.array([left[a], right[b]])
            axis.plot(
                *ends.T, color=BLUE if w > 0 else RED, lw=0.3 + 1.3 * abs(w), alpha=0.85, zorder=1
            )
    axis.scatter(
        *np.array([p for layer in places for p in layer]).T,
        s=150,
        c="white",
        edgecolors=INK,
        zorder=2,
    )
    axis.set(xticks=[], yticks=[], xlim=(-0.3, 2.3), ylim=(-2, 2))
    axis.spines[:].set_visible(False)


def _border(axis: Axes, model: Any, state: Any, data: hmnn.Dataset) -> None:
    line = np.linspace(-2.6, 2.6, 60)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    p = np.asarray(model.predict(state, grid, samples=50, point="sampled").mean).reshape(60, 60)
    axis.pcolormesh(line, line, p, vmin=0, vmax=1, cmap=SHADES, shading="gouraud")
    axis.contour(line, line, p, levels=[0.5], colors=INK, linewidths=1.6)
    axis.scatter(
        *data.x.T, s=9, c=np.array([GOLD, BLUE])[data.y], edgecolors="white", linewidths=0.3
    )
    axis.set(xticks=[], yticks=[], xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), aspect="equal")


def kernel() -> Figure:
    """The jump kernel's mixture, and what the four kernels do to the same weight."""
    w = np.linspace(-1.6, 2.6, 1200).astype(np.float32)
    before = _gaussian(1.2, 0.15)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), layout="constrained")
    rule = kernels.jump(0.9, 0.5, 10.0, 0.4, "zero")
    after = rule(before, jnp.zeros(()))
    left.plot(w, _density(before, w), color=GREY, label="before the move")
    for q, variance, name, colour in zip(
        after.variance_weights,
        after.variances,
        ("big jump", "small jump"),
        (GOLD, BLUE),
        strict=True,
    ):
        part = float(q) * _density(
            after._replace(variances=(variance,), variance_weights=(1.0,)), w
        )
        left.fill_between(
            w, part, color=colour, alpha=0.35, lw=0, label=f"{name}, share {float(q):.1f}"
        )
    left.plot(w, _density(after, w), color=INK, lw=1.6, label="after the move")
    left.set(
        title="one move of the jump kernel", xlabel="value of a weight", yticks=[], ylim=(0, None)
    )
    left.legend(loc="upper left", fontsize=8.5)
    rules = {
        "static: nothing moves": (kernels.static(), GREY, "-"),
        "jump: most stay, some leave": (rule, INK, "-"),
        "Ornstein-Uhlenbeck: all drift back": (kernels.ornstein_uhlenbeck(0.9, 0.7), RED, "-"),
        "reset: all is forgotten": (kernels.reset(0.5, 2.0, 0.4), BLUE, "--"),
    }
    for name, (each, colour, dash) in rules.items():
        right.plot(w, _density(each(before, jnp.zeros(())), w), color=colour, ls=dash, label=name)
    right.set(title="one move of each kernel", xlabel="value of a weight", yticks=[], ylim=(0, 4))
    right.legend(loc="upper left", fontsize=8.5)
    return figure


def _gaussian(mean: float, deviation: float) -> Mixture:
    return Mixture((jnp.asarray(mean),), (1.0,), (jnp.asarray(deviation**2),), (1.0,))


def _density(law: Mixture, w: np.ndarray) -> np.ndarray:
    return np.exp(np.asarray(mixtures.log_prob(law, jnp.asarray(w))))


def three_moves() -> Figure:
    """Prediction, correction and projection of a single weight, each on its own panel."""
    rng = np.random.default_rng(3)
    rule = kernels.jump(1.0, 1.0, 8.0, 0.3)
    descent = hmnn.descent(
        optimiser=lambda rate: optax.adam(optax.exponential_decay(rate, 400, 0.1)),
        learning_rate=0.03,
        epochs=1500,
        samples=8,
        initial_scale=0.3,
    )
    model = hmnn.build(hmnn.linear(1, bias=False), "bernoulli", rule, projection=descent)
    before = _gaussian(0.0, 0.3)
    data = hmnn.Dataset(rng.normal(size=(12, 1)).astype(np.float32) + 1.0, np.array([1] * 11 + [0]))
    state, _ = model.step(model.init(0), data)
    w = np.linspace(-1.6, 4, 900).astype(np.float32)
    step = w[1] - w[0]
    predicted = _density(rule(before, jnp.zeros(())), w)
    logits = data.x @ w[None, :]
    likelihood = np.exp(
        np.where(data.y[:, None] == 1, -np.logaddexp(0, -logits), -np.logaddexp(0, logits)).sum(
            axis=0
        )
    )
    corrected = predicted * likelihood / np.sum(predicted * likelihood * step)
    found = state.posterior.location.weight.item(), float(scale(state.posterior.rho.weight).item())
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9), sharey=True, layout="constrained")
    panels = (
        ("1  predict: it may have moved", _density(before, w), predicted, None),
        ("2  correct: what the data say", predicted, corrected, likelihood / likelihood.max()),
        ("3  project: the nearest bell", corrected, _density(_gaussian(*found), w), None),
    )
    for axis, (title, old, new, heard), colour in zip(axes, panels, (GOLD, RED, BLUE), strict=True):
        axis.plot(w, old, color=GREY, lw=1.3, label="before")
        axis.fill_between(w, new, color=colour, alpha=0.3, lw=0)
        axis.plot(w, new, color=colour, lw=1.8, label="after")
        if heard is not None:
            axis.plot(w, heard, color=INK, lw=1.2, ls=":", label="likelihood")
        axis.set(title=title, xlabel="value of a weight", yticks=[], ylim=(0, None))
        axis.legend(loc="upper right", fontsize=8.5)
    return figure


def _sensor(t: int, truth: float, rows: int = 12) -> hmnn.Dataset:
    """y = truth x + noise."""
    rng = np.random.default_rng([7, t])
    x = rng.normal(size=(rows, 1)).astype(np.float32)
    return hmnn.Dataset(x, (truth * x[:, 0] + rng.normal(0, 0.7, rows)).astype(np.float32))


def _track(
    rule: Any, truth: np.ndarray, silent: Callable[[int], bool] = lambda t: False
) -> np.ndarray:
    """Mean and standard deviation of the weight at each time step; no data come where it is
    `silent`."""
    descent = hmnn.descent(optimiser="adam", learning_rate=0.02, samples=4, initial_scale=1.0)
    model = hmnn.build(hmnn.linear(1, bias=False), "gaussian", rule, projection=descent)
    state, found = model.init(0), []
    for t, value in enumerate(truth):
        state, _ = model.step(state, None if silent(t) else _sensor(t, value))
        found.append(
            (state.posterior.location.weight.item(), scale(state.posterior.rho.weight).item())
        )
    return np.array(found)


def silence() -> Figure:
    """What the filter says of a weight while no data come."""
    truth = 1.0 + np.cumsum(np.random.default_rng(1).normal(0, 0.12, 60))
    found = _track(kernels.jump(1.0, 0.17, 10.0, 0.5), truth, lambda t: 20 <= t < 40)
    figure, axis = plt.subplots(figsize=(7.6, 2.9), layout="constrained")
    t = np.arange(1, len(truth) + 1)
    axis.axvspan(20.5, 40.5, color=GREY, alpha=0.15, lw=0)
    axis.fill_between(
        t, *(found[:, 0] + k * found[:, 1] for k in (-2, 2)), color=BLUE, alpha=0.25, lw=0
    )
    axis.plot(t, found[:, 0], color=BLUE, lw=1.8, label="filter: mean, and two standard deviations")
    axis.plot(t, truth, color=INK, lw=1.2, ls="--", label="truth")
    axis.text(
        30.5,
        0.02,
        "no data",
        transform=axis.get_xaxis_transform(),
        ha="center",
        va="bottom",
        color="#555555",
    )
    axis.set(xlabel="time step", ylabel="a weight", xlim=(1, len(truth)))
    axis.legend(loc="upper left", fontsize=8.5)
    return figure


def forgetting() -> Figure:
    """Three amounts of memory after a sudden change."""
    truth = np.where(np.arange(60) < 30, 1.0, -1.0)
    rules = {
        "static: never forgets": (kernels.static(), GOLD),
        "reset: remembers nothing": (kernels.reset(2.0, 2.0), RED),
        "jump: stays, and can leave": (kernels.jump(1.0, 0.5, 30.0, 0.1), BLUE),
    }
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9), sharey=True, layout="constrained")
    t = np.arange(1, len(truth) + 1)
    for axis, (name, (rule, colour)) in zip(axes, rules.items(), strict=True):
        found = _track(rule, truth)
        axis.fill_between(
            t, *(found[:, 0] + k * found[:, 1] for k in (-2, 2)), color=colour, alpha=0.25, lw=0
        )
        axis.plot(t, found[:, 0], color=colour, lw=1.8)
        axis.plot(t, truth, color=INK, lw=1.2, ls="--")
        error = np.sqrt(np.mean((found[:, 0] - truth) ** 2))
        axis.set(
            title=f"{name}\n(error {error:.2f})",
            xlabel="time step",
            xlim=(1, len(truth)),
            ylim=(-2, 2),
        )
    axes[0].set_ylabel("a weight (dashed: truth)")
    return figure


def mean_field() -> Figure:
    """The exact posterior of two weights that lean on each other, and the nearest law of
    independent ones."""
    precision = np.array([[1.0, 0.9], [0.9, 1.0]]) / (1 - 0.9**2)
    around = np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 200)), np.sin(a)])
    exact = 2 * np.linalg.cholesky(np.linalg.inv(precision)) @ around
    alone = 2 * around / np.sqrt(np.diag(precision))[:, None]
    figure, axis = plt.subplots(figsize=(4.2, 3.8), layout="constrained")
    axis.fill(*exact, color=GREY, alpha=0.35, lw=0, label="exact posterior")
    axis.fill(*alone, color=BLUE, alpha=0.55, lw=0, label="mean field")
    axis.set(
        xlabel="first weight",
        ylabel="second weight",
        aspect="equal",
        xlim=(-2.4, 2.4),
        ylim=(-2.4, 2.4),
    )
    axis.legend(loc="lower left", fontsize=8.5)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "chain": chain,
    "kernel": kernel,
    "three-moves": three_moves,
    "silence": silence,
    "forgetting": forgetting,
    "mean-field": mean_field,
}


def draw(folder: Path, names: list[str]) -> list[Path]:
    """Write these pictures into a folder; all, if none is named."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, picture in (
        PICTURES.items() if not names else [(name, PICTURES[name]) for name in names]
    ):
        with plt.rc_context(STYLE):
            figure = picture()
            figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
            figure.savefig(path := folder / f"{name}.png", dpi=130)
            plt.close(figure)
        paths.append(path)
    return paths


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, sys.argv[2:])
