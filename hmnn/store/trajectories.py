"""A history on disk: one posterior per time step, appended, readable while it grows.

A directory with manifest.json (the tree, once) and segments `000000.records`, ... of so many
records each. A record is t (8 bytes), a safetensors file, and the SHA-256 of both. All have the
same length: record i begins at i times the length, so no scan is needed and no index can be torn.
What a killed writer or a power cut leaves unfinished at the end is ignored by readers and cut off
by the next writer.
"""

import bisect
import hashlib
import json
import os
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.store import files as disk
from hmnn.store import leaves, manifests, tensors
from hmnn.store.files import DISK, Files, Lock
from hmnn.store.manifests import CorruptError
from hmnn.store.segments import SEAL, Segments

SEGMENT = 1 << 26
"""Bytes after which a new segment begins."""
HEAD = 8


class Trajectory:
    """Posteriors by time step; reading needs no lock, the first `append` takes it until `close`."""

    def __init__(
        self,
        path: Any,
        every: int | None = None,
        config: Any = None,
        *,
        finite: bool = True,
        files: Files = DISK,
    ) -> None:
        """Open a trajectory, or name a new one; nothing is written before the first `append`.

        Args:
            path: its directory.
            every: keep only time steps that `every` divides; by default what the directory says.
            config: anything that JSON knows, kept in the manifest.
            finite: whether numbers must be finite; what the directory says, if it is there.
            files: the operations on files.
        """
        self.path = Path(os.path.realpath(path))  # a link has the lock of what it leads to
        self.files, self.config = files, config
        self._where = f"trajectory {str(self.path)!r}"
        self._manifest: dict[str, Any] | None = None
        self._segments: Segments | None = None
        self._lock: Lock | None = None
        self._handle: tuple[int, int] | None = None
        every = None if every is None else _check.count("every", every)
        manifest = self.manifest()
        said = json.loads(json.dumps(config))  # as the manifest has it: tuples are lists
        told = manifest or {"every": every, "config": said}
        if every not in (None, told["every"]) or said not in (None, told["config"]):
            raise ValueError(
                f"every and config must be those of {self._where}, {told['every']} and so on."
            )
        self.every = manifest["every"] if manifest else every or 1
        self.finite = manifest["flags"]["finite"] if manifest else finite

    def append(self, t: int, posterior: Any) -> bool:
        """Keep the posterior of time step t, if `every` divides t; it is on disk when this returns.

        Time steps rise. One that is there already, as after a resumed run, must have the same bits.
        """
        t = _check.count("t", t, least=0)
        if t % self.every:
            return False
        listed, arrays = leaves.describe(posterior)
        leaves.check("posterior", listed, arrays, self.finite)
        content = b"".join([t.to_bytes(HEAD, "little"), *map(bytes, tensors.pack(arrays))])
        with disk.worded(self._where):
            self._writer(listed, len(content) + SEAL)
            count = len(self)
            if count and t <= self._time(count - 1):
                return self._again(t, content)
            self._write(count, content + hashlib.sha256(content).digest())
        return True

    def at(self, t: int, like: Any = None) -> Any:
        """The posterior of time step t, verified; `like` as in `load`."""
        manifest, index = self.manifest(), self._find(t)
        if manifest is None or index is None:
            raise KeyError(f"{self._where} has no time step {t}.")
        arrays = tensors.unpack(self._where, self._kept().sound(index)[HEAD:-SEAL])
        leaves.check(self._where, manifest["tree"], arrays, manifest["flags"]["finite"])
        return leaves.fill(self._where, manifest["tree"], arrays, like)

    def __getitem__(self, t: int) -> Any:
        return self.at(t)

    def __len__(self) -> int:
        return 0 if self.manifest() is None else self._kept().count()

    @property
    def times(self) -> np.ndarray:
        """All time steps that are kept."""
        return np.array([self._time(i) for i in range(len(self))], np.int64)

    @property
    def last(self) -> int | None:
        """The last time step that is kept."""
        count = len(self)
        return self._time(count - 1) if count else None

    def manifest(self) -> dict[str, Any] | None:
        """The verified manifest, or None as long as there is none."""
        if self._manifest is None and (self.path / manifests.NAME).exists():
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                text = bytes(disk.read(manifests.NAME, manifests.LIMIT, folder))
            finally:
                os.close(folder)
            self._manifest = _numbers(self._where, manifests.read(self._where, text, "trajectory"))
        return self._manifest

    def verify(self) -> int:
        """Read every record, and return how many there are."""
        records = (self._kept().sound(i) for i in range(len(self)))
        times = [int.from_bytes(record[:HEAD], "little") for record in records]
        if any(a >= b for a, b in pairwise(times)):
            raise CorruptError(f"{self._where} must have time steps that rise.")
        return len(times)

    def close(self) -> None:
        """Let another writer in; what a forked child closes, its parent still has."""
        self._shut()
        if self._lock is not None:
            disk.release(self.path, self._lock)
        self._lock = None

    def __enter__(self) -> "Trajectory":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _writer(self, listed: list[leaves.Leaf], record: int) -> None:
        """Become the writer: take the lock, write the manifest, cut off what is unfinished."""
        if self._lock is not None and self._lock.pid != os.getpid():
            self.close()  # it is the parent's
        new = self._lock is None
        if self._lock is None:
            if self.manifest() is None:
                disk.make(self.files, self.path)
            self._lock = disk.acquire(self.path, self.files)
        manifest = self.manifest() or self._begin(listed, record)
        if manifest["tree"] != listed or manifest["record"] != record:
            known = {leaf["name"]: leaf for leaf in manifest["tree"]}
            changed = [leaf["name"] for leaf in listed if known.get(leaf["name"]) != leaf]
            raise ValueError(
                f"posterior must have the tree, shapes and values of {self._where}. "
                f"{[*changed, 'the list of leaves'][0]} differs."
            )
        if new and (count := len(self)):
            self._kept().sound(count - 1)  # nothing is added to what is damaged
            segment, place = divmod(count - 1, self._kept().per_segment)
            self._open(segment, place + 1)

    def _begin(self, listed: list[leaves.Leaf], record: int) -> dict[str, Any]:
        content = {
            "config": self.config,
            "flags": {"finite": self.finite},
            "every": self.every,
            "record": record,
            "per_segment": max(1, SEGMENT // record),
            "tree": listed,
        }
        text = manifests.render("trajectory", content)
        temporary = self.path / f".{manifests.NAME}.tmp"
        with suppress(FileNotFoundError):
            self.files.remove(temporary)
        try:
            disk.create(self.files, {temporary: lambda: [text]})
            self.files.rename(temporary, self.path / manifests.NAME)
        except BaseException:
            with suppress(OSError):
                self.files.remove(temporary)
            raise
        return self.manifest() or {}

    def _write(self, count: int, record: bytes) -> None:
        segment, place = divmod(count, self._kept().per_segment)
        handle, offset = self._open(segment, place), place * len(record)
        try:
            if not place:
                disk.flush(self.files, self.path)  # its name, and that of the manifest
            os.lseek(handle, offset, os.SEEK_SET)
            disk.put(self.files, handle, [record])
            self.files.fsync(handle)
        except OSError:
            with suppress(OSError):
                self.files.truncate(handle, offset)
            self._shut()  # so that the next one begins by making sure of what is there
            raise
        self._kept().finished = count + 1

    def _open(self, segment: int, records: int) -> int:
        """The file of a segment, kept open; if it was there, the records that it has are flushed.

        What follows these goes first: of one record over another, a power cut leaves a mixture.
        """
        if self._handle is None or self._handle[0] != segment:
            self._shut()
            name, size = self._kept().name(segment), records * self._kept().record
            there = name.exists()
            handle = self.files.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            self._handle = segment, handle
            if there:
                self._end(handle, size)
        return self._handle[1]

    def _end(self, handle: int, size: int) -> None:
        """Cut off what follows the last record that is finished, and flush the file."""
        unfinished = os.fstat(handle).st_size >= size + self._kept().record
        try:
            self.files.truncate(handle, size)
            self.files.fsync(handle)
        except BaseException:
            self._shut()
            raise
        if unfinished:
            words = f"{self._where} ended in a record that a power cut left unfinished"
            warnings.warn(f"{words}; it is cut off.", RuntimeWarning, stacklevel=5)

    def _shut(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self.files.close(handle[1])

    def _again(self, t: int, content: bytes) -> bool:
        index = self._find(t)
        if index is None or self._kept().sound(index)[:-SEAL] != content:
            last = f"{self.last}, the last time step of {self._where}"
            raise _check.fail("t", f"after {last}, or have the same bits as there", t)
        return True

    def _find(self, t: int) -> int | None:
        count = len(self)
        index = bisect.bisect_left(range(count), t, key=self._time)
        return index if index < count and self._time(index) == t else None

    def _time(self, index: int) -> int:
        return int.from_bytes(self._kept().read(index, HEAD), "little")

    def _kept(self) -> Segments:
        """The records, when there is a manifest."""
        if self._segments is None:
            sizes = [(self.manifest() or {})[name] for name in ("record", "per_segment")]
            self._segments = Segments(self._where, self.path, *sizes)
        return self._segments


def _numbers(where: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest, if it has what finding a record needs."""
    least = HEAD + SEAL + leaves.size(where, leaves.listed(where, manifest))
    numbers = [manifest.get(key) for key in ("every", "record", "per_segment")]
    if not all(type(number) is int and number > 0 for number in numbers):
        raise CorruptError(
            f"{where} must have whole numbers every, record and per_segment in its manifest."
        )
    if not least <= manifest["record"] <= least + 8 + manifests.LIMIT:
        raise CorruptError(
            f"{where} has records of {manifest['record']} bytes, but its tree needs {least}."
        )
    return manifest
