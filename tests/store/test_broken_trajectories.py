"""Trajectories that something has happened to are repaired or refused, at once and in little
memory; a link and a forked child are no second writer (G9)."""

import os
import shutil
import warnings

import numpy as np
import pytest
from test_faults import peak

import hmnn
from hmnn.store import CorruptError, LockedError, manifests, trajectories

PAGE = 4096


def posterior(t):
    return {"w": np.full(3000, t + 1, np.float32)}


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Seven records of about three pages, two in each segment."""
    monkeypatch.setattr(trajectories, "SEGMENT", 25_000)
    write(tmp_path / "a", range(7))
    assert len(list((tmp_path / "a").glob("*.records"))) == 4
    return tmp_path / "a"


def write(path, times):
    with hmnn.Trajectory(path) as trajectory:
        for t in times:
            trajectory.append(t, posterior(t))


def holds(path, count):
    trajectory = hmnn.Trajectory(path)
    assert trajectory.times.tolist() == list(range(count))
    assert all((trajectory[t]["w"] == t + 1).all() for t in range(count))
    assert trajectory.verify() == count


def zeroed(file, begin, end):
    content = file.read_bytes()
    file.write_bytes(content[:begin] + bytes(end - begin) + content[end:])


@pytest.mark.parametrize("page", range(3))
def test_a_page_of_the_last_record_that_never_arrived_is_as_if_it_had_not_been_written(path, page):
    file = path / "000003.records"
    zeroed(file, page * PAGE, min((page + 1) * PAGE, file.stat().st_size))
    holds(path, 6)
    with pytest.warns(RuntimeWarning, match="ended in a record that a power cut left unfinished"):
        write(path, [6, 7])
    holds(path, 8)


def test_records_of_zeros_are_records(tmp_path):
    with hmnn.Trajectory(tmp_path / "a") as trajectory:
        trajectory.append(0, {"w": np.zeros(3000)})
    assert hmnn.Trajectory(tmp_path / "a").last == 0


def test_a_last_record_that_was_changed_is_refused_and_nothing_is_added_to_it(path):
    file = path / "000003.records"
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    for act in (lambda: hmnn.Trajectory(path)[6], lambda: write(path, [7])):
        with pytest.raises(CorruptError, match=r"was changed after it was written: record 6 fails"):
            act()
    assert file.read_bytes() == content


def refused(path, said):
    for act in (lambda: hmnn.Trajectory(path).last, lambda: write(path, [7])):
        with pytest.raises(CorruptError, match=said):
            act()


@pytest.mark.parametrize("segment", range(3))
def test_a_lost_segment_is_refused(path, segment):
    (path / f"00000{segment}.records").unlink()
    refused(path, f"is incomplete: it has no 00000{segment}.records")


def test_a_segment_that_gets_lost_later_is_refused(path):
    trajectory = hmnn.Trajectory(path)
    assert trajectory.last == 6
    (path / "000001.records").unlink()
    with pytest.raises(CorruptError, match=r"it has no 000001\.records"):
        trajectory[2]


@pytest.mark.parametrize("change", [-1, -PAGE, PAGE])
def test_a_segment_of_another_length_is_refused(path, change):
    os.truncate(path / "000001.records", (path / "000001.records").stat().st_size + change)
    refused(path, r"was cut: 000001\.records")


def test_a_last_segment_that_is_too_long_is_refused(path):
    shutil.copy(path / "000000.records", path / "000003.records")
    with open(path / "000003.records", "ab") as file:
        file.write(bytes(20_000))
    refused(path, "must have 2 records in each segment")


@pytest.mark.parametrize("segment", [0, 1, 3, 4])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_pipes_links_and_folders_are_refused_as_segments(path, segment, kind):
    file = path / f"00000{segment}.records"
    if file.exists():
        file.rename(path / "moved")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("moved")
    else:
        file.mkdir()
    refused(path, rf"must be made of regular files\. 00000{segment}\.records is none")


def test_a_pipe_that_comes_later_is_not_waited_for(path):
    trajectory = hmnn.Trajectory(path)
    assert trajectory.last == 6
    (path / "000001.records").unlink()
    os.mkfifo(path / "000001.records")
    with pytest.raises(ValueError, match="must be a regular file"):
        trajectory[2]


@pytest.mark.parametrize("record", [2**40, 100, 0, -1, 2.0])
def test_a_forged_length_is_refused_in_little_memory(path, record):
    """The file is as long as the forged length says, but has no bytes."""
    manifest = hmnn.Trajectory(path).manifest()
    forged = {key: manifest[key] for key in ("config", "flags", "every", "per_segment", "tree")}
    text = manifests.render("trajectory", forged | {"record": record})
    (path / "manifest.json").write_bytes(text)
    os.truncate(path / "000000.records", 2**40)

    def act():
        with pytest.raises(CorruptError, match=r"records of|must have whole numbers"):
            hmnn.Trajectory(path)

    assert peak(act) < 2**24


def test_a_tree_of_unknown_numbers_is_refused(path):
    manifest = hmnn.Trajectory(path).manifest()
    forged = {key: manifest[key] for key in ("config", "flags", "every", "record", "per_segment")}
    tree = [manifest["tree"][0] | {"dtype": "float1024"}]
    (path / "manifest.json").write_bytes(manifests.render("trajectory", forged | {"tree": tree}))
    with pytest.raises(CorruptError, match=r"must be made of known numbers\. Got 'float1024'"):
        hmnn.Trajectory(path)


def test_a_link_has_the_lock_of_what_it_leads_to(path):
    link = path.parent / "link"
    link.symlink_to("a")
    with hmnn.Trajectory(path) as first, hmnn.Trajectory(link) as second:
        first.append(7, posterior(7))
        with pytest.raises(LockedError, match=f"locked by pid {os.getpid()}"):
            second.append(8, posterior(8))
    write(link, [8])
    holds(path, 9)


def forked(act):
    """Run this in a child; its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads
        child = os.fork()
    if child == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_a_forked_child_closes_is_still_open_in_its_parent(path):
    with hmnn.Trajectory(path) as trajectory:
        trajectory.append(7, posterior(7))
        assert forked(trajectory.close) == 0
        with pytest.raises(LockedError), hmnn.Trajectory(path) as second:
            second.append(8, posterior(8))
        trajectory.append(8, posterior(8))
    holds(path, 9)


def test_a_forked_child_is_another_writer(path):
    def append():
        try:
            trajectory.append(8, posterior(8))
        except LockedError:
            return 7

    with hmnn.Trajectory(path) as trajectory:
        trajectory.append(7, posterior(7))
        assert forked(append) == 7
    assert forked(append) == 0  # nobody else writes now
    holds(path, 9)


def test_a_child_that_lives_on_does_not_keep_the_lock_of_its_dead_parent(path):
    readable, writable = os.pipe()

    def parent():
        hmnn.Trajectory(path).append(7, posterior(7))
        if os.fork() == 0:
            os.close(writable)
            os.read(readable, 1)  # until the test has ended
            os._exit(0)

    assert forked(parent) == 0
    write(path, [8])
    os.close(writable)
    os.close(readable)
    holds(path, 9)
