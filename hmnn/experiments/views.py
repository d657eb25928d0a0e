"""What a run keeps for the page beside its scores: how the drift signal moved, and how far probabilities hold."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from hmnn import metrics

DRIFT, ALL = "drift of ", "all weights"
"""How the names of the drift signal begin, and the one that is the mean over all weights."""
BINS = 15


def drift(info: Any) -> dict[str, float]:
    """The responsibility of the big jump, over all weights and leaf by leaf; nothing where the kernel has none."""
    if not hasattr(info, "drift_by_leaf") or not np.isfinite(info.drift):
        return {}
    leaves = jax.tree_util.tree_flatten_with_path(info.drift_by_leaf)[0]
    found = {jax.tree_util.keystr(path).lstrip(".") or "weights": float(value) for path, value in leaves}
    return {f"{DRIFT}{name}": value for name, value in {ALL: float(info.drift), **found}.items()}


def signal(step: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The drift signal of one time step, taken out of what was kept of it."""
    found = {name.removeprefix(DRIFT): value for name, value in step.items() if name.startswith(DRIFT)}
    return {"drift": found} if found else {}


def drifts(steps: Sequence[dict[str, Any]]) -> dict[str, ndarray]:
    """Name of a leaf -> its signal at every time step; nothing if a step has none."""
    names = [name for name in steps[0] if name.startswith(DRIFT) and all(name in step for step in steps)]
    return {name.removeprefix(DRIFT): np.array([step[name] for step in steps], np.float32) for name in names}


def reliability(
    probabilities: Float[ndarray, "rows classes"], y: Int[ndarray, " rows"]
) -> dict[str, Float[ndarray, " bins"]]:
    """Confidence against accuracy, in the form in which results are kept."""
    return metrics.reliability(probabilities, y, BINS)._asdict()


def pooled(parts: Sequence[dict[str, ndarray] | None]) -> dict[str, ndarray]:
    """The reliability of equally many rows each, together; nothing if a part has none."""
    if not parts or any(part is None for part in parts):
        return {}
    confidence, accuracy, share = (
        np.concatenate([np.asarray(part[key]) for part in parts if part]) for key in metrics.Reliability._fields
    )
    which = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    total = np.bincount(which, share, BINS)
    some = total > 0
    means = [np.bincount(which, share * values, BINS)[some] / total[some] for values in (confidence, accuracy)]
    columns = zip(metrics.Reliability._fields, (*means, total[some] / len(parts)), strict=True)
    return {key: values.astype(np.float32) for key, values in columns}
