"""Streams: one Dataset per time step."""

from hmnn.data.moons import two_moons
from hmnn.data.streams import Stream

__all__ = ["Stream", "two_moons"]
