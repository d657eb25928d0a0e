"""How long the first time step of a fresh process takes: compiling, and with the compiled program
in the cache.

`python benchmarks/first_call.py [--json] [--network 784-100-100-10]`: a process with an empty
cache, then one that finds it filled. Seconds of the first `step` (one epoch of 256 rows), imports
and data not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import harness

CHILD = """
import sys, time
import jax, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import hmnn
first, *hidden, last = [int(width) for width in sys.argv[1].split("-")]
rng = np.random.default_rng(0)
data = hmnn.Dataset(rng.normal(size=(256, first)).astype(np.float32), rng.integers(0, last, 256))
began = time.perf_counter()
method = hmnn.hmnn(hmnn.mlp(first, tuple(hidden), last), "categorical", keep=0.75, epochs=1)
state, info = method.step(method.init(0), data)
jax.block_until_ready(state)
print(time.perf_counter() - began)
"""


def first_call(network: str, cache: str) -> float:
    """Seconds of the first time step of a new process."""
    command = [sys.executable, "-c", CHILD, network, cache]
    return float(
        subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--network", default="784-100-100-10")
    arguments = parser.parse_args()
    harness.pin(1)
    with tempfile.TemporaryDirectory() as cache:
        seconds = {
            "not_cached": first_call(arguments.network, cache),
            "cached": first_call(arguments.network, cache),
        }
    row = {"network": arguments.network} | seconds
    print(
        json.dumps(row)
        if arguments.json
        else f"{arguments.network}: {seconds['not_cached']:.1f} s compiling, "
        f"{seconds['cached']:.1f} s cached"
    )


if __name__ == "__main__":
    main()
