"""hmnn list and hmnn run."""

import shlex
import sys
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from hmnn import _check, store
from hmnn.lab import EXPERIMENTS, progress, records, runs, trackers
from hmnn.lab.commands import display, report
from hmnn.lab.drawing import png
from hmnn.lab.page import section, writing
from hmnn.lab.runs import Run
from hmnn.lab.workers import cores

Workers = Annotated[int | None, Option(help="Processes at a time; one per core by default.", min=1)]
Profile = Annotated[
    str | None, Option(help="smoke, quick, paper (default), or another that `hmnn list` names.")
]
Seed = Annotated[int | None, Option(help="Seed of data and training; 0 by default.", min=0)]


def list_() -> None:
    """List the experiments and their profiles."""
    table = Table("experiment", "question", "profiles")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.question, ", ".join(experiment.profiles))
    Console().print(table)


def run(
    name: Annotated[str, Argument(help="The experiment; `hmnn list` names them.")],
    profile: Profile = None,
    seed: Seed = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="field=value of the Config; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="Output folder; runs/NAME-PROFILE-SEED by default.")
    ] = None,
    overwrite: Annotated[bool, Option(help="Begin anew in the folder of an earlier run.")] = False,
    resume: Annotated[Path | None, Option(help="Folder of a stopped run, to go on with.")] = None,
    workers: Workers = None,
    track: Annotated[
        list[str] | None, Option(help="Also tell tensorboard or mlflow; repeatable.")
    ] = None,
    show: Annotated[
        bool, Option("--open", help="Show the run in the browser, and its page at the end.")
    ] = False,
) -> None:
    """Run an experiment: a table, figures and record.json."""
    _check.choice("experiment", name, EXPERIMENTS)
    this = Run(name, profile or "paper", seed or 0, settings or [])
    if resume is not None:
        if out is not None or overwrite:
            said = "--resume must stand without --out and --overwrite"
            raise ValueError(f"{said}: it goes on in its own folder.")
        this = runs.reopen(resume, EXPERIMENTS[name], Run(name, profile, seed, settings or None))
    this.config(EXPERIMENTS[name])  # a bad setting must leave no folder
    trackers.check(track or [])
    if show:
        writing.plotly()  # refuses to show a page that cannot be made
    default = Path("runs") / f"{name}-{this.profile}-{this.seed}"
    folder = resume or runs.fresh(out or default, overwrite)
    words = ["hmnn", "run", name, "--resume", str(folder)]
    words += [word for tracker in track or [] for word in ("--track", tracker)]
    again, many = shlex.join(words), workers or len(cores())
    with report.followed(folder) if show else nullcontext() as address:
        record, table, paths = perform(this, folder, many, again, not resume, track or [])
        title = f"{name}, {this.profile} profile, seed {this.seed}, {record['seconds']:.0f} s"
        display.print_table(title, table)
        for path in paths:
            display.say(f"wrote {path}")
        if address is not None:
            report.wait(address)


def perform(
    this: Run, folder: Path, workers: int, again: str, new: bool, track: list[str]
) -> tuple[dict[str, Any], list[dict[str, Any]], list[Path]]:
    """Run an experiment in its folder; its record, the rows of its table and the files it wrote."""
    experiment, began = EXPERIMENTS[this.experiment], time.perf_counter()
    about = this.about(experiment)
    with ExitStack() as stack:
        stack.enter_context(store.locked(folder.absolute()))
        keeper = runs.open_(folder, about, workers, new)  # first: it writes run.json, for --resume
        opened = trackers.open_(track, folder, about, new)
        told = stack.enter_context(progress.Progress(folder, new, opened))
        with display.watched(keeper, again, told.note) as monitor:
            outcome = experiment.run(this.config(experiment), this.seed or 0, monitor)
        record = about | {
            "command": this.command(),
            "workers": workers,
            "versions": records.versions(),
            "metrics": outcome.metrics,
            "chosen": outcome.chosen,
            "summary": outcome.summary,
            "table": outcome.table,
            "seconds": time.perf_counter() - began,
        }
        if outcome.view:
            store.save(outcome.view, folder / runs.VIEW, about, finite=False)
        records.write(folder / runs.RECORD, record)
        told.end(outcome.metrics)
        found, view = section.read(folder / runs.RECORD)
        figures, failed = section.drawn(experiment.figures, found, view or {})
        for sentence in failed:
            display.say(sentence)
        paths = png.write(figures, folder)
    return record, outcome.table, [*paths, folder / runs.RECORD]


def command() -> str:
    """The command line that this is, without the folder that it writes to."""
    pairs = zip(sys.argv, sys.argv[1:], strict=False)
    kept = [word for before, word in pairs if "--out" not in (before, word)]
    return shlex.join(["hmnn", *(word for word in kept if not word.startswith("--out="))])
