"""A state on disk: a directory with state.safetensors and manifest.json, replaced whole or not.

`save` builds the new directory under a temporary name and flushes it, moves the old one aside to
`.NAME.old`, moves the new one in, flushes the parent and removes the old one. At every instant one
of the two is complete, and `load` looks at both names: it finds the last acknowledged checkpoint or
a newer one, whenever the writer is killed.
"""

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.store import files as disk
from hmnn.store import leaves, manifests, tensors
from hmnn.store.files import DISK, Files
from hmnn.store.manifests import CorruptError

DATA = "state.safetensors"
NAMES = (DATA, manifests.NAME)
LEFT = re.compile(r"\..*\.(tmp-[0-9a-f]{16}|old)")
"""Names of directories that a writer has not finished to write or to remove."""
ATTEMPTS = 20
"""How often a reader looks again when a writer replaces the directory under it."""


def save(
    state: Any, path: Any, config: Any = None, *, finite: bool = True, files: Files = DISK
) -> Path:
    """Write a state whole and verified, or not at all; a checkpoint at `path` is replaced.

    Args:
        state: a pytree of arrays, typed keys, numbers, strings and None.
        path: the directory to write; nothing else may be in it.
        config: what made the state, such as the network's name; anything that JSON knows.
        finite: whether floating-point arrays must be finite, now and when the state is loaded.
        files: the operations on files.
    """
    path = _check.path(path)
    _ours(path)
    listed, arrays = leaves.describe(state)
    buffers = tensors.pack(arrays)
    kind = f"{type(state).__module__}.{type(state).__qualname__}"
    manifest = {"config": config, "flags": {"finite": finite}, "type": kind, "tree": listed}
    digest = disk.hashing(buffers)
    leaves.check("state", listed, arrays, finite)
    contents: dict[str, Callable[[], list[Any]]] = {DATA: lambda: buffers}
    contents[manifests.NAME] = lambda: [_render(manifest, buffers, digest())]
    with disk.worded(_where(path)):
        if not path.exists():
            disk.make(files, path.parent)
        with disk.locked(path, files):
            _sweep(files, path)
            _build(files, path, contents)
    return path


def load(path: Any, like: Any = None, config: dict[str, Any] | None = None) -> Any:
    """Read a state back after verifying all of it.

    Args:
        path: the directory that `save` wrote.
        like: a state of the same structure, such as `method.init(0)`; the result has its types.
            Without it the result is made of dictionaries, lists and NumPy arrays: to take types
            from a file would run code. A part of `like` that is `...` gets that plain form too.
        config: what the config that it was saved with must say, such as whose state it is.
    """
    path = _check.path(path)
    manifest, arrays = read(path)
    said = manifest["config"] if isinstance(manifest["config"], dict) else {}
    for name, value in json.loads(json.dumps(config or {})).items():
        if said.get(name) != value:
            wanted = f"{_where(path)} must have been saved with the {name} {value!r}"
            raise ValueError(f"{wanted}. Got {said.get(name)!r}.")
    return leaves.fill(_where(path), manifest["tree"], arrays, like)


def remove(path: Any) -> None:
    """Remove a checkpoint; what `save` did not write is refused."""
    path = Path(path)
    if not written(path):
        raise _check.fail("path", "a checkpoint", str(path))
    disk.clear(DISK, path, NAMES)


def written(path: Path) -> bool:
    """Whether this is a directory that `save` wrote, or left when its process was killed."""
    if path.is_symlink() or not path.is_dir() or not set(os.listdir(path)) <= set(NAMES):
        return False
    if LEFT.fullmatch(path.name):
        return True
    try:
        text = (path / manifests.NAME).read_bytes()
        return manifests.read(_where(path), text)["kind"] == "checkpoint"
    except (OSError, ValueError, KeyError):
        return False


def exists(path: Any) -> bool:
    """Whether there is something to load at `path`, also after its writer was killed."""
    return place(_check.path(path)).exists()


