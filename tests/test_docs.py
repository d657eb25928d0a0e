"""What is shown is run, what is linked is there, and no machine's name or path is committed."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CHANGELOG.md"]

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
TEXT = {".py", ".md", ".toml", ".lock", ".yaml", ".yml", ".cff", ".json", ".txt", ".cfg", ".csv", ""}


def blocks(text):
    """The Python blocks of a page, each with as many empty lines before it as the page has."""
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield "\n" * text[: found.start(1)].count("\n") + found.group(1)


def broken_links(page, text):
    """The relative links of a page that lead nowhere."""
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [t.split("#")[0] for t in targets if "://" not in t and not t.startswith("#")]
    return [t for t in local if not (page.parent / t).exists()]


def findings(text):
    """The forbidden words in a text; a path counts only where it begins, not inside another."""
    patterns = [rf"(?<![\w.\-]){re.escape(w)}" if w.startswith("/") else re.escape(w) for w in FORBIDDEN]
    return [w for w, pattern in zip(FORBIDDEN, patterns, strict=True) if re.search(pattern, text)]


def names(requirements):
    """The packages of a list of requirements."""
    return {re.match(r"[\w.-]+", line).group() for line in requirements}


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=lambda p: p.name)
def test_code_on_the_page_runs(page):
    namespace = {"__name__": f"page_{page.stem}"}
    for block in blocks(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)


def test_the_quickstart_is_short():
    first = next(blocks((ROOT / "README.md").read_text()))
    assert len([line for line in first.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.name)
def test_links_resolve(page):
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_is_found():
    page = ROOT / "README.md"
    assert broken_links(page, "[a](LICENSE) [b](nowhere.md#here) [c](https://example.com)") == ["nowhere.md"]


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
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    texts = {f: f.read_text() for f in files if f.suffix in TEXT and f.is_file()}
    assert {str(f.relative_to(ROOT)): found for f, text in texts.items() if (found := findings(text))} == {}


def test_forbidden_words_are_found():
    assert findings("see https://" + "pypi" + ".org/simple") == ["pypi" + ".org"]
    assert findings("open('" + "/" + "work/data')") == ["/" + "work/"]
    assert findings("runs/" + "work/data and ../" + "home/x") == []
