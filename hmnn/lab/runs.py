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
        """The command that gives this result, wherever its folder is and however often it was stopped."""
        changes = [word for change in self.set or [] for word in ("--set", change)]
        words = [
            "hmnn",
            "run",
            self.experiment,
            "--profile",
            self.profile,
            "--seed",
            self.seed,
            *changes,
        ]
        return shlex.join(str(word) for word in words if word is not None)

    def about(self, experiment: Experiment) -> dict[str, Any]:
        """What run.json, the record and the checkpoints say."""
        return {**self._asdict(), "config": asdict(self.config(experiment))}


def fresh(path: Path, overwrite: bool = False) -> Path:
    """A folder for a new run, made if it is not there; one with something in it is refused."""
    if path.exists() and not path.is_dir():
        raise _check.fail("--out", "a folder", str(path))
    if path.exists() and any(path.iterdir()) and not overwrite:
        raise ValueError(
            f"--out must be a new or empty folder; or pass --overwrite, or --resume. Got {str(path)!r}, not empty."
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def open_(folder: Path, about: dict[str, Any], workers: int, new: bool) -> Quiet:
    """Make the folder that of this run, and return who keeps its checkpoints; a new run drops old ones."""
    if new:
        (folder / RECORD).unlink(missing_ok=True)  # else a stop would leave the old result, and look like an end
        if (folder / CHECKPOINTS).exists():
            shutil.rmtree(folder / CHECKPOINTS)
        records.write(folder / RUN, {**about, "versions": records.versions()})
    return Quiet(folder / CHECKPOINTS, about, workers)


def reopen(folder: Path, experiment: Experiment, asked: Run, option: str = "--resume") -> Run:
    """The run in a folder, unless another one is asked for."""
    try:
        kept = json.loads((folder / RUN).read_text())
        was = {key: kept[key] for key in ("experiment", "profile", "seed", "config")} | {"set": kept.get("set") or []}
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{option} must be the folder of a run, with {RUN} in it. Got {str(folder)!r}.") from None
    merged = Run(*(was[key] if value is None else value for key, value in asked._asdict().items()))
    here = merged._asdict()
    here["config"] = (
        records.plain(asdict(merged.config(experiment))) if merged.experiment == was["experiment"] else None
    )
    differ = [key for key in ("experiment", "profile", "seed", "set", "config") if here[key] != was[key]]
    if differ:
        key = differ[0]
        raise ValueError(f"{option} must be given the {key} of that run, {was[key]!r}. Got {here[key]!r}.")
    if (versions := kept.get("versions")) != records.versions():
        raise ValueError(f"{option} must have the versions of that run, {versions}. Got {records.versions()}.")
    return merged
