"""Whether a filter wears out: a small network on a long, drifting stream of batches of random
sizes.

`python benchmarks/soak.py [--steps 1000000] [--seed 0] [--json]`. Figures: whether every posterior
and every step was finite; resident memory of the second half minus that of the first (medians, MB);
compilations of the step against buckets of batch sizes; median step time of the last tenth over
that of the first, on the clock (step_time_ratio) and in processor time (step_cpu_ratio). Neighbours
slow a core down in both. So every tenth step of these two tenths is followed by two companions: the
same step on the same batch from the first state (relative_to_fresh: what the old state costs; a
process that ages slows both alike), and fixed work in NumPy and Python without jax
(relative_to_reference: what all ageing costs, as far as the machine treats both alike). Both are
medians of step over companion in processor time, last tenth over first. denormals counts numbers of
the last state below the smallest normal one, which processors are slow with. Nothing here grows
with the steps except the times of the two tenths, four bytes each, made before the first step.
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
COMPANIONS = 10
"""Steps from one pair of companions to the next."""


def resident() -> float:
    """Megabytes of this process in memory (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Stream:
    """Batches of 1 to `largest` rows, cut from one block of inputs; the dividing plane turns for
    ever."""

    def __init__(self, seed: int, largest: int = LARGEST) -> None:
        import numpy as np

        self.rng, self.largest = np.random.default_rng(seed), largest
        self.x = self.rng.normal(size=(2 * largest, FEATURES)).astype(np.float32)

    def batch(self, t: int):
        """The data of time step t."""
        import numpy as np

        from hmnn import Dataset

        rows, first = (
            int(self.rng.integers(1, self.largest + 1)),
            int(self.rng.integers(0, self.largest)),
        )
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
    from hmnn.methods import padding

    buckets = {padding.bucket(rows) for rows in range(1, largest + 1)}
    for rows in sorted(buckets):
        rows = min(rows, largest)
        method.step(
            state, Dataset(np.zeros((rows, FEATURES), np.float32), np.zeros(rows, np.int32))
        )
    return buckets


def timed(function):
    """What a function returns, and its seconds on the clock and on the processor."""
    began = time.perf_counter(), time.process_time()
    found = function()
    return found, time.perf_counter() - began[0], time.process_time() - began[1]


def reference() -> float:
    """Work that never changes and that jax has no part in."""
    import numpy as np

    block = np.ones((64, 64), np.float32)
    for _ in range(8):
        block = np.tanh(block @ block)
    return sum(i * 0.5 for i in range(1000)) + float(block[0, 0])


def denormals(state) -> int:
    """How many floating-point numbers of a state are neither zero nor normal."""
    import jax
    import numpy as np

    arrays = [np.asarray(a) for a in jax.tree.leaves(state) if a.dtype in (np.float32, np.float64)]
    return sum(int(((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)).sum()) for a in arrays)


def ratios(times) -> dict:
    """The last tenth over the first, for rows (clock, processor, fresh, reference) x tenths x
    steps."""
    import numpy as np

    (first, last), (cpu_first, cpu_last) = np.median(times[:2], axis=2)
    fresh, fixed = np.nanmedian(times[1:2] / times[2:], axis=2)
    return {
        "step_time_ratio": round(float(last / first), 4),
        "step_cpu_ratio": round(float(cpu_last / cpu_first), 4),
        "relative_to_fresh": round(float(fresh[1] / fresh[0]), 4),
        "relative_to_reference": round(float(fixed[1] / fixed[0]), 4),
        "median_step_ms": round(1e3 * float(last), 4),
        "median_cpu_ms": round(1e3 * float(cpu_last), 4),
    }


def soak(steps: int, seed: int = 0, largest: int = LARGEST) -> dict:
    """Run so many steps and return the figures."""
    import jax
    import numpy as np

    from hmnn.methods import method as programs

    method, stream = build(), Stream(seed, largest)
    state = fresh = method.init(seed)
    before = programs.laid_update._cache_size()
    buckets = warm(method, state, largest)
    tenth, every = max(1, steps // 10), max(1, steps // (2 * SAMPLES))
    times = np.full(
        (4, 2, tenth), np.nan, np.float32
    )  # clock, processor, fresh, reference; tenth; step
    memory: tuple[list, list] = ([], [])
    finite = True
    for t in range(steps):
        data = stream.batch(t)
        (state, info), *seconds = timed(lambda state=state, data=data: method.step(state, data))
        finite &= bool(info.finite)
        part, place = (0, t) if t < tenth else (1, t - steps + tenth)
        if place >= 0:
            times[:2, part, place] = seconds
        if place >= 0 and place % COMPANIONS == 0:
            times[2, part, place] = timed(lambda data=data: method.step(fresh, data))[2]
            times[3, part, place] = timed(reference)[2]
        if t % every == 0 or t == steps - 1:
            finite &= all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.posterior))
            memory[2 * t >= steps].append(resident())
        if t % 50_000 == 0:
            sys.stderr.write(
                f"{t:9d} steps, {1e3 * seconds[0]:.2f} ms, {resident():.1f} MB, finite {finite}\n"
            )
    halves = [float(np.median(half)) for half in memory]
    return {
        "steps": steps,
        "finite": bool(finite),
        "rss_growth_mb": round(halves[1] - halves[0], 3),
        "compilations": programs.laid_update._cache_size() - before,
        "buckets": len(buckets),
        **ratios(times),
        "denormals": denormals(state),
        "rss_mb": round(halves[1], 1),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
        print("\n".join(f"{name:>22}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
