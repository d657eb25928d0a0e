"""The closed-form projection that keeps the strongest correlations between all weights."""

import math

from hmnn import _check
from hmnn._types import Number
from hmnn.core.projections.lowrank import RANK, LowRank
from hmnn.core.projections.natural import JOINT
from hmnn.methods.natural import natural


def low_rank(
    initial_scale: Number = 0.3,
    level_scale: Number = 0.0,
    spread: Number = 1.0,
    bound: Number = math.inf,
    joint: Number = JOINT,
    rank: Number = RANK,
    level_bound: Number = math.inf,
) -> LowRank:
    """The closed-form projection onto laws whose precision is diagonal plus one of low rank.

    Args:
        initial_scale: standard deviation of lambda_0 around the network's own initial weights.
        level_scale: standard deviation of an extra jump of the outputs' biases at every time step.
        spread: the share of the outputs' linearised variance that predictions take; 1 is exact for
            a linear network and at most `rank` weights.
        bound: no move makes a variance that the low-rank part says nothing of larger than this, or
            than it was at the start.
        joint: rows that are taken together, fewer of several outputs; more are taken in turn.
        rank: how many sums of weights are remembered as such.
        level_bound: the extra jump makes no such variance of a bias larger than this.
    """
    checked = natural(initial_scale, level_scale, spread, bound, joint, level_bound=level_bound)
    return LowRank(
        checked.initial_scale,
        checked.level_scale,
        checked.spread,
        checked.bound,
        checked.level_bound,
        checked.joint,
        _check.count("rank", rank),
    )
