"""Unpacking that trusts nothing: sizes are bounded, names are ours, links and devices refused."""

import gzip
import os
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Protocol, runtime_checkable

PIECE = 1 << 20
"""Bytes read at once."""
LIMIT = 256 << 20
"""Bytes that an archive may hold, all members and their headers together."""
BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


class ArchiveError(ValueError):
    """An archive that is broken, hostile or not the one that was meant."""


@runtime_checkable
class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, none at the end."""


class _Bounded:
    """A stream that ends in an error once more than `limit` bytes were read."""

    def __init__(self, stream: Readable, limit: int, what: str) -> None:
        self.stream, self.limit, self.what, self.count = stream, limit, what, 0

    def read(self, size: int = PIECE) -> bytes:
        piece = self.stream.read(min(size, self.limit - self.count + 1))
        self.count += len(piece)
        if self.count > self.limit:
            raise ArchiveError(f"{self.what} must unpack to at most {self.limit} bytes. Got more.")
        return piece


def is_gzip(path: Path) -> bool:
    """Whether a file begins as gzip files do, whatever its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def gunzip(source: Path, target: Path, limit: int = LIMIT) -> None:
    """Unpack a gzip file into a new file of at most `limit` bytes; of a failure nothing is left."""
    if not is_gzip(source):
        raise ArchiveError(f"{source.name} must be a gzip file. Got other bytes.")
    try:
        with gzip.open(source) as packed, target.open("xb") as file:
            _copy(_Bounded(packed, limit, source.name), file)
    except BROKEN as error:
        target.unlink(missing_ok=True)
        words = f"{source.name} must be a whole gzip file. Got an error: {error}."
        raise ArchiveError(words) from None
    except ArchiveError:
        target.unlink(missing_ok=True)
        raise


def extract(
    archive: Path, folder: Path, wanted: Mapping[str, str], limit: int = LIMIT
) -> list[Path]:
    """Unpack some members of a tar or tar.gz file, all of them or none.

    Args:
        archive: the file.
        folder: where the unpacked files go; it must be there.
        wanted: the name of each wanted member and the plain file name that it gets in `folder`.
        limit: bytes that the whole archive may unpack to, wanted or not.

    Returns:
        The unpacked files, in the order of `wanted`.

    Raises:
        ArchiveError: the archive is broken or too large, or a member anywhere in it is missing,
            comes twice, has an absolute name or one with `..`, or is a link, a device or sparse.
    """
    if any(name != Path(name).name or name in ("", ".", "..") for name in wanted.values()):
        raise ArchiveError(f"wanted must give plain file names. Got {list(wanted.values())}.")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpack-") as temporary:
        try:
            found = _unpack(archive, Path(temporary), wanted, limit)
        except BROKEN as error:
            words = f"{archive.name} must be a whole tar file. Got an error: {error}."
            raise ArchiveError(words) from None
        missing = [name for name in wanted if name not in found]
        if missing:
            raise ArchiveError(
                f"{archive.name} must hold {', '.join(missing)}. Got {len(found)} of {len(wanted)}."
            )
        for name in wanted:
            os.replace(found[name], folder / wanted[name])
    return [folder / name for name in wanted.values()]


def _unpack(archive: Path, folder: Path, wanted: Mapping[str, str], limit: int) -> dict[str, Path]:
    """One pass over the whole archive, so that a bad member after the wanted ones is seen too."""
    found: dict[str, Path] = {}
    with gzip.open(archive) if is_gzip(archive) else archive.open("rb") as stream:
        bounded = _Bounded(stream, limit, archive.name)
        # It only reads, so that `read` will do.
        with tarfile.open(fileobj=bounded, mode="r|") as tar:  # type: ignore[call-overload]
            for member in tar:
                _check_member(archive, member)
                if member.name not in wanted or member.isdir():
                    continue
                if member.name in found:
                    raise ArchiveError(
                        f"{archive.name} must hold {member.name!r} once. Got it twice."
                    )
                found[member.name] = folder / wanted[member.name]
                with found[member.name].open("xb") as file:
                    _copy(_Bounded(tar.extractfile(member), limit, archive.name), file)
        while bounded.read():  # to the end, where gzip has its checksum
            pass
    return found


def _check_member(archive: Path, member: tarfile.TarInfo) -> None:
    posix, windows = PurePosixPath(member.name), PureWindowsPath(member.name)
    if posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts):
        raise ArchiveError(
            f"{archive.name} must hold names inside its own folder only. Got {member.name!r}."
        )
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or member.issparse():
        raise ArchiveError(
            f"{archive.name} must hold plain files and folders only. "
            f"Got {member.name!r} of type {member.type!r}."
        )


def _copy(source: _Bounded, target: IO[bytes]) -> None:
    while piece := source.read(PIECE):
        target.write(piece)
