"""The command line: hmnn list | run | sweep | reproduce | stream | report | inspect | data."""

import os
import sys
from typing import Any

import typer

from hmnn import DivergenceError
from hmnn.cli import data, inspect, stream
from hmnn.core.cpu import compilation
from hmnn.data import files
from hmnn.lab import workers
from hmnn.lab.commands import report, reproduce, run, sweep
from hmnn.lab.commands.display import StoppedError

UsageError: Any = typer.BadParameter.__mro__[2]
"""The parent of all of typer's complaints; typer exports only some of its children."""
app = typer.Typer(add_completion=False, help="Neural networks whose weights move in time.")
app.command("list")(run.list_)
app.command()(run.run)
app.command()(sweep.sweep)
app.command()(reproduce.reproduce)
app.command()(stream.stream)
app.command()(report.report)
app.command()(inspect.inspect)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line; what a user can mend is one line on stderr and exit code 2."""
    try:
        os.environ.update(workers.one_thread())  # results must not depend on the number of cores
        compilation.persist(files.cache() / "xla")
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except BrokenPipeError:  # whoever read our output has gone, as in `hmnn list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except UsageError as error:
        _complain(f"{' '.join(error.format_message().split())} (See hmnn --help.)", 2)
    except (ValueError, OSError, DivergenceError, workers.JobError) as error:
        _complain(str(error), 2)
    except StoppedError as stop:
        _complain(*stop.args)
    except (typer.Abort, KeyboardInterrupt):
        _complain("stopped.", 130)


def _complain(message: str, code: int) -> None:
    sys.stderr.write(f"hmnn: {message}\n")
    sys.exit(code)
