"""The records of a trajectory: all of one length, so many in each of the files 000000.records, ...

A record ends with the SHA-256 of the rest. Only the last one may be unfinished, by a writer that
was killed (it is short) or by a power cut (it is short, or a sector of it reads zeros). Anything
else that is not as it was written is refused.
"""

import hashlib
import os
import re
import stat
from pathlib import Path

from hmnn.store import files as disk
from hmnn.store.manifests import CorruptError

SEAL, SECTOR = 32, 512
"""Bytes of the SHA-256, and the fewest that a disk writes at once."""
NAME = re.compile(r"(\d{6,})\.records")


class Segments:
    """What can be read of the records in a folder, while they grow or not."""

    def __init__(self, where: str, folder: Path, record: int, per_segment: int) -> None:
        """Name the folder, the bytes of a record and the records of a segment."""
        self.where, self.folder = where, folder
        self.record, self.per_segment = record, per_segment
        self.finished = 0
        """So many records are known to be finished; the writer says so too."""
        self._last: int | None = None

    def name(self, segment: int) -> Path:
        """The file of a segment."""
        return self.folder / f"{segment:06d}.records"

    def count(self) -> int:
        """How many records there are; an unfinished one does not count."""
        last = self._reach()
        here, _ = divmod(self._size(last) or 0, self.record)
        if here > self.per_segment:
            raise CorruptError(
                f"{self.where} must have {self.per_segment} records in each segment. Got {here}."
            )
        total = last * self.per_segment + here
        if here and total != self.finished and self._unfinished(total - 1):
            return total - 1
        self.finished = total
        return total

    def read(self, index: int, size: int = 0) -> memoryview:
        """The first bytes of a record, or all of them."""
        segment, place = divmod(index, self.per_segment)
        try:
            with disk.regular(self.name(segment)) as handle:
                return disk.read_at(handle, place * self.record, size or self.record)
        except FileNotFoundError:
            raise self._lost(segment) from None

    def sound(self, index: int) -> memoryview:
        """A whole record, verified."""
        record = self.read(index)
        if not _sealed(record):
            raise CorruptError(
                f"{self.where} was changed after it was written: record {index} fails its SHA-256."
            )
        return record

    def _reach(self) -> int:
        """The last segment; those before it must be there, and full."""
        if self._last is None:
            names = map(NAME.fullmatch, os.listdir(self.folder))
            there = {int(found.group(1)) for found in names if found}
            if gaps := set(range(max(there, default=0))) - there:
                raise self._lost(min(gaps))
            self._last = 0
        while self._size(self._last + 1) is not None:
            if self._size(self._last) != self.record * self.per_segment:
                raise CorruptError(f"{self.where} was cut: {self.name(self._last).name} is short.")
            self._last += 1
        return self._last

    def _size(self, segment: int) -> int | None:
        """The bytes of a segment, None if there is none."""
        try:
            status = os.lstat(self.name(segment))
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            name = self.name(segment).name
            raise CorruptError(f"{self.where} must be made of regular files. {name} is none.")
        return status.st_size

    def _unfinished(self, index: int) -> bool:
        """Whether the power was cut while the last record was written."""
        record, offset = self.read(index), index % self.per_segment * self.record
        starts = range(-(offset % SECTOR), len(record), SECTOR)
        sectors = (record[max(start, 0) : start + SECTOR] for start in starts)
        return any(not any(sector) for sector in sectors) and not _sealed(record)

    def _lost(self, segment: int) -> CorruptError:
        return CorruptError(f"{self.where} is incomplete: it has no {self.name(segment).name}.")


def _sealed(record: memoryview) -> bool:
    return hashlib.sha256(record[:-SEAL]).digest() == record[-SEAL:]
