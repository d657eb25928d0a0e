"""What a training step of the filter costs, beside the plain SGD step of the same network in the
same process.

`python benchmarks/step.py [--json] [--quick] [--only NETWORK] [--cores 2] [--optimiser adam]`.
Modes: plain (SGD on the likelihood), naive (autodiff of the free energy, jax.random), full (closed
form, all of the KL), block (a tenth of it in turn). ns_per_weight is what the mode costs over the
plain step, per weight; a ratio needs its batch beside it.
"""

import argparse
import json
import statistics

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
"""In an epoch."""
EPOCHS = 5


def runners(
    network: str, batch: int, keep: float, modes: tuple[str, ...], optimiser: str
) -> tuple[dict, int]:
    """One function per mode that runs EPOCHS * UPDATES updates, and the number of weights."""
    import jax
    import numpy as np

    from hmnn import _tree, linear, mlp
    from hmnn._types import Batch
    from hmnn.core import families, filtering, kernels, likelihoods, noise
    from hmnn.core.cpu import compilation
    from hmnn.core.projections.descent import Descent, first_guess
    from hmnn.core.projections.epochs import MOST_BLOCKS
    from hmnn.methods.arguments import OPTIMISERS

    first, *hidden, last = harness.sizes(network)
    net = mlp(first, tuple(hidden), last) if hidden else linear(first, last)
    regression, logistic = first == last, last == 1
    likelihood = (
        likelihoods.bernoulli()
        if logistic
        else likelihoods.gaussian()
        if regression
        else likelihoods.categorical()
    )
    rng = np.random.default_rng(0)
    rows = batch * UPDATES
    x = rng.normal(size=(rows, first)).astype(np.float32)
    y = x if regression else rng.integers(0, 2 if logistic else last, rows)
    data = Batch(jax.device_put(x), jax.device_put(y), jax.device_put(np.ones(rows, np.float32)))
    weights = net.init(jax.random.key(0))
    family = families.assign(weights, keep, "none" if keep == 1 else "all")
    settings = {
        "naive": {"source": noise.random, "gradient": "autodiff"},
        "full": {"kl_blocks": 1},
        "block": {"kl_blocks": MOST_BLOCKS},
    }

    def plain() -> None:
        jax.block_until_ready(
            _plain(net.apply, likelihood, OPTIMISERS[optimiser], batch)(weights, data)
        )

    def filtered(mode: str):
        how = Descent(
            1e-6, EPOCHS, optimiser=OPTIMISERS[optimiser], minibatch=batch, **settings[mode]
        )
        parts = filtering.Filter(net.init, net.apply, kernels.jump(), family, likelihood, how)
        state = filtering.init(parts, jax.random.key(0))
        start = first_guess(parts, state.key)
        run = compilation.compiled(compilation.OFTEN)(filtering.update)
        return lambda: jax.block_until_ready(run(parts, state, data, start))

    made = {mode: plain if mode == "plain" else filtered(mode) for mode in modes}
    return made, _tree.size(weights)


def _plain(apply, likelihood, optimiser, batch: int, cache: dict = {}):  # noqa: B006 - one compilation per network
    """The plain step: shuffle, gather, gradient of -log g, optimiser."""
    import jax
    import optax

    from hmnn.core import minibatches, objective
    from hmnn.core.cpu import compilation

    def run(weights, data):
        descent = optimiser(1e-6)

        def update(i, carry, order):
            weights, state = carry
            part = minibatches.taken(data, order, i, batch)
            gradient = jax.grad(lambda w: objective.misfit(apply, likelihood, w, batch=part))(
                weights
            )
            updates, state = descent.update(gradient, state, weights)
            return optax.apply_updates(weights, updates), state

        def epoch(i, carry):
            draws = jax.random.bits(
                jax.random.fold_in(jax.random.key(0), i), data.x.shape[:1], "uint32"
            )
            order = minibatches.shuffled(draws, batch, data.rows)
            return jax.lax.fori_loop(0, UPDATES, lambda j, carry: update(j, carry, order), carry)

        return jax.lax.fori_loop(0, EPOCHS, epoch, (weights, descent.init(weights)))

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
                "min_ms": 1e3 * min(seconds[mode]) / UPDATES / EPOCHS,
                "median_ms": 1e3 * median / UPDATES / EPOCHS,
                "ratio": median / plain,
                "ns_per_weight": 1e9 * (median - plain) / UPDATES / EPOCHS / weights,
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print a list of rows")
    parser.add_argument(
        "--quick", action="store_true", help="only the paper's networks, few repeats"
    )
    parser.add_argument("--only", help="one network, such as 784-100-100-10")
    parser.add_argument("--cores", type=int, default=1, help="cores to pin to (1)")
    parser.add_argument("--optimiser", choices=("sgd", "adam"), default="sgd")
    arguments = parser.parse_args()
    harness.pin(arguments.cores)
    cases = [(case, MODES) for case in PAPER]
    if not arguments.quick:
        cases += [(case, MODES) for case in BATCHES] + [
            (case, ("plain", "full", "block")) for case in WIDTHS
        ]
    cases = [(case, modes) for case, modes in cases if arguments.only in (None, case[0])]
    rows = []
    if not arguments.json:
        print(harness.machine())
        print(
            f"{'network':>20} {'batch':>6} {'gamma':>6} {'mode':>6} "
            f"{'min ms':>8} {'median':>8} {'ratio':>6} "
            f"{'ns/weight':>9}"
        )
    for case, modes in cases:
        for row in measure(*case, modes, 15 if arguments.quick else 40, arguments.optimiser):
            rows.append(row)
            if not arguments.json:
                print(
                    "{network:>20} {batch:6d} {gamma:6.2f} {mode:>6} {min_ms:8.3f} "
                    "{median_ms:8.3f} {ratio:6.2f} "
                    "{ns_per_weight:9.2f}".format(**row),
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
