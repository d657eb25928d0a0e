"""What a run tells while it goes on: `progress.jsonl` in its folder, and trackers.

A line is {"time": seconds, "part": name of a job, "t": time step, "values": {name: number}}. The
seconds are those that the run has worked; a resumed run counts on from where it stopped. One
process appends whole lines. A time step that is done again has the same values and gets no second
line; of two lines with the same part and t, the last one counts.
"""

import json
import math
import os
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

NAME = "progress.jsonl"


@runtime_checkable
class Follower(Protocol):
    """Who hears what a run tells; whatever it raises, the run goes on without it."""

    name: str

    def note(self, seconds: float, part: str, t: int, values: dict[str, float]) -> None:
        """Time step t of a part of the run is done."""

    def end(self, metrics: dict[str, Any]) -> None:
        """The run has come to its end, and found this."""

    def close(self) -> None:
        """Nothing more will be told, whether or not the run came to its end."""


class Progress:
    """Tells the file and the trackers what the run notes."""

    def __init__(self, folder: Path, new: bool, trackers: list[Any]) -> None:
        """Begin the file, or mend it and go on; a new tracker is told all that the file has."""
        path = folder / NAME
        if new:
            path.unlink(missing_ok=True)
        lines = mend(path)
        self.told = {(line["part"], line["t"]) for line in lines}
        self.began = time.perf_counter() - max((line["time"] for line in lines), default=0.0)
        self.followers: list[Follower] = [_File(path), *trackers]
        for line in lines:
            self._tell([tracker for tracker in trackers if tracker.fresh], "note", *line.values())

    def note(self, part: str, t: int, values: dict[str, float]) -> None:
        """Tell all followers of a time step; numbers that are not finite are left out."""
        if (part, t) in self.told:
            return
        self.told.add((part, t))
        values = {name: value for name, value in values.items() if math.isfinite(value)}
        seconds = round(time.perf_counter() - self.began, 3)
        self._tell(self.followers, "note", seconds, part, t, values)

    def end(self, metrics: dict[str, Any]) -> None:
        """Tell all followers what was found."""
        self._tell(self.followers, "end", metrics)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._tell(self.followers, "close")

    def _tell(self, whom: list[Follower], what: str, *said: Any) -> None:
        for follower in [follower for follower in whom if follower in self.followers]:
            try:
                getattr(follower, what)(*said)
            except Exception as error:
                self.followers.remove(follower)
                with suppress(Exception):  # as far as that still goes
                    follower.close()
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                warning = f"{follower.name} failed and is told nothing more; the run goes on. {why}"
                warnings.warn(warning, RuntimeWarning, stacklevel=3)


class _File:
    """Appends lines; each is in the system's hands when `note` returns, and is not waited for."""

    name = NAME

    def __init__(self, path: Path) -> None:
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115

    def note(self, seconds: float, part: str, t: int, values: dict[str, float]) -> None:
        told = {"time": seconds, "part": part, "t": t, "values": values}
        line = json.dumps(told, allow_nan=False).encode() + b"\n"
        if self.file.write(line) != len(line):
            raise OSError("the disk is full")

    def end(self, metrics: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        self.file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, the last one of each part and t; broken lines are passed over."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
            line = {key: line[key] for key in ("time", "part", "t", "values")}
            found[line["part"], line["t"]] = line
        except (ValueError, KeyError, TypeError):
            continue
    return list(found.values())


def mend(path: Path) -> list[dict[str, Any]]:
    """Cut off a last line that was not written to its end, and return the others."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    return read(path)
