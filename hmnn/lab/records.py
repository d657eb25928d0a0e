"""What a run leaves behind: record.json, written whole or not at all."""

import json
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("hmnn", "jax", "jaxlib", "optax", "equinox", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of what a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON; numbers that are not finite become null."""
    text = json.dumps(plain(record), indent=2, allow_nan=False) + "\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".record-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def plain(value: Any) -> Any:
    """Turn arrays, tuples and NumPy numbers into what JSON knows."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
