"""hmnn reproduce."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from hmnn import store
from hmnn.lab import EXPERIMENTS, records, runs
from hmnn.lab.commands import display
from hmnn.lab.commands.run import Profile, Workers, command, perform
from hmnn.lab.runs import Run
from hmnn.lab.workers import cores


def reproduce(
    profile: Profile = None,
    out: Annotated[
        Path | None, Option(help="Output folder; runs/reproduce-PROFILE by default.")
    ] = None,
    workers: Workers = None,
) -> None:
    """Run all experiments, one after the other; the same command goes on with what was stopped."""
    profile = profile or "paper"
    asked = [Run(name, profile, 0, []) for name in EXPERIMENTS]
    for this in asked:
        this.config(EXPERIMENTS[this.experiment])
    folder = runs.made(out or Path("runs") / f"reproduce-{profile}")
    with store.locked(folder.absolute()):
        rows = [row for this in asked for row in _summary(this, folder, workers or len(cores()))]
        what = {"profile": profile, "command": command(), "versions": records.versions()}
        records.write(folder / "summary.json", what | {"rows": rows})
    display.print_table(f"all experiments, {profile} profile, seed 0", rows)
    display.say(f"wrote {folder / 'summary.json'}")


def _summary(this: Run, parent: Path, workers: int) -> list[dict[str, Any]]:
    """The rows of one experiment: read if it is done, else run or gone on with."""
    folder = parent / this.experiment
    stopped = (folder / runs.RUN).exists()
    if stopped:
        runs.reopen(folder, EXPERIMENTS[this.experiment], this, "--out")
    else:
        runs.fresh(folder)
    if stopped and (folder / runs.RECORD).exists():
        record = json.loads((folder / runs.RECORD).read_text())
    else:
        words = ["hmnn", "reproduce", "--profile", this.profile or "", "--out", str(parent)]
        record, _, _ = perform(this, folder, workers, shlex.join(words), not stopped, [])
        display.say(f"{this.experiment}: {record['seconds']:.0f} s, {folder}")
    empty = {"experiment": this.experiment, "what": "no number", "ours": None, "paper": None}
    return [empty | row for row in record["summary"] or [{}]]
