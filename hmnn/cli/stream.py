"""hmnn stream: models side by side on a stream, predict then learn."""

import shlex
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from hmnn import _check, evaluate, store
from hmnn.data import Stream, generators, tables
from hmnn.evaluate import peers
from hmnn.lab import Monitor, records, runs, streams
from hmnn.lab.commands import display
from hmnn.lab.commands.run import command
from hmnn.lab.experiment import Quiet

DEFAULT = {"classification": "hmnn,last-label,logistic,arf"}
DEFAULT |= {"regression": "hmnn,last-value,linear,arf"}
OWN = {"classification": "HMNNClassifier", "regression": "HMNNRegressor"}
FILE: dict[str, Any] = {"drop": [], "categorical": [], "encoding": "onehot", "missing": "last"}
"""Options that say how to read a file, as they are if nothing is said."""


def stream(
    source: Annotated[
        str, typer.Argument(help="elec2, sea, hyperplane, rbf, trump, or the path of a CSV file.")
    ],
    models: Annotated[
        str | None,
        typer.Option(
            help="With commas between: hmnn, last-label, logistic, hoeffding, arf; for numbers "
            "hmnn, last-value, linear, hoeffding, arf."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of the file to predict.")] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; else seen from the target.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column of the file to leave out; repeatable.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are names; repeatable.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Of categories: onehot or ordinal.")] = "onehot",
    missing: Annotated[
        str, typer.Option(help="A missing number is the last one seen, or refuse.")
    ] = "last",
    rows: Annotated[
        int | None, typer.Option(help="Only the first rows, or so many generated ones.", min=2)
    ] = None,
    chunk: Annotated[int, typer.Option(help="Rows predicted before they are learned.", min=1)] = 1,
    window: Annotated[int, typer.Option(help="Rows of the windowed means.", min=1)] = 1000,
    level: Annotated[float, typer.Option(help="Of the intervals of regressors.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of generated streams and of models.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Output folder; runs/stream-NAME-SEED by default.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Begin anew in the folder of another.")] = False,
) -> None:
    """Compare models on a drifting stream: each row is predicted, then learned."""
    said: tuple[Any, ...] = (drop or [], categorical or [], encoding, missing)
    options = dict(zip(FILE, said, strict=True))
    data = open_(source, target, task, rows, seed, options)
    built = build(models or DEFAULT[data.task], data, seed)
    _check.number("--level", level, "above 0 and below 1", lambda v: 0 < v < 1)
    folder = runs.fresh(out or Path("runs") / f"stream-{Path(source).stem}-{seed}", overwrite)
    began = time.perf_counter()
    again = shlex.join(["hmnn", *sys.argv[1:]])
    watched = display.watched(Quiet(), again, how="begin again with")
    with store.locked(folder.absolute()), watched as monitor:
        monitor.total(len(built) * data.made["rows"])
        how: dict[str, Any] = {"rows": chunk, "window": window, "level": level}
        report = evaluate.compare(built, data, **how, tick=_ticks(monitor))
        seconds = time.perf_counter() - began
        _write(folder, report, seed, seconds)
        figures = streams.draw(report.record() | {"seed": seed}, folder)
    if report.metrics:
        title = f"{data.name}, {data.made['rows']} rows, seed {seed}, {seconds:.0f} s"
        display.print_table(title, [_shown(row) for row in report.table()])
    for line in streams.beliefs(report.record()):
        display.say(line)
    for path in [*figures, folder / runs.RECORD]:
        display.say(f"wrote {path}")
    if report.failed:
        raise evaluate.ModelError(" ".join(report.failed.values()))


def open_(
    source: str, target: str | None, task: str | None, rows: Any, seed: int, options: dict[str, Any]
) -> Stream:
    """The stream of that name, or that of a file."""
    if source not in generators.STREAMS:
        if not Path(source).is_file():
            allowed = f"one of {', '.join(generators.STREAMS)}, or a CSV file"
            raise _check.fail("source", allowed, source)
        if target is None:
            raise ValueError("--target must name the column of the file to predict.")
        return tables.table(source, target, task, rows=rows, **options)
    if target is not None or task is not None or options != FILE:
        words = ", ".join(f"--{name}" for name in ("target", "task", *FILE))
        raise ValueError(
            f"{words} must be left out: they are for a file, and {source} has its own columns."
        )
    settings = {} if source in ("elec2", "trump") else {"seed": seed}
    return generators.STREAMS[source](rows=rows, **settings)


def build(names: str, data: Stream, seed: int) -> dict[str, Any]:
    """The models of that list, untrained."""
    known = ["hmnn", *(peers.CLASSIFIERS if data.task == "classification" else peers.REGRESSORS)]
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        _check.choice(f"--models for {data.task}", name, known)
    return {name: _build(name, data, seed) for name in chosen}


def _build(name: str, data: Stream, seed: int) -> Any:
    if name == "hmnn":
        return getattr(import_module("hmnn.estimators"), OWN[data.task])(random_state=seed)
    return peers.build(name, data.task, len(data.made["classes"]), seed)


def _ticks(monitor: Monitor) -> Callable[[str], evaluate.Tick]:
    def of(name: str) -> evaluate.Tick:
        monitor.tick(name, 0)
        return lambda rows: monitor.tick(name, rows)

    return of


def _write(folder: Path, report: evaluate.Report, seed: int, seconds: float) -> None:
    record = {"command": command(), "seed": seed, **report.record(), "seconds": seconds}
    try:
        extra = {"river": version("river")}
    except ImportError:
        extra = {}
    records.write(folder / runs.RECORD, record | {"versions": records.versions() | extra})


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value if value == value else None for key, value in row.items()}  # not NaN
