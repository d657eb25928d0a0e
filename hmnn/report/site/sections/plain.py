"""A record of a kind that has no section of its own: its table and its settings."""

from typing import Any

from hmnn.report.site.sections import common
from hmnn.report.site.sections.common import Kind


def _title(record: dict[str, Any]) -> str:
    return str(record.get("experiment") or "A record")


def _table(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record's table; if it has none, its metrics, one row for each number."""
    return common.table(record) or [{"what": what, "ours": value} for what, value in _flat(record.get("metrics"))]


def _flat(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(inner, (*path, str(key)))]
    return [(", ".join(path), value)] if isinstance(value, int | float | str) else []


KIND = Kind(_title, "", (), _table, lambda record, view: ["This page has no figures for records of this kind."])