def place(path: Path) -> Path:
    """Where the state of `path` lies: there, or aside if its last writer was killed."""
    return path if path.exists() else _old(path)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of a checkpoint, verified."""
    (manifest, content), where = _read(path), _where(path)
    arrays = tensors.unpack(where, content)
    leaves.check(where, leaves.listed(where, manifest), arrays, manifest["flags"]["finite"])
    return manifest, arrays


def _read(path: Path) -> tuple[dict[str, Any], memoryview]:
    """The manifest and the bytes that it vouches for."""
    where = _where(path)
    for attempt in range(ATTEMPTS):
        folder = None
        try:
            folder = _enter(path)
            text = bytes(disk.read(manifests.NAME, manifests.LIMIT, folder))
            manifest = manifests.read(where, text, "checkpoint")
            return manifest, _content(where, manifest, folder)
        except FileNotFoundError as error:  # a writer may just have replaced it
            missing, there = error, folder is not None
        except (KeyError, TypeError, AttributeError) as error:
            words = f"{where} has a manifest that lacks something ({error!r})."
            raise CorruptError(words) from None
        except MemoryError:
            raise CorruptError(f"{where} says that it needs more memory than there is.") from None
        finally:
            if folder is not None:
                os.close(folder)
        time.sleep(0.0005 * attempt)
    if there:
        raise CorruptError(f"{where} is incomplete: it has no {missing.filename}.")
    raise FileNotFoundError(f"There is no {where}.")


def _content(where: str, manifest: dict[str, Any], folder: int) -> memoryview:
    said = manifest["files"][DATA]
    content = disk.read(DATA, said["bytes"], folder)
    if len(content) != said["bytes"]:
        raise CorruptError(
            f"{where} must have {said['bytes']} bytes in {DATA}. Got {len(content)}."
        )
    if disk.sha256([content]) != said["sha256"]:
        raise CorruptError(
            f"{where} was changed after it was written: the SHA-256 of {DATA} does not match."
        )
    return content


def _render(manifest: dict[str, Any], buffers: list[Any], digest: str) -> bytes:
    data = {"bytes": sum(memoryview(b).nbytes for b in buffers), "sha256": digest}
    return manifests.render("checkpoint", {**manifest, "files": {DATA: data}})


def _build(files: Files, path: Path, contents: dict[str, Callable[[], list[Any]]]) -> None:
    """Write the files under a temporary name, then put them in place; or leave nothing."""
    temporary = path.parent / f".{path.name}.tmp-{os.urandom(8).hex()}"
    try:
        files.mkdir(temporary, 0o755)
        disk.create(files, {temporary / name: pieces for name, pieces in contents.items()})
        disk.flush(files, temporary)
        _swap(files, path, temporary)
    except BaseException:
        with suppress(OSError):
            disk.flush(files, path.parent)  # first: without it, the disk may forget the moving back
            disk.clear(files, temporary, NAMES)
        raise


def _swap(files: Files, path: Path, temporary: Path) -> None:
    """Put the new directory in the place of the old one; on an error the old one is put back."""
    old, moved = _old(path), False
    try:
        if path.exists():
            files.rename(path, old)
            moved = True
        files.rename(temporary, path)
        disk.flush(files, path.parent)
    except BaseException:
        with suppress(OSError):
            files.rename(path, temporary)
        if moved:
            files.rename(old, path)
        raise
    with suppress(OSError):  # what is left of the old one is swept next time
        disk.clear(files, old, NAMES)


def _sweep(files: Files, path: Path) -> None:
    """Remove what dead writers left; an old checkpoint whose successor never came is put back."""
    old, litter = _old(path), re.compile(re.escape(f".{path.name}.tmp-") + "[0-9a-f]{16}")
    if old.exists() and not path.exists():
        files.rename(old, path)
    left = [path.parent / name for name in os.listdir(path.parent) if litter.fullmatch(name)]
    left += [old] if old.exists() else []
    if left:
        disk.flush(files, path.parent)  # first: the dead writer may not have come to it
    for folder in left:
        disk.clear(files, folder, NAMES)


def _enter(path: Path) -> int:
    """Open the directory itself, so that it stays the same one while its files are read."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return os.open(_old(path), os.O_RDONLY | os.O_DIRECTORY)
    except NotADirectoryError:
        words = f"{_where(path)} must be a directory with {DATA} and {manifests.NAME}."
        raise CorruptError(words) from None


def _ours(path: Path) -> None:
    """Refuse to replace what is not a checkpoint."""
    if path.exists() and not (path.is_dir() and set(os.listdir(path)) <= set(NAMES)):
        raise _check.fail("path", "new, or a checkpoint to be replaced", str(path))


def _where(path: Path) -> str:
    return f"checkpoint {str(path)!r}"


def _old(path: Path) -> Path:
    return path.parent / f".{path.name}.old"
