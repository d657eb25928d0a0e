"""Jobs in processes of their own: the same bits as here, also after kills and stops."""

import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import jax
import numpy as np
import pytest

import hmnn
from hmnn.lab import jobs
from hmnn.lab.experiment import Monitor, Quiet
from hmnn.lab.jobs import Job, JobError


def filter_line(argument, monitor, name):
    """A linear model on a line that turns, three steps: a real filter, in JAX."""
    seed, _ = argument
    model = hmnn.hmnn(hmnn.linear(2, 1), "gaussian", epochs=2)
    state, results = monitor.restore(name, model.init(seed))
    for t in range(len(results), 3):
        x = np.random.default_rng([seed, t]).normal(size=(8, 2))
        state, info = model.step(state, hmnn.Dataset(x, x @ [t, 1.0]))
        results.append(float(info.free_energy))
        monitor.checkpoint(name, state, results)
        monitor.tick(f"{name}, t = {t}")
    return {"weights": state.posterior, "free_energy": results, "pair": (seed, None)}


def walk(argument, monitor, name):
    """A random walk that waits at each step, and may be told by a file to kill itself."""
    seed, folder = argument
    state, results = monitor.restore(name, {"w": np.zeros(4)})
    (folder / f"{name}-{len(results)}-{os.getpid()}.pid").touch()
    for t in range(len(results), 5):
        if t == 2 and (folder / f"kill-{name}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if (folder / f"fail-{name}").exists():
            raise ValueError("weights must be heavy. Got light.")
        state = {"w": 0.9 * state["w"] + np.random.default_rng([seed, t]).normal(size=4)}
        results.append(t)
        monitor.checkpoint(name, state, results)
        monitor.tick(f"{name}, t = {t}")
        time.sleep(0.05)
    return state | {"missing": np.array([np.nan])}


def lie(argument, monitor, name):
    return {"weights": object()}


class Counting:
    """A monitor that counts."""

    def __init__(self, keeper, stop_at=None):
        self.keeper, self.workers, self.steps, self.labels, self.stop_at = (
            keeper,
            keeper.workers,
            [0, 0],
            [],
            stop_at,
        )
        self.restore, self.checkpoint, self.note = keeper.restore, keeper.checkpoint, keeper.note

    def total(self, steps):
        self.steps[1] += steps

    def tick(self, label, steps=1):
        self.steps[0] += steps
        self.labels += [label] if steps else []
        if self.stop_at is not None and self.steps[0] >= self.stop_at:
            raise KeyboardInterrupt


def walks(folder, work=walk):
    return [Job(f"walk-{seed}", work, (seed, folder), 5) for seed in (1, 2)]


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert all(
        np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind == "f")
        for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)
    )


@pytest.fixture
def straight(tmp_path):
    (tmp_path / "marks").mkdir()
    return jobs.run(walks(tmp_path / "marks"), Quiet())


def test_a_filter_has_the_same_bits_in_children_here_and_from_the_disk(tmp_path):
    work = [Job(f"line-{seed}", filter_line, (seed, None), 3) for seed in (1, 2)]
    here = jobs.run(work, Quiet())
    monitor = Counting(Quiet(tmp_path, {}, 2))
    assert isinstance(monitor, Monitor)
    there = jobs.run(work, monitor, monitor.workers)
    same(here, there)
    assert list(there) == ["line-1", "line-2"]
    assert there["line-1"]["pair"] == [1, None]
    assert set(there["line-1"]["weights"]) == {"location", "rho"}
    assert not np.array_equal(
        *(jax.tree.leaves(there[name]["weights"])[0] for name in there)
    )  # seeds matter
    assert monitor.steps == [6, 6]
    again = Counting(Quiet(tmp_path, {}, 2))
    same(here, jobs.run(work, again, 2))
    assert again.labels == ["line-1: done before", "line-2: done before"]


