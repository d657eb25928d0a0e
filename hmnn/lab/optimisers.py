"""Optimisers by name whose learning rate may fall, for the recipes of the two MNIST experiments."""

from functools import cache
from typing import Any

import optax

from hmnn import _check
from hmnn.methods.arguments import OPTIMISERS

SCHEDULES = ("constant", "cosine")


@cache
def optimiser(name: str, schedule: str, steps: int) -> Any:
    """A function of the learning rate that returns an optimiser.

    It is the same object for the same arguments, so that a step compiles once. With "cosine" the
    rate falls to 0 within so many updates.
    """
    _check.choice("optimiser", name, OPTIMISERS)
    _check.choice("schedule", schedule, SCHEDULES)
    if schedule == "constant":
        return OPTIMISERS[name]
    return lambda rate: OPTIMISERS[name](optax.cosine_decay_schedule(rate, steps))
