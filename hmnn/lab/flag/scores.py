"""From forecasts to the record, the table and what the figures need."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from hmnn import metrics
from hmnn.lab.experiment import Outcome, compared
from hmnn.lab.flag.config import Config
from hmnn.lab.flag.entries import BAYES, LABELS, PAPER
from hmnn.lab.flag.video import Clip, clip

Result = dict[str, np.ndarray]
"""What `procedure` keeps of a method: mean (and sd) of the forecasts of frames window + 1, ..."""


def over(
    config: Config, frames: Clip, result: Result, span: Iterable[int], real: bool = False
) -> float:
    """The paper's M over some frames; with `real`, what the components leave out counts too."""
    at = np.array(list(span))
    errors = frames.codes[at] - result["mean"][at - config.window - 1]
    if real:
        return metrics.standardised_rmse(errors, frames.whole[at], frames.rest[at])
    return metrics.standardised_rmse(errors, frames.energy[at])


def noted(frames: Clip, frame: int, forecast: Result) -> dict[str, float]:
    """M of one frame by itself, and the mean width of its interval of 95 % where there is one."""
    errors, energy = frames.codes[frame] - forecast["mean"], frames.energy[frame]
    found = {"M": metrics.standardised_rmse(errors[None], energy[None])}
    width = {"width": float(np.mean(3.92 * forecast["sd"]))} if "sd" in forecast else {}
    return found | width


def first_pass(config: Config, frames: Clip, result: Result, real: bool = False) -> float:
    """M on the validation frames, the last that most methods see for the first time."""
    return over(config, frames, result, range(config.validate_from, config.test_from, 2), real)


def _test(config: Config, frames: Clip, result: Result, real: bool = False) -> float:
    return over(config, frames, result, range(config.test_from, config.last + 1, 2), real)


def _coverage(config: Config, frames: Clip, result: Result) -> dict[str, float]:
    """How often the 95 % interval of a component holds its value in a test frame, and its width."""
    at = np.arange(config.test_from, config.last + 1, 2)
    mean, sd = (result[key][at - config.window - 1] for key in ("mean", "sd"))
    return {
        "coverage": float(np.mean(np.abs(frames.codes[at] - mean) <= 1.96 * sd)),
        "width": float(np.mean(2 * 1.96 * sd)),
    }


def outcome(
    config: Config, results: dict[str, Any], chosen: dict[str, Any], scores: dict[str, float]
) -> Outcome:
    """Means over the seeds; `hmnn` is the one of its two networks that was better on validation."""
    by_seed = {protocol: _by_seed(config, protocol, results) for protocol in config.protocols}
    means = {
        p: {m: {k: float(np.mean(v)) for k, v in kinds.items()} for m, kinds in found.items()}
        for p, found in by_seed.items()
    }
    first = by_seed["paper"]["M_first_pass"]
    best = {k: _least(_trials(k, scores) or first[k][:1]) for k in ("hmnn_paper", "hmnn_diagonal")}
    ours = min(best, key=lambda kind: best[kind])
    for found in means.values():
        for values in found.values():
            values["hmnn"] = values[ours]
    others = {p: found for p, found in means.items() if p != "paper"}
    metrics_: dict[str, Any] = means["paper"] | others | {"by_seed": by_seed}
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
    return [m for name, m in scores.items() if name.rpartition("-")[0] == f"validate-{kind}"]


def _by_seed(config: Config, protocol: str, results: dict[str, Any]) -> dict[str, Any]:
    kinds = {"M": (_test, False), "M_first_pass": (first_pass, False), "M_pixels": (_test, True)}
    found: dict[str, dict[str, list[float]]] = {key: {} for key in kinds}
    for name, result in results.items():
        run, kind, _ = name.split("-")
        for key, (score, real) in kinds.items() if run == protocol else ():
            mark = score(config, clip(protocol), result, real)
            found[key].setdefault(kind, []).append(mark)
    return found


def _row(kind: str, means: dict[str, Any], values: list[float]) -> dict[str, Any]:
    first, clean = means["paper"], means.get("clean")
    row = {"method": LABELS[kind], "M": first["M"][kind]}
    row["over seeds"] = f"{min(values):.4f} to {max(values):.4f}"
    row["paper"] = f"{PAPER[kind]:.4f}" if kind in PAPER else "-"
    row["first pass"] = first["M_first_pass"][kind]
    if clean:
        row |= {"clean M": clean["M"][kind], "clean first pass": clean["M_first_pass"][kind]}
    return row
