"""For the figures of the flag: the error of every method, and the forecasts of one in pictures."""

import io
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from numpy import ndarray
from PIL import Image

from hmnn.lab import diagnostics
from hmnn.lab.flag.config import Config
from hmnn.lab.flag.entries import LABELS
from hmnn.lab.flag.video import Clip

WHITE = 255 / 126
"""The grey value of white: frames are divided by 126."""
QUALITY = 70
"""Of the JPEG pictures."""


class Scene(NamedTuple):
    """One run of every method."""

    config: Config
    clip: Clip
    forecasts: dict[str, dict[str, ndarray]]
    """Method -> mean (and sd) of the forecasts of frames window + 1, window + 2, ..."""
    filmed: str
    """The method in the film."""


def view(scene: Scene) -> dict[str, Any]:
    """Errors of all methods, drift signals and, unless the method diverged, the film."""
    config, window = scene.config, scene.config.window
    scored = np.arange(window + 2 - window % 2, config.last + 1, 2)
    edges = config.validate_from, config.test_from, config.last
    found = {
        "frames": scored.astype(np.int32),
        "errors": {kind: _errors(scene, kind, scored) for kind in scene.forecasts},
        "labels": {kind: LABELS[kind] for kind in scene.forecasts},
        "edges": np.array(edges, np.int32),
        "filmed": scene.filmed,
    }
    if np.isfinite(scene.forecasts[scene.filmed]["mean"]).all():
        found["film"] = _film(scene, np.arange(config.test_from, config.last + 1, 2))
    drift = {
        kind: {leaf: values.astype(np.float16) for leaf, values in signal["drift"].items()}
        for kind, kept in scene.forecasts.items()
        if (signal := diagnostics.signal(kept))
    }
    return found | ({"drift": drift} if drift else {})


def _errors(scene: Scene, kind: str, frames: ndarray) -> ndarray:
    """Each forecast's own M."""
    mean = scene.forecasts[kind]["mean"][frames - scene.config.window - 1]
    squares = np.square(scene.clip.codes[frames] - mean).sum(axis=1)
    return np.sqrt(squares / scene.clip.energy[frames]).astype(np.float32)


def _film(scene: Scene, frames: ndarray) -> dict[str, Any]:
    """Truth, forecast, error and interval width; and what the brightest colour stands for."""
    clip, forecast = scene.clip, scene.forecasts[scene.filmed]
    at = frames - scene.config.window - 1
    truth, mean = clip.pixels(clip.codes[frames]), clip.pixels(forecast["mean"][at])
    grey = {"truth": truth, "prediction": mean}
    bright = {"error": np.abs(truth - mean)}
    if "sd" in forecast:
        variance = np.square(forecast["sd"][at]) @ np.square(clip.axes)
        bright["width"] = 3.92 * np.sqrt(variance).reshape(-1, *clip.shape)
    film: dict[str, Any] = {key: _pack(np.clip(p / WHITE, 0, 1)) for key, p in grey.items()}
    film |= {"frames": frames.astype(np.int32), "top": {}}
    for key, pictures in bright.items():  # from black at 0 to bright at the 99.9th percentile
        top = film["top"][key] = float(np.quantile(pictures, 0.999)) or 1.0
        coloured = matplotlib.colormaps["magma"](np.clip(pictures / top, 0, 1))
        film[key] = _pack(coloured[..., :3])
    return film


def _pack(pictures: ndarray) -> dict[str, ndarray]:
    """JPEG files one after the other, and where each ends."""
    files = []
    for picture in np.rint(255 * pictures).astype(np.uint8):
        with io.BytesIO() as buffer:
            Image.fromarray(picture).save(buffer, "JPEG", quality=QUALITY, optimize=True)
            files.append(buffer.getvalue())
    ends = np.cumsum([len(file) for file in files]).astype(np.int32)
    return {"jpeg": np.frombuffer(b"".join(files), np.uint8), "ends": ends}
