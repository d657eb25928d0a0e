"""C2, C6, C9 and C10: what is saved comes back bit for bit, or is refused with a sentence that
names what differs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import load_file

import hmnn
from hmnn.core.families import Posterior
from hmnn.core.filtering import State
from hmnn.core.likelihoods import Noise
from hmnn.core.projections.descent import Work
from hmnn.core.projections.natural import Moments
from hmnn.store import CorruptError, LockedError, checkpoints, files, leaves, manifests, tensors

GOLDEN = Path(__file__).parents[1] / "golden"


class Pair(NamedTuple):
    left: object
    right: object


class Mixed(NamedTuple):
    scale: object


def same(a, b):
    """Whether two trees have the same structure, types and bits."""

    def bits(leaf):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return str(jax.random.key_impl(leaf)), np.asarray(jax.random.key_data(leaf)).tobytes()
        if hasattr(leaf, "dtype"):
            return str(leaf.dtype), np.shape(leaf), np.asarray(leaf).tobytes()
        return type(leaf), repr(leaf)

    there = [jax.tree.structure(t) for t in (a, b)]
    return there[0] == there[1] and list(map(bits, jax.tree.leaves(a))) == list(
        map(bits, jax.tree.leaves(b))
    )


def write_by_hand(path, arrays, listed, version=manifests.VERSION, finite=True):
    """A checkpoint as a foreign program could write it, with checksums that match."""
    path.mkdir()
    content = b"".join(map(bytes, tensors.pack(arrays)))
    data = {checkpoints.DATA: {"bytes": len(content), "sha256": files.sha256([content])}}
    said = {
        "version": version,
        "tree": listed,
        "flags": {"finite": finite},
        "config": None,
        "files": data,
    }
    text = manifests.render(
        "checkpoint", {k: v for k, v in said.items() if v is not None or k == "config"}
    )
    (path / checkpoints.DATA).write_bytes(content)
    (path / manifests.NAME).write_bytes(text)


def batches(count=5):
    for t in range(count):
        x = np.random.default_rng(t).normal(size=(16, 2))
        yield hmnn.Dataset(x, (x[:, 0] > 0.1 * t).astype(int))


@pytest.fixture
def promotion():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.usefixtures("promotion")  # Adam of optax mixes integers and floats
def test_saved_and_resumed_at_every_t_is_the_straight_run(tmp_path, optimiser):
    method = hmnn.hmnn(
        hmnn.linear(2, 2),
        "categorical",
        epochs=3,
        minibatch=8,
        keep=0.7,
        keep_where="all",
        optimiser=optimiser,
    )
    states = [method.init(7)]
    for data in batches():
        states.append(method.step(states[-1], data)[0])
    for t, state in enumerate(states):
        hmnn.save(state, tmp_path / "here")
        resumed = hmnn.load(tmp_path / "here", like=method.init(0))
        assert same(resumed, state)
        for data in list(batches())[t:]:
            resumed, _ = method.step(resumed, data)
        assert same(resumed, states[-1])
    assert not same(states[-2], states[-1])


def test_every_kind_of_tree_comes_back(tmp_path):
    tree = {
        "module": eqx.nn.Linear(2, 3, key=jax.random.key(0)),
        "optimiser": optax.adam(0.1).init({"w": jnp.ones(3)}),
        "keys": Pair(jax.random.key(3), jax.random.split(jax.random.key(4, impl="rbg"), 2)),
        "values": [None, True, 3, 2**80, 0.1, float("inf"), "naïve \U0001f600\n\"'", ()],
        "by number": {5: (np.float32(1.5), np.array(7), np.zeros((0, 3), np.int8))},
    }
    hmnn.save(tree, tmp_path / "a", config={"network": "linear"})
    assert same(hmnn.load(tmp_path / "a", like=tree), tree)
    plain = hmnn.load(tmp_path / "a")
    assert plain["values"][:7] == tree["values"][:7]
    assert np.array_equal(plain["module"]["weight"], tree["module"].weight)
    assert plain["by number"][5][0] == np.float32(1.5)
    free = hmnn.load(tmp_path / "a", like=dict.fromkeys(tree, ...) | {"module": tree["module"]})
    assert same(free["module"], tree["module"])
    assert free["values"][:7] == tree["values"][:7]
    for bare, like in ((jnp.arange(3.0), jnp.zeros(3)), (4, 0), ("four", "")):
        hmnn.save(bare, tmp_path / "b")
        assert same(hmnn.load(tmp_path / "b", like=like), bare)
        assert np.array_equal(hmnn.load(tmp_path / "b"), bare)


ARRAYS = {
    "c": np.arange(12.0).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "transposed": np.arange(24, dtype=np.int16).reshape(2, 3, 4).T,
    "strided": np.arange(20, dtype=np.float32)[1::3],
    "reversed": np.arange(5)[::-1],
    "broadcast": np.broadcast_to(np.float16(2.5), (2, 3)),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 4), np.float32),
    "bool": np.array([True, False]),
    "bfloat16": np.arange(6).astype(jnp.bfloat16).reshape(2, 3).T,
    "bfloat16 jax": jnp.arange(5, dtype=jnp.bfloat16),
    "big endian": np.arange(4, dtype=">f4"),
    "big endian scalar": np.array(2**40 + 1, ">i8"),
    "unsigned": np.array([2**64 - 1], np.uint64),
    "negative zero": np.array([-0.0, 0.0, np.finfo(np.float64).tiny, 5e-324]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_every_array_comes_back_exactly(tmp_path, name):
    array = ARRAYS[name]
    hmnn.save({"a": array}, tmp_path / "a")
    for found in (
        hmnn.load(tmp_path / "a")["a"],
        hmnn.load(tmp_path / "a", like={"a": array})["a"],
    ):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert np.asarray(found).tobytes() == np.asarray(array, order="C").tobytes()
    by_library = load_file(tmp_path / "a" / checkpoints.DATA)["['a']"]
    assert np.array_equal(by_library, np.asarray(array))


def test_files_can_be_read_by_others_and_hold_what_is_promised(tmp_path):
    hmnn.save({"w": jnp.ones(2)}, tmp_path / "a", config={"network": "n"})
    assert sorted(os.listdir(tmp_path)) == ["a"]
    assert sorted(os.listdir(tmp_path / "a")) == ["manifest.json", "state.safetensors"]
    umask = os.umask(0)
    os.umask(umask)
    for name in os.listdir(tmp_path / "a"):
        assert (tmp_path / "a" / name).stat().st_mode & 0o777 == 0o644 & ~umask
    manifest = manifests.read("it", (tmp_path / "a/manifest.json").read_bytes())
    assert {
        "kind",
        "version",
        "config",
        "flags",
        "type",
        "tree",
        "files",
        "versions",
        "sha256",
    } == set(manifest)
    assert {"python", "hmnn", "jax", "numpy"} == set(manifest["versions"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"width": 3},
            r"\.posterior\.location\.layers\[0\]\.weight is float32 of "
            r"shape \(2, 2\) on disk and float32",
        ),
        ({"optimiser": "adam"}, r"\.work\.optimiser\[0\]\.count is only in `like`"),
    ],
)
def test_another_architecture_is_refused_by_what_differs(tmp_path, change, said):
    def state(width=2, optimiser="sgd"):
        return hmnn.hmnn(hmnn.mlp(2, (width,), 2), "categorical", optimiser=optimiser).init(0)

    hmnn.save(state(), tmp_path / "a")
    with pytest.raises(ValueError, match=said):
        hmnn.load(tmp_path / "a", like=state(**change))


def test_other_dtypes_keys_and_values_are_refused(tmp_path):
    hmnn.save({"w": np.ones(2, np.float32), "k": jax.random.key(0), "n": 3}, tmp_path / "a")
    good = {"w": jax.ShapeDtypeStruct((2,), jnp.float32), "k": jax.random.key(9), "n": 0}
    assert hmnn.load(tmp_path / "a", like=good)["n"] == 3
    for name, wrong in [
        ("w", np.ones(2)),
        ("k", jax.random.key(0, impl="rbg")),
        ("n", 1.0),
        ("n", None),
    ]:
        with pytest.raises(ValueError, match=f"'{name}'.*on disk and"):
            hmnn.load(tmp_path / "a", like=good | {name: wrong})


@pytest.mark.parametrize(
    "leaf", [jnp.ones, object(), np.array(["a"]), np.array([1 + 2j]), np.array([None]), b"bytes"]
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(tmp_path, leaf):
    with pytest.raises(ValueError, match="state must be made of"):
        hmnn.save({"a": leaf}, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def state_with(location=1.0, rho=-2.0, nu=0.1, noise=1.0):
    """Adam's memory and a noise beside weights called scale, as in Flax, which may be negative."""

    def posterior(m, r):
        return Posterior({"scale": jnp.array([m])}, {"scale": jnp.array([r])})

    zero = jnp.zeros((), jnp.int32)
    adam = optax.ScaleByAdamState(zero, posterior(-1.0, -1.0), posterior(nu, 0.1))
    work, learned = Work((adam,), zero), Noise(jnp.array(noise), jnp.array(10.0))
    return State(posterior(location, rho), work, learned, jax.random.key(0), zero, zero)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (state_with(location=np.nan), "finite"),
        (state_with(rho=-np.inf), "finite"),
        (state_with(nu=-1.0), "negative nu"),
        (state_with(noise=np.nan), "finite"),
        (state_with(noise=-1.0), "negative variance"),
        (Moments(jnp.array([-1.0]), jnp.array([-0.1])), "negative variance"),
        ({"w": jnp.array([1.0, jnp.nan], jnp.bfloat16)}, "finite"),
        (Mixed(jnp.array([0.1, -1.0])), "negative scale"),
    ],
)
def test_a_poisoned_state_is_refused_when_saved_and_when_loaded(tmp_path, state, said):
    with pytest.raises(ValueError, match=said):
        hmnn.save(state, tmp_path / "a")
    listed, arrays = leaves.describe(state)
    write_by_hand(tmp_path / "b", arrays, listed)
    with pytest.raises(ValueError, match=f"checkpoint .*{said}"):
        hmnn.load(tmp_path / "b")


