"""The filter behind the estimators: settings in words, one memory of arrays, both projections."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from numpy import ndarray

from hmnn import _check
from hmnn._types import Dataset, Number
from hmnn.core import kernels, likelihoods
from hmnn.core.likelihoods import Likelihood, Outputs
from hmnn.core.natural import Moments, Noise, Outlook, Rows
from hmnn.estimators import inputs
from hmnn.estimators.inputs import Scaler
from hmnn.methods import base, natural, variational
from hmnn.networks import mlp

FEW = 256
"""From so many rows on `projection="auto"` descends; below, the closed form learns as well and costs far less."""
KEPT = 10_000
"""Time steps that `drift_` and `surprise_` go back."""
SIZES = (2, 16, 128, 1024)
"""Sizes that short streams are filled up to, few because each is compiled; one row learned and one asked come first."""
PROJECTIONS = ("auto", "gradient", "natural")
SPREAD = 0.1
"""The share of the linearised variance that predictions take: independent weights overstate it (docs/natural.md)."""


class Settings(NamedTuple):
    """An estimator's parameters, as its constructor has them; checked when a network is built."""

    hidden: Any = (64, 64)
    memory: Number = 0.9999
    jump_scale: Number = 0.007
    shrink: Number = kernels.SHRINK
    jump_prob: Number = 0.5
    keep: Number = 1.0
    initial_scale: Number = 0.3
    level_scale: Number = 0.03
    projection: Any = "auto"
    epochs: Number = 50
    learning_rate: Number = 0.01
    minibatch: Number = 128


class Memory(NamedTuple):
    """All that an estimator has learned; arrays only, never changed in place."""

    law: Moments
    noise: Noise
    x: Scaler
    y: Scaler
    seed: int
    t: int
    seen: int
    drift: Float[ndarray, " steps"]
    surprise: Float[ndarray, " steps"]


class Engine(NamedTuple):
    """A network with its settings."""

    plan: natural.Plan
    model: natural.Model
    settings: Settings
    network: Any
    placed: natural.Model
    """The model for streams of rows: as arrays, which plain numbers become at every call, and without its family,
    a module whose parts take as long to find as a row to learn."""


class Weighted(NamedTuple):
    """A likelihood whose rows have weights: y holds the label and the weight."""

    likelihood: Likelihood

    def log_prob(self, outputs: Outputs, y: Shaped[Array, "rows *y"]) -> Float[Array, " rows"]:
        """The weight times log g of each row."""
        label = y[:, 0].astype(jnp.int32) if isinstance(self.likelihood, likelihoods.Categorical) else y[:, 0]
        return y[:, 1] * self.likelihood.log_prob(outputs, label)

    def mean(self, outputs: Outputs) -> Outputs:
        """As without weights."""
        return self.likelihood.mean(outputs)

    def variance(self, outputs: Outputs) -> Outputs:
        """As without weights."""
        return self.likelihood.variance(outputs)


def engine(settings: Settings, columns: int, outputs: int, kind: str) -> Engine:
    """The engine for so many columns and outputs; the same one for the same settings."""
    hidden = settings.hidden
    if not isinstance(hidden, tuple | list):
        raise _check.fail("hidden", "a tuple of widths such as (64, 64)", hidden)
    # Before the cache, to which 50 and 50.0 are the same.
    for name in ("epochs", "minibatch"):
        _check.count(name, getattr(settings, name))
    _check.positive("learning_rate", settings.learning_rate)
    if _check.choice("projection", settings.projection, PROJECTIONS) == "natural" and settings.keep != 1:
        raise _check.fail("keep", "1 with projection='natural', which drops nothing", settings.keep)
    try:
        return _engine(settings._replace(hidden=tuple(hidden)), columns, outputs, kind)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        raise _check.fail("each parameter", "a number, a word or a tuple of widths", tuple(settings)) from None


@lru_cache(maxsize=128)
def _engine(settings: Settings, columns: int, outputs: int, kind: str) -> Engine:
    kernel = kernels.jump(settings.memory, settings.jump_scale, settings.shrink, settings.jump_prob)
    network = mlp(columns, settings.hidden, outputs)
    plan, model = natural.assembled(
        network,
        kind,
        kernel,
        keep=settings.keep,
        initial_scale=settings.initial_scale,
        level_scale=settings.level_scale,
        spread=SPREAD,
    )
    return Engine(plan, model, settings, network, jax.tree.map(jnp.asarray, model._replace(family=None)))


def start(machine: Engine, seed: int, columns: int) -> Memory:
    """Nothing learned."""
    law, noise = natural.first(machine.plan, machine.model.initial_scale, jax.random.key(seed))
    nothing = np.zeros(0)
    law, noise = jax.tree.map(np.asarray, (law, noise))
    return Memory(law, noise, inputs.empty(columns), inputs.empty(1), seed, 0, 0, nothing, nothing)


def learn(machine: Engine, memory: Memory, x: ndarray, y: ndarray, weight: ndarray) -> Memory:
    """One time step: all rows together, by the projection that the settings name or their number chooses.

    Args:
        machine: the engine.
        memory: what was learned; its scalers have absorbed these rows already.
        x: standardised rows.
        y: labels 0 .. K - 1, or standardised values.
        weight: of each row.
    """
    wide = _gradient(machine.settings, len(x))
    law, surprise, residual, drift = (_descend if wide else _take)(machine, memory, x, y, weight)
    if memory.seen == 0:  # what the first guess missed says nothing of the noise; what is left after learning does
        left = natural.look(machine.plan, machine.model, law, base.pad(_float(x)))
        residual = np.average((y - np.asarray(left.outputs)[: len(y), 0]) ** 2, weights=weight)
    after = memory._replace(
        law=jax.tree.map(np.asarray, law),
        noise=_noise(machine, memory.noise, float(residual), float(weight.sum())),
        t=memory.t + 1,
        seen=memory.seen + 1,
        drift=np.append(memory.drift, drift)[-KEPT:],
        surprise=np.append(memory.surprise, surprise)[-KEPT:],
    )
    return finite(after, *after.x, *after.y)


