"""hmnn sweep."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hmnn import _check, store
from hmnn.lab import EXPERIMENTS, records, search, settings
from hmnn.lab.commands import display
from hmnn.lab.commands.run import Profile, Seed, Workers, command
from hmnn.lab.experiment import Quiet
from hmnn.lab.runs import Run
from hmnn.lab.workers import cores


def sweep(
    name: Annotated[str, typer.Argument(help="The experiment; `hmnn list` names them.")],
    method: Annotated[str | None, typer.Option(help="The method; the first one by default.")] = None,
    grid: Annotated[str, typer.Option(help="paper (its grid) or random.")] = "paper",
    trials: Annotated[int, typer.Option(help="Points to try at most.", min=1)] = 100,
    workers: Workers = None,
    storage: Annotated[str | None, typer.Option(help="Database URL; a file in the folder by default.")] = None,
    profile: Profile = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; runs/sweep-NAME-METHOD-GRID-PROFILE-SEED by default."),
    ] = None,
) -> None:
    """Choose settings by their score on validation data; the same command goes on with what was stopped."""
    _check.choice("experiment", name, [key for key, experiment in EXPERIMENTS.items() if experiment.search])
    experiment = EXPERIMENTS[name]
    method = _check.choice("method", method or next(iter(experiment.search)), experiment.search)
    this = Run(name, profile or "paper", seed or 0, [])
    config, about = this.config(experiment), f"{name}-{method}-{grid}-{this.profile}-{this.seed}"
    search.check(experiment.search[method], grid, config)
    search.optuna()
    folder = _folder(out or Path("runs") / f"sweep-{about}", storage)
    many = workers or len(cores())
    with store.locked(folder.absolute()):
        opened = search.open_(
            f"hmnn-{about}",
            experiment.search[method],
            grid,
            config,
            this.seed or 0,
            trials,
            storage,
            folder,
        )
        again = shlex.join(["hmnn", *sys.argv[1:]])
        with display.watched(Quiet(None, None, many), again) as monitor:
            search.run(opened, monitor, many)
        found = search.outcome(opened)
        record: dict[str, Any] = {
            "experiment": name,
            "method": method,
            "profile": this.profile,
            "grid": grid,
            "seed": this.seed,
        }
        record |= {
            "command": command(),
            "workers": many,
            "versions": records.versions() | {"optuna": search.optuna().__version__},
            **found,
        }
        records.write(folder / "search.json", record)
    _show(f"{name}, {method}, {this.profile} profile, seed {this.seed}", found)
    best = settings.words(found["best"]["settings"] | experiment.search[method].fixed)
    display.say(f"the best: {this._replace(set=best).command()}")
    display.say(f"wrote {folder / 'search.json'}")


def _show(title: str, found: dict[str, Any]) -> None:
    """A table of the best ten."""
    counts = {state: sum(t["state"] == state for t in found["trials"]) for state in ("complete", "pruned", "failed")}
    title += "; " + ", ".join(f"{count} {state}" for state, count in counts.items())
    if found["best"] is None:
        raise ValueError(f"No trial came to its end ({title}); search.json has what went wrong.")
    best = [t for t in found["trials"] if t["state"] == "complete"][:10]
    display.print_table(title, [{"trial": t["number"], "score": t["value"], **_short(t["settings"])} for t in best])


def _short(values: dict[str, Any]) -> dict[str, Any]:
    """Settings for a table, where 1e-5 must not be 0.0000."""
    return {field: f"{value:.4g}" if isinstance(value, float) else value for field, value in values.items()}


def _folder(path: Path, storage: str | None) -> Path:
    """A folder that is new, empty, or that of a search."""
    if path.exists() and not path.is_dir():
        raise _check.fail("--out", "a folder", str(path))
    ours = {"search.json"} if storage else {"search.json", *(f"search.journal{end}" for end in ("", ".lock"))}
    if path.exists() and (others := [p.name for p in path.iterdir() if p.name not in ours and p.name[0] != "."]):
        raise ValueError(
            f"--out must be a new or empty folder, or that of a search. Got {str(path)!r} with {others[0]!r}."
        )
    path.mkdir(parents=True, exist_ok=True)
    return path
