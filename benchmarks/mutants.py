"""Small mistakes put into the package on purpose: do the tests notice?

`python benchmarks/mutants.py [--only NAME ...] [--list] [--json]`. The mistakes stand in
`benchmarks/mutants.toml`, each with the tests that should fail because of it. Every one is made in
a temporary copy of the repository, in which only those tests run; before that, all of them must
pass there. The exit code is 1 if less than nine in ten are noticed. An edit that does not apply
exactly once is an error. All of them take about a quarter of an hour on one core.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
PARTS = ("hmnn", "tests", "benchmarks", "pyproject.toml")
ENOUGH = 0.9
"""Such a share must be noticed."""
LONGEST = 300
"""Seconds after which tests that go on for ever have noticed too."""


class Mutant(NamedTuple):
    """A mistake."""

    name: str
    file: str
    """In the package."""
    old: str
    new: str
    tests: str
    """Files of tests, or tests in them, that should notice."""
    equivalent: str = ""
    """Why no test can notice, if that is so."""


def listed() -> list[Mutant]:
    """All mistakes."""
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text())["mutant"]]


def mutated(mutant: Mutant, text: str) -> str:
    """The text of the file with the mistake in it."""
    if (number := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name} must apply once in {mutant.file}. It does {number} times.")
    return text.replace(mutant.old, mutant.new)


def copied(folder: Path) -> None:
    """Copy what the tests need."""
    dirt = shutil.ignore_patterns("__pycache__", "results")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=dirt)
        else:
            shutil.copy(ROOT / part, folder / part)


def passed(folder: Path, tests: str) -> bool:
    """Whether these tests pass in the copy."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    here = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    named = [f"tests/{test}" for test in dict.fromkeys(tests.split())]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *named]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | cache | here,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 1:  # not a test that failed
        raise RuntimeError(f"{tests} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def survived(folder: Path, mutant: Mutant) -> bool:
    """Whether the tests pass although the mistake is made."""
    file = folder / "hmnn" / mutant.file
    text = file.read_text()
    file.write_text(mutated(mutant, text))
    try:
        return passed(folder, mutant.tests)
    finally:
        file.write_text(text)


def campaign(chosen: list[Mutant], tell: bool) -> dict:
    """Make every mistake in turn, and count."""
    alive, known = [], [mutant.name for mutant in chosen if mutant.equivalent]
    for mutant in chosen:
        mutated(mutant, (ROOT / "hmnn" / mutant.file).read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        for file in sorted({test.split("::")[0] for m in chosen for test in m.tests.split()}):
            tests = [t for m in chosen for t in m.tests.split() if t.split("::")[0] == file]
            if not passed(folder, file if file in tests else " ".join(tests)):
                raise RuntimeError(f"The tests of {file} must pass without a mistake.")
        for mutant in chosen:
            if mutant.equivalent:
                continue
            began = time.perf_counter()
            alive += [mutant.name] if survived(folder, mutant) else []
            if tell:
                seconds = time.perf_counter() - began
                word = "survived" if mutant.name in alive else "killed"
                print(f"{word:8} {seconds:5.1f} s  {mutant.name}", flush=True)
    tried = len(chosen) - len(known)
    share = (tried - len(alive)) / max(tried, 1)
    counts = {"mutants": tried, "killed": tried - len(alive), "share": round(share, 4)}
    return {**counts, "survived": alive, "equivalent": known}


def main() -> None:
    """Run a campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mistakes")
    parser.add_argument("--list", action="store_true", help="name them, and make none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    mutants = listed()
    if unknown := set(options.only or ()) - {mutant.name for mutant in mutants}:
        parser.error(f"--only must name mutants of {LIST.name}. Got {sorted(unknown)}.")
    chosen = [m for m in mutants if not options.only or m.name in options.only]
    if options.list:
        print("\n".join(f"{m.name}: {m.file}, {m.equivalent or m.tests}" for m in chosen))
        return
    counts = campaign(chosen, tell=not options.json)
    print(
        json.dumps(counts)
        if options.json
        else ", ".join(f"{name} {value}" for name, value in counts.items())
    )
    sys.exit(counts["share"] < ENOUGH)


if __name__ == "__main__":
    main()
