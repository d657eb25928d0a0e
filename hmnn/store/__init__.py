"""Checkpoints and trajectories on disk: complete and verified, or refused; never unpickled."""

from hmnn.store.checkpoints import exists, load, save
from hmnn.store.files import DISK, Files, LockedError, locked
from hmnn.store.inspection import inspect
from hmnn.store.manifests import CorruptError
from hmnn.store.trajectories import Trajectory

__all__ = [
    "DISK",
    "CorruptError",
    "Files",
    "LockedError",
    "Trajectory",
    "exists",
    "inspect",
    "load",
    "locked",
    "save",
]
