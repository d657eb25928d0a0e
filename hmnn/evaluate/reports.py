"""From what models said to numbers, curves, a table and a record."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import ndtri

from hmnn import _check, metrics
from hmnn.data import Stream
from hmnn.evaluate.doors import ModelError
from hmnn.evaluate.loop import Classified, Regressed, Tick, prequential

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Of the intervals whose coverage is drawn."""
COLUMNS = {
    "classification": ("accuracy", "log_loss", "brier", "ece", "seconds", "cpu_seconds"),
    "regression": ("mae", "rmse", "crps", "coverage", "width", "seconds", "cpu_seconds"),
}


class Settings(NamedTuple):
    """How a report is computed."""

    rows: int
    """Rows predicted before they are learned."""
    window: int
    """Rows of the windowed means."""
    fading: float
    """Weight of a row in the faded means, relative to the next one."""
    level: float
    """Of the intervals."""
    lag_window: int
    lag_tolerance: float
    """Back means at most this above the error before; for regressors, this share of it above."""


@dataclass(frozen=True)
class Report:
    """What each model scored over a stream, as numbers, as curves over time and as calibration."""

    stream: str
    task: str
    made: dict[str, Any]
    settings: dict[str, Any]
    metrics: dict[str, dict[str, Any]]
    """Model -> name -> number; NaN where a model does not say what is needed. Of a model that
    says what it believes, "forgetting" has the fields of `hmnn.evaluate.beliefs.Believed`."""
    curves: dict[str, dict[str, Any]]
    """Model -> name -> value at the end of each window; "row" says which rows these are."""
    calibration: dict[str, dict[str, Any]]
    """Model -> reliability of a classifier; coverage at several levels of a regressor."""
    failed: dict[str, str]
    """Model -> how it failed; it has no numbers then."""

    def table(self) -> list[dict[str, Any]]:
        """One row per model that did not fail."""
        return [
            {"model": name, **{c: found[c] for c in COLUMNS[self.task]}}
            for name, found in self.metrics.items()
        ]

    def record(self) -> dict[str, Any]:
        """All of it, as a dictionary; `hmnn.lab.streams.draw` draws it."""
        return asdict(self)


def compare(
    models: dict[str, Any],
    stream: Stream,
    *,
    rows: int = 1,
    window: int = 1000,
    fading: float = 0.999,
    level: float = 0.95,
    lag_window: int = 100,
    lag_tolerance: float = 0.05,
    tick: Callable[[str], Tick] | None = None,
) -> Report:
    """Run and score each model over the stream; one that fails does not stop the others.

    Args:
        models: name -> model, untrained.
        stream: its `made` may hold `changes`, the rows at which the law of the data changes.
        rows: that many rows are predicted before they are learned.
        window: rows of the windowed means.
        fading: weight of a row in the faded means, relative to the next one.
        level: of the intervals of regressors.
        lag_window: rows over which an error is averaged to see whether it is back after a change.
        lag_tolerance: back means at most this above the error before; a share, for regressors.
        tick: tick(name) returns a function that is told how many rows that model has done.
    """
    _check.count("window", window)
    _check.number("fading", fading, "above 0 and at most 1", lambda v: 0 < v <= 1)
    _check.number("level", level, "above 0 and below 1", lambda v: 0 < v < 1)
    _check.count("lag_window", lag_window)
    _check.number("lag_tolerance", lag_tolerance, "at least 0", lambda v: v >= 0)
    settings = Settings(rows, window, fading, level, lag_window, lag_tolerance)
    scored, failed = {}, {}
    for name, model in models.items():
        try:
            ticks = tick(name) if tick else None
            done = prequential(model, stream, rows=rows, name=name, tick=ticks)
        except ModelError as error:
            failed[name] = str(error)
        else:
            scored[name] = score(done, settings, list(stream.made.get("changes", [])))
    numbers, curves, calibration = ({name: scored[name][i] for name in scored} for i in range(3))
    about = stream.name, stream.task, stream.made, settings._asdict()
    return Report(*about, numbers, curves, calibration, failed)


