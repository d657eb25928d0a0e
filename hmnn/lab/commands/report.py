"""hmnn report."""

import json
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hmnn import _check
from hmnn.lab import EXPERIMENTS, progress, runs
from hmnn.lab.commands import display
from hmnn.lab.page import document, section, server, writing
from hmnn.lab.page.document import Entry, Running


def report(
    directories: Annotated[
        list[Path], Argument(metavar="DIR...", help="Folders with records, or of runs.")
    ],
    out: Annotated[Path | None, Option(help="Folder of the page; site by default.")] = None,
    serve: Annotated[
        bool, Option("--serve", help="Show the page on this machine, and follow runs.")
    ] = False,
    port: Annotated[
        int | None, Option(help="Of --serve; a free one by default.", min=1, max=65535)
    ] = None,
) -> None:
    """Make a page of records, to be read in any browser; nothing is fetched when it is read."""
    if port is not None and not serve:
        raise ValueError("--port must stand with --serve.")
    found = [folder for directory in directories for folder in expand(directory, serve)]
    if out is not None or not serve:
        entries = [entry for folder in found for entry in read(folder)]
        if not entries:
            said = "--out must have a record to show"
            raise ValueError(f"{said}; a run that goes on is shown with --serve alone.")
        display.say(f"wrote {writing.write(entries, out or Path('site'))}")
    if serve:
        writing.plotly()  # refuses to serve a page that cannot be made
        with server.served(site(found), port or 0) as address:
            wait(address)


def wait(address: str) -> None:
    """Say where the page is, until Ctrl-C."""
    display.say(f"serving {address} until Ctrl-C")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        display.say("stopped.")


@contextmanager
def followed(folder: Path) -> Iterator[str]:
    """Serve the page of a run that begins now, and open it in the browser."""
    with server.served(site([folder], {folder: stamp(folder)})) as address:
        display.say(f"the run is shown at {address}")
        webbrowser.open(address)
        yield address


def expand(directory: Path, running: bool = False) -> list[Path]:
    """The folder, if it has records or a run to be followed; else such folders in it, in order."""

    def fits(folder: Path) -> bool:
        return bool(stamp(folder)) or (running and (folder / runs.RUN).exists())

    if fits(directory):
        return [directory]
    place = {name: i for i, name in enumerate(EXPERIMENTS)}
    inside = sorted(directory.glob("*"), key=lambda f: (place.get(f.name, len(place)), f.name))
    if found := [folder for folder in inside if folder.is_dir() and fits(folder)]:
        return found
    allowed = f"a folder with {runs.RECORD}, or a folder of such folders"
    raise _check.fail("DIR", allowed, str(directory))


def site(found: list[Path], before: dict[Path, Any] | None = None) -> server.Site:
    """What is served: the page of all records that are there; records of `before` do not count."""
    made, lock = dict[Any, dict[str, bytes]](), threading.Lock()

    def ended(i: int) -> bool:
        return stamp(found[i]) not in ((), (before or {}).get(found[i]))

    def files() -> dict[str, bytes]:
        with lock:
            now = tuple((stamp(folder), ended(i), _title(folder)) for i, folder in enumerate(found))
            if now not in made:
                made.clear()
                entries, going = list[Entry](), list[Running]()
                for i, (_, over, title) in enumerate(now):
                    if over:
                        entries += read(found[i])
                    else:
                        going.append(Running(title, f"{server.PROGRESS}/{i}"))
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
