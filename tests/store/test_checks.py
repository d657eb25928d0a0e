"""Every check of the store refuses something on its own, below the manifest that would refuse it
first: without that check, one of these tests fails (G12)."""

import os

import jax.numpy as jnp
import numpy as np
import pytest
from test_faults import GOOD_LEAF, entry, forge, hostile_header, peak
from without_checks import mutants

import hmnn
from hmnn.store import checkpoints, files, leaves, manifests, segments, tensors, trajectories


def bytes_of(n, shape=None):
    return {"a": entry(0, n, "U8", [n] if shape is None else shape)}


DESCRIBE = "must describe 'a' by dtype, shape and data_offsets"
TENSORS = {
    "nothing": (b"", "says that its header has 0 bytes, but the file has 0"),
    "short": (b"\1\2", "says that its header has"),
    "huge header": ((2**62).to_bytes(8, "little") + bytes(100), "says that its header has"),
    "negative header": (b"\xff" * 8 + bytes(100), "says that its header has"),
    "header beyond the file": ((200).to_bytes(8, "little") + b"{}", "header has 200 bytes"),
    "long header": (
        hostile_header(b"{" + b" " * manifests.LIMIT + b"}")[:-64],
        "says that its header has",
    ),
    "a list": (hostile_header(b"[]"), "a header that maps names to arrays"),
    "not text": (hostile_header(b"\xff\xfe{}"), "must be JSON"),
    "deep": (hostile_header(b"[" * 1_000_000), "must be JSON"),
    "deep objects": (hostile_header(b'{"a":' * 500_000), "must be JSON"),
    "huge number": (hostile_header(b"1" * 100_000), "must be JSON"),
    "a key twice": (
        hostile_header(b'{"a":{"dtype":"U8","shape":[64],"data_offsets":[0,64]},"a":{}}'),
        "a key stands there twice",
    ),
    "a number": (hostile_header({"a": 3}), DESCRIBE),
    "names only": (hostile_header({"a": ["dtype", "shape", "data_offsets"]}), DESCRIBE),
    "another key": (hostile_header({"a": entry(0, 64, "U8", [64]) | {"b": 1}}), DESCRIBE),
    "listed dtype": (hostile_header({"a": entry(0, 64, ["U8"], [64])}), DESCRIBE),
    "unknown dtype": (hostile_header({"a": entry(0, 64, "O", [8])}), DESCRIBE),
    "shape of a word": (
        hostile_header({"a": {"dtype": "U8", "shape": "", "data_offsets": [0, 1]}})[:-63],
        DESCRIBE,
    ),
    "float shape": (hostile_header(bytes_of(64, [64.0])), DESCRIBE),
    "true shape": (hostile_header(bytes_of(64, [64, True])), DESCRIBE),
    "negative shape": (hostile_header(bytes_of(64, [-8, -8])), DESCRIBE),
    "negative offsets": (hostile_header({"a": entry(-64, 0, "U8", [64])}), DESCRIBE),
    "enormous shape": (
        hostile_header(bytes_of(64) | {"b": entry(64, 64, "U8", [0, 2**63])}),
        "'b'",
    ),
    "three offsets": (
        hostile_header({"a": {"dtype": "U8", "shape": [64], "data_offsets": [0, 64, 64]}}),
        DESCRIBE,
    ),
    "many dimensions": (hostile_header(bytes_of(64, [1] * 32 + [64])), DESCRIBE),
    "wrong size": (hostile_header({"a": entry(0, 64, "F32", [17])}), r"has 64 bytes for 'a'"),
    "overlap": (
        hostile_header({"a": entry(0, 16), "b": entry(8, 24), "c": entry(24, 64, "U8", [40])}),
        r"without overlap or gap\. 'b' begins at 8",
    ),
    "same bytes": (
        hostile_header(bytes_of(64) | {"b": entry(0, 64, "U8", [64])}),
        "without overlap",
    ),
    "gap": (hostile_header({"a": entry(0, 16), "b": entry(48, 64)}), "without overlap or gap"),
    "beyond": (hostile_header(bytes_of(2**40)), r"must hold 1099511627776 bytes"),
    "bytes left over": (hostile_header(bytes_of(63)), r"must hold 63 bytes .* Got 64"),
    "impossible shape": (
        hostile_header(bytes_of(64) | {"b": entry(64, 64, "F64", [0, 2**62])}),
        "gives 'b' a shape that no array has",
    ),
}


