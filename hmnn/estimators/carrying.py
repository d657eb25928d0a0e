"""A network whose inputs or outputs are standardised anew, and whose raw function stands."""

from typing import Any

import jax
import numpy as np
from numpy import ndarray

from hmnn.core.filtering import Filter, State
from hmnn.core.learning import TOLD, Bank, Last, Recent
from hmnn.core.projections.drifting import Drift
from hmnn.core.projections.lowrank import Factored
from hmnn.core.projections.natural import Moments
from hmnn.estimators.known_columns import Move

OF_NOISE = ("variance", "claimed")
"""What a noise says in squared units of y."""


def carried(
    parts: Filter,
    state: State,
    inputs: Move | None,
    output: Move | None,
    change: Move | None = None,
) -> State:
    """The law of a network of dense layers under new maps of its inputs and of its first output.

    What was z is now ratio z + shift: the first layer takes W * ratio and b + W shift. Outputs f
    are now (f - shift) / ratio, and so is the deviation of the noise. `change` is the new map of
    what experts add to the last target.
    """
    if inputs is None and output is None and change is None:
        return state
    if not isinstance(parts.projection, Bank):
        return _moved(state, inputs, output)
    law = state.posterior
    members = (
        _expert_moved(states, inputs, output, change)
        if group.expert
        else _moved(states, inputs, output)
        for group, states in zip(parts.projection.groups, law.members, strict=True)
    )
    work = state.work
    if isinstance(work, Recent):
        work = _rows_moved(work, inputs, output, TOLD if parts.projection.told else 0)
    return state._replace(posterior=law._replace(members=tuple(members)), work=work)


def _expert_moved(
    state: State, inputs: Move | None, level: Move | None, change: Move | None
) -> State:
    """An expert's inputs are the last target, the last difference, and x."""
    whole = None
    if inputs is not None or level is not None or change is not None:
        own = [Move(np.ones(1), np.zeros(1)) if part is None else part for part in (level, change)]
        columns = state.posterior.mean[0].shape[-1] - len(own)
        rest = Move(np.ones(columns), np.zeros(columns)) if inputs is None else inputs
        whole = Move(*(np.concatenate(part) for part in zip(*own, rest, strict=True)))
    return _moved(state, whole, change)


def _moved(state: State, inputs: Move | None, output: Move | None) -> State:
    """The law of one filter, or of several stacked ones."""
    law, noise = _law_moved(state.posterior, inputs, output), state.noise
    if output is not None:
        kind = jax.tree.leaves(law)[0].dtype
        noise = noise._replace(
            **{
                name: np.asarray(value / output.ratio[0] ** 2, kind)
                for name, value in noise._asdict().items()
                if name in OF_NOISE
            }
        )
    new = jax.tree.map(lambda a, b: a.astype(b.dtype), law, state.posterior)
    return state._replace(posterior=new, noise=noise)


def _law_moved(law: Any, inputs: Move | None, output: Move | None) -> Any:
    """A law of any of the closed forms."""
    if isinstance(law, Drift):  # tangents move as moments do, but for what is added to the mean
        turned = None if output is None else output._replace(shift=np.zeros_like(output.shift))
        tangents = _law_moved(law.tangents, inputs, turned)
        return law._replace(law=_law_moved(law.law, inputs, output), tangents=tangents)
    if isinstance(law, Factored):
        plain = _law_moved(Moments(law.mean, law.variance), inputs, output)
        return Factored(plain.mean, plain.variance, _factors(law.factors, inputs, output))
    mean, variance = ([np.array(leaf, np.float64) for leaf in part] for part in law[:2])
    last = None if isinstance(law.last, tuple) else np.array(law.last, np.float64)
    if inputs is not None:
        ratio, shift = inputs
        mean[1] = mean[1] + mean[0] @ shift
        variance[1] = variance[1] + variance[0] @ shift**2
        mean[0], variance[0] = mean[0] * ratio, variance[0] * ratio**2
        if last is not None and len(mean) == 2:
            turn = np.vstack([np.diag(np.append(ratio, 1.0))])
            turn[-1, :-1] = shift
            last = turn @ last @ turn.T
            variance = _of(last, variance)
    if output is not None:
        ratio, shift = output
        mean[-1][..., 0] -= shift[0]
        for leaf, square, axis in zip(mean[-2:], variance[-2:], (-2, -1), strict=True):
            first = (..., 0, slice(None)) if axis == -2 else (..., 0)
            leaf[first], square[first] = leaf[first] / ratio[0], square[first] / ratio[0] ** 2
        if last is not None:
            last[..., 0, :, :] /= ratio[0] ** 2
    return Moments(tuple(mean), tuple(variance), () if last is None else last)


def _factors(factors: tuple[Any, ...], inputs: Move | None, output: Move | None) -> Any:
    """What a law of low rank says of sums of weights, as sums of the new weights."""
    said = [np.array(leaf, np.float64) for leaf in factors]
    if inputs is not None:
        ratio, shift = inputs
        apart = said[0] - said[1][..., None] * shift
        said[0] = np.divide(apart, ratio, out=np.zeros_like(apart), where=ratio != 0)
    if output is not None:
        said[-2][..., 0, :] *= output.ratio[0]
        said[-1][..., 0] *= output.ratio[0]
    return tuple(said)


def _of(last: ndarray, variance: list[ndarray]) -> list[ndarray]:
    """The variances of a last layer with this covariance."""
    diagonal = np.diagonal(last, axis1=-2, axis2=-1)
    full = np.broadcast_to(diagonal, (*variance[-1].shape, diagonal.shape[-1]))
    return [*variance[:-2], full[..., :-1].copy(), full[..., -1].copy()]


def _rows_moved(recent: Recent, inputs: Move | None, output: Move | None, told: int) -> Recent:
    """The rows that are kept, under the new maps."""
    x, y = np.array(recent.x, np.float64), np.array(recent.y, np.float64)
    if inputs is not None:
        x[:, told:] = (x[:, told:] - inputs.shift) / inputs.ratio
    if output is not None:
        y = (y - output.shift[0]) / output.ratio[0]
        if told:
            fields = Last._fields
            for name in ("offset", "level"):
                place = fields.index(name)
                x[:, place] = (x[:, place] - output.shift[0]) / output.ratio[0]
            x[:, fields.index("unit")] /= output.ratio[0]
    return recent._replace(x=x.astype(recent.x.dtype), y=y.astype(recent.y.dtype))
