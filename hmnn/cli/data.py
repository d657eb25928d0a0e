"""hmnn data status | get."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from hmnn.data import files
from hmnn.lab.commands import display

app = typer.Typer(help="Data files: where they are, and how to get them.")


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
) -> None:
    """Say where each data file is and whether its SHA-256 is right; nothing is downloaded."""
    found = files.status()
    if as_json:
        sys.stdout.write(json.dumps([file._asdict() for file in found]) + "\n")
        return
    table = Table("file", "found in", "verified", "bytes")
    for file in found:
        verified = "-" if file.where == "nowhere" else "yes" if file.verified else "NO"
        table.add_row(file.name, file.where, verified, str(file.size or "-"))
    Console().print(table)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="mnist, flag, elec2, or the name of a file.")],
) -> None:
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
        display.say(str(path))