def outcome(case, module):
    """What a call says or returns."""
    try:
        return "returns", repr(case(module))
    except Exception as error:
        return type(error).__name__, str(error)


def idle(module, cases, functions=None):
    """The checks of a module that none of these cases, which call its functions, would miss."""
    told = [outcome(case, module) for case in cases]
    return [
        place
        for place, mutant in mutants(module, functions)
        if all(outcome(case, mutant) == one for case, one in zip(cases, told, strict=True))
    ]


@pytest.mark.parametrize("name", TENSORS)
def test_hostile_tensors_are_refused_in_little_memory(tmp_path, name):
    content, said = TENSORS[name]

    def refused():
        with pytest.raises(manifests.CorruptError, match=said):
            tensors.unpack("it", memoryview(content))

    assert peak(refused) < 2**25
    forge(tmp_path / "a", content)
    with pytest.raises(manifests.CorruptError):
        hmnn.load(tmp_path / "a")


def test_large_memory_is_seen():
    """The negative control."""
    assert peak(lambda: np.ones(2**26, np.uint8)) > 2**25


def test_each_check_of_tensors_is_needed():
    cases = [lambda m, c=c: m.unpack("it", memoryview(c)) for c, _ in TENSORS.values()]
    assert idle(tensors, cases) == []
    assert len(idle(tensors, cases[:3])) > 10  # the control


VALUE = {"name": "v", "path": [["key", "v"]], "kind": "value", "dtype": "int", "value": 1}
TREES = {
    "good": [GOOD_LEAF, VALUE],
    "infinite": [VALUE | {"dtype": "float", "value": "-inf"}],
    "fields and places": [VALUE | {"path": [["field", "a"], ["place", 0]]}],
    "none": None,
    "a number": 3,
    "a number as a leaf": [3],
    "an empty leaf": [{}],
    "one name twice": [GOOD_LEAF, GOOD_LEAF | {"path": [["key", "b"]]}],
    "name": [VALUE | {"name": 3}],
    "dtype": [GOOD_LEAF | {"dtype": 3}],
    "path": [VALUE | {"path": 3}],
    "part of a path": [VALUE | {"path": [["key"]]}],
    "unknown part": [VALUE | {"path": [["word", "a"]]}],
    "listed key": [VALUE | {"path": [["key", [1]]]}],
    "place that is a word": [VALUE | {"path": [["place", "a"]]}],
    "field that is a number": [VALUE | {"path": [["field", 0]]}],
    "unknown kind of value": [VALUE | {"dtype": "object"}],
    "word as a number": [VALUE | {"value": "1"}],
    "true as a number": [VALUE | {"value": True}],
    "infinite integer": [VALUE | {"value": "inf"}],
    "word as a float": [VALUE | {"dtype": "float", "value": "1"}],
    "shape": [GOOD_LEAF | {"shape": [64.0]}],
    "negative shape": [GOOD_LEAF | {"shape": [-8, -8]}],
    "kind": [GOOD_LEAF | {"kind": "word"}],
}
GOOD_TREES = list(TREES)[:3]


def listed(module, tree, finite=True):
    return module.listed("it", {"tree": tree, "flags": {"finite": finite}})


@pytest.mark.parametrize("name", TREES)
def test_forged_lists_of_leaves_are_refused(name):
    if name in GOOD_TREES:
        assert listed(leaves, TREES[name]) == TREES[name]
        return
    with pytest.raises(manifests.CorruptError, match="must list its leaves by name, path, kind"):
        listed(leaves, TREES[name])


def leaf(dtype, *shape, path=(("key", "a"),), kind="array"):
    return {"name": "a", "path": path, "kind": kind, "dtype": dtype, "shape": list(shape)}


