"""What a page is made of: sections with figures, films and tables, in plain data that is ready for JSON."""

from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A figure that plotly draws in the reader's browser."""

    name: str
    """Lower-case words with hyphens, unique within its section: its anchor and the name of its downloads."""
    title: str
    plot: dict[str, Any]
    """Plotly's figure as plain JSON: data, layout and, with a slider, frames; the page colours ground and text."""
    caption: str
    """What is drawn and what one sees; also what a screen reader says in place of the drawing."""
    rows: list[dict[str, Any]]
    """The numbers of the drawing, for the CSV file."""


class Film(NamedTuple):
    """Pictures over time, side by side, for the player: strips[k].pictures[i] is strip k at instant i."""

    name: str
    title: str
    strips: list[dict[str, Any]]
    """{"label", "pictures"}: pictures are data URIs, all strips equally long."""
    labels: list[str]
    """What each instant is called."""
    caption: str
    rows: list[dict[str, Any]]


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
    """What must be said beside it: parts that are missing in the folder, what the numbers do not show."""
