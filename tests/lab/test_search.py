"""Searches: every point once, also over two workers and a stop; trials that fall behind end
early."""

import json
import os
import shlex
import sys
import time
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path

import pytest

from hmnn import DivergenceError, cli
from hmnn.core.cpu import compilation
from hmnn.lab import EXPERIMENTS, search, search_points, workers
from hmnn.lab.experiment import Experiment, Outcome, Quiet, Search


@dataclass(frozen=True)
class Config:
    """Two numbers, a shape, and where scores leave their marks."""

    rate: float = 0.1
    width: int = 4
    layers: tuple[int, ...] = (3,)
    marks: str = ""


def score(config, seed, report):
    """The distance of the settings from the best ones, and a mark that it was computed."""
    Path(config.marks, f"{config.rate}-{config.width}-{time.monotonic_ns()}-{os.getpid()}").touch()
    value = abs(config.rate - 0.3) + abs(config.width - 8)
    if config.rate == 0.7:
        raise DivergenceError("The filter refused every update.")
    for step in range(3):
        report(step, value + 3 - step)
    Path(config.marks, f"ended-{config.rate}-{config.width}").touch()
    return value


def stop_at_four(config, seed, report):
    if len(list(Path(config.marks).iterdir())) == 4 and not Path(config.marks, ".stopped").exists():
        Path(config.marks, ".stopped").touch()
        raise KeyboardInterrupt
    return score(config, seed, report)


def run(config, seed, monitor):
    monitor.total(1)
    monitor.tick("one")
    metrics = {"rate": config.rate, "layers": config.layers}
    return Outcome(
        metrics, [metrics], [{"what": "rate", "ours": config.rate, "paper": 0.3}], {"a": 1}
    )


GRID = {"rate": (0.1, 0.3, 0.7), "width": (2, 4, 8), "layers": ((3,), (3, 3))}
RANGES = {"rate": (1e-3, 1.0, "log"), "width": (1, 16, "int"), "layers": ((3,), (3, 3))}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """An experiment with a search, and the folder of its marks."""
    marks = tmp_path / "marks"
    marks.mkdir()
    config = Config(marks=str(marks))
    searches = {
        "linear": Search(GRID, RANGES, score, "minimize", fixed={"marks": "there"}),
        "stops": Search(GRID, RANGES, stop_at_four, "minimize"),
    }
    monkeypatch.setitem(
        EXPERIMENTS,
        "toy",
        Experiment("Toy", "?", {"smoke": config, "paper": config}, run, search=searches),
    )
    return config, marks


