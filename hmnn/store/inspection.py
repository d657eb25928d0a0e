"""What a checkpoint or a trajectory holds, in words and numbers, after verifying all of it."""

from pathlib import Path
from typing import Any

from hmnn import _check
from hmnn.store import checkpoints
from hmnn.store.manifests import NAME
from hmnn.store.trajectories import Trajectory


def inspect(path: Any) -> dict[str, Any]:
    """Kind, time step, config, arrays, sizes and versions; an error if a checksum fails."""
    folder = _check.path(path)
    trajectory = any(folder.glob("*.records")) if (folder / NAME).exists() else False
    return _trajectory(folder) if trajectory else _checkpoint(folder)


def _checkpoint(folder: Path) -> dict[str, Any]:
    manifest, arrays = checkpoints.read(folder)
    found = _common(folder, manifest)
    for leaf in manifest["tree"]:
        if (name := leaf["name"]) in (".t", "['t']", "['state'].t"):
            return found | {"t": int(arrays[name]) if name in arrays else leaf["value"]}
    return found


def _trajectory(folder: Path) -> dict[str, Any]:
    trajectory = Trajectory(folder)
    count = trajectory.verify()
    found = _common(folder, trajectory.manifest() or {})
    times = {"first": int(trajectory._time(0)), "last": trajectory.last} if count else {}
    return {**found, "t": trajectory.last, "records": count, "every": trajectory.every, **times}


def _common(folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    config = manifest["config"] if isinstance(manifest["config"], dict) else {}
    arrays = [leaf for leaf in manifest["tree"] if leaf["kind"] != "value"]
    values = [leaf for leaf in manifest["tree"] if leaf["kind"] == "value"]
    here = [file for file in checkpoints.place(folder).iterdir() if file.is_file()]
    return {
        "path": str(folder),
        "kind": manifest["kind"],
        "format": manifest["version"],
        "t": config.get("t"),
        **{part: config.get(part) for part in ("network", "kernel", "family")},
        "type": manifest.get("type"),
        "bytes": sum(file.stat().st_size for file in here),
        "arrays": [{key: leaf[key] for key in ("name", "dtype", "shape")} for leaf in arrays],
        "values": {leaf["name"]: leaf["value"] for leaf in values},
        **{part: manifest[part] for part in ("config", "flags", "versions")},
        "verified": True,
    }
