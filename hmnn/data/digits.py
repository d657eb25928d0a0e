"""MNIST, read from its IDX files."""

import math
import struct

import numpy as np

from hmnn import _check
from hmnn.data import files

UBYTE = 0x08
"""The only kind of number that MNIST has."""


def mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The digits, in uint8: training images and labels, then test images and labels.

    Images have the shapes (60000, 28, 28) and (10000, 28, 28).
    """
    x, y, test_x, test_y = (idx(files.read(name), name) for name in files.GROUPS["mnist"])
    return x, y, test_x, test_y


def idx(content: bytes, name: str = "content") -> np.ndarray:
    """An IDX file of unsigned bytes: two zeros, kind, number of dimensions, sizes, numbers."""
    if len(content) < 4 or content[:3] != bytes((0, 0, UBYTE)) or content[3] == 0:
        allowed = "an IDX file of unsigned bytes, beginning 00 00 08"
        raise _check.fail(name, allowed, content[:4].hex(" "))
    start = 4 + 4 * content[3]
    if len(content) < start:
        allowed = f"an IDX file with a header of {start} bytes"
        raise _check.fail(name, allowed, f"{len(content)} bytes")
    sizes = struct.unpack_from(f">{content[3]}I", content, 4)
    if len(content) != start + math.prod(sizes):
        allowed = f"an IDX file of {start + math.prod(sizes)} bytes, as its sizes {sizes} say"
        raise _check.fail(name, allowed, f"{len(content)} bytes")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)
