"""The variational filter and the methods that are settings of it: jit lives here."""

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np

from hmnn import _check
from hmnn._types import Key, Number
from hmnn.core import families, filtering, kernels, noise, prediction
from hmnn.core.cpu.compilation import OFTEN, ONCE, SELDOM, compiled
from hmnn.core.cpu.hashing import hashed
from hmnn.core.families import Posterior
from hmnn.core.filtering import Info, Model, Plan, State, Task
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.core.projection import KL_WEIGHTS, Descent, Pace, Path
from hmnn.methods import base, parts
from hmnn.methods.base import Method
from hmnn.networks import Network


def build(
    network: Any,
    likelihood: Any,
    kernel: Any,
    *,
    keep: Any = 1.0,
    keep_where: Any = "internal",
    optimiser: Any = "sgd",
    learning_rate: Number = 1e-3,
    epochs: Number = 100,
    minibatch: Number | None = 128,
    samples: Number = 1,
    kl_weights: Any = "uniform",
    temperature: Number = 1.0,
    initial_scale: Number = 0.6931471805599453,
    start_rho: Any = (-3.0, -2.0),
    restart: Any = False,
    patience: Number = 10,
    source: Any = hashed,
) -> Method:
    """Assemble a filter from a network, a likelihood and a kernel.

    Args:
        network: see `hmnn.networks`.
        likelihood: one of `hmnn.core.likelihoods`, or its name.
        kernel: one of `hmnn.core.kernels`.
        keep: gamma in (0, 1], the probability that a weight's mean is kept; a number or a tree.
        keep_where: which weights may be dropped: one of `families.WHERE` or a test of the path.
        optimiser: "sgd", "adam" or a function of the learning rate such as `optax.rmsprop`.
        learning_rate: step size on the summed loss.
        epochs: passes over the data of a time step.
        minibatch: rows of a minibatch, or None for all rows at once.
        samples: N, draws of the weights for one gradient.
        kl_weights: "uniform" (1/M each) or "geometric" (Blundell et al.).
        temperature: factor of the KL term; below 1 the result is a cold posterior, not Bayes.
        initial_scale: standard deviation of lambda_0.
        start_rho: range of s-tilde of the first guess.
        restart: whether the optimiser's own state starts anew at every time step.
        patience: epochs that may be undone in a row before `DivergenceError`.
        source: where the noise comes from.
    """
    shapes = parts.shapes(network)
    likelihood = parts.likelihood(likelihood)
    model = Model(
        kernel=parts.kernel(kernel, shapes),
        family=families.assign(shapes, keep, keep_where),
        likelihood=likelihood,
        pace=Pace(
            learning_rate=_check.positive("learning_rate", learning_rate),
            epochs=_check.count("epochs", epochs),
            temperature=_check.number("temperature", temperature, "at least 0", lambda v: v >= 0),
        ),
        initial_scale=_check.positive("initial_scale", initial_scale),
        start_rho=_range(start_rho),
    )
    descent = Descent(
        apply=network.apply,
        optimiser=parts.optimiser(optimiser),
        minibatch=None if minibatch is None else _check.count("minibatch", minibatch),
        samples=_check.count("samples", samples),
        kl_weights=_check.choice("kl_weights", kl_weights, KL_WEIGHTS),
        source=_source(source),
        patience=_check.count("patience", patience),
    )
    if not isinstance(restart, bool | np.bool_):
        raise _check.fail("restart", "True or False", restart)
    return _method(Plan(network.init, descent, bool(restart)), model)


def hmnn(
    network: Any,
    likelihood: Any,
    *,
    memory: Number = 0.5,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    centre: Any = "previous",
    **settings: Any,
) -> Method:
    """The hidden Markov neural network of the paper: the jump kernel; `settings` as in `build`."""
    return build(network, likelihood, kernels.jump(memory, jump_scale, shrink, jump_prob, centre), **settings)


def bbp(
    network: Any,
    likelihood: Any,
    *,
    jump_scale: Number = kernels.JUMP_SCALE,
    shrink: Number = kernels.SHRINK,
    jump_prob: Number = 0.5,
    **settings: Any,
) -> Method:
    """Bayes by Backprop, warm started: the prior is the same at every time step. For T = 1 take one step."""
    return build(network, likelihood, kernels.reset(jump_scale, shrink, jump_prob), **settings)


