"""What saving costs, beside writing the same bytes with numpy.save plus fsync.

`python benchmarks/store.py [--json] [--folder DIR] [--repeats N]`. Both replace what the last round
left, in turn, as a filter that saves at every step does; so both pay for giving the old blocks back
to the disk. Times are medians. Milliseconds are those of the caller on free cores: its processor
time plus the time it was blocked by the disk or by the hash in its other thread, without the time
that other processes kept it waiting for the core (/proc/self/schedstat); the ratio by the clock
stands beside. A checkpoint is verified and replaced whole; numpy.save is neither.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import harness
import numpy as np

import hmnn

MEGABYTES = (1, 10, 100)


def plain(path: Path, values: np.ndarray) -> None:
    """numpy.save plus fsync."""
    with open(path, "wb") as file:
        np.save(file, values)
        file.flush()
        os.fsync(file.fileno())


def clocks() -> tuple[float, float, float]:
    """Seconds of this thread by the clock, on the processor, and ready but waiting for it."""
    with open("/proc/self/schedstat") as file:
        waiting = int(file.read().split()[1]) / 1e9
    return time.perf_counter(), time.thread_time(), waiting


def once(function) -> tuple[float, float]:
    """Seconds by the clock, and on a free core."""
    before = clocks()
    function()
    clock, processor, waiting = (b - a for a, b in zip(before, clocks(), strict=True))
    return clock, processor + max(0.0, clock - processor - waiting)


def measure(folder: Path, megabytes: int, repeats: int) -> dict:
    """Medians in milliseconds, and the ratios."""
    values = np.random.default_rng(0).normal(size=megabytes * 250_000).astype(np.float32)
    functions = {
        "numpy": lambda: plain(folder / "plain.npy", values),
        "save": lambda: hmnn.save({"w": values}, folder / "checkpoint"),
        "load": lambda: hmnn.load(folder / "checkpoint"),
    }
    rounds = [
        {name: once(function) for name, function in functions.items()} for _ in range(repeats + 1)
    ][1:]
    clock, free = (
        {n: 1000 * statistics.median(r[n][i] for r in rounds) for n in functions} for i in (0, 1)
    )
    return {
        "megabytes": megabytes,
        **{f"{name}_ms": round(value, 2) for name, value in free.items()},
        "ratio": round(free["save"] / free["numpy"], 2),
        "ratio_by_the_clock": round(clock["save"] / clock["numpy"], 2),
    }


def main() -> None:
    """Measure all sizes and print a table or JSON."""
    parser = argparse.ArgumentParser(description="What saving costs.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to write; the disk is what is measured")
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        rows = [measure(folder, size, options.repeats) for size in MEGABYTES]
    finally:
        shutil.rmtree(folder)
    if options.json:
        worst = max(row["ratio"] for row in rows)
        print(json.dumps({"rows": rows, "worst_ratio": worst, "machine": harness.machine()}))
        return
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
