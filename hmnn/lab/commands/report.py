"""hmnn report."""

import json
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hmnn import _check
from hmnn.lab import EXPERIMENTS, progress, runs
from hmnn.lab.commands import display
from hmnn.lab.page import document, section, server, writing
from hmnn.lab.page.document import Entry, Running


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders with records, or of runs.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the page; site by default.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Show the page on this machine, and follow runs.")] = False,
    port: Annotated[int | None, typer.Option(help="Of --serve; a free one by default.", min=1, max=65535)] = None,
) -> None:
    """Make a page of records, to be read in any browser; nothing is fetched when it is read."""
    if port is not None and not serve:
        raise ValueError("--port must stand with --serve.")
    found = [folder for directory in directories for folder in expand(directory, serve)]
    if out is not None or not serve:
        entries = [entry for folder in found for entry in read(folder)]
        if not entries:
            raise ValueError("--out must have a record to show; a run that goes on is shown with --serve alone.")
        display.say(f"wrote {writing.write(entries, out or Path('site'))}")
    if serve:
        check()
        with server.served(site(found), port or 0) as address:
            wait(address)


def wait(address: str) -> None:
    """Say where the page is, until Ctrl-C."""
    display.say(f"serving {address} until Ctrl-C")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        display.say("stopped.")


def check() -> None:
    """Refuse to serve a page that could not be made."""
    writing.plotly()


@contextmanager
def followed(folder: Path) -> Iterator[str]:
    """Serve the page of a run that begins now, and open it in the browser."""
    with server.served(site([folder], {folder: stamp(folder)})) as address:
        display.say(f"the run is shown at {address}")
        webbrowser.open(address)
        yield address


def expand(directory: Path, running: bool = False) -> list[Path]:
    """A folder with records (or, where runs are followed, of a run), or such folders in it, in the paper's order."""

    def fits(folder: Path) -> bool:
        return bool(stamp(folder)) or (running and (folder / runs.RUN).exists())

    if fits(directory):
        return [directory]
    order = list(EXPERIMENTS)
    inside = [folder for folder in directory.iterdir() if folder.is_dir()] if directory.is_dir() else []
    inside.sort(
        key=lambda folder: (
            order.index(folder.name) if folder.name in order else len(order),
            folder.name,
        )
    )
    if found := [folder for folder in inside if fits(folder)]:
        return found
    raise _check.fail("DIR", f"a folder with {runs.RECORD}, or a folder of such folders", str(directory))


def site(found: list[Path], before: dict[Path, Any] | None = None) -> server.Site:
    """What is served: the page of all records that are there; records of `before` do not count."""
    made: dict[Any, dict[str, bytes]] = {}
    lock = threading.Lock()

    def ended(i: int) -> bool:
        return stamp(found[i]) not in ((), (before or {}).get(found[i]))

    def files() -> dict[str, bytes]:
        with lock:
            now = tuple((stamp(folder), ended(i), _title(folder)) for i, folder in enumerate(found))
            if now not in made:
                made.clear()
                entries = [entry for i, folder in enumerate(found) if ended(i) for entry in read(folder)]
                going = [Running(_title(f), f"{server.PROGRESS}/{i}") for i, f in enumerate(found) if not ended(i)]
                made[now] = writing.files(entries, going)
            return made[now]

    return server.Site(files, [folder / progress.NAME for folder in found], ended)


def stamp(folder: Path) -> tuple[Any, ...]:
    """The records of a folder and when they were written; nothing if there are none."""
    paths = sorted(folder.glob("record.json")) + sorted(folder.glob("record-*.json"))
    return tuple((path, path.stat().st_mtime_ns) for path in paths)


def read(folder: Path) -> list[Entry]:
    """The records of a folder, each with what its run kept to be looked at."""
    return [_entry(path) for path, _ in stamp(folder)]


def _entry(path: Path) -> Entry:
    try:
        record, view = section.read(path)
        return document.entry(record, section.section(record, view))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        said = f"{str(path)!r} is not a record that can be shown ({error!r})."
        raise ValueError(said) from error


def _title(folder: Path) -> str:
    try:
        run = json.loads((folder / runs.RUN).read_text(encoding="utf-8"))
        return f"{run['experiment']}, {run['profile']} profile, seed {run['seed']}"
    except (OSError, ValueError, KeyError, TypeError):
        return folder.name
