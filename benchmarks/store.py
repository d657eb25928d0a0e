"""What saving costs, beside writing the same bytes with numpy.save plus fsync.

`python benchmarks/store.py [--json] [--folder DIR] [--repeats N]`. Both replace what the last round left, in turn, on one
core; the ratio is that of the medians. A checkpoint is verified and replaced whole; numpy.save is neither.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import harness

MEGABYTES = (1, 10, 100)


def plain(path: Path, values) -> None:
    """numpy.save plus fsync."""
    import numpy as np

    with open(path, "wb") as file:
        np.save(file, values)
        file.flush()
        os.fsync(file.fileno())


def measure(folder: Path, megabytes: int, repeats: int) -> dict:
    """Medians in milliseconds, and their ratio."""
    import numpy as np

    import hmnn

    values = np.random.default_rng(0).normal(size=megabytes * 250_000).astype(np.float32)
    state = {"w": values}
    seconds = harness.interleaved(
        {
            "numpy": lambda: plain(folder / "plain.npy", values),
            "save": lambda: hmnn.save(state, folder / "checkpoint"),
            "load": lambda: hmnn.load(folder / "checkpoint"),
        },
        repeats,
    )
    medians = {f"{name}_ms": round(1000 * statistics.median(times), 2) for name, times in seconds.items()}
    return {"megabytes": megabytes, **medians, "ratio": round(medians["save_ms"] / medians["numpy_ms"], 2)}


def main() -> None:
    """Measure all sizes and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to write; the disk is what is measured")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    harness.pin()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        rows = [measure(folder, size, options.repeats) for size in MEGABYTES]
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(
            json.dumps({"rows": rows, "worst_ratio": max(row["ratio"] for row in rows), "machine": harness.machine()})
        )
        return
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
