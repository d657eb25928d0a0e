"""The page on disk: index.html, the scripts and the style, and one file of plotly's for all figures."""

import os
import shutil
from importlib import resources
from pathlib import Path

from hmnn import _check
from hmnn.lab.page import document
from hmnn.lab.page.document import Entry, Running

INDEX = "index.html"
FILES = {INDEX, document.PLOTLY, document.STYLE, document.THEME, *document.SCRIPTS}


def plotly() -> bytes:
    """Plotly's own script, from its Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("hmnn report needs plotly: pip install 'hmnn[lab]'") from None
    return get_plotlyjs().encode()


def files(entries: list[Entry], running: list[Running] | None = None) -> dict[str, bytes]:
    """All files of the page: name -> bytes."""
    names = [
        document.STYLE,
        document.THEME,
        *document.SCRIPTS,
        *([document.LIVE] if running else []),
    ]
    assets = resources.files("hmnn.lab.page") / "assets"
    content = {name: (assets / name).read_bytes() for name in names}
    return {INDEX: document.render(entries, running or []), document.PLOTLY: plotly(), **content}


def write(entries: list[Entry], out: Path) -> Path:
    """Write the page into a folder, whole or not at all; one that is not a page of ours is refused."""
    out = Path(os.path.realpath(out))
    _ours(out)
    content = files(entries)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (out.parent / f".{out.name}.{word}-{os.urandom(8).hex()}" for word in ("tmp", "old"))
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
    names = set(os.listdir(out)) if out.is_dir() else {""}
    if names - FILES or (names and f'content="{document.GENERATOR}"' not in _start(out / INDEX)):
        raise _check.fail("--out", "a new or empty folder, or that of a report", str(out))


def _start(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(2000).decode("utf-8", "replace")
    except OSError:
        return ""
