"""Filter the logistic drift by every method, score the weights, and choose the settings."""

import math
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn import _check
from hmnn.core.families import scale
from hmnn.core.projections.laplace import Correlated, deviation
from hmnn.data.drift import drifting_weights, logistic_drift
from hmnn.data.streams import Stream
from hmnn.lab import diagnostics, jobs
from hmnn.lab.experiment import Monitor, Outcome, Report, Search, compared
from hmnn.lab.logistic_drift.config import Config
from hmnn.methods import Method, hmnn, kurle
from hmnn.methods.laplace import laplace
from hmnn.networks import linear

BURN_IN = 10
"""First time steps that no score counts: every method starts at 0."""
SAVED = 25
"""Time steps between two checkpoints; a step takes less time than saving it."""
TOLD = 5
"""Time steps between two that are told: a step takes 9 ms, and telling it must cost little."""
NOTED = ("mean of w1", "mean of w2", "sd of w1", "sd of w2")
TITLES = {
    "hmnn": "HMNN, gamma = 1",
    "hmnn_keep": "HMNN, gamma = {keep}",
    "kurle": "Kurle et al.",
    "laplace": "Laplace filter, random walk (reference)",
    "hmnn_full": "HMNN with correlations",
}
METHODS = tuple(TITLES)


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Filter the stream by every method several times, and score the two weights."""
    _check.count("steps", config.steps, least=BURN_IN + 1)
    _check.count("runs", config.runs)
    work = [
        jobs.Job(f"{method}-{i}", _job, (config, method, 100 * seed + i), config.steps)
        for method in METHODS
        for i in range(config.runs)
    ]
    done = jobs.run(work, monitor, monitor.workers)
    truth = drifting_weights(config.steps, config.degrees)
    runs = range(config.runs)
    found = {m: np.stack([np.asarray(done[f"{m}-{i}"]) for i in runs]) for m in METHODS}
    metrics = {method: _scores(paths, truth) for method, paths in found.items()}
    titles = {method: title.format(keep=config.keep) for method, title in TITLES.items()}
    table = [
        {"method": m, "rmse": s["rmse"], "z_rms": s["z_rms"], "what": titles[m]}
        for m, s in metrics.items()
    ]
    ours = {f"{m}: {key}": s[key] for m, s in metrics.items() for key in ("rmse", "z_rms")}
    chosen = _taken(config, *(field for search in SEARCH.values() for field in search.grid))
    view = {"truth": truth.astype(np.float32)} | {m: _view(titles[m], p) for m, p in found.items()}
    return Outcome(metrics, table, compared("logistic-drift", ours), chosen, view)


def build(config: Config, method: str) -> Method:
    """A method by its name in the table."""
    if method in ("laplace", "hmnn_full"):
        jumps: dict[str, Any] = {
            "jump_scale": config.full_jump_scale,
            "jump_prob": config.jump_prob,
        }
        if method == "laplace":
            jumps = {"jump_scale": config.laplace_jump_scale, "jump_prob": 1.0}
        jumps |= _taken(config, "memory", "shrink", "initial_scale")
        return laplace(linear(2), "bernoulli", **jumps)
    descent = _taken(config, "optimiser", "learning_rate", "epochs", "initial_scale")
    descent["minibatch"] = None
    if method == "kurle":
        law: dict[str, Any] = {"memory": config.kurle_memory, "scale": config.kurle_scale}
        return kurle(linear(2), "bernoulli", **law, **descent)
    if method == "hmnn_keep":
        descent |= {"keep": config.keep, "optimiser": config.keep_optimiser}
        descent |= {"learning_rate": config.keep_learning_rate}
    jumps = _taken(config, "memory", "jump_scale", "shrink", "jump_prob")
    return hmnn(linear(2), "bernoulli", keep_where="all", **jumps, **descent)


def _taken(config: Config, *names: str) -> dict[str, Any]:
    return {name: getattr(config, name) for name in names}


def _job(argument: Any, monitor: Monitor, name: str) -> Float[ndarray, "steps rows 3"]:
    """Mean, standard deviation and, if there is one, drift signal of both weights and the bias."""
    config, method, seed = argument
    model, keep = build(config, method), config.keep if method == "hmnn_keep" else 1.0
    stream = logistic_drift(config.rows, config.steps, config.degrees, seed)
    state, found = monitor.restore(name, model.init(seed))
    for t in range(len(found), len(stream)):
        state, info = model.step(state, stream[t])
        found.append(np.concatenate([_moments(state, keep), _jumps(info)]))
        if t % TOLD == 0 or t + 1 == len(stream):
            moments = dict(zip(NOTED, found[-1][:2, :2].ravel().tolist(), strict=True))
            monitor.note(name, t + 1, diagnostics.numbers(info) | moments)
        if len(found) % SAVED == 0:
            monitor.checkpoint(name, state, found)
        monitor.tick(f"{name}, t = {t + 1}")
    return np.stack(found)


def _moments(state: Any, keep: float) -> Float[ndarray, "2 3"]:
    """E[w] = gamma m and the standard deviation of every weight, (w1, w2, bias)."""
    if isinstance(state.posterior, Correlated):
        moments = np.asarray(state.posterior.mean), np.asarray(deviation(state.posterior))
        return np.stack(moments).astype(np.float64)
    trees = state.posterior.location, jax.tree.map(scale, state.posterior.rho)
    m, s = (np.append(w.weight, w.bias).astype(np.float64) for w in trees)
    return np.stack([keep * m, np.sqrt(s**2 + keep * (1.0 - keep) * m**2)])


def _jumps(info: Any) -> Float[ndarray, "rows 3"]:
    """The responsibility of the big jump in one row; none for a kernel without such a jump."""
    if info.drift is None or not np.isfinite(info.drift):
        return np.empty((0, 3))
    by_leaf = info.drift_by_leaf
    return np.array([[by_leaf.weight, by_leaf.weight, by_leaf.bias]], np.float64)


def _scores(paths: Float[ndarray, "runs steps rows 3"], truth: Float[ndarray, "steps 2"]) -> Any:
    """Means over the runs, and each run by itself."""
    late = slice(BURN_IN, None)
    errors = paths[:, late, 0, :2] - truth[late]
    rmse = np.sqrt(np.mean(errors**2, axis=(1, 2)))
    z_rms = np.sqrt(np.mean((errors / paths[:, late, 1, :2]) ** 2, axis=(1, 2)))
    return {
        "rmse": float(rmse.mean()),
        "z_rms": float(z_rms.mean()),
        "rmse_by_run": rmse.tolist(),
        "z_rms_by_run": z_rms.tolist(),
        "amplitude": float(np.sqrt(2.0 * np.mean(paths[:, late, 0, :2] ** 2))),
    }


def _view(title: str, paths: Float[ndarray, "runs steps rows 3"]) -> dict[str, Any]:
    """Mean and deviation of every run, and the mean of the drift signals, for the figures."""
    small = paths.astype(np.float32)
    jumps = {"jumps": paths[:, :, 2].mean(axis=0).astype(np.float32)} if paths.shape[2] > 2 else {}
    return {"title": title, "mean": small[:, :, 0], "deviation": small[:, :, 1], **jumps}


def _validation(config: Config, seed: int) -> Stream:
    """Other random numbers, and weights that turn the other way."""
    steps = _check.count("validation_steps", config.validation_steps, least=BURN_IN + 1)
    return logistic_drift(config.rows, steps, -config.degrees, 100 * seed + 99)


def score(method: str, config: Config, seed: int, report: Report) -> float:
    """The root mean squared error of the posterior mean on the validation stream.

    That of laplace is minus its one-step-ahead log predictive of a time step.
    """
    stream, model = _validation(config, seed), build(config, method)
    truth, state = drifting_weights(len(stream), -config.degrees), model.init(seed)
    total = found = 0.0
    for t, data in enumerate(stream):
        state, info = model.step(state, data)
        if t < BURN_IN:
            continue
        if method == "laplace":
            total -= float(info.log_evidence)
            found = total / (t + 1 - BURN_IN)
        else:
            total += float(np.mean((_moments(state, 1.0)[0, :2] - truth[t]) ** 2))
            found = math.sqrt(total / (t + 1 - BURN_IN))
        report(t, found)
    return found


SCALES, WIDE = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8), (0.1, 1.0, "log")
FIELDS = {
    "hmnn": ("jump_scale", SCALES, WIDE),
    "kurle": ("kurle_memory", (0.9999, 0.9995, 0.999, 0.998, 0.995), (0.99, 0.9999, "linear")),
    "hmnn_full": ("full_jump_scale", SCALES, WIDE),
    "laplace": ("laplace_jump_scale", SCALES, WIDE),
}
SEARCH = {
    method: Search(
        {field: grid},
        {field: wide} | ({"jump_prob": (0.25, 0.5, 0.75, 1.0)} if method == "hmnn" else {}),
        partial(score, method),
        "minimize",
    )
    for method, (field, grid, wide) in FIELDS.items()
}
