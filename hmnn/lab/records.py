"""What a run leaves behind: record.json, written whole or not at all."""

import json
import math
import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hmnn.store import files as disk
from hmnn.store.files import DISK, Files

PACKAGES = ("hmnn", "jax", "jaxlib", "optax", "equinox", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of what a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def write(path: Path, record: dict[str, Any], files: Files = DISK) -> None:
    """Write a record as JSON; numbers that are not finite become null."""
    text = json.dumps(plain(record), indent=2, allow_nan=False) + "\n"
    temporary = path.parent / f".record-{os.urandom(8).hex()}"
    try:
        disk.create(files, {temporary: lambda: [text.encode()]})
        files.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            files.remove(temporary)
        raise
    disk.flush(files, path.parent)


def plain(value: Any) -> Any:
    """Turn arrays, tuples and NumPy numbers into what JSON knows."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flat(value: Any, between: str, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    """The values in dictionaries of dictionaries, each with the keys that lead to it."""
    if isinstance(value, dict) and (value or not path):
        inner = ((item, (*path, str(key))) for key, item in value.items())
        return [row for item, keys in inner for row in flat(item, between, keys)]
    return [(between.join(path), value)]
