"""kill -9 while saving, again and again: is the newest loadable checkpoint the last acknowledged
one, or newer?

`python benchmarks/kills.py [--kills 500] [--what checkpoint|trajectory|naive] [--json]`. A child
process saves in a loop and acknowledges each save through a pipe. It is killed at a random instant,
then everything is loaded and checked. What was loadable once counts as acknowledged from then on.
Children are forked from a process that has imported the package, so that a kill takes milliseconds.
"naive" writes in place: the control that must lose checkpoints.
"""

import argparse
import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import hmnn
from hmnn.store import checkpoints, files, leaves, manifests, tensors

WORDS = 30_000


def state(n: int) -> dict:
    """A state that says its number in every word."""
    return {"n": n, "w": np.full(WORDS, n, np.float32), "b": np.full(7, n, np.int32)}


def naive(n: int, path: Path) -> None:
    """The same files, written in place."""
    listed, arrays = leaves.describe(state(n))
    content = b"".join(map(bytes, tensors.pack(arrays)))
    said = {"files": {checkpoints.DATA: {"bytes": len(content), "sha256": files.sha256([content])}}}
    manifest = manifests.render(
        "checkpoint", {**said, "tree": listed, "flags": {"finite": True}, "config": None}
    )
    path.mkdir(exist_ok=True)
    for name, text in ((checkpoints.DATA, content), (manifests.NAME, manifest)):
        with open(path / name, "wb") as file:
            for i in range(0, len(text), 4096):
                file.write(text[i : i + 4096])
                file.flush()
            os.fsync(file.fileno())


def write_for_ever(what: str, path: Path, first: int, pipe: int) -> None:
    """Save n = first, first + 1, ... and say so after each."""
    trajectory = hmnn.Trajectory(path) if what == "trajectory" else None
    for n in range(first, first + 10**9):
        if trajectory is not None:
            trajectory.append(n, state(0) | {"w": state(n)["w"]})
        elif what == "naive":
            naive(n, path)
        else:
            hmnn.save(state(n), path)
        os.write(pipe, struct.pack("<q", n))


def newest(what: str, path: Path) -> int:
    """The newest number on disk, after checking that it is whole."""
    if what == "trajectory":
        trajectory = hmnn.Trajectory(path)
        n = -1 if trajectory.last is None else trajectory.last
        return n if n < 0 or (trajectory[n]["w"] == n).all() else -2
    try:
        found = hmnn.load(path)
    except FileNotFoundError:
        return -1
    return (
        found["n"] if (found["w"] == found["n"]).all() and (found["b"] == found["n"]).all() else -2
    )


def kill_once(what: str, path: Path, first: int, wait: float) -> int:
    """Start a writer, kill it after a while, and return the last number that it acknowledged."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(what, path, first, writable)
        finally:
            os._exit(1)
    os.close(writable)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        raise RuntimeError("The writer ended before it was killed.")
    with os.fdopen(readable, "rb") as pipe:
        said = pipe.read()
    return struct.unpack("<q", said[-8:])[0] if said else -1


def litter(path: Path) -> int:
    """What a dead writer left beside the checkpoint."""
    return len([name for name in os.listdir(path.parent) if name.startswith(".")])


def campaign(what: str, kills: int, seed: int, folder: Path) -> dict:
    """Kill many times in one folder; the next writer takes over what the last one left."""
    chance, path = random.Random(seed), folder / "state"
    counts = {
        "kills": kills,
        "loadable": 0,
        "lost": 0,
        "acknowledged": 0,
        "newer": 0,
        "with_litter": 0,
    }
    known, first = -1, 0
    for _ in range(kills):
        acknowledged = kill_once(what, path, first, chance.uniform(0.0, 0.12))
        counts["acknowledged"] += max(0, acknowledged - first + 1)
        known = max(known, acknowledged)
        counts["with_litter"] += litter(path) > 0
        try:
            found = newest(what, path)
        except (ValueError, OSError):
            found = -2
        counts["loadable"] += found != -2
        counts["lost"] += found < known
        counts["newer"] += found > known
        known = max(known, found)
        first = known + 1
    if what == "checkpoint":
        hmnn.save(state(first), path)
        counts["litter_after_next_save"] = litter(path)
    return {"what": what, **counts}


def main() -> None:
    """Run a campaign and print its counts; exit code 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--what", choices=["checkpoint", "trajectory", "naive"], default="checkpoint"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
    folder = Path(tempfile.mkdtemp())
    try:
        counts = campaign(options.what, options.kills, options.seed, folder)
    finally:
        shutil.rmtree(folder)
    print(
        json.dumps(counts)
        if options.json
        else ", ".join(f"{name} {value}" for name, value in counts.items())
    )
    sys.exit(counts["lost"] > 0 or counts["loadable"] < options.kills)


if __name__ == "__main__":
    main()
