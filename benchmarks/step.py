"""What a training step of the filter costs, beside the plain SGD step of the same network in the same process.

`python benchmarks/step.py [--json] [--quick] [--only NETWORK] [--cores 2] [--optimiser adam]`. Modes: plain (SGD on
the likelihood), naive (autodiff of the free energy, jax.random), full (closed form, all of the KL), block (a tenth
of it in turn). ns_per_weight is what the mode costs over the plain step, per weight; a ratio needs its batch beside it.
"""

import argparse
import json
import statistics
from functools import partial

import harness

PAPER = [
    ("784-400-400-10", 128, 0.5),
    ("784-100-100-10", 128, 0.75),
    ("130-500-20-500-130", 36, 0.3),
    ("2-1", 10000, 1.0),
]
BATCHES = [("784-400-400-10", 32, 0.5), ("784-400-400-10", 512, 0.5)]
WIDTHS = [(f"784-{width}-10", 128, 0.5) for width in (64, 128, 256, 512, 1024, 2048, 4096)]
MODES = ("plain", "naive", "full", "block")
UPDATES = 16


def runners(network: str, batch: int, keep: float, modes: tuple[str, ...], optimiser: str) -> tuple[dict, int]:
    """One function per mode that runs UPDATES updates, and the number of weights."""
    import jax
    import numpy as np

    from hmnn import _tree, linear, mlp
    from hmnn.core import families, filtering, kernels, likelihoods, noise, projection
    from hmnn.core.cpu import compilation
    from hmnn.core.objective import Batch
    from hmnn.methods.parts import OPTIMISERS

    first, *hidden, last = harness.sizes(network)
    net = mlp(first, tuple(hidden), last) if hidden else linear(first, last)
    regression, logistic = first == last, last == 1
    likelihood = (
        likelihoods.bernoulli() if logistic else likelihoods.gaussian() if regression else likelihoods.categorical()
    )
    rng = np.random.default_rng(0)
    rows = batch * UPDATES
    x = rng.normal(size=(rows, first)).astype(np.float32)
    y = x if regression else rng.integers(0, 2 if logistic else last, rows)
    data = Batch(jax.device_put(x), jax.device_put(y), rows)
    weights = net.init(jax.random.key(0))
    where = "none" if keep == 1 else "all"
    model = filtering.Model(
        kernels.jump(),
        families.assign(weights, keep, where),
        likelihood,
        projection.Pace(learning_rate=1e-6, epochs=1),
    )
    settings = {
        "naive": {"source": noise.random, "gradient": "autodiff"},
        "full": {"kl_blocks": 1},
        "block": {"kl_blocks": projection.MOST_BLOCKS},
    }

    def plain() -> None:
        jax.block_until_ready(_plain(net.apply, likelihood, OPTIMISERS[optimiser], batch)(weights, data))

    def filtered(mode: str):
        descent = projection.Descent(net.apply, OPTIMISERS[optimiser], minibatch=batch, **settings[mode])
        plan = filtering.Plan(net.init, descent)
        state = filtering.init(jax.random.key(0), plan, model)
        theta = filtering.first_guess(state.key, plan, model)
        task, start = jax.jit(partial(filtering.ready, plan))(model, state, theta)
        run = jax.jit(
            partial(filtering.descend, plan),
            compiler_options=compilation.options(compilation.OFTEN),
        )
        return lambda: jax.block_until_ready(run(model, data, task, start))

    made = {mode: plain if mode == "plain" else filtered(mode) for mode in modes}
    return made, _tree.size(weights)


def _plain(apply, likelihood, optimiser, batch: int, cache: dict = {}):  # noqa: B006 - one compilation per network
    """The plain step: shuffle, gather, gradient of -log g, optimiser."""
    import jax
    import optax

    from hmnn.core import objective, projection
    from hmnn.core.cpu import compilation

    def run(weights, data):
        order = projection.shuffled(jax.random.bits(jax.random.key(0), data.x.shape[:1], "uint32"), batch, data.rows)
        descent = optimiser(1e-6)

        def update(i, carry):
            weights, state = carry
            part = projection.minibatch(data, order, i, batch)
            gradient = jax.grad(lambda w: objective.misfit(apply, likelihood, w, batch=part))(weights)
            updates, state = descent.update(gradient, state, weights)
            return optax.apply_updates(weights, updates), state

        return jax.lax.fori_loop(0, data.x.shape[0] // batch, update, (weights, descent.init(weights)))

    if (apply, batch) not in cache:
        cache[apply, batch] = jax.jit(run, compiler_options=compilation.options(compilation.OFTEN))
    return cache[apply, batch]


def measure(
    network: str,
    batch: int,
    keep: float,
    modes: tuple[str, ...],
    repeats: int,
    optimiser: str = "sgd",
) -> list[dict]:
    """Rows of figures for one network, all modes in turn."""
    functions, weights = runners(network, batch, keep, modes, optimiser)
    seconds = harness.interleaved(functions, repeats)
    plain = statistics.median(seconds["plain"])
    rows = []
    for mode in modes:
        median = statistics.median(seconds[mode])
        rows.append(
            {
                "network": network,
                "batch": batch,
                "gamma": keep,
                "mode": mode,
                "min_ms": 1e3 * min(seconds[mode]) / UPDATES,
                "median_ms": 1e3 * median / UPDATES,
                "ratio": median / plain,
                "ns_per_weight": 1e9 * (median - plain) / UPDATES / weights,
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a list of rows")
    parser.add_argument("--quick", action="store_true", help="only the paper's networks, few repeats")
    parser.add_argument("--only", help="one network, such as 784-100-100-10")
    parser.add_argument("--cores", type=int, default=1, help="cores to pin to (1)")
    parser.add_argument("--optimiser", choices=("sgd", "adam"), default="sgd")
    arguments = parser.parse_args()
    harness.pin(arguments.cores)
    cases = [(case, MODES) for case in PAPER]
    if not arguments.quick:
        cases += [(case, MODES) for case in BATCHES] + [(case, ("plain", "full", "block")) for case in WIDTHS]
    cases = [(case, modes) for case, modes in cases if arguments.only in (None, case[0])]
    rows = []
    if not arguments.json:
        print(harness.machine())
        print(
            f"{'network':>20} {'batch':>6} {'gamma':>6} {'mode':>6} {'min ms':>8} {'median':>8} {'ratio':>6} "
            f"{'ns/weight':>9}"
        )
    for case, modes in cases:
        for row in measure(*case, modes, 15 if arguments.quick else 40, arguments.optimiser):
            rows.append(row)
            if not arguments.json:
                print(
                    "{network:>20} {batch:6d} {gamma:6.2f} {mode:>6} {min_ms:8.3f} {median_ms:8.3f} {ratio:6.2f} "
                    "{ns_per_weight:9.2f}".format(**row),
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
