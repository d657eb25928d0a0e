"""What is drawn of a record: figures and films, in plain data that is ready for JSON."""

from collections.abc import Callable
from typing import Any, NamedTuple

Record = dict[str, Any]
"""What record.json says."""
View = dict[str, Any]
"""The arrays that a run leaves beside its record; empty if there are none."""


class Figure(NamedTuple):
    """A figure, described in the words of plotly."""

    name: str
    """Lower-case words with hyphens, unique within its record: its anchor and its file name."""
    title: str
    plot: dict[str, Any]
    """Plotly's data, layout and, with a slider, frames; ground and text get their colours later."""
    caption: str
    """What is drawn and what one sees; a screen reader reads it in place of the drawing."""
    rows: list[dict[str, Any]]
    """The numbers of the drawing, for the CSV file."""


class Film(NamedTuple):
    """Pictures over time, side by side: strips[k].pictures[i] is strip k at instant i."""

    name: str
    title: str
    strips: list[dict[str, Any]]
    """{"label", "pictures"}: pictures are data URIs, all strips equally long."""
    labels: list[str]
    """What each instant is called."""
    caption: str
    rows: list[dict[str, Any]]


Draw = Callable[[Record, View], Figure | Film | None]
"""draw(record, view) describes a figure; None if there is nothing to draw."""


def made(record: Record) -> str:
    """Profile and seed of a run, as the last sentence of a caption."""
    known = [name for name in ("profile", "seed") if record.get(name) is not None]
    found = [f"{name} {record[name]}" for name in known]
    return f"{', '.join(found).capitalize()}."


def label(view: View, method: str) -> str:
    """A method as the run's table calls it; its own name if there is no view."""
    return str(view.get("labels", {}).get(method, method))
