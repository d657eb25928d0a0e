"""The page of some records: one HTML document, with the data of its figures in it."""

import re
from typing import Any, NamedTuple

from hmnn import _check
from hmnn.lab import records
from hmnn.lab.drawing.figure import Figure, Film
from hmnn.lab.page import markup
from hmnn.lab.page.markup import Element, element
from hmnn.lab.page.section import Section

STYLE, THEME, PLOTLY = "style.css", "theme.js", "plotly.min.js"
SCRIPTS = ("player.js", "legend.js", "figures.js", "films.js")
LIVE = "live.js"
"""Only on a page that is served."""
GENERATOR = "hmnn report"
KINDS = {"what": None, "ours": "number", "paper": "number"}
"""The columns of the overview, and the style of their cells."""
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; "
    "img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
)
"""Nothing from elsewhere; `file:` is for a page read from disk; plotly styles its SVG inline."""


class Entry(NamedTuple):
    """A record on the page: its section, and its rows of the overview."""

    section: Section
    overview: list[dict[str, Any]]
    """{"what", "ours", "paper"}."""


class Running(NamedTuple):
    """A run that goes on, followed by a page that is served."""

    title: str
    progress: str
    """The address of its progress file, from the page."""


def entry(record: dict[str, Any], section: Section) -> Entry:
    """A record's place on the page; of a stream, the overview has the first score of each model."""
    rows = [{key: row.get(key) for key in KINDS} for row in record.get("summary") or []]
    if not rows and isinstance(record.get("stream"), str):
        rows = [
            {"what": f"{key}, {model}", "ours": values[key], "paper": None}
            for model, values in record.get("metrics", {}).items()
            for key in list(values)[:1]
        ]
    return Entry(section, rows or [{"what": "no number", "ours": None, "paper": None}])


def render(entries: list[Entry], running: list[Running]) -> bytes:
    """The document, index.html."""
    entries = _distinct(entries)
    main = [_overview(entries)] if entries else []
    main += [_followed(i, run) for i, run in enumerate(running)]
    main += [_section(entry.section) for entry in entries]
    made = f"Made by hmnn {records.versions()['hmnn']} from its records; nothing on it is fetched."
    kicker = element("p", "hmnn \u00b7 report", class_="kicker")
    title = element("h1", "Neural networks whose weights move in time")
    switch = element("button", "Dark theme", type="button", id="theme")
    body = element(
        "body",
        element("a", "Skip to the results", class_="skip", href="#main"),
        element("header", kicker, title, switch),
        _contents(entries, running),
        element("noscript", element("p", "Tables need no script; figures do.")),
        element("main", *main, id="main"),
        element("footer", element("p", made)),
    )
    return markup.render(element("html", _head(bool(running)), body, lang="en-GB"))


def _head(live: bool) -> Element:
    scripts = [*SCRIPTS, *([LIVE] if live else [])]
    policy = POLICY.format(connect="'self'" if live else "'none'")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="referrer", content="no-referrer"),
        element("title", "hmnn: report"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href=STYLE),
        element("script", src=THEME),
        *(element("script", src=name, defer="") for name in scripts),
    )


def _contents(entries: list[Entry], running: list[Running]) -> Element:
    links = [element("a", "Overview", href="#overview")] if entries else []
    links += [element("a", run.title, href=f"#running-{i}") for i, run in enumerate(running)]
    titles = [section.title for section, _ in entries]
    for section, _ in entries:  # several runs of one experiment are told apart
        which = _run("span", section) if titles.count(section.title) > 1 else []
        links.append(element("a", section.title, *which, href=f"#{section.name}"))
    items = [element("li", link) for link in links]
    return element("nav", element("ol", *items), aria_label="Contents")


def _overview(entries: list[Entry]) -> Element:
    heads = [element("th", name, scope="col", class_=kind) for name, kind in KINDS.items()]
    bodies = []
    for section, rows in entries:
        link = element("a", section.title, href=f"#{section.name}")
        wide = {"scope": "rowgroup", "colspan": str(len(KINDS))}
        cells = [[element("th", link, *_run("span", section), **wide)]]
        cells += [[markup.cell(row.get(c), kind) for c, kind in KINDS.items()] for row in rows]
        bodies.append(element("tbody", *(element("tr", *line) for line in cells)))
    caption = "Every experiment: our numbers beside the paper\u2019s, where it gives one."
    box = markup.box(caption, element("thead", element("tr", *heads)), *bodies)
    return element("section", element("h2", "Overview"), box, id="overview", class_="overview")


