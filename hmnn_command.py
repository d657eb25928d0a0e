"""The command `hmnn`.

It stands beside the package, so that it has the word before anything is imported: Ctrl-C is one
line also while that takes its second, and a missing extra is one sentence.
"""

import os
import signal
import sys
from typing import Any

LAB = {"PIL", "av", "matplotlib", "optuna", "plotly", "pooch", "rich", "typer"}
"""What the extra `lab` brings, by the names of its modules."""


def main() -> None:
    """Run the command line, or say in one sentence that it needs the extra `lab`."""
    waits = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    try:
        if waits:
            signal.signal(signal.SIGINT, _stop)
        from hmnn.cli import main as run

        if waits:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        _stop()
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in LAB:
            raise
        sys.stderr.write("hmnn's command line needs hmnn[lab]: pip install 'hmnn[lab]'.\n")
        sys.exit(2)


def _stop(*_: Any) -> None:
    """End at once: an exception would have to pass through whatever is being imported."""
    os.write(2, b"hmnn: stopped.\n")
    os._exit(130)
