"""The command line: hmnn list | run."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from hmnn import DivergenceError, _check
from hmnn.experiments import EXPERIMENTS
from hmnn.report import records

UsageError: Any = typer.BadParameter.__mro__[2]
"""The parent of all of typer's complaints; typer exports only some of its children."""
app = typer.Typer(add_completion=False, help="Neural networks whose weights move in time.")
console = Console()


class _Bar:
    """A monitor with a progress bar and the time left."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("compiling", total=None)

    def total(self, steps: int) -> None:
        self.progress.update(self.task, total=steps)

    def tick(self, label: str) -> None:
        self.progress.update(self.task, advance=1, description=label)


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
    profile: Annotated[str, typer.Option(help="smoke, quick or paper.")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of data and training.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Output folder; runs/NAME-PROFILE-SEED by default.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Write into a folder that exists.")] = False,
) -> None:
    """Run an experiment: a table, figures and record.json."""
    _check.choice("experiment", name, EXPERIMENTS)
    experiment = EXPERIMENTS[name]
    _check.choice("profile", profile, experiment.profiles)
    folder = _folder(out or Path("runs") / f"{name}-{profile}-{seed}", overwrite)
    config = experiment.profiles[profile]
    began = time.perf_counter()
    with _progress() as progress:
        outcome = experiment.run(config, seed, _Bar(progress))
    seconds = time.perf_counter() - began
    record = {"experiment": name, "profile": profile, "config": asdict(config), "seed": seed}
    record |= {"versions": records.versions(), "metrics": outcome.metrics, "seconds": seconds}
    figures = outcome.draw(folder)
    records.write(folder / "record.json", record)
    _print_table(f"{name}, {profile} profile, seed {seed}, {seconds:.0f} s", outcome.table)
    for path in [*figures, folder / "record.json"]:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


def main() -> None:
    """Run the command line; what a user can mend is one line on stderr and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        _complain(f"{_sentence(error)} (See hmnn --help.)", 2)
    except (ValueError, OSError, DivergenceError) as error:
        _complain(str(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        _complain("stopped.", 130)


def _sentence(error: Any) -> str:
    """Typer's message on one line, with the parameter that it is about."""
    return " ".join(error.format_message().split())


def _complain(message: str, code: int) -> None:
    sys.stderr.write(f"hmnn: {message}\n")
    sys.exit(code)


def _folder(path: Path, overwrite: bool) -> Path:
    if path.exists() and not path.is_dir():
        raise _check.fail("--out", "a folder", str(path))
    if path.exists() and any(path.iterdir()) and not overwrite:
        raise ValueError(
            f"--out must be a new or empty folder, or pass --overwrite. Got {str(path)!r}, which is not empty."
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
