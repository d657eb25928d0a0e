"""A pytree as a list of leaves with paths: arrays, typed keys, and values for the manifest."""

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from hmnn import _fork
from hmnn.store.manifests import CorruptError
from hmnn.store.tensors import CODES

PARTS = {"field": (str,), "place": (int,), "key": (str, int)}
"""What a path is made of."""
VALUES = {"NoneType": type(None), "bool": bool, "int": int, "float": float, "str": str}
NOT_NEGATIVE = ("nu", "scale", "variance")
"""Fields of scales or squares, unless they are a user's names for weights, below one of `FREE`."""
FREE = ("location", "rho", "weights", "anchor", "mu", "trace")
BYTES = {dtype.name: dtype.itemsize for dtype in CODES}
Leaf = dict[str, Any]


class MisfitError(ValueError):
    """What is on disk has another structure than what was asked for."""


def describe(state: Any) -> tuple[list[Leaf], dict[str, np.ndarray]]:
    """The leaves of a tree as the manifest writes them, and the arrays by name."""
    leaves, arrays = [], {}
    for path, leaf in _flatten(state)[0]:
        name = jax.tree_util.keystr(path) or "."
        entry, array = _leaf(name, leaf)
        leaves.append({"name": name, "path": [_part(name, key) for key in path], **entry})
        if array is not None:
            arrays[name] = array
    return leaves, arrays


def _leaf(name: str, leaf: Any) -> tuple[Leaf, np.ndarray | None]:
    kind: str = type(leaf).__name__
    if kind in VALUES and type(leaf) is VALUES[kind]:
        plain: Any = leaf
        if kind == "float" and not math.isfinite(plain):
            plain = str(leaf)  # JSON knows no infinity
        return {"kind": "value", "dtype": kind, "value": plain}, None
    if _is_key(leaf):
        data = np.asarray(jax.random.key_data(leaf))
        kind = str(jax.random.key_impl(leaf))
        return {"kind": "key", "dtype": kind, "shape": list(data.shape)}, data
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        array = np.asarray(leaf)
        if array.dtype.newbyteorder("=") in CODES or array.dtype in CODES:
            about = {"dtype": _dtype(array.dtype), "shape": list(array.shape)}
            return {"kind": "array", **about}, array
        kind = f"an array of {array.dtype}"
    raise ValueError(
        "state must be made of arrays of numbers, keys, numbers, strings and None. "
        f"Got {kind} at {name}."
    )


def _part(name: str, key: Any) -> list[Any]:
    """One part of a path: a field, a place in a sequence, or a key of a dictionary."""
    match key:
        case GetAttrKey(name=field):
            return ["field", field]
        case SequenceKey(idx=place) | FlattenedIndexKey(key=place):
            return ["place", place]
        case DictKey(key=word) if type(word) in (str, int):
            return ["key", word]
    raise ValueError(
        "state must have fields, places and dictionary keys that are str or int. "
        f"Got {key!r} in {name}."
    )


def listed(where: str, manifest: dict[str, Any]) -> list[Leaf]:
    """The leaves that a manifest lists, if they are written as `describe` writes them."""
    try:
        tree, good = manifest["tree"], type(manifest["flags"]["finite"]) is bool
        good = good and all(map(_well_formed, tree))
        good = good and len({leaf["name"] for leaf in tree}) == len(tree)
    except (KeyError, TypeError, ValueError):
        good = False
    if not good:
        raise CorruptError(
            f"{where} must list its leaves by name, path, kind, dtype and shape or value."
        )
    return manifest["tree"]


def _well_formed(leaf: Leaf) -> bool:
    good = type(leaf["name"]) is str and type(leaf["dtype"]) is str
    good = good and all(type(key) in PARTS[kind] for kind, key in leaf["path"])
    if leaf["kind"] == "value":
        value, kind = leaf["value"], VALUES[leaf["dtype"]]
        unusual = kind is float and value in ("inf", "-inf", "nan")
        return good and (type(value) is kind or unusual)
    good = good and all(type(n) is int and n >= 0 for n in leaf["shape"])
    return good and leaf["kind"] in ("array", "key")


def size(where: str, leaves: list[Leaf]) -> int:
    """How many bytes the arrays of a list have."""
    arrays = [leaf for leaf in leaves if leaf["kind"] != "value"]
    try:
        return sum(BYTES[_stored(leaf)] * math.prod(leaf["shape"]) for leaf in arrays)
    except KeyError as unknown:
        raise CorruptError(f"{where} must be made of known numbers. Got {unknown}.") from None


def _stored(leaf: Leaf) -> str:
    """The dtype of a leaf's array in the file: little-endian, and a key is its data."""
    return "uint32" if leaf["kind"] == "key" else leaf["dtype"].removeprefix(">")


def check(where: str, leaves: list[Leaf], arrays: dict[str, np.ndarray], finite: bool) -> None:
    """Refuse arrays that are not those of the list, or that hold what no good state holds."""
    said = {leaf["name"]: leaf for leaf in leaves if leaf["kind"] != "value"}
    if set(said) != set(arrays):
        differ = sorted(set(said) ^ set(arrays))[:3]
        raise CorruptError(
            f"{where} must hold the arrays that its manifest lists. {differ} differ."
        )
    for name, array in arrays.items():
        leaf = said[name]
        stored = _dtype(array.dtype).removeprefix(">")
        if leaf["shape"] != list(array.shape) or stored != _stored(leaf):
            raise CorruptError(
                f"{where} must hold {name} as its manifest says. "
                f"Got {array.dtype} of {array.shape}."
            )
        if jnp.issubdtype(array.dtype.newbyteorder("="), jnp.floating):
            _sound(where, name, leaf, array, finite)


