"""How much memory a time step needs: against the number of weights, and against the length of the
stream.

`python benchmarks/memory.py [--json] [--steps 2000]`. First table: bytes that XLA reserves for the
compiled time step (arguments, results and temporaries) over those of the plain SGD loop on the same
data, in float32 arrays of the weights' size. Second: resident memory of a process while a stream
goes on.
"""

import argparse
import json

import harness

WIDTHS = (100, 400, 1000, 2000)
BATCH = 128


def reserved(compiled) -> int:
    """Bytes of a compiled program: arguments, results and temporaries, shared ones counted once."""
    found = compiled.memory_analysis()
    return (
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )


def against_weights(width: int) -> dict:
    """Arrays of the weights' size that the filter's time step needs over the plain one."""
    import jax
    import jax.numpy as jnp
    import optax
    import step

    import hmnn
    from hmnn import _tree
    from hmnn._types import Batch
    from hmnn.core import families, filtering, kernels, likelihoods
    from hmnn.core.projections.descent import Descent
    from hmnn.core.projections.epochs import MOST_BLOCKS
    from hmnn.methods import method

    net = hmnn.mlp(784, (width, width), 10)
    weights = net.init(jax.random.key(0))
    count = _tree.size(weights)
    data = Batch(jnp.zeros((BATCH * 4, 784)), jnp.zeros(BATCH * 4, jnp.int32), jnp.ones(BATCH * 4))
    likelihood, family = likelihoods.categorical(), families.assign(weights, 0.5, "all")
    plain = step._plain(net.apply, likelihood, optax.sgd, BATCH).lower(weights, data).compile()
    row = {"weights": count, "plain_mb": reserved(plain) / 2**20}
    for mode, blocks in (("full", 1), ("block", MOST_BLOCKS)):
        how = Descent(minibatch=BATCH, kl_blocks=blocks)
        parts = filtering.Filter(net.init, net.apply, kernels.jump(), family, likelihood, how)
        state = filtering.init(parts, jax.random.key(0))
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(state.posterior))
        # An argument twice, the old law and where the descent starts, is the same memory.
        learn = (
            reserved(method.laid_update.lower(parts, state, data, state.posterior).compile()) - size
        )
        undone = jnp.zeros((), jnp.int32)
        look = reserved(method.laid_report.lower(parts, state, state, data, undone).compile())
        ours = max(learn, look)
        row[f"{mode}_mb"] = ours / 2**20
        row[f"{mode}_arrays_over_plain"] = (ours - reserved(plain)) / 4 / count
    return row


def against_length(steps: int) -> list[dict]:
    """Resident memory at tenths of a stream of batches of random sizes."""
    import numpy as np

    import hmnn

    method = hmnn.hmnn(hmnn.mlp(7, (16,), 1), "bernoulli", epochs=1, minibatch=None)
    rng, state, rows = np.random.default_rng(0), method.init(0), []
    for t in range(steps + 1):
        if t % max(1, steps // 10) == 0:
            rows.append({"t": t, "resident_mb": _resident()})
        x = rng.normal(size=(int(rng.integers(1, 200)), 7)).astype(np.float32)
        state, _ = method.step(state, hmnn.Dataset(x, (x[:, 0] > 0).astype(np.int32)))
    return rows


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    harness.pin(1)
    by_weights = [against_weights(width) for width in WIDTHS]
    by_length = against_length(arguments.steps)
    if arguments.json:
        print(
            json.dumps(
                {"machine": harness.machine(), "by_weights": by_weights, "by_length": by_length},
                indent=1,
            )
        )
        return
    print(harness.machine())
    for row in by_weights:
        print(
            f"{row['weights']:>9} weights: plain {row['plain_mb']:7.1f} "
            f"MB, full {row['full_mb']:7.1f} "
            f"({row['full_arrays_over_plain']:.1f} arrays over "
            f"plain), block {row['block_mb']:7.1f} "
            f"({row['block_arrays_over_plain']:.1f})"
        )
    for row in by_length:
        print(f"t = {row['t']:>7}: {row['resident_mb']:.1f} MB resident")


if __name__ == "__main__":
    main()
