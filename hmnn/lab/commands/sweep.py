"""hmnn sweep."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hmnn import _check, store
from hmnn.lab import EXPERIMENTS, records, runs, search, settings
from hmnn.lab.commands import display
from hmnn.lab.commands.run import Profile, Seed, Workers, command
from hmnn.lab.experiment import Quiet
from hmnn.lab.runs import Run
from hmnn.lab.workers import cores


def sweep(
    name: Annotated[str, Argument(help="The experiment; `hmnn list` names them.")],
    method: Annotated[str | None, Option(help="The method; the first one by default.")] = None,
    grid: Annotated[str, Option(help="paper (its grid) or random.")] = "paper",
    trials: Annotated[int, Option(help="Points to try at most.", min=1)] = 100,
    workers: Workers = None,
    storage: Annotated[
        str | None, Option(help="Database URL; a file in the folder by default.")
    ] = None,
    profile: Profile = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, Option(help="Folder; runs/sweep-NAME-METHOD-GRID-PROFILE-SEED by default.")
    ] = None,
) -> None:
    """Choose settings by their score on validation data; run it again to go on after a stop."""
    _check.choice("experiment", name, [key for key, one in EXPERIMENTS.items() if one.search])
    experiment = EXPERIMENTS[name]
    method = _check.choice("method", method or next(iter(experiment.search)), experiment.search)
    this = Run(name, profile or "paper", seed or 0, [])
    config, about = this.config(experiment), f"{name}-{method}-{grid}-{this.profile}-{this.seed}"
    chosen = experiment.search[method]
    search.check(chosen, grid, config)
    search.optuna()
    folder = _folder(out or Path("runs") / f"sweep-{about}", storage)
    many = workers or len(cores())
    with store.locked(folder.absolute()):
        study, number = f"hmnn-{about}", seed or 0
        opened = search.open_(study, chosen, grid, config, number, trials, storage, folder)
        again = shlex.join(["hmnn", *sys.argv[1:]])
        with display.watched(Quiet(None, None, many), again) as monitor:
            search.run(opened, monitor, many)
        found = search.outcome(opened)
        what = {"experiment": name, "method": method, "profile": this.profile, "grid": grid}
        versions = records.versions() | {"optuna": search.optuna().__version__}
        how = {"seed": number, "command": command(), "workers": many, "versions": versions}
        records.write(folder / "search.json", {**what, **how, **found})
    _show(f"{name}, {method}, {this.profile} profile, seed {this.seed}", found)
    best = settings.words(found["best"]["settings"] | chosen.fixed)
    display.say(f"the best: {this._replace(set=best).command()}")
    display.say(f"wrote {folder / 'search.json'}")


def _show(title: str, found: dict[str, Any]) -> None:
    """A table of the best ten."""
    states = [trial["state"] for trial in found["trials"]]
    title += "; " + ", ".join(f"{states.count(state)} {state}" for state in search.STATES)
    if found["best"] is None:
        raise ValueError(f"No trial came to its end ({title}); search.json has what went wrong.")
    rows = []
    for t in [t for t in found["trials"] if t["state"] == "complete"][:10]:  # 1e-5 is not 0.0000
        short = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in t["settings"].items()}
        rows.append({"trial": t["number"], "score": t["value"], **short})
    display.print_table(title, rows)


def _folder(path: Path, storage: str | None) -> Path:
    """A folder that is new, empty, or that of a search."""
    ours = {"search.json", *(() if storage else search.JOURNAL)}
    names = [file.name for file in runs.made(path).iterdir() if file.name[0] != "."]
    if others := [name for name in names if name not in ours]:
        got = f"{str(path)!r} with {others[0]!r}"
        raise ValueError(f"--out must be a new or empty folder, or that of a search. Got {got}.")
    return path