def _run(tag: str, section: Section) -> list[Element]:
    """Profile and seed, as far as they are known."""
    profile, seed = (section.settings.get(key) for key in ("profile", "seed"))
    said = [f"{markup.words(profile)} profile"] if profile is not None else []
    said += [f"seed {markup.words(seed)}"] if seed is not None else []
    return [element(tag, ", ".join(said), class_="run")] if said else []


def _followed(i: int, run: Running) -> Element:
    return element(
        "section",
        element("h2", run.title),
        element("p", "Waiting for the first time step.", role="status", class_="state"),
        element("p", class_="latest"),
        element("div", class_="charts"),
        id=f"running-{i}",
        data_progress=run.progress,
    )


def _section(section: Section) -> Element:
    parts = [element("h2", section.title), *_run("p", section)]
    parts += [element("p", section.question, class_="question")] if section.question else []
    parts += [element("p", note, class_="note") for note in section.notes]
    if section.table:
        parts.append(markup.table(f"{section.title}: results", section.table))
    parts += [_figure(section, figure) for figure in section.figures]
    return element("section", *parts, _settings(section), id=section.name)


def _figure(section: Section, figure: Figure | Film) -> Element:
    """A figure with its caption and its data; a script draws it when the reader comes near."""
    anchor = f"{section.name}-{_slug(figure.name)}"
    height = figure.plot.get("layout", {}).get("height") if isinstance(figure, Figure) else None
    title, caption = f"{anchor}-title", f"{anchor}-caption"
    told = {"aria_labelledby": title, "aria_describedby": caption}
    drawing = element("div", role="img", class_="drawing", **told)
    seed = section.settings.get("seed")
    said = "; " if seed is None else f", seed {markup.words(seed)}; "
    link = element("a", "settings", href=f"#{section.name}-settings")
    command = element("code", section.command)
    return element(
        "figure",
        element("h3", figure.title, id=title),
        element("div", drawing, class_="drawn"),
        element("div", class_="controls"),
        element("figcaption", figure.caption, id=caption),
        element("p", "Made by ", command, said, link, ".", class_="made"),
        element("p", class_="downloads"),
        markup.data(_content(figure)),
        id=anchor,
        class_=type(figure).__name__.lower(),
        data_height=None if height is None else markup.words(height),
    )


def _content(figure: Figure | Film) -> dict[str, Any]:
    columns = list(dict.fromkeys(key for row in figure.rows for key in row))
    lines = [[row.get(column) for column in columns] for row in figure.rows]
    rows = {"columns": columns, "rows": lines}
    if isinstance(figure, Figure):
        return {"plot": markup.untagged(figure.plot), "csv": rows}
    for strip in figure.strips:
        many, wanted = len(strip["pictures"]), len(figure.labels)
        if many != wanted:
            name = f"pictures of {strip['label']!r}"
            raise _check.fail(name, f"as many as labels, {wanted}", many)
    return {"strips": figure.strips, "labels": figure.labels, "csv": rows}


def _settings(section: Section) -> Element:
    pairs = []
    for key, value in records.flat(section.settings, "."):
        pairs += [element("dt", key), element("dd", markup.words(value))]
    summary = element("summary", "Command, seed and settings")
    command = element("pre", element("code", section.command), tabindex="0")
    anchor = f"{section.name}-settings"
    return element("details", summary, command, element("dl", *pairs), id=anchor)


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Entries whose sections have unique names; those of the same name get numbers."""
    taken, found = {"main", "theme", "overview"}, []
    for section, rows in entries:
        name, count = _slug(section.name), 1
        while name in taken:
            count += 1
            name = f"{_slug(section.name)}-{count}"
        taken.add(name)
        found.append(Entry(section._replace(name=name), rows))
    return found


def _slug(name: str) -> str:
    """A name as an anchor: lower-case words with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "part"
