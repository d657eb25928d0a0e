"""Whether a filter wears out: a small network on a long, drifting stream of batches of random sizes.

`python benchmarks/soak.py [--steps 1000000] [--seed 0] [--json]`. Figures: whether every posterior and every step was
finite; resident memory of the second half minus that of the first (medians, MB); compilations of the step against
buckets of batch sizes; median step time of the last tenth over that of the first, on the clock and, as neighbours on
the same core do not count there, in processor time (step_cpu_ratio). Nothing here grows with the steps except the step
times of the first and the last tenth, four bytes each, made before the first step.
"""

import argparse
import json
import os
import sys
import time

import harness

LARGEST = 1000
"""Rows of the largest batch."""
FEATURES = 7
SAMPLES = 512
"""How often resident memory is read in each half."""


def resident() -> float:
    """Megabytes of this process in memory (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Stream:
    """Batches of 1 to `largest` rows, cut from one block of inputs; the dividing plane turns for ever."""

    def __init__(self, seed: int, largest: int = LARGEST) -> None:
        import numpy as np

        self.rng, self.largest = np.random.default_rng(seed), largest
        self.x = self.rng.normal(size=(2 * largest, FEATURES)).astype(np.float32)

    def batch(self, t: int):
        """The data of time step t."""
        import numpy as np

        from hmnn import Dataset

        rows, first = int(self.rng.integers(1, self.largest + 1)), int(self.rng.integers(0, self.largest))
        x = self.x[first : first + rows]
        angle = 2 * np.pi * t / 5000
        score = np.cos(angle) * x[:, 0] + np.sin(angle) * x[:, 1]
        return Dataset(x, (score > 0).astype(np.int32))


def build():
    """The filter under test: 7-16-1, one epoch, all rows at once."""
    import hmnn

    network = hmnn.mlp(FEATURES, (16,), 1)
    return hmnn.hmnn(network, "bernoulli", memory=0.9, learning_rate=1e-3, epochs=1, minibatch=None)


def warm(method, state, largest: int = LARGEST) -> set[int]:
    """Compile every bucket; return them."""
    import numpy as np

    from hmnn import Dataset
    from hmnn.methods import base

    buckets = {base.bucket(rows) for rows in range(1, largest + 1)}
    for rows in sorted(buckets):
        rows = min(rows, largest)
        method.step(state, Dataset(np.zeros((rows, FEATURES), np.float32), np.zeros(rows, np.int32)))
    return buckets


def soak(steps: int, seed: int = 0, largest: int = LARGEST) -> dict:
    """Run so many steps and return the figures."""
    import jax
    import numpy as np

    from hmnn.methods import variational

    method, stream = build(), Stream(seed, largest)
    state = method.init(seed)
    before = variational._step._cache_size()
    buckets = warm(method, state, largest)
    tenth, every = max(1, steps // 10), max(1, steps // (2 * SAMPLES))
    times = np.zeros((2, 2, tenth), np.float32)  # clock or processor, first or last tenth, step
    memory: tuple[list, list] = ([], [])
    finite = True
    for t in range(steps):
        data = stream.batch(t)
        began = time.perf_counter(), time.process_time()
        state, info = method.step(state, data)
        seconds = time.perf_counter() - began[0], time.process_time() - began[1]
        if t < tenth:
            times[:, 0, t] = seconds
        if t >= steps - tenth:
            times[:, 1, t - steps + tenth] = seconds
        finite &= bool(info.finite)
        if t % every == 0 or t == steps - 1:
            finite &= all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.posterior))
            memory[2 * t >= steps].append(resident())
        if t % 50_000 == 0:
            line = f"{t:9d} steps, {1e3 * seconds[0]:.2f} ms, {resident():.1f} MB, finite {finite}\n"
            sys.stderr.write(line)
    halves = [float(np.median(half)) for half in memory]
    (first, last), (cpu_first, cpu_last) = np.median(times, axis=2)
    return {
        "steps": steps,
        "finite": bool(finite),
        "rss_growth_mb": round(halves[1] - halves[0], 3),
        "compilations": variational._step._cache_size() - before,
        "buckets": len(buckets),
        "step_time_ratio": round(float(last / first), 4),
        "step_cpu_ratio": round(float(cpu_last / cpu_first), 4),
        "median_step_ms": round(1e3 * float(last), 4),
        "median_cpu_ms": round(1e3 * float(cpu_last), 4),
        "rss_mb": round(halves[1], 1),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.steps < 10:
        parser.error(f"--steps must be a whole number of at least 10. Got {arguments.steps}.")
    harness.pin(1)
    figures = soak(arguments.steps, arguments.seed)
    if arguments.json:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:>18}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
