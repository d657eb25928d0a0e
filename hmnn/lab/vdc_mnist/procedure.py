"""Search settings for every keep, train each with several seeds, and test once."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hmnn import DivergenceError, _check, metrics
from hmnn._types import Dataset
from hmnn.data.digits import mnist
from hmnn.lab import diagnostics, duration, jobs, search
from hmnn.lab.experiment import Monitor, Outcome, Report, Search
from hmnn.lab.jobs import Job
from hmnn.lab.optimisers import optimiser
from hmnn.lab.vdc_mnist import scores
from hmnn.lab.vdc_mnist.config import (
    GRID,
    RECIPE,
    SEARCH_CHUNK,
    Config,
    Trials,
    check,
    each,
    ranked,
    read,
    refuse_both,
)
from hmnn.methods import Method, bbp
from hmnn.networks import mlp

GREY, HELD_OUT = np.float32(126), 50000


def run(config: Config, seed: int, monitor: Monitor) -> Outcome:
    """Search settings for every keep, train each with several seeds, and test each network once."""
    check(config)
    refuse_both(config)
    trials = read(config) or _searched(config, seed, monitor)
    configs, seeds = each(config, trials), range(_check.count("seeds", config.seeds))
    chosen = {k: {field: getattr(own, field) for field in GRID} for k, own in configs.items()}
    _as_begun(monitor, chosen)
    work = [
        Job(f"keep-{keep}-{i}", _train, (own, 100 * seed + i), own.epochs // own.chunk)
        for keep, own in configs.items()
        for i in seeds
    ]
    total = _forecast(monitor, work)
    found = jobs.run(work, monitor, monitor.workers)
    runs = {keep: [found[f"keep-{keep}-{i}"] for i in seeds] for keep in configs}
    return scores.outcome(config, runs, configs, trials, total)


def _as_begun(monitor: Monitor, chosen: dict[str, Any]) -> None:
    """Refuse other settings than the run began with: the files of a search may have changed."""
    now, kept = json.dumps(chosen), monitor.keeper.kept("chosen")
    if kept is None:
        monitor.keeper.keep("chosen", {"result": now})
    elif kept["result"] != now:
        allowed = f"such that this run keeps the settings it began with, {kept['result']}"
        raise _check.fail("search", allowed, now)


def build(config: Config, epochs: int, whole: int = 0) -> Method:
    """Bayes by Backprop with variational DropConnect, for one keep; `whole` are all its epochs.

    Its prior never changes and theta goes on from the last step, so that k steps of E / k epochs
    have the law of one step of E epochs. That holds for an optimiser with memory too, whose state
    goes on (`restart` is False).
    """
    updates = -(-config.train_rows // config.minibatch) * (whole or epochs)
    return bbp(
        mlp(784, config.hidden, 10),
        "categorical",
        keep=config.keeps[0],
        keep_where="internal",
        jump_prob=config.jump_probs[0],
        jump_scale=config.jump_scales[0],
        shrink=config.shrinks[0],
        learning_rate=config.learning_rates[0],
        samples=config.samples[0],
        optimiser=optimiser(config.optimiser, config.schedule, updates),
        temperature=config.temperature,
        start_rho=config.start_rho,
        minibatch=config.minibatch,
        epochs=epochs,
    )


def part(config: Config, name: str) -> Dataset:
    """MNIST's first 50000 training images to learn, the others to validate, its test images."""
    x, y, test_x, test_y = mnist()
    rows = getattr(config, f"{name}_rows")
    pools = {"train": (x[:HELD_OUT], y[:HELD_OUT]), "validation": (x[HELD_OUT:], y[HELD_OUT:])}
    images, labels = pools.get(name, (test_x, test_y))
    if _check.count(f"{name}_rows", rows) > len(images):
        raise _check.fail(f"{name}_rows", f"at most {len(images)}", rows)
    flat = images[:rows].reshape(rows, -1).astype(np.float32) / GREY
    return Dataset(flat, labels[:rows].astype(np.int32))


