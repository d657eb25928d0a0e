"""Every acknowledged state is found again after a power cut at any operation, also when a writer
was killed or met an error before; and leaving out any sync or rename loses one (G11)."""

import errno
import itertools
import json
import os
import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from simulated_disk import Crash, Disk, written

import hmnn
from hmnn.lab import records
from hmnn.store import DISK, files

pytestmark = pytest.mark.filterwarnings("ignore:.*that a power cut left unfinished")
QUICK = DISK._replace(fsync=lambda handle: None)
"""Files where nothing is simulated and nobody waits for a disk."""
WIDE = 300
"""Numbers of a state, so that it has more sectors than one."""


class LostError(AssertionError):
    """What was acknowledged is not there after a power cut."""


def state(n, attempt):
    return {"n": np.full(WIDE, n + 1, np.int16), "w": np.full(WIDE, attempt, np.int16) + 1}


class Checkpoint:
    """One directory, replaced by each save."""

    numbers = (0, 1)

    def __init__(self, path, operations):
        self.path, self.files = path, operations

    def write(self, n, attempt):
        hmnn.save(state(n, attempt), self.path, files=self.files)

    def die(self):
        pass

    @staticmethod
    def newest(path):
        try:
            found = hmnn.load(path)
        except FileNotFoundError:
            return -1
        assert (found["n"] == found["n"][0]).all()
        return int(found["n"][0]) - 1


class History:
    """A trajectory, two records to a segment; each attempt has other bits."""

    numbers = (0, 1, 2)

    def __init__(self, path, operations):
        self.trajectory = hmnn.Trajectory(path, files=operations)

    def write(self, n, attempt):
        for t in range(n + 1):  # all of it again, as a resumed run does
            there = t < len(self.trajectory)
            self.trajectory.append(t, self.trajectory[t] if there else state(t, attempt))

    def die(self):
        """As the kernel does it for a dead process."""
        if self.trajectory._lock is not None:
            files._held.discard(self.trajectory._lock.handle)
            os.close(self.trajectory._lock.handle)

    @staticmethod
    def newest(path):
        trajectory = hmnn.Trajectory(path)
        count = trajectory.verify()
        assert trajectory.times.tolist() == list(range(count))
        assert all((trajectory[t]["n"] == t + 1).all() for t in range(count))
        return count - 1


class Record:
    """A file of JSON, replaced by each write."""

    numbers = (0, 1)

    def __init__(self, path, operations):
        self.path, self.files = path, operations

    def write(self, n, attempt):
        if not self.path.exists():
            files.make(self.files, self.path.parent)  # as `runs.made` does
        records.write(self.path, {"n": n, "attempt": attempt}, self.files)

    def die(self):
        pass

    @staticmethod
    def newest(path):
        return json.loads(path.read_text())["n"] if path.exists() else -1


KINDS = {"checkpoint": Checkpoint, "trajectory": History, "record": Record}


@pytest.fixture(autouse=True, scope="module")
def small_and_quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hmnn.store.trajectories, "SEGMENT", 2 * 4 * (WIDE + 100))
        patch.setattr(hmnn.store.checkpoints, "ATTEMPTS", 1)  # nobody writes beside us
        patch.delattr(os, "posix_fadvise", raising=False)  # it only makes the real disk work
        yield


@pytest.fixture(scope="module")
def lab():
    """In memory, if the system has such a folder: a real disk would be waited for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Laboratory(Path(os.path.realpath(folder)))


class Laboratory:
    """Scenarios on simulated disks; what a tree of files holds is looked up once."""

    def __init__(self, folder):
        self.folder, self.numbers, self.known = folder, itertools.count(), {}
        self.run = cache(self._run)

    def _run(self, kind, stop=None, error=None, leave_out=None):
        """Write numbers; one writer is killed or fails on the way, and writing goes on.

        Returns:
            How many operations there were, and the syncs and renames among them.
        """
        acknowledged, attempt, root = [-1], 0, self._new()
        disk = Disk(root, lambda: self._look(kind, disk, acknowledged[-1]), stop, error, leave_out)
        path, numbers = root / "x" / "y" / "a", list(KINDS[kind].numbers)
        writer = KINDS[kind](path, disk.files)
        while numbers:
            try:
                writer.write(numbers[0], attempt)
                acknowledged.append(numbers.pop(0))
            except Crash:
                attempt, disk.stop = attempt + 1, None
                writer.die()
                writer = KINDS[kind](path, disk.files)
            except OSError as failure:
                if failure.errno != errno.EIO:
                    raise
                attempt += 1
                if acknowledged[1:] and not path.exists():
                    raise LostError("It is not in its place.") from failure
            self._look(kind, disk, acknowledged[-1])
        writer.die()
        return disk.done, tuple(disk.calls)

    def _new(self):
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        return folder

    def _look(self, kind, disk, acknowledged):
        """What a power cut now may leave; before anything strange happened, another run looked."""
        for tree in disk.outcomes() if disk.strange else ():
            key = kind, re.sub(r"tmp-[0-9a-f]{16}", "tmp-", repr(tree))
            if key not in self.known:
                self.known[key] = self._found(kind, tree)
            if self.known[key] < acknowledged:
                raise LostError(f"{self.known[key]} instead of {acknowledged}.")

    def _found(self, kind, tree):
        """The newest number after a power cut; the next writer must come to its end, too."""
        path = written(tree, self._new()) / "x" / "y" / "a"
        try:
            found = KINDS[kind].newest(path)
            writer = KINDS[kind](path, QUICK)
            writer.write(found + 1, 9)
            writer.die()
            assert KINDS[kind].newest(path) == found + 1
        except ValueError:  # something is broken
            return -2
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_at_any_operation_loses_nothing_acknowledged(lab, kind):
    operations, calls = lab.run(kind)
    assert operations > 20
    assert len(calls) > 5


@pytest.mark.parametrize("how", ["stop", "error"])
@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_one_after_a_kill_or_an_error_at_any_operation(lab, kind, how):
    for at in range(lab.run(kind)[0]):
        lab.run(kind, **{how: at})


def noticed(lab, kind, number, call, **before):
    """Whether leaving out a sync or rename loses something, or cannot pass without an error."""
    try:
        lab.run(kind, leave_out=number, **before)
    except LostError:
        return True
    except (OSError, KeyError):
        return call[0] == "rename"
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_each_sync_and_rename_is_needed(lab, kind):
    calls = lab.run(kind)[1]
    needed = [noticed(lab, kind, number, call) for number, call in enumerate(calls)]
    assert [call for call, found in zip(calls, needed, strict=True) if not found] == []


@pytest.mark.parametrize("kind", ["checkpoint", "trajectory"])
def test_also_those_that_come_after_a_kill_or_an_error(lab, kind):
    """Each line of the store that syncs or renames is needed by one of the writers at least."""
    operations, calls = lab.run(kind)
    open_lines, seen = {}, set(calls)
    for how in ("stop", "error"):
        for at in range(operations):
            for number, call in enumerate(lab.run(kind, **{how: at})[1]):
                if call not in seen:
                    open_lines.setdefault(call, []).append((number, {how: at}))
    assert open_lines
    idle = {
        call: places
        for call, places in open_lines.items()
        if not any(noticed(lab, kind, number, call, **before) for number, before in places)
    }
    assert idle == {}
