"""The safetensors format, strictly: little-endian, C order, no gaps, every length checked first."""

import json
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from hmnn.store import manifests
from hmnn.store.manifests import CorruptError

NAMES = "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8"
"""NumPy's names of the numbers that are stored, beside bool and bfloat16: kind and bytes."""
DTYPES = {f"{n[0].upper()}{8 * int(n[1])}": np.dtype(n) for n in NAMES.split()}
DTYPES |= {"BOOL": np.dtype(np.bool_), "BF16": np.dtype(jnp.bfloat16)}
CODES = {dtype: code for code, dtype in DTYPES.items()}


def pack(arrays: dict[str, np.ndarray]) -> list[Any]:
    """The buffers of a safetensors file; big numbers first, so that all are aligned."""
    header: dict[str, Any] = {}
    buffers: list[Any] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        buffer = np.asarray(array, order="C").reshape(-1).view(np.uint8)
        end, code = offset + buffer.size, CODES[array.dtype]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, end]}
        buffers.append(buffer)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *buffers]


def unpack(where: str, content: memoryview) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, as views of its bytes."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8 or length > manifests.LIMIT:
        raise CorruptError(
            f"{where} says that its header has {length} bytes, but the file has {len(content)}."
        )
    header = manifests.parse(where, bytes(content[8 : 8 + length]))
    if not isinstance(header, dict):
        raise CorruptError(
            f"{where} must have a header that maps names to arrays. Got {type(header).__name__}."
        )
    header.pop("__metadata__", None)
    entries = {name: _entry(where, name, entry) for name, entry in header.items()}
    _tile(where, entries, len(content) - 8 - length)
    data = np.frombuffer(content, np.uint8)[8 + length :]
    return {n: _view(where, n, data[a:b], d, shape) for n, (d, shape, a, b) in entries.items()}


def _entry(where: str, name: str, entry: Any) -> tuple[np.dtype, list[int], int, int]:
    """The dtype, shape and bytes of one array."""
    good = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
    good = good and isinstance(entry["dtype"], str) and entry["dtype"] in DTYPES
    good = good and all(
        isinstance(entry[key], list) and all(type(n) is int and 0 <= n < 2**63 for n in entry[key])
        for key in ("shape", "data_offsets")
    )
    if not good or len(entry["data_offsets"]) != 2 or len(entry["shape"]) > 32:
        raise CorruptError(
            f"{where} must describe {name!r} by dtype, shape and data_offsets. "
            f"Got {str(entry)[:80]}."
        )
    dtype, (begin, end) = DTYPES[entry["dtype"]], entry["data_offsets"]
    if end - begin != dtype.itemsize * math.prod(entry["shape"]):
        raise CorruptError(
            f"{where} has {end - begin} bytes for {name!r}, a {dtype} of shape {entry['shape']}."
        )
    return dtype, entry["shape"], begin, end


def _tile(where: str, entries: dict[str, tuple[np.dtype, list[int], int, int]], size: int) -> None:
    """Refuse arrays that overlap, leave gaps or reach beyond the file."""
    reached = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != reached:
            raise CorruptError(
                f"{where} must hold its arrays without overlap or gap. {name!r} begins at {begin}."
            )
        reached = end
    if reached != size:
        raise CorruptError(
            f"{where} must hold {reached} bytes of arrays, as its header says. Got {size}."
        )


def _view(where: str, name: str, data: np.ndarray, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    try:
        return data.view(dtype).reshape(shape)
    except ValueError:  # a shape such as [0, 2**62]
        raise CorruptError(f"{where} gives {name!r} a shape that no array has: {shape}.") from None
