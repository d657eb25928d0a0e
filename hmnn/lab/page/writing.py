"""The page on disk: index.html, the scripts, the style, and one file of plotly's."""

import os
import shutil
from contextlib import suppress
from importlib import resources
from pathlib import Path

from hmnn import _check
from hmnn.lab.page import document
from hmnn.lab.page.document import Entry, Running

INDEX = "index.html"
ASSETS = [document.STYLE, document.THEME, *document.SCRIPTS]
FILES = {INDEX, document.PLOTLY, *ASSETS}


def plotly() -> bytes:
    """Plotly's own script, from its Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("hmnn report needs plotly: pip install 'hmnn[lab]'") from None
    return get_plotlyjs().encode()


def files(entries: list[Entry], running: list[Running] | None = None) -> dict[str, bytes]:
    """All files of the page: name -> bytes."""
    names = ASSETS + ([document.LIVE] if running else [])
    assets = resources.files("hmnn.lab.page") / "assets"
    content = {name: (assets / name).read_bytes() for name in names}
    return {INDEX: document.render(entries, running or []), document.PLOTLY: plotly(), **content}


def write(entries: list[Entry], out: Path) -> Path:
    """Write the page into a folder, whole or not at all; a folder of anything else is refused."""
    out = Path(os.path.realpath(out))
    _ours(out)
    content = files(entries)
    out.parent.mkdir(parents=True, exist_ok=True)
    unique = os.urandom(8).hex()
    temporary, old = (out.parent / f".{out.name}.{word}-{unique}" for word in ("tmp", "old"))
    try:
        temporary.mkdir()
        for name, text in content.items():
            (temporary / name).write_bytes(text)
        if out.exists():
            out.rename(old)
        temporary.rename(out)
    except BaseException:
        if old.exists() and not out.exists():
            old.rename(out)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    return out / INDEX


def _ours(out: Path) -> None:
    """Refuse a folder that holds anything but a page of ours."""
    if not out.exists():
        return
    names, start = set(os.listdir(out)) if out.is_dir() else {""}, b""
    with suppress(OSError), (out / INDEX).open("rb") as file:
        start = file.read(2000)
    if names - FILES or (names and f'content="{document.GENERATOR}"'.encode() not in start):
        raise _check.fail("--out", "a new or empty folder, or that of a report", str(out))
