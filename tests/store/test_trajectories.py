"""A history that grows: thinned, read while it grows, found by t, verified, and gone on with after
a crash."""

import errno
import os
import random
from contextlib import nullcontext, suppress

import jax.numpy as jnp
import numpy as np
import pytest
from test_faults import Crash, failing

import hmnn
from hmnn.core.families import Posterior
from hmnn.store import CorruptError, LockedError, files, trajectories


def posterior(t, size=3):
    return Posterior(jnp.full(size, t, jnp.float32), jnp.full(size, -t, jnp.float32))


def grow(path, times, **settings):
    with hmnn.Trajectory(path, **settings) as trajectory:
        return [trajectory.append(t, posterior(t)) for t in times]


def holds(path, times):
    trajectory = hmnn.Trajectory(path)
    assert trajectory.times.tolist() == list(times)
    for t in times:
        assert (trajectory[t]["location"] == t).all()
    return trajectory


def test_thinned_and_found_by_t(tmp_path):
    assert grow(tmp_path / "a", range(7), every=3) == [True, False, False, True, False, False, True]
    trajectory = holds(tmp_path / "a", [0, 3, 6])
    assert (len(trajectory), trajectory.last, trajectory.every) == (3, 6, 3)
    found = trajectory.at(3, like=posterior(0))
    assert isinstance(found, Posterior)
    assert isinstance(found.rho, jnp.ndarray)
    for absent in (1, 7, -1):
        with pytest.raises(KeyError, match="has no time step"):
            trajectory[absent]
    with pytest.raises(ValueError, match="does not fit `like`"):
        trajectory.at(3, like=posterior(0, size=4))


def test_what_was_said_of_it_at_first_stays_and_may_be_said_again(tmp_path):
    with hmnn.Trajectory(tmp_path / "a", config={"hidden": (64, 64)}) as history:
        history.append(0, {"w": np.ones(2)})
    again = hmnn.Trajectory(tmp_path / "a", config={"hidden": (64, 64)}, finite=False)
    with pytest.raises(ValueError, match="must hold finite numbers"):  # else it could not be read
        again.append(1, {"w": np.array([np.nan, 1.0])})
    with pytest.raises(ValueError, match="every and config must be those of"):
        hmnn.Trajectory(tmp_path / "a", config={"hidden": (64, 65)})


def test_nothing_is_there_before_the_first_append(tmp_path):
    trajectory = hmnn.Trajectory(tmp_path / "a")
    assert (len(trajectory), trajectory.last, trajectory.times.tolist()) == (0, None, [])
    assert os.listdir(tmp_path) == []


