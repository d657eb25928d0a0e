"""What is kept of a time step beside its scores: numbers, the drift signal, reliability."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from hmnn import metrics

DRIFT, ALL = "drift of ", "all weights"
"""How the names of the drift signal begin, and the one that is the mean over all weights."""
BINS = 15


def numbers(info: Any) -> dict[str, Any]:
    """The numbers of an Info by name, those of a tree leaf by leaf ("drift.layers.0.weight").

    They are arrays still: reading them from JAX is left to `plain`, which costs less for many time
    steps at once.
    """
    leaves, structure = jax.tree.flatten(info)
    pairs = zip(_names(structure), leaves, strict=True)
    return {name: leaf for name, leaf in pairs if leaf.dtype.kind in "fi"}


def plain(values: dict[str, Any]) -> dict[str, float]:
    """Numbers as Python has them."""
    return {name: np.asarray(value).item() for name, value in values.items()}


@cache
def _names(structure: Any) -> list[str]:
    """The names of the leaves; finding them takes longer than reading the leaves."""
    tree = structure.unflatten(range(structure.num_leaves))
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]
    return [name.replace("drift_by_leaf", "drift") for name in names]


def drift(info: Any) -> dict[str, float]:
    """How probable a big jump was, over all weights and leaf by leaf; {} if there is no signal."""
    if info.drift_by_leaf is None or not np.isfinite(info.drift):
        return {}
    found = {ALL: float(info.drift)}
    for path, value in jax.tree_util.tree_leaves_with_path(info.drift_by_leaf):
        found[jax.tree_util.keystr(path).lstrip(".") or "weights"] = float(value)
    return {f"{DRIFT}{name}": value for name, value in found.items()}


def signal(step: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The drift signal of one time step, taken out of what was kept of it."""
    found = {k.removeprefix(DRIFT): value for k, value in step.items() if k.startswith(DRIFT)}
    return {"drift": found} if found else {}


def drifts(steps: Sequence[dict[str, Any]]) -> dict[str, ndarray]:
    """Name of a leaf -> its signal at every time step; nothing if a step has none."""
    signals = [signal(step).get("drift", {}) for step in steps]
    names = [name for name in signals[0] if all(name in found for found in signals)]
    return {name: np.array([found[name] for found in signals], np.float32) for name in names}


def reliability(
    probabilities: Float[ndarray, "rows classes"], y: Int[ndarray, " rows"]
) -> dict[str, Float[ndarray, " bins"]]:
    """Confidence against accuracy, in the form in which results are kept."""
    return metrics.reliability(probabilities, y, BINS)._asdict()


def pooled(parts: Sequence[dict[str, ndarray] | None]) -> dict[str, ndarray]:
    """The reliability of equally many rows each, together; nothing if a part has none."""
    if not parts or any(part is None for part in parts):
        return {}
    keys = metrics.Reliability._fields
    lists = ([np.asarray(part[key]) for part in parts if part] for key in keys)
    confidence, accuracy, share = map(np.concatenate, lists)
    which = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    total = np.bincount(which, share, BINS)
    some = total > 0
    sums = [np.bincount(which, share * values, BINS) for values in (confidence, accuracy)]
    found = [values[some] / total[some] for values in sums]
    columns = zip(keys, (*found, total[some] / len(parts)), strict=True)
    return {key: values.astype(np.float32) for key, values in columns}
