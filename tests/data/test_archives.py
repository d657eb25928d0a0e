"""F2: archives made on the spot, most of them hostile."""

import gzip
import io
import tarfile

import pytest

from hmnn.data import archives
from hmnn.data.archives import ArchiveError, extract, gunzip

WANTED = {"package/data/a": "a", "package/data/b": "b"}
GOOD = [("package/data/a", b"alpha"), ("package/readme", b"words"), ("package/data/b", b"beta")]


def member(name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def pack(path, members, packed=True, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w:gz" if packed else "w", format=form) as tar:
        for info, content in (member(*m) if isinstance(m[0], str) else m for m in members):
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return path


def everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "deep" / "target"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("packed", [True, False])
def test_only_the_wanted_members_are_unpacked_under_our_names(packed, tmp_path, target):
    archive = pack(tmp_path / "x.tgz", [member("package", type=tarfile.DIRTYPE), *GOOD], packed)
    assert extract(archive, target, WANTED) == [target / "a", target / "b"]
    assert (target / "a").read_bytes() == b"alpha"
    assert everything(tmp_path) == [
        "deep",
        "deep/target",
        "deep/target/a",
        "deep/target/b",
        "x.tgz",
    ]


HOSTILE = {
    "parent": member("../evil", b"x"),
    "parent in the middle": member("package/../../evil", b"x"),
    "parent with backslashes": member("package\\..\\..\\evil", b"x"),
    "absolute": member("/tmp/hmnn-evil", b"x"),
    "a drive": member("C:\\evil", b"x"),
    "symbolic link": member("package/data/link", type=tarfile.SYMTYPE, linkname="/etc"),
    "wanted symbolic link": member("package/data/a", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": member("package/data/hard", type=tarfile.LNKTYPE, linkname="package/data/a"),
    "device": member("package/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "block device": member("package/disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
    "pipe": member("package/pipe", type=tarfile.FIFOTYPE),
    "the same name twice": member("package/data/a", b"other"),
}


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_one_hostile_member_refuses_the_whole_archive(kind, first, tmp_path, target):
    members = [HOSTILE[kind], *GOOD] if first else [*GOOD, HOSTILE[kind]]
    archive = pack(tmp_path / "x.tgz", members)
    with pytest.raises(ArchiveError, match=r"^x\.tgz must hold .*Got "):
        extract(archive, target, WANTED)
    assert everything(tmp_path) == ["deep", "deep/target", "x.tgz"]


def test_a_link_to_the_outside_and_a_file_through_it(tmp_path, target):
    link = member("package/out", type=tarfile.SYMTYPE, linkname=str(tmp_path))
    with pytest.raises(ArchiveError, match="plain files"):
        extract(pack(tmp_path / "x.tgz", [link, ("package/out/evil", b"x"), *GOOD]), target, WANTED)
    assert everything(tmp_path) == ["deep", "deep/target", "x.tgz"]


@pytest.mark.parametrize("name", ["package/data/a", "package/unwanted"])
def test_a_bomb_is_refused_before_it_is_unpacked(name, tmp_path, target):
    archive = pack(tmp_path / "x.tgz", [(name, bytes(64 << 20)), *GOOD])
    assert archive.stat().st_size < 1 << 20
    with pytest.raises(ArchiveError, match="must unpack to at most 1048576 bytes"):
        extract(archive, target, WANTED, limit=1 << 20)
    assert everything(target) == []


def test_a_size_that_is_a_lie_is_refused(tmp_path, target):
    info, _ = member("package/data/a")
    info.size = 1 << 60
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + b"few")
    with pytest.raises(ArchiveError, match=r"^x\.tar must "):
        extract(tmp_path / "x.tar", target, WANTED)
    assert everything(target) == []


def test_a_sparse_file_is_refused(tmp_path, target):
    info, content = member("package/data/a", b"x")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,1,1099511627776,0",
    }
    archive = pack(tmp_path / "x.tgz", [(info, content), *GOOD[1:]])
    with pytest.raises(ArchiveError, match="plain files"):
        extract(archive, target, WANTED)
    assert everything(target) == []


def test_every_truncation_is_refused(tmp_path, target):
    whole = pack(
        tmp_path / "x.tgz", [("package/data/a", bytes(range(256)) * 40), *GOOD[1:]]
    ).read_bytes()
    for part in range(64):
        (tmp_path / "part.tgz").write_bytes(whole[: len(whole) * part // 64])
        with pytest.raises(ArchiveError, match=r"^part\.tgz must "):
            extract(tmp_path / "part.tgz", target, WANTED)
        assert everything(target) == []


def test_what_is_no_archive_or_lacks_a_member_is_refused(tmp_path, target):
    (tmp_path / "x").write_bytes(b"no archive" * 100)
    with pytest.raises(ArchiveError, match="must be a whole tar file"):
        extract(tmp_path / "x", target, WANTED)
    with pytest.raises(ArchiveError, match=r"must hold package/data/b\. Got 1 of 2"):
        extract(pack(tmp_path / "y", GOOD[:1]), target, WANTED)
    assert everything(target) == []


@pytest.mark.parametrize("name", ["../a", "/a", "x/a", "..", "", "."])
def test_our_own_names_must_be_plain_too(name, tmp_path, target):
    with pytest.raises(ArchiveError, match="plain file names"):
        extract(pack(tmp_path / "x.tgz", GOOD), target, {"package/data/a": name})


def test_gunzip_unpacks_and_keeps_nothing_of_a_failure(tmp_path):
    source, content = tmp_path / "x.gz", tmp_path / "x"
    source.write_bytes(gzip.compress(b"hello"))
    assert archives.is_gzip(source)
    gunzip(source, content, 5)
    assert content.read_bytes() == b"hello"
    assert not archives.is_gzip(content)
    whole = gzip.compress(bytes(1 << 20))
    cut, flipped = whole[:-9], bytearray(whole)
    flipped[-6] ^= 1
    for bad, limit in (
        (whole, 1 << 10),
        (cut, 1 << 21),
        (bytes(flipped), 1 << 21),
        (b"none", 10),
        (b"", 10),
    ):
        source.write_bytes(bad)
        with pytest.raises(ArchiveError, match=r"^x\.gz must "):
            gunzip(source, tmp_path / "new", limit)
        assert not (tmp_path / "new").exists()


def test_gunzip_never_writes_over_a_file(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"new"))
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        gunzip(tmp_path / "x.gz", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"old"
