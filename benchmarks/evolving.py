"""One whole run of the evolving classifier's HMNN, beside the same number of plain SGD steps, in
one process.

`python benchmarks/evolving.py [--json] [--epochs 100] [--steps 19]`: 784-100-100-10, 10000 rows a
time step in minibatches of 128, recipe as printed. Time step by time step, first the filter, then
as many plain SGD steps on the same rows, on one core. The sum of each, and their ratio; compiling
is not counted. The filter's seconds are those of `step`: prediction, projection and what Info says
of it. Rows of MNIST's shape are made up: the cost does not depend on their content.
"""

import argparse
import json
import time

import harness


def measure(epochs: int, steps: int) -> dict:
    """Seconds of both, and the ratio."""
    import jax
    import numpy as np
    import optax
    import step

    import hmnn
    from hmnn._types import Batch
    from hmnn.core import likelihoods
    from hmnn.lab.evolving_mnist import PROFILES, build

    config = PROFILES["paper"].__class__(epochs=epochs)
    method, net = build(config, "hmnn"), hmnn.mlp(784, config.hidden, 10)
    rng = np.random.default_rng(0)
    stream = [
        hmnn.Dataset(
            rng.random((config.rows, 784), np.float32),
            rng.integers(0, 10, config.rows).astype(np.int32),
        )
        for _ in range(2)
    ]
    plain = step._plain(net.apply, likelihoods.categorical(), optax.sgd, config.minibatch)
    weights, state, seconds = (
        net.init(jax.random.key(0)),
        method.init(0),
        {"filter": 0.0, "plain": 0.0},
    )

    def descend(weights, data):
        batch = Batch(
            jax.numpy.asarray(data.x), jax.numpy.asarray(data.y), np.ones(len(data.x), np.float32)
        )
        for _ in range(epochs):
            weights, _ = plain(weights, batch)
        return jax.block_until_ready(weights)

    jax.block_until_ready(method.step(state, stream[0])[0])  # compile both
    plain(weights, Batch(stream[0].x, stream[0].y, np.ones(config.rows, np.float32)))
    for t in range(steps):
        began = time.perf_counter()
        state, info = method.step(state, stream[t % 2])
        jax.block_until_ready((state, info))
        between = time.perf_counter()
        weights = descend(weights, stream[t % 2])
        seconds["filter"] += between - began
        seconds["plain"] += time.perf_counter() - between
    updates = steps * epochs * -(-config.rows // config.minibatch)
    return {"steps": steps, "epochs": epochs, "updates": updates, **seconds} | {
        "ratio": seconds["filter"] / seconds["plain"]
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=19)
    options = parser.parse_args()
    harness.pin(1)
    row = measure(options.epochs, options.steps)
    if options.json:
        print(json.dumps(row | {"machine": harness.machine()}))
        return
    print(
        f"{row['steps']} x {row['epochs']} epochs, {row['updates']} "
        f"updates: filter {row['filter']:.1f} s, "
        f"plain SGD {row['plain']:.1f} s, ratio {row['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
