"""Streams: one Dataset per time step, and the files that they are cut from."""

from hmnn.data.digits import mnist
from hmnn.data.drift import logistic_drift
from hmnn.data.electricity import Elec2, elec2
from hmnn.data.moons import two_moons
from hmnn.data.streams import Stream

__all__ = ["Elec2", "Stream", "elec2", "logistic_drift", "mnist", "two_moons"]
