"""What mkdocs is told beside mkdocs.yml: where links that leave docs/ lead on the site.

The pages are also read in the repository, so they link to files of the repository: figures of
results/, source files, CONTRIBUTING.md. On the site a figure is copied, a page outside docs/
becomes a page, a source file becomes its entry in the reference, and any other file is named and
not linked.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
PICTURES = {".png", ".gif", ".svg"}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root and the figures that pages link to outside docs/."""
    for name, source in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    known = {_path(file) for file in files}
    for file in list(files.documentation_pages()):
        for mark, _, target, _ in LINK.findall(file.content_string):
            picture = (_path(file).parent / target).resolve()
            if (
                mark
                and picture.is_relative_to(ROOT)
                and picture not in known
                and picture.suffix in PICTURES
            ):
                known.add(picture)
                files.append(
                    File.generated(
                        config, str(picture.relative_to(ROOT)), abs_src_path=str(picture)
                    )
                )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page, as it stands in the repository, into those of the site."""
    pages = {_path(file): file.src_uri for file in files if file.abs_src_path}
    entries = _entries(files)

    def turned(link: re.Match[str]) -> str:
        mark, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = (_path(page.file).parent / target).resolve()
        if path in pages:
            return f"{mark}[{text}]({_relative(pages[path], page)}{anchor})"
        if path in entries:
            return f"[{text}]({_relative(entries[path], page)})"
        return _named(text, path) if path.exists() else link[0]

    return _outside_fences(markdown, lambda prose: LINK.sub(turned, prose))


def _entries(files: Any) -> dict[Path, str]:
    """Source files and the first entry of the reference that is of each."""
    found: dict[Path, str] = {}
    for file in files.documentation_pages():
        for name in (
            ENTRY.findall(file.content_string) if file.src_uri.startswith("reference/") else []
        ):
            module = ROOT.joinpath(*name.split(".")[:-1])
            source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            found.setdefault(source, f"{file.src_uri}#{name}")
    return found


def _named(text: str, path: Path) -> str:
    """A file that the site does not have: its name in the repository, beside the words that led to
    it."""
    name = f"`{path.relative_to(ROOT)}`" if path.is_relative_to(ROOT) else f"`{path.name}`"
    return name if text.strip("`") in (name.strip("`"), path.name) else f"{text} ({name})"


def _outside_fences(markdown: str, change: Any) -> str:
    """Change the prose and leave the code."""
    pieces, start = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [change(markdown[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*pieces, change(markdown[start:])])


def _path(file: Any) -> Path:
    return Path(file.abs_src_path).resolve()


def _relative(target: str, page: Any) -> str:
    return os.path.relpath(target, os.path.dirname(page.file.src_uri) or ".")