SCALE = {"path": (("field", "scale"),)}
CHECKED = [
    ([leaf("float32", 2)], {}, True, r"\['a'\] differ"),
    ([], {"a": np.ones(2)}, True, r"\['a'\] differ"),
    (
        [leaf("float32", 3)],
        {"a": np.ones(2, np.float32)},
        True,
        r"must hold a as its manifest says",
    ),
    ([leaf("int32", 2)], {"a": np.ones(2, np.float32)}, True, r"must hold a as its manifest says"),
    ([leaf("fry", 2, kind="key")], {"a": np.ones(2, np.int32)}, True, r"must hold a as its manife"),
    ([leaf("float32", 1)], {"a": np.array([np.inf], np.float32)}, True, "must hold finite numbers"),
    ([leaf("float32", 1, **SCALE)], {"a": np.array([-1], np.float32)}, True, "no negative scale"),
]
FINE = [
    ([leaf("float32", 1)], {"a": np.array([np.inf], np.float32)}, False),
    ([leaf(">float32", 1)], {"a": np.array([1], ">f4")}, True),
    ([leaf("fry", 2, kind="key")], {"a": np.ones(2, np.uint32)}, True),
    ([leaf("float32", 1, **SCALE)], {"a": np.array([1], np.float32)}, True),
    ([leaf("float32", 1)], {"a": np.array([-1], np.float32)}, True),
    (
        [leaf("float32", 1, path=(("field", "weights"), ("field", "scale")))],
        {"a": np.array([-1], np.float32)},
        True,
    ),
]
PLAIN = [
    ([VALUE, VALUE | {"path": [["key", "v"], ["key", "b"]]}], "a leaf where none can be"),
    (
        [VALUE | {"path": [[kind, 0], [kind, 0]]} for kind in ("place", "key")],
        "a leaf where none can be",
    ),
    ([VALUE, VALUE], "a leaf in the place of another"),
]


@pytest.mark.parametrize(("listing", "arrays", "finite", "said"), CHECKED)
def test_arrays_that_are_not_as_listed_are_refused(listing, arrays, finite, said):
    with pytest.raises(ValueError, match=said):
        leaves.check("it", listing, arrays, finite)


@pytest.mark.parametrize(("listing", "said"), PLAIN)
def test_leaves_in_each_others_places_are_refused(listing, said):
    with pytest.raises(manifests.CorruptError, match=said):
        leaves.plain("it", listing, {})


def test_each_check_of_leaves_is_needed():
    cases = [lambda m, tree=tree: listed(m, tree) for tree in TREES.values()]
    cases += [lambda m: listed(m, [], finite=1), lambda m: m.listed("it", {})]
    cases += [lambda m, c=c: m.check("it", *c[:3]) for c in [*CHECKED, *FINE]]
    cases += [lambda m, c=c: m.plain("it", c, {}) for c, _ in PLAIN]
    cases += [lambda m, x=x: m.describe({"a": x}) for x in (object(), np.ones(2))]
    cases += [lambda m: m.size("it", [leaf("float1024", 2)])]
    like = {"a": jnp.ones(2)}
    cases += [lambda m: m.fill("it", [leaf("float32", 3)], {"a": np.ones(3)}, like)]
    assert idle(leaves, cases) == []


SEALED = manifests.render("checkpoint", {"config": None})


def resealed(version):
    """A manifest of another version, with a seal that matches."""
    text = SEALED.replace(b'"version": 1', f'"version": {version}'.encode())
    blank = manifests.SEAL.sub(f'"sha256": "{manifests.BLANK}"\n}}\n'.encode(), text)
    return manifests.SEAL.sub(f'"sha256": "{files.sha256([blank])}"\n}}\n'.encode(), text)


READ = {
    "cut short": (SEALED[:-1], "was cut short"),
    "a blank more": (
        SEALED.replace(b'"config": null', b'"config":  null'),
        "SHA-256 does not match",
    ),
    "another kind": (
        manifests.render("trajectory", {}),
        "must be of a checkpoint. Got 'trajectory'",
    ),
    "no number": (resealed('"1"'), "must say its format version"),
    "newer": (resealed(2), "this hmnn reads up to 1"),
    "older than any": (resealed(0), "which never was"),
    "a key twice": (resealed('1, "kind": "checkpoint"'), "a key stands there twice"),
    "not a number": (resealed('1, "n": NaN'), "NaN is not JSON"),
    "deep": (resealed("[" * 1_000_000), "must be JSON as this package writes it"),
}


@pytest.mark.parametrize("name", READ)
def test_manifests_that_are_not_as_written_are_refused(name):
    text, said = READ[name]
    with pytest.raises(manifests.CorruptError, match=said):
        manifests.read("it", text, "checkpoint")


def test_each_check_of_manifests_is_needed():
    cases = [lambda m, text=text: m.read("it", text, "checkpoint") for text, _ in READ.values()]
    cases += [lambda m, kind=kind: m.read("it", SEALED, kind) for kind in ("", "checkpoint")]
    cases += [lambda m: m.migrate("it", [])]
    cases += [lambda m, c=c: m.render("it", {"config": c}) for c in (np.nan, object())]
    cases += [lambda m: m.render("it", {"config": " " * m.LIMIT})]
    assert idle(manifests, cases) == []


