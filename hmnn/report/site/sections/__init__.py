"""From a record and its view to what the page shows of it, one file per kind of record."""

from typing import Any

from hmnn.report.site.parts import Figure, Film, Section
from hmnn.report.site.sections import common, evolving, flag, logistic, moons, plain, stream, vdc
from hmnn.report.site.sections.common import Draw, Kind

KINDS = {
    "two-moons": moons.KIND,
    "logistic-drift": logistic.KIND,
    "evolving-mnist": evolving.KIND,
    "vdc-mnist": vdc.KIND,
    "flag": flag.KIND,
}


def section(record: dict[str, Any], view: dict[str, Any] | None) -> Section:
    """What the page shows of a record; parts that are missing in it, or that are not what they should be, are told.

    Args:
        record: what record.json says.
        view: the arrays that the run left beside it; None if there are none.
    """
    kind = _kind(record)
    figures, failed = list[Figure | Film](), list[str]()
    for draw in kind.figures:
        try:
            found = draw(record, view or {})
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            failed.append(f"One figure is missing ({_words(draw)}): the record cannot give it, {error!r}.")
        else:
            figures += [found] if found else []
    return Section(
        name=str(record.get("experiment") or f"stream-{record.get('stream', 'record')}"),
        title=kind.title(record),
        question=kind.question,
        command=str(record.get("command", "")),
        settings=common.settings(record),
        table=kind.table(record),
        figures=figures,
        notes=[*kind.notes(record, view), *failed],
    )


def _kind(record: dict[str, Any]) -> Kind:
    if isinstance(name := record.get("experiment"), str):
        return KINDS.get(name, plain.KIND)
    return stream.KIND if isinstance(record.get("stream"), str) else plain.KIND


def _words(draw: Draw) -> str:
    return getattr(draw, "__name__", "").strip("_").replace("_", " ")
