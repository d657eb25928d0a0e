"""MNIST with labels that evolve: a digit has its label or, with a moving chance, the next."""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from hmnn import _check
from hmnn._types import Dataset
from hmnn.data import digits
from hmnn.data.streams import Stream

CLASSES, STEPS, GREY = 10, 19, np.float32(126)
HELD_OUT = 50000
"""Where the training images end that the clean protocol keeps for validation."""
PARTS = ("train", "validation", "test")
POOLS = {
    "paper": dict.fromkeys(PARTS, ("train", 0, 60000)),
    "clean": {
        "train": ("train", 0, HELD_OUT),
        "validation": ("train", HELD_OUT, 60000),
        "test": ("test", 0, 10000),
    },
}
"""Protocol -> part -> the images that it is drawn from: MNIST's file, first, last."""


class Labelled(NamedTuple):
    """One time step: images, the labels that were drawn for them, and what digits they are."""

    x: Float[ndarray, "rows 784"]
    y: Int[ndarray, " rows"]
    digit: Int[ndarray, " rows"]


def evolving_mnist(
    part: str = "train",
    protocol: str = "paper",
    rows: int = 10000,
    steps: int = STEPS,
    seed: int = 0,
) -> Stream:
    """The paper's stream: at every step new images, named by C1 with probability f_t, else by C2.

    Args:
        part: train, validation or test; the three are drawn independently.
        protocol: "paper" draws all parts from MNIST's training images, so that a test image may
            have been trained on; "clean" draws each from images of its own (`POOLS`).
        rows: images of a time step, no image twice in it.
        steps: how many time steps, t = 1 .. steps; the stream counts them from 0.
        seed: of the random numbers.
    """
    _check.count("steps", steps)
    labelled(0, part, protocol, rows, seed)  # arguments are refused here, not in mid-stream

    def at(t: int) -> Dataset:
        return Dataset(*labelled(t, part, protocol, rows, seed)[:2])

    made = {"part": part, "protocol": protocol, "rows": rows, "steps": steps, "seed": seed}
    return Stream("evolving-mnist", "classification", steps, at, made)


def labelled(
    t: int, part: str = "train", protocol: str = "paper", rows: int = 10000, seed: int = 0
) -> Labelled:
    """The data of step t = 0, 1, ... with the true digits, for scores without the labels' noise."""
    _check.choice("protocol", protocol, POOLS)
    _check.choice("part", part, PARTS)
    images, names = _pool(protocol, part)
    if _check.count("rows", rows) > len(images):
        raise _check.fail("rows", f"at most {len(images)}, as many as there are images", rows)
    rng = np.random.default_rng([seed, t, PARTS.index(part), list(POOLS).index(protocol)])
    taken = rng.choice(len(images), rows, replace=False)
    second = rng.random(rows) >= chances(t + 1)[t]
    digit = names[taken].astype(np.int32)
    x = images[taken].reshape(rows, -1).astype(np.float32) / GREY
    return Labelled(x, (digit + second.astype(np.int32)) % np.int32(CLASSES), digit)


def chances(steps: int = STEPS) -> Float[ndarray, " steps"]:
    """f_t for t = 1 .. steps: the probability of labeller C1 (the label itself; C2 adds one)."""
    t = np.arange(1, steps + 1)
    return 0.5 * np.sin(np.pi / 8 * (4 * t / 5 + 16 / 5)) + 0.5


def ceiling(steps: int = STEPS) -> float:
    """The expected accuracy of a perfect reader who knows f_t: the mean of max(f_t, 1 - f_t)."""
    f = chances(steps)
    return float(np.maximum(f, 1 - f).mean())


@cache
def images() -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """MNIST, read once in a process."""
    return digits.mnist()


def _pool(protocol: str, part: str) -> tuple[ndarray, ndarray]:
    file, first, last = POOLS[protocol][part]
    x, y = images()[:2] if file == "train" else images()[2:]
    return x[first:last], y[first:last]
