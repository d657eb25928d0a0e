"""hmnn inspect."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hmnn import store


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
    Console().print(table)