def test_negative_locations_and_flagged_infinities_are_fine(tmp_path):
    hmnn.save(state_with(location=-3.0, rho=-5.0), tmp_path / "a")
    hmnn.save({"best": np.array(np.inf)}, tmp_path / "b", finite=False)
    assert np.isinf(hmnn.load(tmp_path / "b")["best"])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (2, "format version 2; this hmnn reads up to 1"),
        (0, "never was"),
        ("1", "must say"),
        (None, "Got None"),
    ],
)
def test_format_versions(tmp_path, version, said):
    listed, arrays = leaves.describe({"w": np.ones(2)})
    write_by_hand(tmp_path / "a", arrays, listed)
    text = (tmp_path / "a/manifest.json").read_bytes()
    line = b"" if version is None else f'"version": {version!r},\n'.replace("'", '"').encode()
    text = text.replace(b'"version": 1,\n', line)
    blank = manifests.SEAL.sub(f'"sha256": "{manifests.BLANK}"\n}}\n'.encode(), text)
    sealed = manifests.SEAL.sub(f'"sha256": "{files.sha256([blank])}"\n}}\n'.encode(), text)
    (tmp_path / "a/manifest.json").write_bytes(sealed)
    with pytest.raises(CorruptError, match=said):
        hmnn.load(tmp_path / "a")