def vcl(network: Any, likelihood: Any, **settings: Any) -> Method:
    """Variational continual learning without a coreset: the static kernel."""
    return build(network, likelihood, kernels.static(), **settings)


def kurle(network: Any, likelihood: Any, *, memory: Number = 0.9, scale: Number = 1.0, **settings: Any) -> Method:
    """The adaptation of Kurle et al.: the Ornstein-Uhlenbeck kernel and a Gaussian family."""
    return build(network, likelihood, kernels.ornstein_uhlenbeck(memory, scale), **settings)


@compiled(ONCE, static_argnums=0)
def _init(plan: Plan, model: Model, key: Key) -> State:
    return filtering.init(key, plan, model)


@compiled(SELDOM, static_argnums=0)
def _ready(plan: Plan, model: Model, state: State, start: Posterior) -> tuple[Any, ...]:
    task, path = filtering.ready(plan, model, state, start)
    return task, *path


# The posterior's memory is used again, and is nobody else's; the optimiser's may be the caller's own.
@compiled(OFTEN, static_argnums=0, donate_argnums=4)
def _descend(plan: Plan, model: Model, batch: Batch, task: Task, posterior: Any, *rest: Any) -> tuple[Path, Any]:
    return filtering.descend(plan, model, batch, task, Path(posterior, *rest))


@compiled(SELDOM, static_argnums=0)
def _look(plan: Plan, model: Model, state: State, path: Path, batch: Batch, undone: Any) -> tuple[State, Info]:
    after = filtering.moved(plan, model, state, path, undone)
    return after, filtering.look(plan, model, state, after, batch, undone)


@compiled(ONCE, static_argnums=0)
def _first_guess(plan: Plan, model: Model, key: Key) -> Posterior:
    return filtering.first_guess(key, plan, model)


@jax.jit
def _advance(model: Model, state: State) -> State:
    return filtering.advance(model, state)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    return prediction.predict(plan, model, state, x, point, samples, level)


def _method(plan: Plan, model: Model) -> Method:
    width = parts.widths(Network(plan.start, plan.descent.apply))

    def init(key: Any) -> State:
        return _init(plan, model, parts.key(key))

    def step(state: State, data: Any) -> tuple[State, Info | None]:
        if data is None:
            return _advance(model, state), None
        t = int(state.t) + 1
        batch = base.batch(data, t)
        base.check_labels(model.likelihood, width(batch.x, f" at t = {t}"), batch.y[: batch.rows], t)
        start = state.posterior if int(state.seen) else _first_guess(plan, model, state.key)
        path, undone = _descend(plan, model, batch, *_ready(plan, model, state, start))
        after, info = _look(plan, model, state, path, batch, undone)
        if bool(info.diverged):
            raise _check.DivergenceError(
                f"The free energy had no finite gradient in {plan.descent.patience} epochs in a row at t = {t}; "
                "the state is unchanged. Try a smaller learning_rate, or look for outliers in the data."
            )
        if not bool(info.finite):
            warnings.warn(_unfinished(info, t), RuntimeWarning, stacklevel=2)
        return after, info

    def predict(state: State, x: Any, point: Any = "mean", samples: Number = 0, level: Number = 0.95) -> Prediction:
        _check.choice("point", point, parts.POINTS)
        level = _check.number("level", level, "in (0, 1)", lambda v: 0 < v < 1)
        samples = _check.count("samples", samples, least=1 if point == "sampled" else 0)
        rows = base.inputs(x)
        width(rows)
        return base.first_rows(_predict(plan, model, state, base.pad(rows), point, samples, level), len(rows))

    return Method(init, step, predict)


def _unfinished(info: Info, t: int) -> str:
    undone = int(info.rejected)
    if undone == 0:
        return f"The free energy at t = {t} is not finite, although the posterior is."
    return f"{undone} epochs at t = {t} were not finite and were undone."


def _range(bounds: Any) -> tuple[float, float]:
    allowed = "two numbers, the lower first"
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise _check.fail("start_rho", allowed, bounds)
    low, high = (_check.number("start_rho", bound, allowed, lambda _: True) for bound in bounds)
    if low > high:
        raise _check.fail("start_rho", allowed, bounds)
    return low, high


def _source(source: Any) -> noise.Source:
    if not callable(source):
        raise _check.fail("source", "a function such as hmnn.core.noise.random", source)
    return source