@pytest.fixture
def folder(tmp_path):
    """Some things that a file can be, and a handle of the folder they are in."""
    (tmp_path / "file").write_bytes(bytes(100))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "inner").mkdir()
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


def test_each_check_of_reading_a_file_is_needed(folder):
    assert bytes(files.read("file", 100, folder)) == bytes(100)
    for name in ("inner", "pipe"):
        with pytest.raises(ValueError, match=f"^{name} must be a regular file"):
            files.read(name, 10**9, folder)
    with pytest.raises(OSError, match="symbolic links"):
        files.read("link", 100, folder)
    with pytest.raises(ValueError, match=r"^file must have at most 99 bytes\. Got 100\.$"):
        files.read("file", 99, folder)
    for name in ("regular", "read"):
        tried = [("pipe", 10**9), ("file", 99)]
        cases = [lambda m, t=t: m.read(*t, folder) for t in tried]
        assert idle(files, cases, name) == []


def test_each_check_of_the_content_is_needed(folder, tmp_path):
    content = bytes(100)

    def case(said, content=content):
        (tmp_path / checkpoints.DATA).write_bytes(content)
        good = {"bytes": 100, "sha256": files.sha256([bytes(100)])}
        manifest = {"files": {checkpoints.DATA: good | said}}
        return lambda m: bytes(m._content("it", manifest, folder))

    assert case({})(checkpoints) == content
    for said, words in (({"bytes": 101}, "must have 101 bytes"), ({"sha256": ""}, "SHA-256")):
        with pytest.raises(manifests.CorruptError, match=words):
            case(said)(checkpoints)
    cases = [case({"bytes": 101}), case({"sha256": ""})]
    assert idle(checkpoints, cases, "_content") == []


def test_each_check_of_segments_is_needed(tmp_path):
    """Folders as in test_broken_trajectories, which says what is said of them."""
    good = tmp_path / "good"
    with pytest.MonkeyPatch.context() as patch, hmnn.Trajectory(good) as trajectory:
        patch.setattr(trajectories, "SEGMENT", 3000)
        for t in range(5):
            trajectory.append(t, {"w": np.full(150, 4.0 - t)})  # zeros at last
    manifest = trajectory.manifest()
    sizes, names = (manifest["record"], manifest["per_segment"]), sorted(good.glob("*.records"))
    assert len(names) == 3

    def broken(name, act):
        here = tmp_path / name
        here.mkdir()
        for file in names:
            (here / file.name).write_bytes(file.read_bytes())
        act(here)
        return (
            lambda m: bytes(m.Segments("it", here, *sizes).sound(0)),
            lambda m: m.Segments("it", here, *sizes).count(),
        )

    def flipped(here):
        for name in names[:2]:
            content = bytearray(name.read_bytes())
            content[sizes[0] - 1] ^= 1
            (here / name.name).write_bytes(content)

    def last(here):
        """The first records only, the last of them changed."""
        flipped(here)
        os.truncate(here / names[1].name, sizes[0])
        (here / names[2].name).unlink()

    ways = {
        "changed": flipped,
        "last changed": last,
        "lost": lambda here: (here / names[0].name).unlink(),
        "gap": lambda here: (here / names[1].name).unlink(),
        "cut": lambda here: os.truncate(here / names[1].name, 2000),
        "pipe": lambda here: ((here / names[2].name).unlink(), os.mkfifo(here / names[2].name)),
        "long": lambda here: os.truncate(here / names[2].name, 9000),
        "zeros": lambda here: os.truncate(here / names[2].name, 2 * sizes[0]),
        "natural": lambda here: None,
    }
    cases = [case for way in ways.items() for case in broken(*way)]
    assert idle(segments, cases) == []


def test_each_check_of_a_trajectorys_numbers_is_needed():
    good = {"tree": [GOOD_LEAF], "flags": {"finite": True}, "every": 1, "record": 200}
    good |= {"per_segment": 3}
    assert trajectories._numbers("it", good) == good
    changes = [
        {"every": 0},
        {"per_segment": True},
        {"record": 2**40},
        {"record": 99},
        {"every": None},
    ]
    cases = [lambda m, c=c: m._numbers("it", good | c) for c in changes]
    assert idle(trajectories, cases, "_numbers") == []
