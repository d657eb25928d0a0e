"""TensorBoard and MLflow by one flag: what they were told is read back by their own libraries."""

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest
import test_progress
from test_progress import WALK, told

from hmnn import cli
from hmnn.core.cpu import compilation
from hmnn.lab import EXPERIMENTS, trackers
from hmnn.lab.progress import NAME, Progress, read

ABOUT = {
    "experiment": "walk",
    "profile": "smoke",
    "seed": 0,
    "set": [],
    "config": {"steps": 4, "empty": ""},
}


@pytest.fixture
def hmnn(tmp_path, monkeypatch, capsys):
    """The command line in this process, with the walk among its experiments, and a wire that is
    cut."""
    monkeypatch.setitem(EXPERIMENTS, "walk", WALK)
    monkeypatch.setattr(compilation, "persist", lambda folder: False)
    monkeypatch.setattr(
        socket.socket, "connect", lambda *_: pytest.fail("something leaves the machine")
    )
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hmnn", "run", "walk", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, capsys.readouterr().err.strip().splitlines()[-1]

    return run


def events(folder):
    """Tag -> [(step, value)] of TensorBoard's files."""
    from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    found = EventAccumulator(str(folder / "tensorboard"), size_guidance={TENSORS: 0})
    found.Reload()
    return {
        tag: [(e.step, make_ndarray(e.tensor_proto)) for e in found.Tensors(tag)]
        for tag in found.Tags()[TENSORS]
    }


def run_of(folder):
    """The only run of MLflow, and name -> [(step, value)]."""
    from mlflow import MlflowClient

    client = MlflowClient((folder.absolute() / "mlruns").as_uri())
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
    histories = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
    return run, {key: [(m.step, m.value) for m in history] for key, history in histories.items()}


def expected(folder):
    """Name -> [(step, value)] by progress.jsonl, the values found at the end apart."""
    found = {}
    for line in read(folder / NAME):
        for name, value in line["values"].items():
            found.setdefault(f"{line['part']}/{name}", []).append((line["t"], value))
    return found


def close(some, others):
    assert set(some) == set(others)
    for name, points in some.items():
        assert [t for t, _ in points] == [t for t, _ in others[name]]
        assert [v for _, v in points] == pytest.approx(
            [v for _, v in others[name]], rel=1e-6
        )  # one has float32


def test_a_run_stopped_by_sigterm_with_two_workers_goes_on_in_both(hmnn, tmp_path):
    both = ("--track", "tensorboard", "--track", "mlflow")
    folder = tmp_path / "a walk"
    (tmp_path / "stop").touch()
    code, said = hmnn("--profile", "smoke", "--out", "a walk", "--workers", "2", *both)
    assert (code, said) == (
        143,
        "hmnn: stopped; go on with: hmnn run walk --resume 'a walk' " + " ".join(both),
    )
    assert 2 <= len(told(folder / NAME)) < 8
    run, metrics = run_of(folder)
    assert run.info.status == "KILLED"
    close(metrics, {trackers._key(name): points for name, points in expected(folder).items()})

    assert hmnn("--resume", "a walk", "--workers", "1", *both)[0] == 0
    assert sorted(told(folder / NAME)) == [(f"walk-{i}", t) for i in (1, 2) for t in (1, 2, 3, 4)]
    whole = expected(folder)
    assert [t for t, _ in whole["walk-1/seldom"]] == [1, 3]
    record = json.loads((folder / "record.json").read_text())
    final = {f"final/walk-{i}/last": [(0, record["metrics"][f"walk-{i}"]["last"])] for i in (1, 2)}
    final["final/both"] = [(0, 2)]  # neither lists nor what is not a number

    run, metrics = run_of(folder)
    assert run.info.status == "FINISHED"
    assert {
        "experiment": "walk",
        "seed": "0",
        "steps": "4",
        "empty": "",
    }.items() <= run.data.params.items()
    close(metrics, {trackers._key(name): points for name, points in (whole | final).items()})
    assert "walk-1/t_ again" in metrics  # MLflow allows no commas

    scalars = events(folder)
    ((_, text),) = scalars.pop("config/text_summary")
    assert json.loads(text.item())["config"]["steps"] == 4
    close(scalars, whole | final)


def test_a_tracker_that_joins_late_is_told_all_and_a_new_run_is_another_one(hmnn, tmp_path):
    (tmp_path / "stop").touch()
    assert hmnn("--profile", "smoke", "--out", "out", "--workers", "1")[0] == 143
    early = expected(tmp_path / "out")
    assert early
    trackers.check(["tensorboard"])
    with Progress(
        tmp_path / "out", False, trackers.open_(["tensorboard"], tmp_path / "out", ABOUT, False)
    ):
        pass
    joined = events(tmp_path / "out")
    joined.pop("config/text_summary")
    close(joined, early)
    for new in (
        False,
        True,
    ):  # one that was there before is told nothing twice; a new run begins anew
        with Progress(
            tmp_path / "out", new, trackers.open_(["tensorboard"], tmp_path / "out", ABOUT, new)
        ):
            pass
        later = events(tmp_path / "out")
        assert len(later.pop("config/text_summary")) == 1
        close(later, {} if new else early)


def test_a_tracker_that_fails_is_warned_of_once_and_the_run_goes_on(hmnn, tmp_path, monkeypatch):
    def vanish(config, seed, monitor):
        shutil.rmtree(Path("out", "mlruns"))
        return test_progress.run(config, seed, monitor)

    monkeypatch.setitem(EXPERIMENTS, "walk", WALK._replace(run=vanish))
    with pytest.warns(
        RuntimeWarning, match="^mlflow failed and is told nothing more; the run goes on"
    ) as caught:
        code, _ = hmnn("--profile", "smoke", "--out", "out", "--workers", "1", "--track", "mlflow")
    assert (code, len(caught)) == (0, 1)
    assert len(told(tmp_path / "out" / NAME)) == 8
    assert (tmp_path / "out/record.json").exists()


def test_what_cannot_be_tracked_is_one_sentence_before_anything_is_run(hmnn, tmp_path, monkeypatch):
    smoke = ("--profile", "smoke", "--out", "out")
    said = "hmnn: --track must be one of 'tensorboard', 'mlflow'. Got 'wandb'."
    assert hmnn(*smoke, "--track", "mlflow", "--track", "wandb") == (2, said)
    for name in trackers.TRACKERS:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
        said = f"hmnn: --track {name} needs a library: pip install hmnn[{name}]."
        assert hmnn(*smoke, "--track", name) == (2, said)
    assert list(tmp_path.iterdir()) == []


def test_mlflow_is_told_to_stay_at_home():
    trackers.check(["mlflow"])
    assert {os.environ[name] for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK")} == {"true"}
    from mlflow.telemetry.utils import is_telemetry_disabled

    assert is_telemetry_disabled()
