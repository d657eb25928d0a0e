"""The output folder of a run: which run it belongs to, and its checkpoints."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hmnn.experiments.base import Experiment, Quiet
from hmnn.report import records

RUN, CHECKPOINTS = "run.json", "checkpoints"


def open_(folder: Path, about: dict[str, Any], fresh: bool) -> Quiet:
    """Make the folder that of this run, and return who keeps its checkpoints; a fresh run drops old ones."""
    if fresh:
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        records.write(folder / RUN, {**about, "versions": records.versions()})
    return Quiet(folder / CHECKPOINTS, about)


def reopen(
    folder: Path, name: str, experiment: Experiment, profile: Any, seed: Any, out: Any, overwrite: bool
) -> tuple[str, int]:
    """The profile and seed of the run in a folder, unless another run is asked for."""
    if out is not None or overwrite:
        raise ValueError("--resume must stand without --out and --overwrite: it goes on in its own folder.")
    try:
        kept = json.loads((folder / RUN).read_text())
        was = {key: kept[key] for key in ("experiment", "profile", "seed", "config")}
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"--resume must be the folder of a run, with {RUN} in it. Got {str(folder)!r}.") from None
    profile, seed = was["profile"] if profile is None else profile, was["seed"] if seed is None else seed
    settings = experiment.profiles.get(profile)
    asked = {"experiment": name, "profile": profile, "seed": seed}
    asked["config"] = records.plain(asdict(settings)) if settings else None
    differ = [key for key in asked if asked[key] != was[key]]
    if differ:
        key = differ[0]
        raise ValueError(f"--resume must be given the {key} of that run, {was[key]!r}. Got {asked[key]!r}.")
    if (versions := kept.get("versions")) != records.versions():
        raise ValueError(f"--resume must have the versions of that run, {versions}. Got {records.versions()}.")
    return profile, seed