def progress(
    machine: Engine, memory: Memory, x: ndarray, y: ndarray, kept: ndarray | None = None
) -> tuple[Memory, Outlook]:
    """Rows one at a time, each a time step: predict it, then learn it if it is `kept`.

    Returns:
        The memory after them, its scalers untouched, and the outlook of each row.
    """
    rows = len(x)
    kept = np.ones(rows, bool) if kept is None else kept
    size = next((n for n in SIZES if rows <= n), base.bucket(rows))
    data = Rows(*(_filled(a, size) for a in (_float(x), y, _float(kept), kept)))
    law, noise, seen = natural.rows(machine.plan, machine.placed, memory.law, memory.noise, data)
    steps = int(kept.sum())
    law, noise = Moments(*map(np.asarray, law)), Noise(*map(np.asarray, noise))
    after = memory._replace(law=law, noise=noise, t=memory.t + steps, seen=memory.seen + steps)
    return finite(after), Outlook(*(np.asarray(a)[:rows] for a in seen))


def advance(machine: Engine, memory: Memory, steps: int) -> Memory:
    """Time passes without data."""
    law = natural.move(machine.plan, machine.model, memory.law, steps)
    return memory._replace(law=jax.tree.map(np.asarray, law), t=memory.t + steps)


def look(machine: Engine, memory: Memory, x: ndarray) -> Outlook:
    """The law of the outputs for standardised rows."""
    seen = natural.look(machine.plan, machine.model, memory.law, base.pad(_float(x)))
    return Outlook(np.asarray(seen.outputs)[: len(x)], np.asarray(seen.spread)[: len(x)])


def finite(memory: Memory, *scalers: ndarray) -> Memory:
    """Refuse a memory with a number that is not finite; the caller still has the one before."""
    if not math.isfinite(sum(float(a.sum()) for a in (*memory.law, *memory.noise, *scalers))):
        raise _check.DivergenceError(
            f"The update at t = {memory.t} is not finite; the model is unchanged. Look for outliers in the data."
        )
    return memory


def _filled(values: ndarray, size: int) -> ndarray:
    """The rows, and rows of zeros up to `size`."""
    if len(values) == size:
        return values
    result = np.zeros((size, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result


def _gradient(settings: Settings, rows: int) -> bool:
    return settings.projection == "gradient" or (settings.projection == "auto" and rows >= FEW)


def _take(machine: Engine, memory: Memory, x: ndarray, y: ndarray, weight: ndarray) -> tuple[Moments, Any, Any, Any]:
    model = _with_noise(machine, memory)
    counted = _filled(_float(weight), base.bucket(len(x)))
    law, info = natural.take(machine.plan, model, memory.law, base.pad(_float(x)), base.pad(y), counted)
    return law, info.surprise, info.residual, info.drift


def _descend(machine: Engine, memory: Memory, x: ndarray, y: ndarray, weight: ndarray) -> tuple[Moments, Any, Any, Any]:
    """The paper's projection, from the memory's moments to moments."""
    model, settings = _with_noise(machine, memory), machine.settings
    before = natural.move(machine.plan, model, memory.law, 1)
    seen = natural.look(machine.plan, model, before, base.pad(_float(x)))
    logs = np.asarray(natural.log_density(model.likelihood, seen, base.pad(y)))[: len(y)]
    residual = np.average((y - np.asarray(seen.outputs)[: len(y), 0]) ** 2, weights=weight)
    method = variational.build(
        machine.network,
        Weighted(model.likelihood),
        model.kernel,
        keep=settings.keep,
        optimiser="adam",
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        minibatch=settings.minibatch,
        initial_scale=settings.initial_scale,
        restart=True,
    )
    state = method.init(memory.seed)
    if memory.seen:
        t, posterior = jnp.asarray(memory.t, jnp.int32), natural.posterior(machine.plan, model, memory.law)
        state = state._replace(posterior=posterior, t=t, seen=jnp.ones_like(state.seen))
    state, info = method.step(state, Dataset(_float(x), np.stack([_float(y), _float(weight)], axis=1)))
    law = natural.moments(model, state.posterior)
    return law, np.average(logs, weights=weight), residual, info.drift


def _with_noise(machine: Engine, memory: Memory) -> natural.Model:
    model = machine.model
    if isinstance(model.likelihood, likelihoods.Gaussian):
        scale = float(np.sqrt(memory.noise.variance))
        return model._replace(likelihood=likelihoods.Gaussian(scale))
    return model


def _noise(machine: Engine, noise: Noise, residual: float, rows: float) -> Noise:
    """The noise after a batch, as `hmnn.core.natural.learned` has it after a row."""
    if not isinstance(machine.model.likelihood, likelihoods.Gaussian):
        return noise
    count = min(float(noise.number) + rows, max(100.0, rows))
    variance = float(noise.variance) + rows / count * (residual - float(noise.variance))
    return Noise(_float(np.maximum(variance, 1e-6)), _float(np.minimum(count, 100.0)))


def _float(values: Any) -> ndarray:
    return np.asarray(values, base._float())
