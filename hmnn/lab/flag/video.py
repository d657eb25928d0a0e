"""The waving flag: a video, its principal components, and windows that slide over them.

Two things to know about the video. Every frame is stored twice (frame 2k + 1 repeats 2k), and the
clip is a loop of 140 frames, so that from frame 140 on everything was seen before.
"""

import io
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from hmnn import _check
from hmnn.data import files, windows
from hmnn.data.streams import Stream

FRAMES, LOOP = 416, 140
GREY = np.array([0.299, 0.587, 0.114], np.float32)
LOGO, ABOVE = (slice(30, 60), slice(95, 200)), (slice(0, 30), slice(95, 200))
VARIANCE = 0.999
"""The share of the variance that is kept: 130 components of all frames, as in the paper."""
PROTOCOLS = {"paper": FRAMES, "clean": 100}
"""How many frames the components are fitted on; validation begins at frame 100."""


class Clip(NamedTuple):
    """Frames as principal components, and the way back to pixels."""

    codes: Float[ndarray, "frames components"]
    centre: Float[ndarray, " pixels"]
    axes: Float[ndarray, "components pixels"]
    energy: Float[ndarray, " frames"]
    """Squared norm of each frame, as its components say it, the mean added back."""
    rest: Float[ndarray, " frames"]
    """Squared norm of what the components do not say of each frame."""
    whole: Float[ndarray, " frames"]
    """Squared norm of each frame as it is."""
    shape: tuple[int, int]

    def pixels(
        self, codes: Float[ndarray, "rows components"]
    ) -> Float[ndarray, "rows height width"]:
        """Frames from codes."""
        return (codes @ self.axes + self.centre).reshape(-1, *self.shape)


def waving_flag(window: int = 36, frames: int = 300, protocol: str = "paper") -> Stream:
    """The paper's stream: step t maps each of `window` frames from t on to the frame after it."""
    frames = _check.count("frames", frames, least=window + 1)
    if frames > FRAMES:
        raise _check.fail("frames", f"at most {FRAMES}", frames)
    codes = clip(protocol).codes[:frames]
    stream = windows.sliding(codes, size=window, name="flag")
    made = {"protocol": protocol, "components": codes.shape[1], "fitted_on": PROTOCOLS[protocol]}
    made |= {"variance": VARIANCE, "video": "vtflag.mpg"}
    return replace(stream, made=stream.made | made)


@cache
def clip(protocol: str = "paper") -> Clip:
    """The video's components, of all frames ("paper") or of those before validation ("clean")."""
    _check.choice("protocol", protocol, PROTOCOLS)
    frames = decode(files.read("flag"), FRAMES)
    return encode(prepare(frames), PROTOCOLS[protocol])


def decode(content: bytes, expected: int | None = None) -> UInt8[ndarray, "frames height width"]:
    """The frames of a video in grey, each pixel rounded to a whole number.

    Args:
        content: the file.
        expected: how many frames there must be; without it, at least one.
    """
    av = _av()
    try:
        with av.open(io.BytesIO(content)) as video:
            found = [_grey(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)]
    except (av.error.FFmpegError, IndexError) as error:
        raise ValueError(f"The video must be whole. Got a damaged one ({error}).") from None
    if not found or expected not in (None, len(found)):
        allowed = f"whole, with {expected or 'some'} frames"
        raise _check.fail("The video", allowed, f"{len(found)} frames")
    return np.stack(found)


def prepare(frames: UInt8[ndarray, "frames height width"]) -> Float[ndarray, "frames height width"]:
    """Lay the sky above it over the logo, and divide by 126."""
    patched = frames.copy()
    patched[:, *LOGO] = patched[:, *ABOVE]
    return patched.astype(np.float32) / np.float32(126)


def encode(frames: Float[ndarray, "frames height width"], fitted_on: int) -> Clip:
    """Fit principal components to the first `fitted_on` frames, and encode all frames by them.

    As many components are kept as hold `VARIANCE`. There are far fewer frames than pixels, so they
    come from the inner products of the frames: what scikit-learn gives, ten times as fast.
    """
    flat = frames.reshape(len(frames), -1)
    centre = flat[:fitted_on].mean(axis=0, dtype=np.float64).astype(flat.dtype)
    centred = flat - centre
    products = centred[:fitted_on] @ centred[:fitted_on].T
    values, vectors = np.linalg.eigh(products.astype(np.float64))
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    kept = int(np.searchsorted(np.cumsum(values) / values.sum(), VARIANCE, side="right")) + 1
    axes = (vectors[:, :kept] / np.sqrt(values[:kept])).T.astype(flat.dtype) @ centred[:fitted_on]
    largest = axes[np.arange(kept), np.abs(axes).argmax(axis=1)]
    axes *= np.sign(largest)[:, None]  # else the sign is left to the library
    codes = centred @ axes.T
    mixed = 2 * codes.astype(np.float64) @ (axes @ centre).astype(np.float64)
    energy = _squares(codes) + mixed + _squares(centre)
    rest = np.maximum(_squares(centred) - _squares(codes), 0)
    return Clip(codes, centre, axes, energy, rest, _squares(flat), frames.shape[1:])


def _squares(values: ndarray) -> Any:
    return np.square(values, dtype=np.float64).sum(axis=-1)


def _grey(frame: UInt8[ndarray, "height width 3"]) -> UInt8[ndarray, "height width"]:
    return np.rint(frame.astype(np.float32) @ GREY).astype(np.uint8)


def _av() -> Any:
    try:
        import av  # an extra: only this data set needs it
    except ImportError:
        raise ValueError("The video of the flag needs PyAV: pip install 'hmnn[lab]'.") from None
    return av
