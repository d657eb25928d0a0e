"""From forecasts to the record, the table and what the figures need."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn.lab.experiment import Outcome, compared
from hmnn.lab.flag.config import Config
from hmnn.lab.flag.entries import BAYES, LABELS, PAPER
from hmnn.lab.flag.video import Clip, clip


def over(
    config: Config,
    frames: Clip,
    result: dict[str, np.ndarray],
    span: Iterable[int],
    real: bool = False,
) -> float:
    """The paper's M over some frames; against the real ones, what the components cannot say counts too."""
    at = np.array(list(span))
    errors = frames.codes[at] - result["mean"][at - config.window - 1]
    if real:
        return metrics.standardised_rmse(errors, frames.whole[at], frames.rest[at])
    return metrics.standardised_rmse(errors, frames.energy[at])


def noted(frames: Clip, frame: int, forecast: dict[str, np.ndarray]) -> dict[str, float]:
    """M of one frame by itself, and the mean width of its interval of 95 % where there is one."""
    error = metrics.standardised_rmse((frames.codes[frame] - forecast["mean"])[None], frames.energy[frame][None])
    return {"M": error} | ({"width": float(np.mean(2 * 1.96 * forecast["sd"]))} if "sd" in forecast else {})


def first_pass(config: Config, frames: Clip, result: dict[str, np.ndarray], real: bool = False) -> float:
    """M on the validation frames, the last that most methods see for the first time."""
    return over(config, frames, result, range(config.validate_from, config.test_from, 2), real)


def _test(config: Config, frames: Clip, result: dict[str, np.ndarray], real: bool = False) -> float:
    return over(config, frames, result, range(config.test_from, config.last + 1, 2), real)


def _coverage(config: Config, frames: Clip, result: dict[str, np.ndarray]) -> dict[str, float]:
    """How often a component of a test frame is within 1.96 standard deviations of its forecast, and how wide it is."""
    at = np.arange(config.test_from, config.last + 1, 2)
    mean, sd = (result[key][at - config.window - 1] for key in ("mean", "sd"))
    return {
        "coverage": float(np.mean(np.abs(frames.codes[at] - mean) <= 1.96 * sd)),
        "width": float(np.mean(2 * 1.96 * sd)),
    }


def outcome(
    config: Config,
    results: dict[str, Any],
    chosen: dict[str, dict[str, Any]],
    scores: dict[str, float],
) -> Outcome:
    """Means over the seeds; `hmnn` in the record is the one of its two networks that was better on validation."""
    by_seed = {protocol: _by_seed(config, protocol, results) for protocol in config.protocols}
    means = {
        p: {m: {k: float(np.mean(v)) for k, v in kinds.items()} for m, kinds in found.items()}
        for p, found in by_seed.items()
    }
    ours = min(
        ("hmnn_paper", "hmnn_diagonal"),
        key=lambda kind: _least(_trials(kind, scores) or [by_seed["paper"]["M_first_pass"][kind][0]]),
    )
    for found in means.values():
        for values in found.values():
            values["hmnn"] = values[ours]
    metrics_ = {
        **means["paper"],
        **{p: found for p, found in means.items() if p != "paper"},
        "by_seed": by_seed,
    }
    metrics_ |= {"validation": {kind: _trials(kind, scores) for kind in chosen}, "hmnn_is": ours}
    metrics_["interval"] = {k: _coverage(config, clip(), results[f"paper-{k}-0"]) for k in BAYES}
    table = [_row(kind, means, by_seed["paper"]["M"][kind]) for kind in LABELS]
    names = {kind: f"M, {label}" for kind, label in LABELS.items()}
    test = {names[kind]: means["paper"]["M"][kind] for kind in LABELS}
    summary = compared("flag", test, {name: PAPER.get(kind) for kind, name in names.items()})
    from hmnn.lab.flag import film  # matplotlib and Pillow, at the end of a run only

    seen = {kind: results[f"paper-{kind}-0"] for kind in LABELS}
    scene = film.Scene(config, clip(), seen, ours)
    return Outcome(metrics_, table, summary, chosen, film.view(scene))


def _least(values: list[float]) -> float:
    """The best score; what diverged has none, and comes last."""
    return float(np.min(np.nan_to_num(values, nan=np.inf)))


def _trials(kind: str, scores: dict[str, float]) -> list[float]:
    return [score for name, score in scores.items() if name.rpartition("-")[0] == f"validate-{kind}"]


def _by_seed(config: Config, protocol: str, results: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    frames, found = clip(protocol), dict[str, dict[str, list[float]]]()
    for name, result in results.items():
        if name.split("-")[0] != protocol:
            continue
        kind = name.split("-")[1]
        for key, score, real in (
            ("M", _test, False),
            ("M_first_pass", first_pass, False),
            ("M_pixels", _test, True),
        ):
            found.setdefault(key, {}).setdefault(kind, []).append(score(config, frames, result, real))
    return found


def _row(kind: str, means: dict[str, Any], values: list[float]) -> dict[str, Any]:
    row = {
        "method": LABELS[kind],
        "M": means["paper"]["M"][kind],
        "over seeds": f"{min(values):.4f} to {max(values):.4f}",
    }
    row |= {
        "paper": f"{PAPER[kind]:.4f}" if kind in PAPER else "-",
        "first pass": means["paper"]["M_first_pass"][kind],
    }
    if "clean" in means:
        row |= {f"clean {k}": means["clean"][m][kind] for k, m in (("M", "M"), ("first pass", "M_first_pass"))}
    return row
