"""The output folder of a run: which run it belongs to, and its checkpoints."""

import json
import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from hmnn import _check
from hmnn.lab import progress, records, settings
from hmnn.lab.experiment import Experiment, Quiet
from hmnn.lab.search import JOURNAL
from hmnn.store import checkpoints, files

RUN, CHECKPOINTS, RECORD, VIEW = "run.json", "checkpoints", "record.json", "view"
LOCK = re.compile(r"\..*\.lock")


class Run(NamedTuple):
    """Which run: None where nothing was asked for."""

    experiment: str
    profile: str | None = None
    seed: int | None = None
    set: list[str] | None = None
    """Fields of the Config that differ from the profile's, as "field=value"."""

    def config(self, experiment: Experiment) -> Any:
        """The profile's Config with the fields that were set."""
        _check.choice("profile", self.profile, experiment.profiles)
        return settings.override(experiment.profiles[self.profile or ""], self.set or [])

    def command(self) -> str:
        """The command that gives this result, wherever its folder is."""
        changes = [word for change in self.set or [] for word in ("--set", change)]
        chosen = ["--profile", self.profile, "--seed", self.seed, *changes]
        return shlex.join(str(word) for word in ["hmnn", "run", self.experiment, *chosen])

    def about(self, experiment: Experiment) -> dict[str, Any]:
        """What run.json, the record and the checkpoints say."""
        return {**self._asdict(), "config": asdict(self.config(experiment))}


def made(path: Path) -> Path:
    """A folder to write into, made if it is not there."""
    if path.exists() and not path.is_dir():
        raise _check.fail("--out", "a folder", str(path))
    files.make(files.DISK, path.absolute())
    return path


def fresh(path: Path, overwrite: bool = False) -> Path:
    """A folder for a new run, made if it is not there; one with something in it is refused.

    With `overwrite` that of an earlier run will do.
    """
    if any(made(path).iterdir()):
        if not overwrite:
            wanted = "a new or empty folder; or pass --overwrite, or --resume"
            raise ValueError(f"--out must be {wanted}. Got {str(path)!r}, not empty.")
        _earlier(path)
    return path


def open_(folder: Path, about: dict[str, Any], workers: int, new: bool) -> Quiet:
    """Give the folder to this run, and return the keeper of its checkpoints; a new run has none.

    A run has a name that no other has. Its checkpoints say it too, and only such are resumed.
    """
    if new:
        (folder / RECORD).unlink(missing_ok=True)  # after a stop, it would look like an end
        for path in _kept(folder):
            path.unlink() if path.name in JOURNAL else checkpoints.remove(path)
        name = os.urandom(8).hex()
        said = {**about, "run": name, "versions": records.versions()}
        records.write(folder / RUN, said)
    else:
        name = json.loads((folder / RUN).read_text()).get("run")
    return Quiet(folder / CHECKPOINTS, about if name is None else {**about, "run": name}, workers)


def _earlier(folder: Path) -> None:
    """Refuse to overwrite what is not an earlier run: only what we wrote is ever removed."""
    kinds = {
        RUN: _is_record,
        RECORD: _is_record,
        progress.NAME: _is_progress,
        VIEW: checkpoints.written,
    }
    ours = {name: kind(folder / name) for name, kind in kinds.items() if (folder / name).exists()}
    ours |= {str(path.relative_to(folder)): _is_kept(path) for path in _kept(folder)}
    wrong = [f"with {name!r}, which hmnn did not write" for name, good in ours.items() if not good]
    if RUN not in ours and RECORD not in ours:
        wrong.append(f"without {RUN} and {RECORD}")
    if wrong:
        wanted = "--overwrite must be given the folder of a run of hmnn"
        raise ValueError(f"{wanted}. Got {str(folder)!r} {wrong[0]}.")


def _kept(folder: Path) -> list[Path]:
    """What lies where checkpoints are, but for locks of writers that are gone."""
    place = folder / CHECKPOINTS
    if not place.is_dir():
        return [place] if place.exists() else []
    return sorted(path for path in place.iterdir() if not LOCK.fullmatch(path.name))


def _is_kept(path: Path) -> bool:
    if path.name in JOURNAL:
        return path.name.endswith(".lock") or _says(path, "op_code")
    return checkpoints.written(path)


def _is_record(path: Path) -> bool:
    return _says(path, "versions", "hmnn")


def _is_progress(path: Path) -> bool:
    return path.is_file() and (path.stat().st_size == 0 or _says(path, "values"))


def _says(path: Path, *keys: str) -> bool:
    """Whether the JSON that a file begins with has an entry."""
    try:
        found = json.JSONDecoder().raw_decode(path.read_text() if path.is_file() else "")[0]
        for key in keys:
            found = found[key]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return True


def reopen(folder: Path, experiment: Experiment, asked: Run, option: str = "--resume") -> Run:
    """The run in a folder, unless another one is asked for."""
    try:
        kept = json.loads((folder / RUN).read_text())
        was = {key: kept[key] for key in (*Run._fields, "config")}
    except (OSError, ValueError, KeyError, TypeError):
        wanted = f"the folder of a run, with {RUN} in it"
        raise _check.fail(option, wanted, str(folder)) from None
    merged = Run(*(was[key] if value is None else value for key, value in asked._asdict().items()))
    same = merged.experiment == was["experiment"]
    here = records.plain(merged.about(experiment)) if same else merged._asdict()
    for key, value in here.items():
        if value != was[key]:
            wanted = f"given the {key} of that run, {was[key]!r}"
            raise _check.fail(option, wanted, value)
    if (versions := kept.get("versions")) != records.versions():
        wanted = f"{option} must have the versions of that run, {versions}"
        raise ValueError(f"{wanted}. Got {records.versions()}.")
    return merged
