"""The output folder of a run: which run it belongs to, and its checkpoints."""

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from hmnn import _check
from hmnn.lab import records, settings
from hmnn.lab.experiment import Experiment, Quiet

RUN, CHECKPOINTS, RECORD, VIEW = "run.json", "checkpoints", "record.json", "view"


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
    path.mkdir(parents=True, exist_ok=True)
    return path


def fresh(path: Path, overwrite: bool = False) -> Path:
    """A folder for a new run, made if it is not there; one with something in it is refused."""
    if any(made(path).iterdir()) and not overwrite:
        wanted = "a new or empty folder; or pass --overwrite, or --resume"
        raise ValueError(f"--out must be {wanted}. Got {str(path)!r}, not empty.")
    return path


def open_(folder: Path, about: dict[str, Any], workers: int, new: bool) -> Quiet:
    """Give the folder to this run, and return the keeper of its checkpoints; a new run has none."""
    if new:
        (folder / RECORD).unlink(missing_ok=True)  # after a stop, it would look like an end
        if (folder / CHECKPOINTS).exists():
            shutil.rmtree(folder / CHECKPOINTS)
        records.write(folder / RUN, {**about, "versions": records.versions()})
    return Quiet(folder / CHECKPOINTS, about, workers)


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