def _train(argument: tuple[Config, int], monitor: Monitor, name: str) -> dict[str, Any]:
    """Train in chunks of epochs, validate after each, then test; all NaN if it diverges."""
    config, seed = argument
    model = build(config, config.chunk, config.epochs)
    train, validation = part(config, "train"), part(config, "validation")
    state, curve = monitor.restore(name, model.init(seed))
    for i in range(len(curve), config.epochs // config.chunk):
        try:
            state, info = model.step(state, train)
        except DivergenceError:
            return scores.nothing(config)
        curve.append(_accuracy(model, state, validation))
        epoch = (i + 1) * config.chunk
        monitor.note(name, epoch, diagnostics.numbers(info) | {"validation accuracy": curve[-1]})
        monitor.checkpoint(name, state, curve)
        monitor.tick(f"{name}, epoch {epoch}: {curve[-1]:.4f}")
    return {
        "validation": np.array(curve),
        "chosen": scores.validation(config, model, state, validation),
        "test": scores.test(config, model, state, part(config, "test")),
    }


def _accuracy(model: Method, state: Any, data: Dataset) -> float:
    return metrics.accuracy(np.asarray(model.predict(state, data.x).mean), data.y)


def _searched(config: Config, seed: int, monitor: Monitor) -> Trials:
    """Search settings for every keep, kept beside the checkpoints; nothing without trials."""
    if not _check.count("trials", config.trials, least=0):
        return {}
    how = "paper", config, seed, config.trials, None, monitor.keeper.folder
    sweeps = {keep: search.open_(keep, halving(keep), *how) for keep in map(str, config.keeps)}
    if left := sum(map(search.left, sweeps.values())):
        _tell(config, monitor, left)
    for sweep in sweeps.values():
        search.run(sweep, monitor, monitor.workers)
    return ranked(config, {keep: search.outcome(sweep)["trials"] for keep, sweep in sweeps.items()})


def _tell(config: Config, monitor: Monitor, trials: int) -> None:
    """Say how long search and training will take, from what an epoch with one draw costs."""
    one = replace(config, keeps=config.keeps[:1], schedule="constant", samples=(1,))
    processes = max(1, monitor.workers)
    whole = duration.seconds(partial(build, one), part(config, "train"), config.epochs) / processes
    # All trials have the first chunk of epochs, a third of them two more, a ninth the rest.
    epochs = SEARCH_CHUNK * (1 + 2 / 3) + max(config.search_epochs - 3 * SEARCH_CHUNK, 0) / 9
    first = trials * float(np.mean(GRID["samples"])) * epochs / config.epochs * whole
    then = len(config.keeps) * config.seeds * config.samples_at_most * whole
    line = f"search of {trials} trials: about {duration.words(first)}; "
    line += f"then training: at most {duration.words(then)}"
    duration.say(monitor, f"{line} with {processes} processes")


def _forecast(monitor: Monitor, work: list[Job]) -> float:
    """Measure one epoch for each number of draws, and say how long all jobs will take."""
    left = [job.argument[0] for job in work if monitor.keeper.kept(job.name) is None]
    cost = {}
    for n, own in {own.samples: own for own in left}.items():
        plain = replace(own, schedule="constant")  # a cosine compiles for its length
        cost[n] = duration.seconds(partial(build, plain), part(own, "train"), own.epochs)
    costs = {job.name: cost.get(job.argument[0].samples, 0.0) for job in work}
    return duration.tell(monitor, work, costs)


def score(keep: str, config: Config, seed: int, report: Report) -> float:
    """Validation accuracy after `search_epochs`; told on the way, so that bad trials end early."""
    own = each(config, {})[keep]
    model = build(own, SEARCH_CHUNK, own.search_epochs)
    train, validation = part(own, "train"), part(own, "validation")
    state, found = model.init(100 * seed), 0.0
    for epoch in range(SEARCH_CHUNK, own.search_epochs + 1, SEARCH_CHUNK):
        state, _ = model.step(state, train)
        found = _accuracy(model, state, validation)
        if epoch < own.search_epochs:  # who has come to the end is not ended early
            report(epoch, found)
    return found


def halving(keep: str) -> Search:
    """The search of one keep's settings over the paper's grids, with successive halving."""
    grid = dict(GRID)
    return Search(grid, grid, partial(score, keep), "maximize", SEARCH_CHUNK, _fixed(keep))


def _fixed(keep: str) -> dict[str, Any]:
    return {"keeps": (float(keep),), "trials": 0}


SEARCH = {str(keep): halving(str(keep)) for keep in Config.keeps} | {
    "recipe": Search(RECIPE, RECIPE, partial(score, "0.5"), "maximize", fixed=_fixed("0.5"))
}
