"""manifest.json: what a directory holds. Its SHA-256 sums vouch for the other files and itself."""

import json
import platform
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

from hmnn.store import files

VERSION = 1
"""Of the format. A newer one is refused; an older one is migrated."""
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version to the next: a function of the manifest. Version 1 is the first."""
NAME = "manifest.json"
LIMIT = 1 << 24
"""Bytes of the longest manifest or header that is read: parsed well within a second."""
ENCODER = json.JSONEncoder(allow_nan=False)
BLANK = "0" * 64
SEAL = re.compile(rb'"sha256": "([0-9a-f]{64})"\n\}\n\Z')


class CorruptError(ValueError):
    """What is on disk is not what was written."""


def render(kind: str, content: dict[str, Any]) -> bytes:
    """A manifest as text; its last line is the SHA-256 of the text with zeros in that place."""
    manifest = {"kind": kind, "version": VERSION, **content}
    manifest |= {"versions": _versions(), "sha256": BLANK}
    try:
        lines = [f'"{key}": {ENCODER.encode(value)}' for key, value in manifest.items()]
        text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"config must be made of what JSON knows ({error}).") from None
    if len(text) > LIMIT:
        raise ValueError(f"config and tree must fit in {LIMIT} bytes of JSON. Got {len(text)}.")
    return SEAL.sub(f'"sha256": "{files.sha256([text])}"\n}}\n'.encode(), text)


def read(where: str, text: bytes, kind: str = "") -> dict[str, Any]:
    """Check a manifest's seal, version and kind, and return its content."""
    found = SEAL.search(text, max(0, len(text) - 100))
    if found is None:
        raise CorruptError(f"{where} is not a manifest of this package, or was cut short.")
    blank = text[: found.start(1)] + BLANK.encode() + text[found.end(1) :]
    if files.sha256([blank]) != found.group(1).decode():
        raise CorruptError(f"{where} was changed after it was written: its SHA-256 does not match.")
    manifest = migrate(where, parse(where, text))
    if kind and manifest.get("kind") != kind:
        raise CorruptError(f"{where} must be of a {kind}. Got {manifest.get('kind')!r}.")
    return manifest


def migrate(where: str, manifest: Any) -> dict[str, Any]:
    """Bring a manifest to the version of today."""
    number = manifest.get("version") if isinstance(manifest, dict) else None
    if type(number) is not int:
        raise CorruptError(f"{where} must say its format version. Got {number!r}.")
    if number > VERSION:
        raise CorruptError(
            f"{where} has format version {number}; this hmnn reads up to {VERSION}. "
            "Use a newer hmnn."
        )
    while number in MIGRATIONS and number < VERSION:
        manifest, number = MIGRATIONS[number](manifest), number + 1
    if number != VERSION:
        raise CorruptError(f"{where} has format version {number}, which never was.")
    return manifest


def parse(where: str, text: bytes) -> Any:
    """JSON, strictly: no key twice, no NaN, no depth that a parser chokes on."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_unknown)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{where} must be JSON as this package writes it ({error}).") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _unknown(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


@cache
def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("hmnn", "jax", "numpy")}
    return {"python": platform.python_version()} | packages
