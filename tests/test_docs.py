"""What is linked is there, the site builds, and no machine's name or path is committed."""

import importlib
import os
import re
import subprocess
import sys
import tomllib

import nbformat
import numpy as np
import pytest
from pages import PAGES, ROOT, blocks
from PIL import Image

LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
SUBROOMS = ("methods", "networks", "estimators", "evaluate", "data", "store", "lab")
ROOMS = ["hmnn", *(f"hmnn.{room}" for room in SUBROOMS)]
WHOLE = ["hmnn.metrics", "hmnn.estimators.river"]
"""Modules without a list of public names: all that they define is."""

# Joined from pieces, so that this file does not hold them itself.
FORBIDDEN = [
    "pypi" + ".org",
    "python" + "hosted",
    "--index" + "-url",
    "--extra-index" + "-url",
    "--find" + "-links",
    "--trusted" + "-host",
    "file:" + "///",
    "/" + "work/",
    "/" + "root/",
    "/" + "home/",
    "/" + "opt/",
]
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".lock",
    ".yaml",
    ".yml",
    ".cff",
    ".json",
    ".txt",
    ".cfg",
    ".csv",
    "",
}


def broken_links(page, text):
    """The relative links of a page that lead nowhere."""
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [t.split("#")[0] for t in targets if "://" not in t and not t.startswith("#")]
    return [t for t in local if not (page.parent / t).exists()]


def findings(text):
    """The forbidden words in a text; a path counts only where it begins, not inside another."""
    patterns = [
        rf"(?<![\w.\-]){re.escape(w)}" if w.startswith("/") else re.escape(w) for w in FORBIDDEN
    ]
    return [w for w, pattern in zip(FORBIDDEN, patterns, strict=True) if re.search(pattern, text)]


def entries():
    """Names in the reference, and the code between each and the next."""
    found = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        _, *parts = re.split(r"^::: ([\w.]+)$", page.read_text(), flags=re.MULTILINE)
        found |= {
            name: "".join(blocks(text)) for name, text in zip(parts[::2], parts[1::2], strict=True)
        }
    return found


def thing(name):
    """What a dotted name of the reference stands for; a module wins over what hides it in its
    parent."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def public():
    """Every public name of the package and what it stands for."""
    for room in map(importlib.import_module, ROOMS):
        yield from ((f"{room.__name__}.{name}", getattr(room, name)) for name in room.__all__)
    for module in map(importlib.import_module, WHOLE):
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and name[0] != "_":
                yield f"{module.__name__}.{name}", value


def run(*command, folder=ROOT):
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def build(config, site):
    """A strict build, in a process of its own; with --quiet mkdocs would not count its warnings."""
    return run(
        sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` makes it."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def names(requirements):
    """The packages of a list of requirements."""
    return {re.match(r"[\w.-]+", line).group() for line in requirements}


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.name)
def test_links_resolve(page):
    assert broken_links(page, page.read_text()) == []


def test_the_site_has_every_page(site):
    pages = {
        page.relative_to(ROOT / "docs").with_suffix(".html")
        for page in (ROOT / "docs").rglob("*.md")
    }
    assert pages <= {page.relative_to(site) for page in site.rglob("*.html")}


def test_the_site_asks_for_nothing_outside(site):
    loaded = (
        r"""<(?:script|link|img|iframe|source)[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'> ]+)"""
    )
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert {str(p): found for p in pages if (found := re.findall(loaded, p.read_text()))} == {}
    assert not any("@import" in p.read_text() for p in site.rglob("*.css"))
    assert re.findall(loaded, '<link rel="x" href="https://fonts.example.com">') == [
        "https://fonts.example.com"
    ]


def test_links_and_figures_of_the_site_are_there(site):
    checked = 0
    for page in site.rglob("*.html"):
        for target in re.findall(r"""(?:src|href)="([^"#?:]+)[#"]""", page.read_text()):
            assert (page.parent / target).exists() or page.name == "404.html", f"{page}: {target}"
            checked += 1
    assert checked > 1000


def test_links_that_leave_the_docs_lead_somewhere_on_the_site(site):
    design = (site / "design.html").read_text()
    assert (
        'href="reference/core.html#hmnn.core.kernels.jump"' in design
    )  # a source file: its entry in the reference
    assert "<code>pyproject.toml</code>" in design  # any other file: its name
    assert (site / "results" / "flag" / "film.gif").is_file()  # a figure: a copy of it
    assert (
        'href="dependencies.html"' in (site / "contributing.html").read_text()
    )  # a page of the root: a page