def test_a_killed_child_is_named_and_the_run_goes_on(straight, tmp_path):
    marks, keeper = tmp_path / "marks", Quiet(tmp_path / "kept", {}, 2)
    (marks / "kill-walk-2").touch()
    with pytest.raises(
        JobError,
        match=r"^Job 'walk-2' ended without a result: its process was killed by SIGKILL\.$",
    ):
        jobs.run(walks(marks), keeper, 2)
    assert keeper.restore("walk-2", {"w": np.zeros(4)})[1] == [0, 1]
    (marks / "kill-walk-2").unlink()
    (marks / "fail-walk-2").touch()
    with pytest.raises(JobError) as failed:
        jobs.run(walks(marks), keeper, 2)
    assert str(failed.value) == "Job 'walk-2' failed: weights must be heavy. Got light."
    assert "in walk" in "".join(
        traceback.format_exception(failed.value)
    )  # for whoever looks for the mistake
    (marks / "fail-walk-2").unlink()
    same(jobs.run(walks(marks), keeper), straight)


PARENT = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_jobs import Quiet, jobs, walks
if __name__ == "__main__":
    # A background job of a shell ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jobs.run(walks(Path("marks")), Quiet(Path("kept"), {{}}, 2), 2)
"""


def alive(marks):
    """Which of the processes that left a mark are still there."""
    pids = {int(mark.stem.split("-")[-1]) for mark in marks.glob("*.pid")} - {os.getpid()}
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and "Z" not in _state(pid)]


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_a_killed_parent_takes_its_children_along_and_ctrl_c_is_quiet(straight, tmp_path):
    (tmp_path / "parent.py").write_text(PARENT.format(tests=str(Path(__file__).parent)))
    marks, kept = tmp_path / "marks", tmp_path / "kept"
    for number in (signal.SIGKILL, signal.SIGINT):
        for mark in marks.glob("*.pid"):
            mark.unlink()
        command = [sys.executable, "parent.py"]
        parent = subprocess.Popen(
            command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        deadline = time.monotonic() + 400
        while (
            len(list(marks.glob("*.pid"))) < 1
            and time.monotonic() < deadline
            and parent.poll() is None
        ):
            time.sleep(0.01)
        assert alive(marks)
        os.kill(parent.pid, number) if number == signal.SIGKILL else os.killpg(parent.pid, number)
        _, said = parent.communicate(timeout=400)
        assert parent.returncode == -number
        assert said.count("Traceback") == (
            number == signal.SIGINT
        )  # the parent's own; the children say nothing
        while alive(marks) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert alive(marks) == []
        assert not list(kept.glob("*.result"))
    same(jobs.run(walks(marks), Quiet(kept, {})), straight)


def test_a_stop_here_and_in_children_keeps_what_is_done(straight, tmp_path):
    for workers in (0, 2):
        keeper = Quiet(tmp_path / f"kept-{workers}", {}, workers)
        with pytest.raises(KeyboardInterrupt):
            jobs.run(walks(tmp_path / "marks"), Counting(keeper, stop_at=3), workers)
        assert (
            3
            <= sum(len(keeper.restore(job.name, {"w": np.zeros(4)})[1]) for job in walks(tmp_path))
            <= 5
        )
        same(jobs.run(walks(tmp_path / "marks"), keeper), straight)


def test_what_cannot_be_a_job_is_refused(tmp_path):
    twice = [Job("a", walk, None, 1)] * 2
    with pytest.raises(ValueError, match="job must be named once"):
        jobs.run(twice, Quiet())
    with pytest.raises(ValueError, match="without '/'"):
        jobs.run([Job("a/b", walk, None, 1)], Quiet())
    with pytest.raises(ValueError, match="workers must be a whole number of at least 0"):
        jobs.run([], Quiet(), -1)
    with pytest.raises(JobError, match=r"^Job 'a' failed: state must be made of arrays"):
        jobs.run([Job("a", lie, None, 1)], Quiet())
    with pytest.raises(
        JobError, match=r"^Job 'a' failed: TypeError: .*\(test_jobs\.py, line \d+\)\.$"
    ):
        jobs.run([Job("a", filter_line, None, 1)], Quiet())
