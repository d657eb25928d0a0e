"""From a record and its view to what the page shows of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from hmnn import _check, store
from hmnn.lab import EXPERIMENTS, records, runs, streams
from hmnn.lab.drawing.figure import Draw, Figure, Film, Record, View

SETTINGS: tuple[str, ...] = ("seed", "profile", "set", "chosen", "settings", "made", "config")
SETTINGS += ("workers", "seconds", "versions")
PROFILES = {
    "smoke": "This is the smoke profile: it shows that everything runs, and its numbers mean "
    "nothing.",
    "quick": "This is the quick profile, smaller than the paper's: its numbers are not those of "
    "the experiment.",
}
NO_VIEW = "Some figures are missing: there is no view beside this record. "
NO_VIEW += "Running the command again writes it."
UNKNOWN = "This page has no figures for records of this kind."
BROKEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What a record that is not as it should be makes a figure raise."""


class Section(NamedTuple):
    """What a page shows of one record."""

    name: str
    """The anchor, unique within the page."""
    title: str
    question: str
    command: str
    settings: dict[str, Any]
    """Seed, profile, chosen settings, versions: what the reader may unfold."""
    table: list[dict[str, Any]]
    """The record's table, with the paper's numbers where there are some."""
    figures: list[Figure | Film]
    notes: list[str] = []
    """What must be said beside it: what is missing in the folder, what the numbers do not show."""


def read(path: Path) -> tuple[Record, View | None]:
    """A record and, where its run left one beside it, its view."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise _check.fail("record", "JSON that hmnn wrote", str(path)) from None
    view = path.parent / path.stem.replace("record", runs.VIEW)
    return record, store.load(view) if store.exists(view) else None


def section(record: Record, view: View | None) -> Section:
    """What the page shows of a record; it tells of parts that are missing or broken."""
    name = record.get("experiment")
    experiment = EXPERIMENTS.get(name) if isinstance(name, str) else None
    draws: tuple[Draw, ...] = ()
    if experiment is not None:
        title, question, draws = experiment.title, experiment.question, experiment.figures
        known = PROFILES.get(str(record.get("profile")))
        rows, notes = table(record), [*([known] if known else []), *([] if view else [NO_VIEW])]
    elif not isinstance(name, str) and isinstance(record.get("stream"), str):
        title, question, draws = f"Stream: {record['stream']}", streams.QUESTION, streams.FIGURES
        rows, notes = streams.table(record), streams.notes(record)
    else:
        title, question, notes = str(name or "A record"), "", [UNKNOWN]
        flat = records.flat(record.get("metrics"), ", ")
        shown = [(what, value) for what, value in flat if isinstance(value, int | float | str)]
        rows = table(record) or [{"what": what, "ours": value} for what, value in shown]
    figures, failed = drawn(draws, record, view or {})
    anchor = str(name or f"stream-{record.get('stream', 'record')}")
    told = {key: record[key] for key in SETTINGS if record.get(key) not in (None, [], {})}
    command = str(record.get("command", ""))
    return Section(anchor, title, question, command, told, rows, figures, [*notes, *failed])


def drawn(
    draws: tuple[Draw, ...], record: Record, view: View
) -> tuple[list[Figure | Film], list[str]]:
    """The figures of a record, and a sentence about each that the record cannot give."""
    figures, failed = list[Figure | Film](), list[str]()
    for draw in draws:
        try:
            found = draw(record, view)
        except BROKEN as error:
            name = getattr(draw, "__name__", "").replace("_", " ")
            failed.append(f"One figure is missing ({name}): the record cannot give it, {error!r}.")
        else:
            figures += [found] if found else []
    return figures, failed


def table(record: Record) -> list[dict[str, Any]]:
    """The rows of the record's table; an old record has none, and gives its summary."""
    rows = record.get("table")
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return rows
    summary, keys = record.get("summary"), ("what", "ours", "paper")
    found = [row for row in summary if isinstance(row, dict)] if isinstance(summary, list) else []
    return [{key: row.get(key) for key in keys} for row in found]
