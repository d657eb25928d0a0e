"""The command `hmnn`, which says what it needs where only the plain package is installed."""

import sys

LAB = {"PIL", "av", "matplotlib", "optuna", "plotly", "pooch", "rich", "typer"}
"""What the extra `lab` brings, by the names of its modules."""


def main() -> None:
    """Run the command line, or say in one sentence that it needs the extra `lab`."""
    try:
        from hmnn.cli import main as run

        run()
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in LAB:
            raise
        sys.stderr.write("hmnn's command line needs hmnn[lab]: pip install 'hmnn[lab]'.\n")
        sys.exit(2)