def score(
    done: Classified | Regressed, settings: Settings, changes: list[int]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Numbers, curves and calibration of one model."""
    rows, numbers, extra, calibration = (
        _classified(done) if isinstance(done, Classified) else _regressed(done, settings.level)
    )
    loss = 1 - rows["accuracy"] if "accuracy" in rows else rows["mae"]
    found: dict[str, Any] = {name: float(np.mean(values)) for name, values in rows.items()}
    found |= numbers
    found |= {"seconds": done.seconds, "cpu_seconds": done.cpu_seconds}
    faded = {name: metrics.faded(values, settings.fading) for name, values in rows.items()}
    found |= {f"{name}_faded": float(values[-1]) for name, values in faded.items()}
    if done.believed is not None:
        found["forgetting"] = done.believed._asdict()
    if changes:
        found["lag"] = _lags(loss, changes, settings, relative="mae" in rows)
    return found, _curves(rows, extra, settings), calibration


Window = Callable[[slice], dict[str, float]]
Parts = tuple[dict[str, ndarray], dict[str, Any], Window, dict[str, Any]]


def _classified(done: Classified) -> Parts:
    """Scores of each row, numbers of all, what a window has beside means, and the reliability."""
    p, y = done.probabilities, done.y
    rows = {"accuracy": (p.argmax(axis=1) == y).astype(np.float64)}
    rows |= {"log_loss": metrics.log_losses(p, y), "brier": metrics.brier_scores(p, y)}
    numbers = {"ece": metrics.ece(p, y), "mended": done.mended}
    if done.hard:
        rows |= {name: np.full(len(y), math.nan) for name in ("log_loss", "brier")}
        return rows, numbers | {"ece": math.nan}, lambda part: {"ece": math.nan}, {}
    found = metrics.reliability(p, y)._asdict()
    return rows, numbers, lambda part: {"ece": metrics.ece(p[part], y[part])}, found


def _regressed(done: Regressed, level: float) -> Parts:
    error = done.y - done.mean
    known = ~np.isnan(done.std)
    std = np.where(known, done.std, 0.0)
    rows = {"mae": np.abs(error), "crps": metrics.crps_gaussian(done.mean, std, done.y)}
    covered = np.abs(error) <= ndtri(0.5 + level / 2) * std

    def part(rows: slice) -> dict[str, float]:
        some = known[rows]
        if not some.any():
            return {"coverage": math.nan, "width": math.nan}
        widths = 2 * ndtri(0.5 + level / 2) * std[rows][some]
        return {"coverage": float(np.mean(covered[rows][some])), "width": float(np.mean(widths))}

    numbers = {**part(slice(None)), "rmse": float(np.sqrt(np.mean(error**2)))}
    if not known.any():
        return rows, numbers, part, {}
    shares = [float(np.mean((np.abs(error) <= ndtri(0.5 + at / 2) * std)[known])) for at in LEVELS]
    return rows, numbers, part, {"level": list(LEVELS), "covered": shares}


def _curves(rows: dict[str, ndarray], extra: Window, settings: Settings) -> dict[str, Any]:
    """Windowed and faded means at the end of each window, the last one perhaps shorter."""
    length = len(next(iter(rows.values())))
    ends = np.unique(np.append(np.arange(settings.window, length + 1, settings.window), length))
    curves: dict[str, Any] = {"row": ends}
    for name, values in rows.items():
        curves[name] = metrics.windowed(values, settings.window)[ends - 1]
        curves[f"{name}_faded"] = metrics.faded(values, settings.fading)[ends - 1]
    parts = [extra(slice(max(end - settings.window, 0), end)) for end in ends.tolist()]
    return curves | {name: [part[name] for part in parts] for name in parts[0]}


def _lags(loss: ndarray, changes: list[int], settings: Settings, relative: bool) -> dict[str, Any]:
    """Rows until the loss is back, after each change; their mean is infinite if one never is."""
    ends = [*changes[1:], len(loss)]
    lags = []
    for change, end in zip(changes, ends, strict=True):
        before = float(np.mean(loss[max(change - settings.lag_window, 0) : change]))
        tolerance = settings.lag_tolerance * (before if relative else 1.0)
        lags.append(metrics.lag(loss[:end], change, settings.lag_window, tolerance))
    return {"changes": changes, "rows": lags, "mean": float(np.mean(lags))}
