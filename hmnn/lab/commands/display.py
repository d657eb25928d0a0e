"""What the commands share: the progress bar, tables, and how a run is stopped."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import progress as bars
from rich.console import Console
from rich.table import Table

from hmnn.lab import Monitor
from hmnn.lab.experiment import Quiet
from hmnn.lab.workers import JobError

ASKED: list[int] = []
"""Signals that asked the run to stop; acted on between time steps, where none gets lost."""


class StoppedError(Exception):
    """The run was stopped: what to say, and the exit code."""


Note = Callable[[str, int, dict[str, float]], None]
"""note(part, t, values): who follows the run, `hmnn.lab.progress`."""


class Bar:
    """A monitor with a progress bar and the time left; its keeper keeps the checkpoints."""

    def __init__(self, progress: bars.Progress, keeper: Quiet, note: Note) -> None:
        self.progress, self.keeper, self.workers = progress, keeper, keeper.workers
        self.task, self.steps = progress.add_task("compiling", total=None), 0
        self.checkpoint, self.note = keeper.checkpoint, note

    def total(self, steps: int) -> None:
        """So many steps more are to come."""
        self.steps += steps
        self.progress.update(self.task, total=self.steps)

    def tick(self, label: str, steps: int = 1) -> None:
        """Show the steps that are done; here a wish to stop is acted on."""
        self.progress.update(self.task, advance=steps, description=label or None)
        if ASKED:
            raise KeyboardInterrupt

    def restore(self, name: str, state: Any) -> tuple[Any, list[Any]]:
        """Read what was kept, and show it as done."""
        state, results = self.keeper.restore(name, state)
        self.progress.update(self.task, advance=len(results))
        return state, results


@contextmanager
def watched(
    keeper: Quiet, again: str, note: Note | None = None, how: str = "go on with"
) -> Iterator[Monitor]:
    """A progress bar; when a run is stopped or a job fails, one line says how to go on."""

    def ask(number: int, _: Any) -> None:
        ASKED.append(number)
        if len(ASKED) > 1:  # who asks twice is in a hurry
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    columns = [bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn()]
    columns += [bars.TimeElapsedColumn(), bars.TimeRemainingColumn()]
    try:
        with bars.Progress(*columns, console=Console(stderr=True)) as progress:
            yield Bar(progress, keeper, note or keeper.note)
    except KeyboardInterrupt:
        code = 128 + (ASKED or [signal.SIGINT])[0]
        raise StoppedError(f"stopped; {how}: {again}", code) from None
    except JobError as error:
        raise StoppedError(f"{error} When that is mended, {how}: {again}", 2) from error
    finally:
        ASKED.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows of equal keys: numbers with four digits, words whole on any screen."""
    table, cells = Table(title=title), [[_cell(value) for value in row.values()] for row in rows]
    columns = list(zip(rows[0], *cells, strict=True))
    natural = sum(max(map(len, column)) + 3 for column in columns) + 1
    narrow = natural > Console().width
    for name, *column in columns:
        longest = max(map(len, " ".join([name, *column]).split()))
        side: Any = "left" if isinstance(rows[0][name], str) else "right"
        table.add_column(name, justify=side, width=longest if narrow else None)
    for line in cells:
        table.add_row(*line)
    Console(width=natural if narrow else None).print(table)


def say(line: str) -> None:
    """Print a line as it is."""
    Console().print(line, soft_wrap=True, highlight=False, markup=False)


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "-" if value is None else str(value)