@pytest.fixture
def hmnn(toy, tmp_path, monkeypatch, capsys):
    """The command line in this process."""
    monkeypatch.setattr(compilation, "persist", lambda folder: False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["hmnn", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return call


def tried(marks):
    return sorted(mark.name.rsplit("-", 2)[0] for mark in marks.iterdir() if mark.name[0].isdigit())


def test_a_grid_in_two_workers_is_tried_whole_and_only_once(hmnn, toy):
    _, marks = toy
    code, out, said = hmnn("sweep", "toy", "--workers", "2", "--out", "found")
    assert code == 0, said
    found = json.loads(Path("found/search.json").read_text())
    assert len(tried(marks)) == 18
    assert (
        len({mark.name.rsplit("-", 1)[1] for mark in marks.iterdir() if mark.name[0].isdigit()})
        == 2
    )  # processes
    assert (
        found["best"]["value"],
        found["best"]["settings"]["rate"],
        found["best"]["settings"]["width"],
    ) == (0, 0.3, 8)
    assert {
        (t["settings"]["rate"] == 0.7, t["error"])
        for t in found["trials"]
        if t["state"] == "failed"
    } == {(True, "The filter refused every update.")}
    assert "hmnn run toy --profile paper --seed 0 --set rate=0.3 --set width=8 --set layers=" in out
    assert (
        out.split("the best: ")[1].splitlines()[0].endswith("--set marks=there")
    )  # what a run is told besides
    assert {"versions", "command", "seed", "direction"} <= set(found)
    code, _, said = hmnn(
        "sweep", "toy", "--workers", "2", "--out", "found"
    )  # nothing is left to try
    assert code == 0, said
    assert len(tried(marks)) == 18
    again = json.loads(Path("found/search.json").read_text())
    assert (again["trials"], again["best"]) == (found["trials"], found["best"])


def test_a_search_that_was_stopped_goes_on(hmnn, toy):
    _, marks = toy
    arguments = (
        "sweep",
        "toy",
        "--method",
        "stops",
        "--grid",
        "random",
        "--trials",
        "6",
        "--workers",
        "1",
    )
    arguments += ("--out", "a folder")
    code, _, said = hmnn(*arguments)
    assert code == 130
    again = shlex.split(said.splitlines()[-1].removeprefix("hmnn: stopped; go on with: "))
    assert again == ["hmnn", *arguments]
    Path("a folder/search.journal.lock").symlink_to(
        "a folder/search.journal"
    )  # as after a kill amid a write
    before = tried(marks)
    code, _, said = hmnn(*arguments)
    assert code == 0, said
    after = tried(marks)
    assert len(before) < len(after) == 6
    assert set(before) < set(after)  # nothing twice
    expected = [
        search_points.point(EXPERIMENTS["toy"].search["stops"], "random", 0, i) for i in range(6)
    ]
    assert sorted(f"{p['rate']}-{p['width']}" for p in expected) == after


def test_a_trial_that_falls_behind_ends_early_and_without_reports_none_does(toy, tmp_path):
    config, marks = toy
    for silent in (False, True):
        one = Search(GRID, RANGES, _silent if silent else score, "minimize")
        sweep = search.open_(f"s-{silent}", one, "paper", config, 1, 18, None, tmp_path / "marks")
        search.run(sweep, Quiet(), 0)
        states = [trial["state"] for trial in search.outcome(sweep)["trials"]]
        assert states.count("failed") == 6
        assert (states.count("pruned") == 0) == silent
        ended = {mark.name for mark in marks.iterdir() if mark.name.startswith("ended")}
        assert len(ended) == 6 or not silent
        if not silent:
            assert any(
                f"ended-{rate}-{width}" not in ended for rate in (0.1, 0.3) for width in (2, 4)
            )
            assert "ended-0.3-8" in ended


def _silent(config, seed, report):
    return score(config, seed, lambda step, value: None)


def test_a_point_whose_process_died_is_tried_again(toy, tmp_path):
    config, marks = toy
    one = EXPERIMENTS["toy"].search["linear"]
    first = search.open_("dead", one, "random", config, 0, 3, None, tmp_path)
    search._claim(first)
    again = search.open_("dead", one, "random", config, 0, 3, None, tmp_path)
    search.run(again, Quiet(), 0)
    assert len(tried(marks)) == 3
    assert [t["state"] for t in search.outcome(again)["trials"]].count("failed") == 1
    url = f"sqlite:///{tmp_path}/many.db"
    shared = search.open_("dead", one, "random", config, 0, 3, url, tmp_path)
    search._claim(shared)  # this process lives, so another machine leaves its trial alone
    search.run(search.open_("dead", one, "random", config, 0, 3, url, tmp_path), Quiet(), 0)
    assert len(tried(marks)) == 5


def test_a_score_is_given_nothing_but_settings_seed_and_report():
    assert list(signature(search._score).parameters) == ["argument", "ask"]
    heard = []
    seen = lambda *arguments: heard.append(arguments) or 1.0  # noqa: E731
    assert search._score((seen, Config(), 3), lambda message: False) == ("complete", 1.0)
    ((config, seed, report),) = heard
    assert (config, seed, callable(report)) == (Config(), 3, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sweep", "two-suns"), "experiment must be one of "),
        (
            ("sweep", "toy", "--method", "magic"),
            "method must be one of 'linear', 'stops'. Got 'magic'.",
        ),
        (("sweep", "toy", "--grid", "huge"), "grid must be one of 'paper', 'random'. Got 'huge'."),
        (("sweep", "toy", "--trials", "0"), "Invalid value for '--trials'"),
        (("sweep", "toy", "--profile", "huge"), "profile must be one of "),
        (
            ("sweep", "toy", "--storage", "nowhere"),
            "--storage must be a storage that can be reached.",
        ),
        (
            ("sweep", "toy", "--storage", "sqlite:////no/such/folder/x.db"),
            "--storage must be a storage that can be",
        ),
        (("sweep", "toy", "--out", "marks/file"), "--out must be a folder."),
        (
            ("run", "toy", "--set", "colour=1"),
            "--set has an unknown field 'colour'. The fields are rate, width",
        ),
        (("run", "toy", "--set", "width=many"), "width must be a whole number. Got 'many'."),
        (("run", "toy", "--set", "rate=inf"), "rate must be a finite number. Got 'inf'."),
        (("run", "toy", "--set", "layers=3,x"), "layers must be a whole number. Got 'x'."),
        (("run", "toy", "--set", "rate"), "--set must be field=value. Got 'rate'."),
        (("reproduce", "--profile", "huge"), "profile must be one of "),
        (("reproduce", "--out", "marks/file"), "--out must be a folder."),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(hmnn, toy, arguments, said):
    (toy[1] / "file").touch()
    code, _, errors = hmnn(*arguments)
    assert code == 2
    assert errors.startswith(f"hmnn: {said}")
    assert len(errors.splitlines()) == 1
    assert not Path("found").exists()
    assert [mark.name for mark in toy[1].iterdir()] == ["file"]


def test_an_unknown_field_in_a_search_and_other_settings_in_a_storage_are_refused(
    toy, tmp_path, monkeypatch
):
    config, _ = toy
    wrong = Search({"speed": (1,)}, {}, score, "minimize")
    with pytest.raises(ValueError, match="The search has an unknown field 'speed'"):
        search.check(wrong, "paper", config)
    one = EXPERIMENTS["toy"].search["linear"]
    search.open_("a", one, "paper", config, 0, 3, None, tmp_path)
    with pytest.raises(
        ValueError, match="its folder must be given the config of the search it has"
    ):
        search.open_("a", one, "paper", replace(config, width=5), 0, 3, None, tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"^A search needs Optuna: pip install 'hmnn\[lab\]'\.$"):
        search.optuna()


def test_settings_are_put_in_recorded_and_asked_for_at_resume(hmnn):
    words = ("--set", "rate=0.25", "--set", "layers=7,8")
    code, _, said = hmnn("run", "toy", *words, "--out", "a", "--workers", "3")
    assert code == 0, said
    record = json.loads(Path("a/record.json").read_text())
    assert record["metrics"] == {"rate": 0.25, "layers": [7, 8]}
    assert (record["set"], record["config"]["rate"], record["workers"]) == (
        ["rate=0.25", "layers=7,8"],
        0.25,
        3,
    )
    assert record["chosen"] == {"a": 1}
    assert (
        record["command"] == f"hmnn run toy --profile paper --seed 0 {' '.join(words)}"
    )  # without folder and workers
    assert hmnn("run", "toy", "--resume", "a")[0] == 0
    resumed = json.loads(Path("a/record.json").read_text())
    assert (resumed["metrics"]["rate"], resumed["command"]) == (0.25, record["command"])
    code, _, said = hmnn("run", "toy", "--resume", "a", "--set", "rate=0.5")
    assert code == 2
    assert said.startswith(
        "hmnn: --resume must be given the set of that run, ['rate=0.25', 'layers=7,8']."
    )


def test_reproduce_does_each_experiment_once_and_shows_the_papers_numbers(hmnn, monkeypatch):
    monkeypatch.delitem(EXPERIMENTS, "two-moons")
    for name in [name for name in EXPERIMENTS if name != "toy"]:
        monkeypatch.delitem(EXPERIMENTS, name)
    code, _, said = hmnn("reproduce", "--profile", "smoke", "--out", "all")
    assert code == 0, said
    assert json.loads(Path("all/summary.json").read_text())["rows"] == [
        {"experiment": "toy", "what": "rate", "ours": 0.1, "paper": 0.3}
    ]
    before = Path("all/toy/record.json").stat().st_mtime_ns
    code, _, _ = hmnn("reproduce", "--profile", "smoke", "--out", "all")
    assert (code, Path("all/toy/record.json").stat().st_mtime_ns) == (0, before)
    Path("all/toy/record.json").unlink()
    assert hmnn("reproduce", "--profile", "smoke", "--out", "all")[0] == 0
    assert Path("all/toy/record.json").exists()
    code, _, said = hmnn("reproduce", "--profile", "paper", "--out", "all")
    assert (
        code,
        said.startswith("hmnn: --out must be given the profile of that run, 'smoke'."),
    ) == (2, True)


def test_workers_are_as_many_as_the_cores_that_this_process_may_use():
    assert len(workers.cores()) == len(os.sched_getaffinity(0))
