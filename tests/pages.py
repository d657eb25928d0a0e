"""The pages of the documentation, and the code on them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text):
    """The Python blocks of a page, each with as many empty lines before it as the page has."""
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield "\n" * text[: found.start(1)].count("\n") + found.group(1)
