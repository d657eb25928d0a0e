"""Rows a second of `predict_then_fit`, one row at a time: two versions of the package in one run,
or ours against adaptive random forests.

`python benchmarks/rows.py [--base REV] [--json] [--arf] [--only 2,10]`. Ten features; 2, 10 and 100
classes that drift, and numbers. The base is a revision (or a folder that holds one); it is measured
with its defaults, this version also with `forgetting` "fixed" and "auto" where it has that. One
process for each version, on the same core, which take turns; seconds of the processor, after a call
that compiles, the least of several.

`--arf` measures "auto" (or the defaults) beside MOA's and river's forest of ten trees instead, in
one process; MOA's in its own loop over a file, and row by row from Python. What a forest costs
depends on how far its trees grow, on clouds hardly at all: Elec2 stands beside (a case may be any
stream of `harness.development`). Java compiles while it runs, so more repeats make
MOA faster. Measure on an idle machine: on a busy one river's forest varied by 2.7 times between
runs, in processor time too, and ours by 1.4.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
import rivals

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"2": 20000, "10": 3000, "100": 300, "numbers": 20000}
"""Cases, by the number of classes, and their rows: a hundred classes are slow."""
FORESTS = ("elec2", "hyperplane", "2", "10", "numbers")
"""Cases beside forests."""
SETTINGS = ("default", "fixed", "auto")
FOREST_ROWS = 10000
FEATURES = 10


def data(case: str, rows: int) -> tuple:
    """Clouds of points that walk, one of each class; or a linear function that turns."""
    import numpy as np

    if not case.isdigit() and case != "numbers":
        return harness.arrays(harness.development(rows)[case]())
    rng = np.random.default_rng(0)
    if case == "numbers":
        x = rng.normal(size=(rows, FEATURES))
        turn = np.linspace(0.0, np.pi, rows)
        return x, np.cos(turn) * x[:, 0] + np.sin(turn) * x[:, 1] + 0.1 * rng.normal(size=rows), 0
    classes = int(case)
    y = rng.integers(classes, size=rows)
    ways = rng.normal(size=(2, classes, FEATURES))
    x = 2.0 * ways[0, y] + np.linspace(0.0, 2.0, rows)[:, None] * ways[1, y]
    return x + rng.normal(size=x.shape), y, classes


def model(classes: int, setting: str):
    """Ours, untrained; None if this version does not have that setting."""
    from hmnn.estimators import HMNNClassifier, HMNNRegressor

    kind = HMNNClassifier if classes else HMNNRegressor
    if setting == "default":
        return kind(random_state=0)
    if "forgetting" not in kind().get_params():
        return None
    return kind(random_state=0, forgetting=setting)


def taught(setting: str, x, y, classes: int) -> None:
    """All rows through `predict_then_fit`."""
    options = {"classes": range(classes)} if classes else {}
    model(classes, setting).predict_then_fit(x, y, **options)


def serve() -> None:
    """Answer each line "case setting" with the seconds of the processor that it took."""
    kept: dict = {}
    for line in sys.stdin:
        case, setting = line.split()
        answer = None
        if case not in kept:
            kept[case] = data(case, ROWS.get(case, FOREST_ROWS))
        if model(kept[case][2], setting) is not None:
            began = time.process_time()
            taught(setting, *kept[case])
            answer = time.process_time() - began
        print(json.dumps(answer), flush=True)


class Version:
    """A process with one version of the package."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = self.process.stdout.readline().strip()
        if Path(found) != folder:
            raise SystemExit(f"The package must come from {folder}. Got {found}.")

    def seconds(self, case: str, setting: str) -> float | None:
        """Of one call; None if this version does not have that setting."""
        self.process.stdin.write(f"{case} {setting}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """A folder with that revision, gone at the end."""
    if (Path(base) / "hmnn").is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        if subprocess.run([*git, "add", "--detach", "--quiet", str(tree), base]).returncode:
            raise SystemExit("--base must be a revision or a folder with the package.")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def versions(base: str, cases: list[str], repeats: int, say) -> list[dict]:
    """Rows a second of both versions, and the ratio to the base's defaults."""
    found = []
    with checkout(base) as folder:
        old, new = Version(folder), Version(ROOT)
        runs = {("base", "default"): old} | {("new", setting): new for setting in SETTINGS}
        for case in cases:
            calls = [
                {key: version.seconds(case, key[1]) for key, version in runs.items()}
                for _ in range(repeats + 1)
            ][1:]  # the first one compiles
            rates = {
                key: ROWS.get(case, FOREST_ROWS) / min(call[key] for call in calls)
                for key, value in calls[0].items()
                if value is not None
            }
            for (which, setting), rate in rates.items():
                ratio = rate / rates["base", "default"]
                about = {"case": case, "version": which, "setting": setting}
                found.append(about | {"rows_per_s": rate, "ratio": ratio})
                say(f"{case:8s} {which:5s} {setting:8s} {rate:10.0f} rows/s {ratio:8.3f}")
        old.close()
        new.close()
    return found


def forests(cases: list[str], repeats: int, say) -> list[dict]:
    """Rows a second of ours and of the forests."""
    found = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            runs = against(case, folder, say)
            seconds = harness.interleaved(runs, repeats, time.process_time)
        rates = {name: FOREST_ROWS / min(spent) for name, spent in seconds.items()}
        for name, rate in rates.items():
            ratio = rates["hmnn"] / rate
            found.append({"case": case, "model": name, "rows_per_s": rate, "hmnn_ratio": ratio})
            say(f"{case:8s} {name:18s} {rate:10.0f} rows/s; hmnn is {ratio:.2f} times that")
    return found


def against(case: str, folder: str, say) -> dict:
    """Name -> a call that learns all rows."""
    x, y, classes = data(case, FOREST_ROWS)
    setting = "default" if model(classes, "auto") is None else "auto"
    runs = {"hmnn": lambda: taught(setting, x, y, classes)}
    for name in ("moa", "arf"):
        reason = rivals.missing(name)
        if reason:
            say(f"{name} is left out: {reason}.")
            continue
        kind = getattr(rivals, name)
        runs[name] = lambda kind=kind: kind(x, y, classes, 0)
        if name == "moa":
            runs["moa, its own loop"] = rivals.moa_alone(x, y, classes, 0, folder)
    return runs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", help="a revision, or a folder with one")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--arf", action="store_true", help="against forests")
    parser.add_argument("--only", help="cases, with commas between")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    harness.pin(1)
    if given.serve:
        import hmnn

        print(Path(hmnn.__file__).resolve().parents[1], flush=True)
        return serve()
    cases = given.only.split(",") if given.only else list(FORESTS if given.arf else ROWS)

    def say(words: str) -> None:
        print(words, file=sys.stderr if given.json else None, flush=True)

    if given.arf:
        found = {"forests": forests(cases, given.repeats, say)}
    else:
        found = {"base": given.base, "versions": versions(given.base, cases, given.repeats, say)}
    if given.json:
        print(json.dumps(found | {"machine": harness.machine()}, indent=1))
    return None


if __name__ == "__main__":
    main()
