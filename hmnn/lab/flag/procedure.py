"""Choose settings on the validation frames, then watch the video with every method."""

from itertools import product
from typing import Any

import numpy as np

from hmnn import DivergenceError
from hmnn.lab import diagnostics, jobs
from hmnn.lab.experiment import Monitor, Outcome, Report, Search
from hmnn.lab.flag import scores
from hmnn.lab.flag.config import Config, check
from hmnn.lab.flag.entries import BAYES, FIXED, LABELS, build, grid
from hmnn.lab.flag.video import clip, waving_flag
from hmnn.lab.jobs import Job
from hmnn.methods import Method

EVERY = 25
"""Windows between two checkpoints: the LSTM's state is large."""


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Choose settings on the validation frames, then run every method on both protocols."""
    check(config)
    grids = {kind: grid(config, kind) for kind in LABELS if kind not in FIXED}
    end = config.test_from - 2
    trials = [
        _job(f"validate-{kind}-{i}", (config, "paper", kind, setting, 100 * seed, end))
        for kind, tried in grids.items()
        for i, setting in enumerate(tried)
        if len(tried) > 1
    ]
    found = jobs.run(trials, monitor, monitor.workers)
    marks = {name: scores.first_pass(config, clip(), result) for name, result in found.items()}
    chosen = {kind: _best(tried, kind, marks) for kind, tried in grids.items()}
    best: dict[str, Any] = {kind: {} for kind in FIXED} | chosen
    runs = [
        _job(f"{p}-{kind}-{s}", (config, p, kind, best[kind], 100 * seed + s, config.last))
        for p, kind in product(config.protocols, LABELS)
        for s in range(1 if kind in FIXED else config.seeds)
    ]
    results = jobs.run(runs, monitor, monitor.workers)
    return scores.outcome(config, results, chosen, marks)


def _best(tried: list[dict[str, Any]], kind: str, marks: dict[str, float]) -> dict[str, Any]:
    """The setting with the least score; one that diverged has none, and comes last."""
    found = [marks.get(f"validate-{kind}-{i}", 0.0) for i in range(len(tried))]
    return tried[int(np.argmin(np.nan_to_num(found, nan=np.inf)))]


def _job(name: str, argument: tuple[Config, str, str, dict[str, Any], int, int]) -> Job:
    """The argument is Config, protocol, kind, setting, seed and last frame."""
    return Job(name, _watch, argument, argument[-1] - argument[0].window)


def _watch(argument: Any, monitor: Monitor, name: str) -> dict[str, np.ndarray]:
    """Watch the video up to `last`: forecasts of frames window + 1 .. last, with deviations."""
    config, protocol, kind, setting, seed, last = argument
    stream = waving_flag(config.window, config.last + 1, protocol)
    method = build(config, kind, setting, stream[0].x.shape[1])
    state, kept = monitor.restore(name, method.init(seed))
    for i in range(len(kept), last - config.window):
        try:
            state, info = method.step(state, stream[i])
        except DivergenceError:  # this setting is out; the others go on
            nothing = np.full((last - config.window, stream[i].y.shape[1]), np.nan)
            return {"mean": nothing} | ({"sd": nothing} if kind in BAYES else {})
        signal = diagnostics.drift(info) if kind.startswith("hmnn") else {}
        kept.append(_forecast(config, kind, method, state, stream[i].y[-1:]) | signal)
        frame = i + config.window + 1
        noted = scores.noted(clip(protocol), frame, kept[-1])
        monitor.note(name, frame, diagnostics.numbers(info) | noted)
        if (i + 1) % EVERY == 0:
            monitor.checkpoint(name, state, kept)
        monitor.tick(f"{name}, frame {frame}")
    return {key: np.stack([step[key] for step in kept]) for key in kept[0]}


def _forecast(
    config: Config, kind: str, method: Method, state: Any, frame: np.ndarray
) -> dict[str, np.ndarray]:
    found = method.predict(state, frame, samples=config.draws if kind in BAYES else 0)
    mean = {"mean": np.asarray(found.mean)[0]}
    if found.epistemic is None or found.aleatoric is None:
        return mean
    return mean | {"sd": np.sqrt(np.asarray(found.epistemic + found.aleatoric))[0]}


def score(config: Config, seed: int, report: Report) -> float:
    """M of the HMNN with the paper's network on the validation frames, for `hmnn sweep`."""
    check(config)
    method = build(config, "hmnn_paper", grid(config, "hmnn_paper")[0], clip().codes.shape[1])
    state, means = method.init(100 * seed), list[np.ndarray]()
    stream = waving_flag(config.window, config.test_from)
    for i in range(config.test_from - 2 - config.window):
        state, _ = method.step(state, stream[i])
        means.append(np.asarray(method.predict(state, stream[i].y[-1:]).mean)[0])
        frame = i + config.window + 1
        if frame > config.validate_from and frame % 10 == 0:
            seen = range(config.validate_from, frame + 1, 2)
            report(frame, scores.over(config, clip(), {"mean": np.stack(means)}, seen))
    return scores.first_pass(config, clip(), {"mean": np.stack(means)})


def _single(*values: float) -> tuple[tuple[float], ...]:
    """Values for fields that hold what is chosen from: with a single one, `run` chooses nothing."""
    return tuple((value,) for value in values)


TENTHS = [k / 10 for k in range(11)]
TRIED = {"memories": TENTHS, "keeps": TENTHS[3:], "jump_probs": TENTHS[1:10]}
SEARCH = {
    "hmnn": Search(
        grid={field: _single(*getattr(Config, field)) for field in TRIED},
        ranges={field: _single(*values) for field, values in TRIED.items()},
        score=score,
        direction="minimize",
    )
}
