"""What a run tells while it goes on: every time step once, whole lines, also after stops, kills and
full disks."""

import json
import math
import multiprocessing
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import hmnn
from hmnn.lab import diagnostics, jobs, logistic_drift, two_moons
from hmnn.lab.experiment import Experiment, Outcome, Quiet
from hmnn.lab.jobs import Job
from hmnn.lab.logistic_drift import procedure
from hmnn.lab.progress import NAME, Progress, mend, read
from hmnn.lab.settings import override


@dataclass(frozen=True)
class Config:
    """A walk that does what a file of that name tells it to, once: stop the run, or remove a
    folder."""

    steps: int = 4
    folder: str = "."
    empty: str = ""
    kept: bool = True


def walk(argument, monitor, name):
    """A random walk without JAX, which notes where it is."""
    config, seed = argument
    state, results = monitor.restore(name, {"w": np.zeros(2)})
    for t in range(len(results), config.steps):
        state = {"w": 0.5 * state["w"] + np.random.default_rng([seed, t]).normal(size=2)}
        results.append(float(state["w"].sum()))
        monitor.note(
            name,
            t + 1,
            {"sum": results[-1], "seldom": math.nan if t % 2 else 1.0, "t, again": t + 1},
        )
        if config.kept:
            monitor.checkpoint(name, state, results)
        if t == 1 and name == "walk-1" and (order := Path(config.folder, "stop")).exists():
            order.unlink()
            os.kill(
                os.getppid() if multiprocessing.parent_process() else os.getpid(), signal.SIGTERM
            )
        monitor.tick(f"{name}, t = {t + 1}")
    return results


def run(config, seed, monitor):
    """Two walks."""
    work = [Job(f"walk-{i}", walk, (config, seed + i), config.steps) for i in (1, 2)]
    found = jobs.run(work, monitor, monitor.workers)
    metrics = {
        name: {"last": sums[-1], "none": math.nan, "all": sums} for name, sums in found.items()
    }
    return Outcome(metrics | {"both": 2}, [{"steps": config.steps}])


WALK = Experiment("A walk", "Where does it go?", {"smoke": Config()}, run)


class Listening:
    """A monitor that writes down what it is told, in the order of the telling."""

    def __init__(self, keeper=None, stop_at=math.inf):
        self.keeper, self.heard, self.done, self.stop_at = keeper or Quiet(), [], 0, stop_at
        self.workers, self.restore, self.checkpoint = (
            self.keeper.workers,
            self.keeper.restore,
            self.keeper.checkpoint,
        )

    def total(self, steps):
        pass

    def note(self, part, t, values):
        self.heard.append((part, t, values))

    def tick(self, label, steps=1):
        self.heard += [label] if label else []
        self.done += steps
        if self.done >= self.stop_at:
            raise KeyboardInterrupt


def told(path):
    """(part, t) of every line, doubled ones too."""
    return [(line["part"], line["t"]) for line in map(json.loads, path.read_text().splitlines())]


def test_a_line_is_whole_and_holds_finite_numbers(tmp_path):
    with Progress(tmp_path, True, []) as progress:
        progress.note("a", 1, {"energy": 2.5, "drift": math.nan, "width": math.inf, "undone": 0})
        (line,) = map(
            json.loads, (tmp_path / NAME).read_text().splitlines()
        )  # there before the run has ended
    assert line.pop("time") < 60
    assert line == {"part": "a", "t": 1, "values": {"energy": 2.5, "undone": 0}}


def test_a_resumed_run_goes_on_after_a_torn_line_and_tells_nothing_twice(tmp_path):
    path = tmp_path / NAME
    path.write_text(
        '{"time": 70.5, "part": "a", "t": 1, "values": {"v": 1}}\nnonsense\n'
        '{"time": 9, "part": "a", "t": 2, "val'
    )
    with Progress(tmp_path, False, []) as progress:
        for t in (1, 2, 3, 3):
            progress.note("a", t, {"v": float(t)})
    whole = [line for line in path.read_text().splitlines() if line != "nonsense"]
    assert [(line["t"], line["values"]["v"]) for line in map(json.loads, whole)] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert [line["time"] >= 70.5 for line in read(path)] == [True] * 3  # the clock goes on too
    with open(path, "a") as file:
        file.write('{"time": 99, "part": "a", "t": 2, "values": {"v": 7}}\n[1]\n{"time": 1')
    assert [line["values"]["v"] for line in read(path)] == [
        1,
        7,
        3,
    ]  # the last line of a part and t counts
    assert path.read_bytes().endswith(b"1")
    assert len(mend(path)) == 3
    assert path.read_bytes().endswith(b"[1]\n")
    with Progress(tmp_path, True, []):
        assert path.read_bytes() == b""  # a new run begins anew


