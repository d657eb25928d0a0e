"""C3, C4, C5 and C7: kills, full disks, flipped bits and hostile files cost nothing but an
error."""

import errno
import json
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hmnn
from hmnn import store
from hmnn.store import DISK, CorruptError, Files, checkpoints, files, manifests

ROOT = Path(__file__).resolve().parents[2]


class Crash(BaseException):
    """The process is gone."""


def failing(at, error, only=None):
    """File operations of which call number `at` fails; after a Crash all the others fail too, as
    after a kill."""
    calls = []

    def wrap(name, function):
        def call(*arguments):
            calls.append(name)
            if len(calls) - 1 == at or (len(calls) > at and isinstance(error, Crash)):
                raise error
            return function(*arguments)

        return call

    return Files(*(wrap(name, getattr(DISK, name)) for name in Files._fields)), calls


def state(n):
    return {"n": n, "w": np.full(50, n, np.float32)}


def whole(path):
    found = hmnn.load(path)
    assert (found["w"] == found["n"]).all()
    return found["n"]


def operations(tmp_path):
    """The names of all calls that replacing a checkpoint makes."""
    good, calls = failing(10**9, None)
    hmnn.save(state(0), tmp_path / "count")
    hmnn.save(state(1), tmp_path / "count", files=good)
    return list(calls)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=["ENOSPC", "EIO", "EACCES"]
)
def test_a_fault_at_any_operation_keeps_the_previous_checkpoint(tmp_path, code):
    names = operations(tmp_path)
    assert {"open", "write", "fsync", "close", "rename", "mkdir", "remove", "rmdir"} == set(names)
    for at, name in enumerate(names):
        path = tmp_path / f"at-{at}" / "a"
        hmnn.save(state(0), path)
        bad, _ = failing(at, OSError(code, os.strerror(code)))
        if at < names.index("remove"):
            with pytest.raises(
                OSError, match=r"could not be written.*what was there before is kept"
            ) as caught:
                hmnn.save(state(1), path, files=bad)
            assert caught.value.errno == code
            assert whole(path) == 0
            assert os.listdir(path.parent) == ["a"]
        else:  # the new one is in place already, only the old one could not be removed
            hmnn.save(state(1), path, files=bad)
            assert whole(path) == 1, name
        hmnn.save(state(2), path)
        assert whole(path) == 2
        assert os.listdir(path.parent) == ["a"]


def test_a_crash_at_any_operation_leaves_the_old_or_the_new_one(tmp_path):
    found = []
    for at in range(len(operations(tmp_path))):
        path = tmp_path / f"at-{at}" / "a"
        hmnn.save(state(0), path)
        bad, _ = failing(at, Crash())
        with pytest.raises(Crash):
            hmnn.save(state(1), path, files=bad)
        assert store.exists(path)
        assert store.inspect(path)["values"]["['n']"] == whole(path)
        found.append(whole(path))
        hmnn.save(state(2), path)
        assert whole(path) == 2
        assert os.listdir(path.parent) == ["a"]
    assert found == sorted(found)
    assert set(found) == {0, 1}
    assert not store.exists(tmp_path / "never")


