"""What it costs a run to tell how it goes on: progress.jsonl at every time step, or nothing.

The run is `hmnn run logistic-drift` with the paper's rows and epochs, all five methods: of the five
experiments it has the shortest time steps, so that telling weighs most. Runs with and without take
turns. Two figures, in processor time: `ratio` compares whole runs (median over pairs, and as noisy
as the machine); `share` is the time spent in telling itself, measured where it happens: taking the
values out of Info, a way there and back through pickle as to another process, and the line of the
file, divided by that of the run without. The promise is 2 % of either.
"""

import argparse
import json
import pickle
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import harness

harness.pin()

from hmnn.lab import diagnostics  # noqa: E402
from hmnn.lab.experiment import Quiet  # noqa: E402
from hmnn.lab.logistic_drift import PROFILES, procedure  # noqa: E402
from hmnn.lab.progress import NAME, Progress  # noqa: E402

OF, PLAIN = diagnostics.numbers, diagnostics.plain


class Telling:
    """A monitor that tells, and knows what that cost."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.keeper, self.seconds, self.workers = progress, Quiet(), 0.0, 0
        self.total, self.tick = self.keeper.total, self.keeper.tick
        self.restore, self.checkpoint = self.keeper.restore, self.keeper.checkpoint

    def note(self, part: str, t: int, values: dict[str, float]) -> None:
        """Tell it as a job in another process would."""
        began = time.process_time()
        self.progress.note(*pickle.loads(pickle.dumps((part, t, values))))
        self.seconds += time.process_time() - began

    def timed(self, function):
        """A function that adds its time to what telling cost."""

        def call(argument):
            began = time.process_time()
            found = function(argument)
            self.seconds += time.process_time() - began
            return found

        return call


def silent(config) -> float:
    """Processor seconds of a run that tells nothing."""
    diagnostics.numbers, diagnostics.plain = lambda info: {}, lambda values: {}
    began = time.process_time()
    procedure.run(config, 0, Quiet())
    return time.process_time() - began


def telling(config) -> tuple[float, float]:
    """Processor seconds of a run that tells all, and of the telling; the file must hold every time
    step."""
    with tempfile.TemporaryDirectory() as folder, Progress(Path(folder), True, []) as progress:
        monitor = Telling(progress)
        diagnostics.numbers, diagnostics.plain = monitor.timed(OF), monitor.timed(PLAIN)
        began = time.process_time()
        procedure.run(config, 0, monitor)
        seconds = time.process_time() - began
        assert (
            len((Path(folder) / NAME).read_text().splitlines()) >= steps(config) // procedure.TOLD
        )
    return seconds, monitor.seconds


def steps(config) -> int:
    """Time steps of all jobs together."""
    return len(procedure.METHODS) * config.runs * config.steps


def measure(config, repeats: int) -> dict:
    """Medians over pairs of runs."""
    silent(config), telling(config)  # they compile
    pairs = [(silent(config), *telling(config)) for _ in range(repeats)]
    without, cost = (statistics.median(pair[i] for pair in pairs) for i in (0, 2))
    return {
        "steps": steps(config),
        "step_ms": round(1000 * without / steps(config), 3),
        "telling_us": round(1e6 * cost / steps(config), 1),
        "share_percent": round(100 * cost / without, 3),
        "ratio": round(statistics.median(pair[1] / pair[0] for pair in pairs), 4),
        "ratios": sorted(round(pair[1] / pair[0], 4) for pair in pairs),
    }


def main() -> None:
    """Measure and print words or JSON."""
    parser = argparse.ArgumentParser(description="What it costs a run to tell how it goes on.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--steps", type=int, default=40, help="time steps of each method, at least 12"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    found = measure(replace(PROFILES["paper"], runs=1, steps=options.steps), options.repeats)
    if options.json:
        print(json.dumps(found | {"machine": harness.machine()}))
        return
    print(", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
