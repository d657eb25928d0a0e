"""The tutorials as notebooks: `make notebooks` writes them from the Markdown pages, so that none is
committed."""

import sys
from pathlib import Path

import jupytext
import nbformat

TUTORIALS = Path(__file__).parent / "tutorials"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def write(folder: Path) -> list[Path]:
    """Write a notebook per tutorial: each block of Python is a cell, each text between two of them
    another."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for page in sorted(TUTORIALS.glob("*.md")):
        notebook = jupytext.reads(page.read_text(), fmt="md")
        notebook.metadata["kernelspec"] = KERNEL
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = cell.source.replace("](../", "](../docs/")
        nbformat.write(notebook, path := folder / f"{page.stem}.ipynb")
        paths.append(path)
    return paths


if __name__ == "__main__":
    write(Path(sys.argv[1]))