def kills(what, count):
    command = [
        sys.executable,
        str(ROOT / "benchmarks/kills.py"),
        "--what",
        what,
        "--kills",
        str(count),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_twenty_kills_while_saving():
    found = kills("checkpoint", 20)
    assert (found["loadable"], found["lost"], found["litter_after_next_save"]) == (20, 0, 0)
    assert found["with_litter"] > 0  # some kills came in the middle


def test_twenty_kills_while_appending():
    found = kills("trajectory", 20)
    assert (found["loadable"], found["lost"]) == (20, 0)


def test_kills_find_a_writer_that_writes_in_place():
    assert kills("naive", 10)["lost"] > 0


@pytest.fixture
def saved(tmp_path):
    hmnn.save(state(3) | {"b": np.arange(9)}, tmp_path / "a", config={"network": "mlp"})
    return tmp_path / "a"


def refused(path):
    with pytest.raises((CorruptError, ValueError)) as caught:
        hmnn.load(path)
    return str(caught.value)


def test_every_truncation_is_refused(saved):
    for name in checkpoints.NAMES:
        good = (saved / name).read_bytes()
        for size in sorted({len(good) * i // 64 for i in range(64)} | {len(good) - 1}):
            (saved / name).write_bytes(good[:size])
            assert "checkpoint" in refused(saved)
        (saved / name).write_bytes(good + b"\0")
        assert refused(saved)
        (saved / name).write_bytes(good)
    assert whole(saved) == 3


def test_every_flipped_bit_is_refused(saved):
    chance = random.Random(0)
    for name in checkpoints.NAMES:
        good = (saved / name).read_bytes()
        bits = chance.sample(range(8 * len(good)), 200)
        if name == checkpoints.DATA:  # a hundred of them in the header
            bits += chance.sample(range(8 * (8 + int.from_bytes(good[:8], "little"))), 100)
        for bit in bits:
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            (saved / name).write_bytes(bad)
            refused(saved)
        (saved / name).write_bytes(good)
    assert whole(saved) == 3


def test_a_missing_or_swapped_file_is_refused(saved, tmp_path):
    hmnn.save(state(4) | {"b": np.arange(9)}, tmp_path / "b")
    data = (saved / checkpoints.DATA).read_bytes()
    (saved / checkpoints.DATA).write_bytes((tmp_path / "b" / checkpoints.DATA).read_bytes())
    assert "SHA-256" in refused(saved)
    (saved / checkpoints.DATA).unlink()
    assert "it has no state.safetensors" in refused(saved)
    (saved / checkpoints.DATA).write_bytes(data)
    (saved / manifests.NAME).unlink()
    assert "it has no manifest.json" in refused(saved)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (str(Path(os.environ["BOMB"])),)


def hostile_header(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)


def entry(begin, end, dtype="F32", shape=(4,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def seal(kind="checkpoint", **content):
    """A manifest of a forger who knows how to make checksums match."""
    return manifests.render(kind, content)


def forge(path, content, tree=()):
    path.mkdir()
    (path / checkpoints.DATA).write_bytes(content)
    said = {checkpoints.DATA: {"bytes": len(content), "sha256": files.sha256([content])}}
    (path / manifests.NAME).write_bytes(
        seal(files=said, tree=list(tree), flags={"finite": True}, config=None)
    )


def peak(action):
    """The most bytes that were held at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_renamed_pickle_runs_no_code(tmp_path, monkeypatch):
    import pickle

    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    bomb = pickle.dumps(Bomb())
    forge(tmp_path / "a", bomb)
    refused(tmp_path / "a")
    (tmp_path / "a" / manifests.NAME).write_bytes(bomb)
    refused(tmp_path / "a")
    (tmp_path / "b.safetensors").write_bytes(bomb)
    refused(tmp_path / "b.safetensors")
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists()  # the bomb was live


GOOD_LEAF = {"name": "a", "path": [["key", "a"]], "kind": "array", "dtype": "uint8", "shape": [64]}


@pytest.mark.parametrize(
    "tree",
    [
        None,
        3,
        [3],
        [{}],
        [GOOD_LEAF | {"shape": [63]}],
        [GOOD_LEAF | {"dtype": "int8"}],
        [GOOD_LEAF | {"path": 3}],
        [GOOD_LEAF | {"path": [["key", "a"], ["key", [1]]]}],
        [GOOD_LEAF, GOOD_LEAF],
        [GOOD_LEAF, GOOD_LEAF | {"name": "b", "kind": "value", "dtype": "int", "value": "x"}],
        [
            GOOD_LEAF,
            {
                "name": "b",
                "path": [["key", "a"], ["key", "b"]],
                "kind": "value",
                "dtype": "int",
                "value": 1,
            },
        ],
    ],
)
def test_forged_manifests_are_refused(tmp_path, tree):
    content = hostile_header({"a": entry(0, 64, "U8", [64])})
    forge(tmp_path / "good", content, [GOOD_LEAF])
    assert hmnn.load(tmp_path / "good")["a"].size == 64
    forge(tmp_path / "a", content)
    said = {checkpoints.DATA: {"bytes": len(content), "sha256": files.sha256([content])}}
    text = seal(files=said, tree=tree, flags={"finite": True}, config=None)
    (tmp_path / "a" / manifests.NAME).write_bytes(text)
    refused(tmp_path / "a")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"files": 3},
        {"files": {checkpoints.DATA: {"bytes": "9", "sha256": ""}}},
        {"files": {}},
        {"flags": None},
    ],
)
def test_manifests_that_lack_something_are_refused(tmp_path, content):
    forge(tmp_path / "a", hostile_header({}))
    (tmp_path / "a" / manifests.NAME).write_bytes(seal(**content))
    refused(tmp_path / "a")


def test_pipes_links_and_large_manifests_are_refused(tmp_path, saved):
    (saved / checkpoints.DATA).unlink()
    os.mkfifo(saved / checkpoints.DATA)
    refused(saved)
    (saved / checkpoints.DATA).unlink()
    (saved / checkpoints.DATA).symlink_to("/dev/zero")
    with pytest.raises((ValueError, OSError)):
        hmnn.load(saved)
    with open(saved / manifests.NAME, "wb") as file:
        file.truncate(2**40)
    refused(saved)
    (saved / manifests.NAME).write_bytes(b"[" * 1_000_000)
    refused(saved)
