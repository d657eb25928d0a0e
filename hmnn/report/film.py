"""What the page needs of the flag: every method's error over the frames, and pictures of one method's forecasts."""

import io
from typing import Any

import matplotlib
import numpy as np
from numpy import ndarray
from PIL import Image

WHITE = 255 / 126
"""The grey value of white: frames are divided by 126."""
QUALITY = 70
"""Of the JPEG pictures."""


def view(scene: Any) -> dict[str, Any]:
    """Errors of all methods, drift signals, and the film of a `hmnn.report.flag.Scene` in JPEG."""
    _, first, last = scene.edges
    scored = np.arange(scene.window + 2 - scene.window % 2, last + 1, 2)
    found = {
        "frames": scored.astype(np.int32),
        "errors": {kind: _errors(scene, kind, scored) for kind in scene.forecasts},
        "labels": dict(scene.labels),
        "edges": np.array(scene.edges, np.int32),
        "filmed": scene.filmed,
    }
    if scene.shown():
        found["film"] = _film(scene, np.arange(first, last + 1, 2))
    drift = {kind: signal for kind in scene.forecasts if (signal := _drift(scene.forecasts[kind]))}
    return found | ({"drift": drift} if drift else {})


def _errors(scene: Any, kind: str, frames: ndarray) -> ndarray:
    """Each forecast's own M."""
    errors = scene.clip.codes[frames] - scene.forecasts[kind]["mean"][frames - scene.window - 1]
    return np.sqrt(np.square(errors).sum(axis=1) / scene.clip.energy[frames]).astype(np.float32)


def _drift(forecast: dict[str, ndarray]) -> dict[str, ndarray]:
    """Leaf of the network -> its drift signal at frames window, window + 1, ..."""
    prefix = "drift of "
    return {key.removeprefix(prefix): value.astype(np.float16) for key, value in forecast.items() if prefix in key}


def _film(scene: Any, frames: ndarray) -> dict[str, Any]:
    """Truth, forecast, error and interval width of the test frames, and what the brightest colour stands for."""
    forecast, at = scene.forecasts[scene.filmed], frames - scene.window - 1
    truth, mean = scene.clip.pixels(scene.clip.codes[frames]), scene.clip.pixels(forecast["mean"][at])
    film = {"frames": frames.astype(np.int32), "truth": _grey(truth), "prediction": _grey(mean)}
    tops = {}
    film["error"], tops["error"] = _coloured(np.abs(truth - mean))
    if "sd" in forecast:
        variance = np.square(forecast["sd"][at]) @ np.square(scene.clip.axes)
        film["width"], tops["width"] = _coloured(3.92 * np.sqrt(variance).reshape(-1, *scene.clip.shape))
    return film | {"top": tops}


def _grey(pictures: ndarray) -> dict[str, ndarray]:
    return _pack(np.clip(pictures / WHITE, 0, 1))


def _coloured(pictures: ndarray) -> tuple[dict[str, ndarray], float]:
    """In magma, from black at 0 to bright at the 99.9th percentile of all of them."""
    top = float(np.quantile(pictures, 0.999)) or 1.0
    return _pack(matplotlib.colormaps["magma"](np.clip(pictures / top, 0, 1))[..., :3]), top


def _pack(pictures: ndarray) -> dict[str, ndarray]:
    """JPEG files one after the other, and where each ends."""
    files = [_jpeg(picture) for picture in pictures]
    return {
        "jpeg": np.frombuffer(b"".join(files), np.uint8),
        "ends": np.cumsum([len(file) for file in files]).astype(np.int32),
    }


def _jpeg(picture: ndarray) -> bytes:
    with io.BytesIO() as buffer:
        Image.fromarray(np.rint(255 * picture).astype(np.uint8)).save(buffer, "JPEG", quality=QUALITY, optimize=True)
        return buffer.getvalue()
