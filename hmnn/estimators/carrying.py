"""A network whose inputs or outputs are standardised anew, and whose raw function stands."""

import numpy as np

from hmnn.core.filtering import Filter, State
from hmnn.core.projections.natural import Moments
from hmnn.estimators import growth
from hmnn.estimators.known_columns import Move


def carried(parts: Filter, state: State, inputs: Move | None, output: Move | None) -> State:
    """The law of a network of dense layers under new maps of its inputs and of its one output.

    z is now ratio z + shift: the first layer takes W * ratio and b + W shift. Outputs f are now
    (f - shift) / ratio, and so is the deviation of the noise.
    """
    if inputs is None and output is None:
        return state
    law, noise = state.posterior, state.noise
    mean, variance = growth.leaves_of(parts, law.mean), growth.leaves_of(parts, law.variance)
    if inputs is not None:
        ratio, shift = inputs
        mean[1] = mean[1] + mean[0] @ shift
        variance[1] = variance[1] + variance[0] @ shift**2
        mean[0], variance[0] = mean[0] * ratio, variance[0] * ratio**2
    if output is not None:
        ratio, shift = output
        mean[-2:] = [mean[-2] / ratio, (mean[-1] - shift) / ratio]
        variance[-2:] = [leaf / ratio**2 for leaf in variance[-2:]]
        noise = noise._replace(variance=np.asarray(noise.variance / ratio[0] ** 2, law.mean.dtype))
    flat = (np.concatenate([leaf.ravel() for leaf in part]) for part in (mean, variance))
    return state._replace(
        posterior=Moments(*(part.astype(law.mean.dtype) for part in flat)), noise=noise
    )
