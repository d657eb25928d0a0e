"""The variational filter and the methods that are settings of it: jit lives here."""

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import PyTree

from hmnn import _check, _tree
from hmnn._types import Key, Number
from hmnn.core import families, filtering, kernels, likelihoods, noise, prediction
from hmnn.core.families import Posterior
from hmnn.core.filtering import Info, Model, Plan, State
from hmnn.core.kernels import Kernel
from hmnn.core.likelihoods import Likelihood
from hmnn.core.objective import Batch
from hmnn.core.prediction import Prediction
from hmnn.core.projection import KL_WEIGHTS, Descent, Pace
from hmnn.methods import base, compilation
from hmnn.methods.base import Method
from hmnn.networks import Network

OPTIMISERS = {"sgd": optax.sgd, "adam": optax.adam}
POINTS = ("mean", "location", "sampled")


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
    source: Any = noise.hashed,
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
    shapes = _shapes(network)
    likelihood = _likelihood(likelihood)
    model = Model(
        kernel=_kernel(kernel, shapes),
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
        optimiser=_optimiser(optimiser),
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


@partial(jax.jit, static_argnums=0, compiler_options=compilation.ONCE)
def _init(plan: Plan, model: Model, key: Key) -> State:
    return filtering.init(key, plan, model)


@partial(jax.jit, static_argnums=0, compiler_options=compilation.OFTEN)
def _step(plan: Plan, model: Model, state: State, batch: Batch, start: Posterior) -> tuple[State, Any]:
    return filtering.update(plan, model, state, batch, start)


@partial(jax.jit, static_argnums=0, compiler_options=compilation.OFTEN)
def _look(plan: Plan, model: Model, state: State, after: State, batch: Batch, undone: Any) -> Info:
    return filtering.look(plan, model, state, after, batch, undone)


@partial(jax.jit, static_argnums=0, compiler_options=compilation.ONCE)
def _first_guess(plan: Plan, model: Model, key: Key) -> Posterior:
    return filtering.first_guess(key, plan, model)


@jax.jit
def _advance(model: Model, state: State) -> State:
    return filtering.advance(model, state)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _predict(plan: Plan, model: Model, state: State, x: Any, point: str, samples: int, level: Number) -> Prediction:
    return prediction.predict(plan, model, state, x, point, samples, level)


def _method(plan: Plan, model: Model) -> Method:
    outputs: dict[Any, int] = {}

    def width(x: np.ndarray, where: str = "") -> int:
        """How many outputs the network gives; this also catches inputs of the wrong shape."""
        if x.shape[1:] not in outputs:
            outputs[x.shape[1:]] = _width(plan, x, where)
        return outputs[x.shape[1:]]

    def init(key: Any) -> State:
        return _init(plan, model, _key(key))

    def step(state: State, data: Any) -> tuple[State, Info | None]:
        if data is None:
            return _advance(model, state), None
        t = int(state.t) + 1
        batch = base.batch(data, t)
        base.check_labels(model.likelihood, width(batch.x, f" at t = {t}"), batch.y[: batch.rows], t)
        start = state.posterior if int(state.seen) else _first_guess(plan, model, state.key)
        after, undone = _step(plan, model, state, batch, start)
        info = _look(plan, model, state, after, batch, undone)
        if bool(info.diverged):
            raise _check.DivergenceError(
                f"The free energy had no finite gradient in {plan.descent.patience} epochs in a row at t = {t}; "
                "the state is unchanged. Try a smaller learning_rate, or look for outliers in the data."
            )
        if not bool(info.finite):
            warnings.warn(_unfinished(info, t), RuntimeWarning, stacklevel=2)
        return after, info

    def predict(state: State, x: Any, point: Any = "mean", samples: Number = 0, level: Number = 0.95) -> Prediction:
        _check.choice("point", point, POINTS)
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


def _shapes(network: Any) -> PyTree:
    if not isinstance(network, Network):
        raise _check.fail("network", "a Network (see hmnn.networks)", type(network).__name__)
    return jax.eval_shape(network.init, jax.random.key(0))


def _width(plan: Plan, x: np.ndarray, where: str) -> int:
    weights = jax.eval_shape(plan.start, jax.random.key(0))
    try:
        outputs = jax.eval_shape(plan.descent.apply, weights, x)
    except (TypeError, ValueError) as error:
        allowed = f"rows that the network takes{where} ({str(error).splitlines()[0]})"
        raise _check.fail("x", allowed, f"rows of shape {x.shape[1:]}") from None
    if getattr(outputs, "shape", ())[:1] != x.shape[:1]:
        raise _check.fail("network", f"one that gives one row per row of x ({len(x)})", outputs)
    return int(np.prod(outputs.shape[1:]))


def _likelihood(likelihood: Any) -> Likelihood:
    if isinstance(likelihood, str):
        return likelihoods.LIKELIHOODS[_check.choice("likelihood", likelihood, likelihoods.LIKELIHOODS)]()
    if isinstance(likelihood, type) or not all(hasattr(likelihood, n) for n in ("log_prob", "mean", "variance")):
        raise _check.fail("likelihood", "a likelihood or the name of one", likelihood)
    return likelihood


def _kernel(kernel: Any, shapes: PyTree) -> Kernel:
    if isinstance(kernel, type) or not (callable(kernel) and hasattr(kernel, "centre")):
        raise _check.fail("kernel", "one of hmnn.core.kernels", kernel)
    anchor = kernel.centre.anchor
    single = _tree.structure(anchor) == _tree.structure(0.0)
    fits = _tree.structure(anchor) == _tree.structure(shapes) and all(
        np.shape(a) in ((), w.shape) for a, w in zip(jax.tree.leaves(anchor), jax.tree.leaves(shapes), strict=True)
    )
    if not fits and not (single and np.ndim(anchor) == 0):
        allowed = "'zero', 'previous', a number or a tree shaped like the weights"
        raise _check.fail("centre", allowed, jax.tree.map(np.shape, anchor))
    if not all(np.asarray(leaf).dtype.kind in "fiu" and np.isfinite(leaf).all() for leaf in jax.tree.leaves(anchor)):
        raise _check.fail("centre", "made of finite numbers", anchor)
    return kernel


def _optimiser(optimiser: Any) -> Any:
    if isinstance(optimiser, str):
        return OPTIMISERS[_check.choice("optimiser", optimiser, OPTIMISERS)]
    if not callable(optimiser) or not hasattr(optimiser(0.1), "update"):
        raise _check.fail(
            "optimiser", "a name or a function of the learning rate such as optax.adam", type(optimiser).__name__
        )
    return optimiser


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


def _key(key: Any) -> Key:
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if not (hasattr(key, "dtype") and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)) or key.ndim != 0:
        raise _check.fail("key", "one jax.random.key(seed) or a whole number", type(key).__name__)
    return key