def test_a_full_disk_costs_the_file_and_not_the_run(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Progress(tmp_path, True, []) as progress:
        progress.note("a", 1, {"v": 1.0})
        size = (tmp_path / NAME).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        try:
            with pytest.warns(
                RuntimeWarning,
                match=r"^progress\.jsonl failed and is told nothing more; the run goes",
            ):
                progress.note("a", 2, {"v": 1.0})
            progress.note(
                "a", 3, {"v": 1.0}
            )  # without a word: a second warning would be an error here
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / NAME).stat().st_size == size + 10  # torn
    with Progress(tmp_path, False, []) as progress:
        progress.note("a", 2, {"v": 1.0})
    assert told(tmp_path / NAME) == [("a", 1), ("a", 2)]


def walks(**settings):
    return [Job(f"walk-{i}", walk, (Config(**settings), i), 4) for i in (1, 2)]


def test_a_note_comes_before_the_tick_after_a_checkpoint_and_else_in_company():
    monitor = Listening()
    results = jobs.run(walks(), monitor)
    for name, sums in results.items():
        heard = [entry for entry in monitor.heard if name in entry[: len(name)]]
        assert [(note[1], note[2]["sum"]) for note in heard[:-1:2]] == list(enumerate(sums, 1))
        assert heard[1::2] == [f"{name}, t = {t}" for t in (1, 2, 3, 4)]
        assert heard[-1] == f"{name}: done"
    seldom = Listening()
    assert jobs.run([job._replace(argument=(Config(kept=False), 1)) for job in walks()[:1]], seldom)
    told = [entry if isinstance(entry, str) else entry[1] for entry in seldom.heard]
    assert told == [
        1,
        *(f"walk-1, t = {t}" for t in (1, 2, 3, 4)),
        2,
        3,
        4,
        "walk-1: done",
    ]  # it took no TOLD seconds


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_loses_no_note_of_a_time_step_that_was_kept(workers, tmp_path):
    keeper = Quiet(tmp_path, {}, workers)
    stopped, after = Listening(keeper, stop_at=3), Listening(keeper)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(walks(), stopped, workers)
    kept = {job.name: len(keeper.restore(job.name, {"w": np.zeros(2)})[1]) for job in walks()}
    assert {name: sum(entry[0] == name for entry in stopped.heard) for name in kept} == kept
    assert 3 <= sum(kept.values()) < 8
    jobs.run(walks(), after)
    both = [entry[:2] for entry in [*stopped.heard, *after.heard] if isinstance(entry, tuple)]
    assert sorted(both) == [(f"walk-{i}", t) for i in (1, 2) for t in (1, 2, 3, 4)]


def test_what_an_info_has_to_tell():
    model = hmnn.hmnn(hmnn.linear(2), "gaussian", epochs=1)
    _, info = model.step(
        model.init(0), hmnn.Dataset(np.ones((8, 2), np.float32), np.ones((8, 1), np.float32))
    )
    found = diagnostics.plain(diagnostics.numbers(info))
    assert found["free_energy"] == float(info.free_energy)
    assert found["drift.weight"] == float(info.drift_by_leaf.weight)
    flags = {"finite", "diverged", "drift_by_leaf"}
    known = {name for name, value in info._asdict().items() if value is not None}
    assert set(found) == (known - flags) | {"drift.weight", "drift.bias"}
    bare = info._replace(drift_by_leaf=info.drift)  # weights that are one array
    assert set(found) - set(diagnostics.numbers(bare)) == {"drift.weight", "drift.bias"}


def test_every_part_of_the_moons_tells_every_time_step():
    small = ["rows=40", "epochs=1", "draws=2", "grid=5", "hidden=4,4"]
    monitor = Listening()
    two_moons.EXPERIMENT.run(override(two_moons.PROFILES["smoke"], small), 0, monitor)
    heard = [entry for entry in monitor.heard if isinstance(entry, tuple)]
    assert [(part, t) for part, t, _ in heard] == [
        (part, t) for part in ("separated", "overlapping") for t in (1, 2)
    ]
    expected = {
        "free_energy",
        "mean_scale",
        "drift",
        "drift.layers.0.weight",
        "accuracy",
        "length on data",
    }
    assert all(expected <= set(values) for *_, values in heard)
    json.dumps(heard)  # plain numbers


def test_the_logistic_regression_tells_its_two_weights():
    monitor, config = (
        Listening(),
        override(logistic_drift.PROFILES["smoke"], ["rows=40", "steps=2"]),
    )
    found = procedure._job((config, "laplace", 0), monitor, "laplace-0")
    for t, (_, step, values) in enumerate(monitor.heard[::2]):
        assert step == t + 1
        assert [values[name] for name in procedure.NOTED] == found[t, :2, :2].ravel().tolist()
        assert {"misfit", "log_evidence"} <= set(values)