def test_readable_while_it_grows_and_segments_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(trajectories, "SEGMENT", 700)
    reader = hmnn.Trajectory(tmp_path / "a")
    with hmnn.Trajectory(tmp_path / "a") as writer:
        for t in range(0, 40, 2):
            writer.append(t, posterior(t))
            assert reader.last == t
            assert (reader[t // 4 * 2]["location"] == t // 4 * 2).all()
    sizes = [f.stat().st_size for f in (tmp_path / "a").glob("*.records")]
    assert len(sizes) > 5
    assert max(sizes) <= 700
    holds(tmp_path / "a", range(0, 40, 2))


def test_one_record_is_read_not_all(tmp_path, monkeypatch):
    grow(tmp_path / "a", range(64))
    trajectory, read = hmnn.Trajectory(tmp_path / "a"), []
    whole = files.read_at
    monkeypatch.setattr(files, "read_at", lambda *a: read.append(a[2]) or whole(*a))
    trajectory[40]
    record = trajectory.manifest()["record"]
    assert sum(read) < 3 * record  # that record, the last one (is it finished?), and times
    read.clear()
    trajectory[41]
    assert sum(read) < 2 * record
    assert record < (tmp_path / "a/000000.records").stat().st_size // 60


def test_time_rises_and_the_same_bits_may_come_again(tmp_path):
    grow(tmp_path / "a", [0, 1, 5])
    assert grow(tmp_path / "a", [1, 5, 6]) == [True, True, True]
    holds(tmp_path / "a", [0, 1, 5, 6])
    with hmnn.Trajectory(tmp_path / "a") as trajectory:
        for t, other in ((5, posterior(4)), (3, posterior(3))):
            with pytest.raises(ValueError, match="t must be after 6"):
                trajectory.append(t, other)
        with pytest.raises(ValueError, match="location differs"):
            trajectory.append(7, posterior(7, size=4))
        with pytest.raises(ValueError, match="finite"):
            trajectory.append(7, posterior(np.nan))
    holds(tmp_path / "a", [0, 1, 5, 6])
    with pytest.raises(ValueError, match="every and config must be those of"):
        hmnn.Trajectory(tmp_path / "a", every=2)


def test_a_torn_tail_is_ignored_and_cut_off(tmp_path):
    grow(tmp_path / "a", range(3))
    file = tmp_path / "a/000000.records"
    good = file.read_bytes()
    size = len(good) // 3
    for torn in (good[: size // 2], bytes(size), bytes(size - 1), b"x"):
        file.write_bytes(good + torn)
        holds(tmp_path / "a", range(3))
        with pytest.warns(RuntimeWarning) if len(torn) == size else nullcontext():
            grow(tmp_path / "a", [3])
        holds(tmp_path / "a", range(4))
    for cut in range(2 * size + 1, 3 * size, 17):
        file.write_bytes(good[:cut])
        holds(tmp_path / "a", range(2))


def test_every_flipped_bit_is_refused(tmp_path):
    grow(tmp_path / "a", range(3))
    chance = random.Random(1)
    for name in ("000000.records", "manifest.json"):
        file = tmp_path / "a" / name
        good = file.read_bytes()
        for bit in chance.sample(range(8 * len(good)), 100):
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            file.write_bytes(bad)
            with pytest.raises(CorruptError):
                hmnn.Trajectory(tmp_path / "a").verify()
        file.write_bytes(good)
    assert hmnn.Trajectory(tmp_path / "a").verify() == 3


def test_the_second_writer_is_refused_and_readers_are_not(tmp_path):
    with hmnn.Trajectory(tmp_path / "a") as first:
        first.append(0, posterior(0))
        second = hmnn.Trajectory(tmp_path / "a")
        with pytest.raises(LockedError, match=f"locked by pid {os.getpid()}"):
            second.append(1, posterior(1))
        assert second.last == 0
    with second:
        assert second.append(1, posterior(1))
    assert os.listdir(tmp_path) == ["a"]


def calls_of_an_append(tmp_path):
    good, calls = failing(10**9, None)
    grow(tmp_path / "count", [0], files=good)
    begun = len(calls)
    grow(tmp_path / "count", [1], files=good)
    return begun, len(calls) - begun


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=["ENOSPC", "EIO", "EACCES"]
)
def test_a_fault_costs_only_the_record_that_was_being_written(tmp_path, code):
    first, later = calls_of_an_append(tmp_path)
    for begun, count in ((0, first), (1, later)):
        for at in range(count - 1):  # the last call closes the file
            path = tmp_path / f"{begun}-{at}" / "a"
            grow(path, range(begun))
            bad, _ = failing(at, OSError(code, os.strerror(code)))
            trajectory = hmnn.Trajectory(path, files=bad)
            with pytest.raises(
                OSError, match=r"trajectory .* could not be written.*what was there before is kept"
            ):
                trajectory.append(begun, posterior(begun))
            holds(path, range(begun))
            trajectory.append(begun, posterior(begun))  # the disk is well again
            trajectory.close()
            holds(path, range(begun + 1))
            assert not [name for name in os.listdir(path) if name.startswith(".")]


def bury(trajectory):
    """What the kernel does for a dead process."""
    if trajectory._lock is not None:
        files._held.discard(trajectory._lock.handle)
        os.close(trajectory._lock.handle)


def test_a_crash_at_any_operation_keeps_what_was_acknowledged(tmp_path):
    first, later = calls_of_an_append(tmp_path)
    for begun, count in ((0, first), (2, later)):
        for at in range(count):
            path = tmp_path / f"{begun}-{at}" / "a"
            grow(path, range(begun))
            bad, _ = failing(at, Crash())
            trajectory = hmnn.Trajectory(path, files=bad)
            with suppress(Crash):
                trajectory.append(begun, posterior(begun))
                trajectory.close()
            bury(trajectory)
            assert len(hmnn.Trajectory(path)) >= begun
            grow(path, range(begun, begun + 2))
            holds(path, range(begun + 2))