def test_an_older_version_migrates(tmp_path, monkeypatch):
    hmnn.save({"w": np.ones(2)}, tmp_path / "a", config={"old": 1})
    monkeypatch.setattr(manifests, "VERSION", 2)
    with pytest.raises(CorruptError, match="version 1, which never was"):
        hmnn.load(tmp_path / "a")
    monkeypatch.setitem(manifests.MIGRATIONS, 1, lambda m: m | {"version": 2, "config": {"new": 1}})
    assert hmnn.load(tmp_path / "a")["w"].sum() == 2
    assert hmnn.store.inspect(tmp_path / "a")["config"] == {"new": 1}


def test_golden_files_load_for_ever():
    found = hmnn.load(GOLDEN / "checkpoint-1")
    assert found["n"] == 3
    assert found["w"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert found["half"].astype(np.float32).tolist() == [0.5, -2.0]
    assert jax.random.key_data(found["key"]).tolist() == [0, 42]
    trajectory = hmnn.Trajectory(GOLDEN / "trajectory-1")
    assert trajectory.times.tolist() == [0, 2, 4]
    assert trajectory[4]["location"].tolist() == [4.0, 5.0]


def test_what_is_not_a_checkpoint_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("dear")
    (tmp_path / "file").write_text("dear")
    for name in ("mine", "file"):
        with pytest.raises(ValueError, match="path must be new, or a checkpoint to be replaced"):
            hmnn.save({"w": np.ones(1)}, tmp_path / name)
    assert (tmp_path / "mine/thesis.tex").read_text() == "dear"
    with pytest.raises(FileNotFoundError, match="There is no checkpoint"):
        hmnn.load(tmp_path / "nowhere")


def test_a_link_leads_to_its_checkpoint_and_costs_nothing(tmp_path):
    hmnn.save({"n": 1}, tmp_path / "ckpt-5")
    (tmp_path / "latest").symlink_to("ckpt-5")
    for n in (2, 3):
        hmnn.save({"n": n}, tmp_path / "latest")
        assert hmnn.load(tmp_path / "latest") == hmnn.load(tmp_path / "ckpt-5") == {"n": n}
    assert (tmp_path / "latest").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["ckpt-5", "latest"]


def test_a_users_names_for_weights_may_be_those_of_scales(tmp_path):
    weights = Mixed(scale=np.array([-1.0, 2.0]))
    for field in ("weights", "anchor", "mu"):
        hmnn.save(Pair(1, NamedTuple("State", [(field, object)])(weights)), tmp_path / field)
    with pytest.raises(ValueError, match="must hold no negative scale"):
        hmnn.save(weights, tmp_path / "scale")


class Named(NamedTuple):
    scale: object
    variance: object


FIXED = {"epochs": 2, "learning_rate": 1e-4}


def closed_form(network):
    return hmnn.build(network, "learned_gaussian", hmnn.jump(), projection=hmnn.natural())


NAMED = {
    "hmnn": lambda network: hmnn.hmnn(network, "gaussian", **FIXED),
    "ewc": lambda network: hmnn.ewc(network, "gaussian", **FIXED),
    "dropconnect": lambda network: hmnn.dropconnect(network, "gaussian", keep=1.0, **FIXED),
    "laplace": lambda network: hmnn.laplace(network, "gaussian"),
    "natural": closed_form,
}


@pytest.mark.parametrize("name", NAMED)
def test_a_method_whose_weights_have_such_names_is_saved(tmp_path, name):
    """Negative weights called scale and variance, whatever the form of the law."""
    first = Named(-jnp.ones((2, 1)), -jnp.ones((1, 1)))
    network = hmnn.from_functions(lambda key: first, lambda w, x: x @ w.scale + w.variance)
    method, x = NAMED[name](network), np.random.default_rng(0).normal(size=(8, 2))
    state, _ = method.step(method.init(0), hmnn.Dataset(x, -x.sum(axis=1) - 1.0))
    hmnn.save(state, tmp_path / "a")
    assert same(hmnn.load(tmp_path / "a", like=method.init(1)), state)


def test_the_second_writer_is_told_who_the_first_is(tmp_path):
    with (
        files.locked(tmp_path / "a"),
        pytest.raises(LockedError, match=f"locked by pid {os.getpid()}"),
    ):
        hmnn.save({"w": np.ones(1)}, tmp_path / "a")
    hmnn.save({"w": np.ones(1)}, tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


HOLDER = """
import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
os.write(handle, str(os.getpid()).encode())
print("locked", flush=True)
time.sleep(60)
"""


def test_another_process_holds_the_lock_until_it_dies(tmp_path):
    lock = tmp_path / ".a.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(LockedError, match=f"locked by pid {holder.pid}"):
            hmnn.save({"w": np.ones(1)}, tmp_path / "a")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert lock.exists()
    hmnn.save({"w": np.ones(1)}, tmp_path / "a")
    assert not lock.exists()