def _sound(where: str, name: str, leaf: Leaf, array: np.ndarray, finite: bool) -> None:
    if finite and not np.isfinite(array).all():
        raise ValueError(
            f"{where} must hold finite numbers. {name} has {_first(array, ~np.isfinite(array))}."
        )
    fields = [key for kind, key in leaf["path"] if kind == "field" and key in NOT_NEGATIVE + FREE]
    if fields and fields[0] in NOT_NEGATIVE and (array < 0).any():
        raise ValueError(
            f"{where} must hold no negative {fields[0]}. {name} has {_first(array, array < 0)}."
        )


def _first(array: np.ndarray, bad: np.ndarray | np.bool_) -> str:
    return f"{array.ravel()[np.flatnonzero(bad)[0]]} and {int(bad.sum()) - 1} more"


def fill(where: str, leaves: list[Leaf], arrays: dict[str, np.ndarray], like: Any = None) -> Any:
    """Put the leaves into the structure of `like`, if they fit; `...` takes what is on disk."""
    if like is None:
        return plain(where, leaves, arrays)
    here, structure = _flatten(like)
    templates = {jax.tree_util.keystr(path) or ".": leaf for path, leaf in here}
    free = {jax.tree_util.keystr(path) or ".": len(path) for path, leaf in here if leaf is ...}
    parts = {name: [leaf for leaf in leaves if leaf["name"].startswith(name)] for name in free}
    saved = {leaf["name"]: leaf for leaf in leaves if not leaf["name"].startswith(tuple(free))}
    _compare(where, saved, {name: leaf for name, leaf in templates.items() if name not in free})
    return structure.unflatten(
        plain(where, [leaf | {"path": leaf["path"][free[n] :]} for leaf in parts[n]], arrays)
        if n in free
        else _value(saved[n], arrays.get(n), leaf)
        for n, leaf in templates.items()
    )


def _compare(where: str, saved: dict[str, Leaf], templates: dict[str, Any]) -> None:
    """Name what is only on disk or only in `like`, or of another shape or dtype there."""
    differences = [f"{n} is only on disk" for n in saved if n not in templates]
    differences += [f"{n} is only in `like`" for n in templates if n not in saved]
    for name in [n for n in templates if n in saved]:
        on_disk, wanted = _words(saved[name]), _template(templates[name])
        if on_disk != wanted:
            differences.append(f"{name} is {on_disk} on disk and {wanted} in `like`")
    if differences:
        more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
        raise MisfitError(f"{where} does not fit `like`: {'; '.join(differences[:3])}{more}.")


def plain(where: str, leaves: list[Leaf], arrays: dict[str, np.ndarray]) -> Any:
    """The tree of nested dictionaries and lists, when there is no template."""
    root: dict[Any, Any] = {}
    for leaf in leaves:
        inner, path = root, [("key", None), *map(tuple, leaf["path"])]
        for (_, key), (kind, _) in pairwise(path):
            wanted = _Places if kind == "place" else dict
            inner = inner.setdefault(key, wanted())
            if type(inner) is not wanted:
                raise CorruptError(f"{where} lists a leaf where none can be: {leaf['name']}.")
        if path[-1][1] in inner:
            raise CorruptError(f"{where} lists a leaf in the place of another: {leaf['name']}.")
        inner[path[-1][1]] = _value(leaf, arrays.get(leaf["name"]), None)
    return _listed(root.get(None, {}))


class _Places(dict[Any, Any]):
    """A sequence in the making."""


def _listed(tree: Any) -> Any:
    if isinstance(tree, _Places):
        return [_listed(tree[i]) for i in sorted(tree)]
    return {key: _listed(value) for key, value in tree.items()} if isinstance(tree, dict) else tree


def _value(leaf: Leaf, array: np.ndarray | None, template: Any) -> Any:
    """The leaf as the kind of thing that the template is; NumPy without one."""
    if array is None:
        return float(leaf["value"]) if leaf["dtype"] == "float" else leaf["value"]
    if leaf["kind"] == "key":
        _fork.refuse_to_hang()
        return jax.random.wrap_key_data(jnp.array(array), impl=leaf["dtype"])
    if leaf["dtype"].startswith(">"):
        array = array.astype(array.dtype.newbyteorder(">"))
    if isinstance(template, np.generic):
        return array[()]
    if template is None or isinstance(template, np.ndarray):
        return array
    _fork.refuse_to_hang()
    return jnp.array(array)


def _flatten(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Paths and leaves, None among them, and the structure."""
    return jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)


def _words(leaf: Leaf) -> str:
    shape = "" if leaf["kind"] == "value" else f" of shape {tuple(leaf['shape'])}"
    return f"{'key ' if leaf['kind'] == 'key' else ''}{leaf['dtype']}{shape}"


def _template(leaf: Any) -> str:
    """What a leaf of `like` asks for; shapes without numbers (jax.ShapeDtypeStruct) will do."""
    if _is_key(leaf):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return f"key {jax.random.key_impl(leaf)} of shape {data.shape}"
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return f"{_dtype(np.dtype(leaf.dtype))} of shape {tuple(leaf.shape)}"
    return type(leaf).__name__


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _dtype(dtype: np.dtype) -> str:
    return f">{dtype.newbyteorder('=').name}" if dtype.byteorder == ">" else dtype.name
