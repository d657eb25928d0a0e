"""What a time step has to tell while the run goes on, from what its Info holds already: nothing is computed for it."""

import math
from typing import Any

import jax
import numpy as np


def of(info: Any) -> dict[str, float]:
    """The finite numbers of an Info by name, those of a tree leaf by leaf ("drift.layers.0.weight"); no flags."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(info):
        value = np.asarray(leaf)
        if value.dtype.kind in "fi" and math.isfinite(number := value.item()):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            found[name.replace("drift_by_leaf", "drift")] = number
    return found
