"""Durable writes, one writer at a time. Operations are injected, so that tests can fail each."""

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

PIECE = 1 << 22
"""Bytes written or hashed at once."""


class LockedError(OSError):
    """Another process, or another writer of this one, is writing there."""


class Files(NamedTuple):
    """What writing asks of the operating system."""

    open: Callable[..., int] = os.open
    write: Callable[..., int] = os.write
    fsync: Callable[[int], None] = os.fsync
    truncate: Callable[[int, int], None] = os.ftruncate
    close: Callable[[int], None] = os.close
    rename: Callable[..., None] = os.rename
    mkdir: Callable[..., None] = os.mkdir
    remove: Callable[..., None] = os.unlink
    rmdir: Callable[..., None] = os.rmdir


DISK = Files()


def create(files: Files, contents: dict[Path, Callable[[], list[Any]]]) -> None:
    """Write new files and flush them; the disk begins with each while the next is made."""
    handles: list[int] = []
    try:
        for path, pieces in contents.items():
            handles.append(files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            put(files, handles[-1], pieces())
            with suppress(OSError, AttributeError):  # only a hint, and not on every system
                os.posix_fadvise(handles[-1], 0, 0, os.POSIX_FADV_DONTNEED)
        for handle in handles:
            files.fsync(handle)
    finally:
        while handles:
            files.close(handles.pop())


def put(files: Files, handle: int, pieces: Iterable[Any]) -> None:
    """Write all bytes of all pieces; the operating system may take fewer at a time."""
    for piece in parts(pieces):
        while piece:
            piece = piece[files.write(handle, piece) :]


def parts(pieces: Iterable[Any]) -> Iterator[memoryview]:
    """The bytes of some buffers, a few million at a time."""
    for piece in pieces:
        view = memoryview(piece).cast("B")
        yield from (view[i : i + PIECE] for i in range(0, len(view), PIECE))


def sha256(pieces: Iterable[Any]) -> str:
    """SHA-256 of all bytes of all pieces."""
    digest = hashlib.sha256()
    for piece in parts(pieces):
        digest.update(piece)
    return digest.hexdigest()


def hashing(pieces: list[Any]) -> Callable[[], str]:
    """Begin with the SHA-256 in another thread, while the caller writes; the result waits."""
    try:
        return _beside().submit(sha256, pieces).result
    except RuntimeError:  # no thread begins any more when the interpreter is ending
        return partial(sha256, pieces)


@cache
def _beside() -> ThreadPoolExecutor:
    """One thread, kept: to begin a new one costs as much as hashing 200 kB."""
    return ThreadPoolExecutor(1, "hmnn-sha256")


def flush(files: Files, folder: Path) -> None:
    """Flush a directory, so that names created in it or moved into it last."""
    handle = files.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files.fsync(handle)
    finally:
        files.close(handle)


def make(files: Files, folder: Path) -> None:
    """Make a folder and those above it, and flush their names.

    That of a folder which is there is flushed too: its maker may have been killed before he did.
    """
    if not folder.is_dir():
        make(files, folder.parent)
        with suppress(FileExistsError):
            files.mkdir(folder, 0o777)
    if os.access(folder.parent, os.R_OK):  # else we cannot have made anything in it
        flush(files, folder.parent)


def clear(files: Files, folder: Path, names: Iterable[str]) -> None:
    """Remove a directory that holds only files of these names, as far as it is there."""
    with suppress(FileNotFoundError):
        for name in names:
            with suppress(FileNotFoundError):
                files.remove(folder / name)
        files.rmdir(folder)


@contextmanager
def regular(path: Any, flags: int = os.O_RDONLY, folder: int | None = None) -> Iterator[int]:
    """Open a regular file for a while: no link is followed, no pipe is waited for."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{os.fspath(path)} must be a regular file.")
        yield handle
    finally:
        os.close(handle)


def read(name: str, limit: int, folder: int) -> memoryview:
    """All bytes, at most `limit`, of a regular file inside an open directory."""
    with regular(name, folder=folder) as handle:
        size = os.fstat(handle).st_size
        if size > limit:
            raise ValueError(f"{name} must have at most {limit} bytes. Got {size}.")
        return read_at(handle, 0, size)


def read_at(handle: int, offset: int, size: int) -> memoryview:
    """Bytes of an open file, fewer than `size` where it ends."""
    content, filled = memoryview(bytearray(size)), 0
    os.lseek(handle, offset, os.SEEK_SET)
    while filled < size and (count := os.readv(handle, [content[filled:]])):
        filled += count
    return content[:filled]


@contextmanager
def worded(where: str) -> Iterator[None]:
    """Say in one sentence what could not be written."""
    try:
        yield
    except LockedError:
        raise
    except OSError as error:
        message = f"{where} could not be written ({error.strerror}); what was there before is kept."
        raise OSError(error.errno, message) from error


class Lock(NamedTuple):
    """A lock file that is held, and by which process: a forked child holds nothing."""

    handle: int
    pid: int


_held: set[int] = set()
"""Handles of the locks of this process."""


@contextmanager
def locked(path: Path, files: Files = DISK) -> Iterator[None]:
    """Be the one writer of `path` for a while."""
    lock = acquire(path, files)
    try:
        yield
    finally:
        release(path, lock)


def acquire(path: Path, files: Files = DISK) -> Lock:
    """Take the lock beside `path`; that of a dead writer is taken over, as the kernel drops it."""
    name = _lock(path)
    while True:
        handle = files.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(name, handle):  # else its last holder removed it meanwhile
                # The file is not cut first: ext4 writes cut files out on close.
                os.pwrite(handle, f"{os.getpid():<20}".encode(), 0)
                _held.add(handle)
                return Lock(handle, os.getpid())
            os.close(handle)
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            words = f"{str(path)!r} is locked by pid {holder}, which is writing there."
            raise LockedError(words) from None
        except BaseException:
            os.close(handle)
            raise


def release(path: Path, lock: Lock) -> None:
    """Give the lock back and leave no file; a child leaves the lock of its parent alone."""
    if lock.pid == os.getpid():
        with suppress(OSError):
            os.unlink(_lock(path))
        _held.discard(lock.handle)
        os.close(lock.handle)


def _is(name: Path, handle: int) -> bool:
    try:
        return os.fstat(handle).st_ino == name.stat().st_ino
    except FileNotFoundError:
        return False


def _lock(path: Path) -> Path:
    return path.parent / f".{path.name}.lock"


def _forked() -> None:
    """In a new child: it has no threads, and must not keep its parent's locks from being freed."""
    _beside.cache_clear()
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
