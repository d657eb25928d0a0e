"""The command line: hmnn list | run | inspect | data."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hmnn import DivergenceError, _check, store
from hmnn.data import files
from hmnn.experiments import EXPERIMENTS, Monitor, folders
from hmnn.methods import compilation
from hmnn.report import records

UsageError: Any = typer.BadParameter.__mro__[2]
"""The parent of all of typer's complaints; typer exports only some of its children."""
app = typer.Typer(add_completion=False, help="Neural networks whose weights move in time.")
data = typer.Typer(help="Data files: where they are, and how to get them.")
app.add_typer(data, name="data")
console = Console()


ASKED: list[int] = []
"""Signals that asked the run to stop, acted on between time steps: an exception amid compiled code can get lost."""


class _StoppedError(Exception):
    """The run was stopped: what to say, and the exit code."""


class _Bar:
    """A monitor with a progress bar and the time left; what it keeps is kept by another."""

    def __init__(self, progress: Progress, keeper: Monitor) -> None:
        self.progress, self.keeper = progress, keeper
        self.task = progress.add_task("compiling", total=None)
        self.checkpoint, self.workers, self.steps = keeper.checkpoint, keeper.workers, 0

    def total(self, steps: int) -> None:
        self.steps += steps
        self.progress.update(self.task, total=self.steps)

    def tick(self, label: str, steps: int = 1) -> None:
        self.progress.update(self.task, advance=steps, description=label or None)
        if ASKED:
            raise KeyboardInterrupt

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        state, results = self.keeper.restore(name, state)
        self.progress.update(self.task, advance=len(results))
        return state, results


@app.command("list")
def list_() -> None:
    """List the experiments and their profiles."""
    table = Table("experiment", "question", "profiles")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.question, ", ".join(experiment.profiles))
    console.print(table)


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="The experiment; `hmnn list` names them.")],
    profile: Annotated[str | None, typer.Option(help="smoke, quick or paper (default).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of data and training; 0 by default.", min=0)] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder; runs/NAME-PROFILE-SEED by default.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Write into a folder that exists.")] = False,
    resume: Annotated[Path | None, typer.Option(help="Folder of a stopped run, to go on with.")] = None,
) -> None:
    """Run an experiment: a table, figures and record.json."""
    _check.choice("experiment", name, EXPERIMENTS)
    experiment = EXPERIMENTS[name]
    if resume is not None:
        profile, seed = folders.reopen(resume, name, experiment, profile, seed, out, overwrite)
    profile, seed = profile or "paper", seed or 0
    _check.choice("profile", profile, experiment.profiles)
    folder = resume or _folder(out or Path("runs") / f"{name}-{profile}-{seed}", overwrite)
    config = experiment.profiles[profile]
    record = {"experiment": name, "profile": profile, "config": asdict(config), "seed": seed}
    began = time.perf_counter()
    with store.locked(folder.absolute()), _stoppable(name, folder), _progress() as progress:
        keeper = folders.open_(folder, record, fresh=resume is None)
        outcome = experiment.run(config, seed, _Bar(progress, keeper))
        figures = outcome.draw(folder)
    seconds = time.perf_counter() - began
    record |= {"versions": records.versions(), "metrics": outcome.metrics, "seconds": seconds}
    records.write(folder / "record.json", record)
    _print_table(f"{name}, {profile} profile, seed {seed}, {seconds:.0f} s", outcome.table)
    for path in [*figures, folder / "record.json"]:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="A checkpoint or a trajectory.")],
    as_json: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
) -> None:
    """Say what a checkpoint or a trajectory holds, after verifying every checksum."""
    found = store.inspect(path)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    table = Table(title=str(path), show_header=False)
    arrays = found.pop("arrays")
    for key, value in found.items():
        if value not in (None, {}, []):
            table.add_row(key, value if isinstance(value, str) else json.dumps(value))
    for array in arrays:
        table.add_row(array["name"], f"{array['dtype']} {tuple(array['shape'])}")
    console.print(table)


@data.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False) -> None:
    """Say where each data file is and whether its SHA-256 is right; nothing is downloaded."""
    found = files.status()
    if as_json:
        sys.stdout.write(json.dumps([file._asdict() for file in found]) + "\n")
        return
    table = Table("file", "found in", "verified", "bytes")
    for file in found:
        verified = "-" if file.where == "nowhere" else "yes" if file.verified else "NO"
        table.add_row(file.name, file.where, verified, str(file.size or "-"))
    console.print(table)


@data.command()
def get(name: Annotated[str, typer.Argument(help="mnist, flag, elec2, or the name of a file.")]) -> None:
    """Download a data set, unless it is here; every file is checked against its SHA-256."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    progress, tasks = Progress(*columns, console=Console(stderr=True)), dict[str, Any]()

    def tell(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = progress.add_task(file)
            progress.start()
        progress.update(tasks[file], completed=done, total=total or None)

    try:
        paths = files.get(name, tell)
    finally:
        if tasks:
            progress.stop()
    for path in paths:
        console.print(str(path), soft_wrap=True, highlight=False, markup=False)


def main() -> None:
    """Run the command line; what a user can mend is one line on stderr and exit code 2."""
    try:
        compilation.persist(files.cache() / "xla")
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:  # whoever read our output has gone, as in `hmnn list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except UsageError as error:
        _complain(f"{_sentence(error)} (See hmnn --help.)", 2)
    except (ValueError, OSError, DivergenceError) as error:
        _complain(str(error), 2)
    except _StoppedError as stop:
        _complain(*stop.args)
    except (typer.Abort, KeyboardInterrupt):
        _complain("stopped.", 130)


def _sentence(error: Any) -> str:
    """Typer's message on one line, with the parameter that it is about."""
    return " ".join(error.format_message().split())


def _complain(message: str, code: int) -> None:
    sys.stderr.write(f"hmnn: {message}\n")
    sys.exit(code)


@contextmanager
def _stoppable(name: str, folder: Path) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the run with one line that says how to go on."""

    def ask(number: int, _: Any) -> None:
        ASKED.append(number)
        if len(ASKED) > 1:  # who asks twice is in a hurry
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        code = 128 + (ASKED or [signal.SIGINT])[0]
        raise _StoppedError(f"stopped; go on with: hmnn run {name} --resume {folder}", code) from None
    finally:
        ASKED.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _folder(path: Path, overwrite: bool) -> Path:
    if path.exists() and not path.is_dir():
        raise _check.fail("--out", "a folder", str(path))
    if path.exists() and any(path.iterdir()) and not overwrite:
        raise ValueError(
            f"--out must be a new or empty folder; or pass --overwrite, or --resume. Got {str(path)!r}, not empty."
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)
