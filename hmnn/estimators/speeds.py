"""What a bank believes of the world, for a person to read."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from hmnn.core.learning import Bank, believed
from hmnn.core.projections import drifting
from hmnn.core.projections.drifting import Drift
from hmnn.estimators.learned import EVERY, Learned
from hmnn.methods.streams import StreamFilter


class Forgetting(NamedTuple):
    """The members of a bank, how fast each thinks that the world moves, and how far it is believed.

    The weights sum to one. `steps` and `history` look back over the last 10000 time steps, at each
    tenth of them.
    """

    names: tuple[str, ...]
    jumps: Float[ndarray, " members"]
    """The standard deviation that every weight gains from one time step to the next."""
    weights: Float[ndarray, " members"]
    """Now."""
    steps: Float[ndarray, " looks"]
    history: Float[ndarray, "looks members"]
    by_layer: dict[str, float] | None = None
    """With forgetting="learn" where the drift is: the standard deviation that the weights of each
    layer gain now, and what the outputs' biases gain besides ("level")."""


def forgetting(how: StreamFilter, learned: Learned) -> Forgetting:
    """What the bank of an estimator believes."""
    bank, history = how.few.projection, learned.believed.astype(np.float64)
    last = (learned.steps - 1) // EVERY * EVERY
    steps = last - EVERY * np.arange(len(history))[::-1]
    if not isinstance(bank, Bank):
        return Forgetting(how.names, how.jumps, np.ones(1), steps, history)
    law = learned.filter.posterior
    weights = np.asarray(believed(bank, law), np.float64)
    drift = law.members[0].posterior
    if isinstance(drift, Drift):
        layers, level, mean = drifting.jumps(how.few, drift)
        by_layer = {f"layer {i + 1}": jump for i, jump in enumerate(layers)} | {"level": level}
        return Forgetting(how.names, np.array([mean]), weights, steps, history, by_layer)
    return Forgetting(how.names, how.jumps, weights, steps, history)