def test_a_strict_build_refuses_a_broken_link(tmp_path):
    (tmp_path / "docs").mkdir()
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"site_name: x\nhooks: ['{ROOT / 'docs' / 'hooks.py'}']\nplugins: []\n")
    page = tmp_path / "docs" / "index.md"
    page.write_text("[here](index.md)")
    assert build(config, tmp_path / "site").returncode == 0
    page.write_text("[nowhere](nowhere.md)")
    assert build(config, tmp_path / "site").returncode == 1


def test_every_public_name_is_in_the_reference():
    shown = [thing(name) for name in entries()]
    assert [name for name, value in public() if not any(value is other for other in shown)] == []
    assert len(shown) > 80


def test_every_entry_of_the_reference_has_an_example():
    assert [
        name
        for name, code in entries().items()
        if not re.search(rf"\b{name.split('.')[-1]}\b", code)
    ] == []


def test_notebooks_have_the_code_of_the_tutorials_in_order(tmp_path):
    done = run(sys.executable, str(ROOT / "docs" / "notebooks.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    pages = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    assert sorted(path.stem for path in tmp_path.iterdir()) == [page.stem for page in pages]
    for page in pages:
        notebook = nbformat.read(tmp_path / f"{page.stem}.ipynb", as_version=4)
        nbformat.validate(notebook)
        cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        assert cells == [block.strip() for block in blocks(page.read_text())]
        prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        assert prose[0].startswith("# ")
        assert broken_links(ROOT / "docs" / "x", "\n".join(prose)) == []


def test_the_pictures_are_those_that_the_script_draws(tmp_path):
    names = (
        "kernel",
        "mean-field",
    )  # those that compile least; the others are drawn by the same script
    done = run(sys.executable, str(ROOT / "docs" / "figures.py"), str(tmp_path), *names)
    assert done.returncode == 0, done.stderr
    for path in [ROOT / "docs" / "img" / "idea" / f"{name}.png" for name in names]:
        old, new = (
            np.asarray(Image.open(p).convert("RGB"), float) for p in (path, tmp_path / path.name)
        )
        assert old.shape == new.shape
        assert (
            np.abs(old - new).mean() < 4.0
        )  # other fonts or another processor may move a line a little
        assert path.stat().st_size < 200_000


def test_a_broken_link_is_found():
    page = ROOT / "README.md"
    assert broken_links(page, "[a](LICENSE) [b](nowhere.md#here) [c](https://example.com)") == [
        "nowhere.md"
    ]


def test_files_of_the_notation_table_exist():
    text = (ROOT / "docs" / "notation.md").read_text()
    files = set(re.findall(r"`(hmnn/[\w/]+\.py)`", text))
    assert len(files) > 5
    assert [f for f in files if not (ROOT / f).is_file()] == []


def test_names_of_the_notation_table_stand_in_their_files():
    rows = [line.split(" | ") for line in (ROOT / "docs" / "notation.md").read_text().splitlines()]
    rows = [row for row in rows if len(row) == 5 and "`hmnn/" in row[3]]
    assert len(rows) > 20
    for row in rows:
        code = "".join((ROOT / f).read_text() for f in re.findall(r"`(hmnn/[\w/]+\.py)`", row[3]))
        for name in re.findall(r"`(\w+(?:\.\w+)?)", row[2]):
            last = name.split(".")[-1]
            assert re.search(rf"\b{last}\b", code), f"{name} is not in {row[3]}."


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sections = (ROOT / "docs" / "dependencies.md").read_text().split("\n## ")[1:]
    extras = project["optional-dependencies"]
    assert [re.match(r"Extra `(\w+)`", section)[1] for section in sections[1:]] == list(extras)
    for listed, section in zip([project["dependencies"], *extras.values()], sections, strict=True):
        assert set(re.findall(r"^\| `([\w.-]+)`", section, re.MULTILINE)) == names(listed)


def test_the_lock_has_every_dependency_with_hashes():
    lock = (ROOT / "requirements.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = names(project["dependencies"]) | names(project["optional-dependencies"]["dev"])
    pinned = re.findall(r"^([\w.-]+)==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    assert wanted <= set(pinned)
    assert len(pinned) == len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE))


def test_no_committed_file_names_a_registry_or_a_machine():
    if not (ROOT / ".git").exists():
        pytest.skip("not a Git working copy")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    texts = {f: f.read_text() for f in files if f.suffix in TEXT and f.is_file()}
    assert {
        str(f.relative_to(ROOT)): found for f, text in texts.items() if (found := findings(text))
    } == {}


def test_forbidden_words_are_found():
    assert findings("see https://" + "pypi" + ".org/simple") == ["pypi" + ".org"]
    assert findings("open('" + "/" + "work/data')") == ["/" + "work/"]
    assert findings("runs/" + "work/data and ../" + "home/x") == []
