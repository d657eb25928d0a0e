"""HTML as a tree: text stays text, whoever wrote it, since the tree is escaped in one place."""

import json
import re
from typing import Any
from xml.etree import ElementTree

from hmnn.lab import records

Element = ElementTree.Element
TAG = re.compile(r"<(?!/?(?:br|extra)/?>)", re.IGNORECASE)
"""What plotly could take for the beginning of an element, such as a link; line breaks are left."""

NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|-")
"""A number that is written already, or that there is none."""
SHORT = 32
"""Characters in a cell that stay on one line; the box of the table scrolls."""


def element(tag: str, *children: Any, **attributes: str | None) -> Element:
    """An element; class_ stands for class, aria_label for aria-label, and None is left out."""
    given = {key: value for key, value in attributes.items() if value is not None}
    made = Element(tag, {key.rstrip("_").replace("_", "-"): given[key] for key in given})
    last = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + str(child)
        else:
            last.tail = (last.tail or "") + str(child)
    return made


def render(root: Element) -> bytes:
    """The document; what UTF-8 does not know becomes a question mark."""
    text = ElementTree.tostring(root, encoding="unicode", method="html")
    return f"<!doctype html>\n{text}\n".encode("utf-8", "replace")


def data(value: Any) -> Element:
    """A script element with data that no browser runs; nothing inside can end it."""
    text = json.dumps(records.plain(value), allow_nan=False, separators=(",", ":"))  # ASCII only
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return element("script", text, type="application/json")


def untagged(value: Any) -> Any:
    """Plotly's figure with every tag in its strings made text, but for line breaks."""
    if isinstance(value, dict):
        return {key: untagged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [untagged(item) for item in value]
    return TAG.sub("&lt;", value) if isinstance(value, str) else value


def table(caption: str, rows: list[dict[str, Any]]) -> Element:
    """A table of rows in a box that scrolls; columns are the keys, and the first heads its row."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    kind = {c: "number" if all(_is_number(row.get(c)) for row in rows) else None for c in columns}
    scope = dict.fromkeys(columns[:1], "row")
    head = element("tr", *(cell(c, kind[c], "col") for c in columns))
    cells = [[cell(row.get(c), kind[c], scope.get(c)) for c in columns] for row in rows]
    body = [element("tr", *line) for line in cells]
    return box(caption, element("thead", head), element("tbody", *body))


def box(caption: str, *parts: Element) -> Element:
    """The parts of a table with its caption; the box can be scrolled by keyboard."""
    made = element("table", element("caption", caption), *parts)
    return element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def cell(value: Any, kind: str | None = None, scope: str | None = None) -> Element:
    """A cell, which heads its row or column if it has a scope; a few words are kept on one line."""
    text = words(value)
    kinds = " ".join(filter(None, [kind, "short" if len(text) <= SHORT else None]))
    return element("th" if scope else "td", text, class_=kinds or None, scope=scope)


def words(value: Any) -> str:
    """A value as a reader wants it: four decimals, or two digits if it is tiny or huge."""
    if value is None or (isinstance(value, float) and not abs(value) < float("inf")):
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _decimal(value).replace("-", "\u2212")
    return value if isinstance(value, str) else json.dumps(records.plain(value), ensure_ascii=False)


def _decimal(value: float) -> str:
    if abs(value) >= 1e7 or 0 < abs(value) < 5e-4:
        return f"{value:.2g}"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.0f}"


def _is_number(value: Any) -> bool:
    """Whether a cell holds a number, or nothing."""
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float | None) and not isinstance(value, bool)
