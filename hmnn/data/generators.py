"""Drifting streams that are made, or come with river, and Elec2 as a stream.

SEA and Hyperplane are river's generators, trump_approval is river's data set: they need the extra
`river`. The moving clouds are river's RandomRBFDrift, written anew. The settings are those usual in
the literature on drift.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

from hmnn import _check
from hmnn.data.electricity import LABELS, elec2
from hmnn.data.streams import Stream
from hmnn.data.tables import blocks


def _river() -> ModuleType:
    try:
        from river import datasets
    except ImportError:
        raise ValueError("This stream needs river: pip install 'hmnn[river]'.") from None
    return datasets


def electricity(rows: int | None = None) -> Stream:
    """Elec2 as a stream of half hours, without the date; all 45312 of them, or the first `rows`."""
    data, kept = elec2(), slice(rows if rows is None else _check.count("rows", rows))
    names: dict[str, Any] = {"features": data.features, "classes": LABELS}
    return blocks(data.x[kept], data.y[kept], "classification", "elec2", **names)


def sea(rows: int | None = None, seed: int = 0, noise: float = 0.1) -> Stream:
    """SEA: the sum of two of three features against a threshold, which changes three times.

    Args:
        rows: 20000 by default.
        seed: of the random numbers.
        noise: the share of labels that are wrong.
    """
    rows = _check.count("rows", 20000 if rows is None else rows, least=4)
    _check.unit("noise", noise)
    datasets = _river()
    changes = [rows * k // 4 for k in (1, 2, 3)]
    pairs: list[Any] = []
    for variant, length in enumerate(np.diff([0, *changes, rows]).tolist()):
        source = datasets.synth.SEA(variant=variant, noise=noise, seed=seed + variant)
        pairs += islice(iter(source), length)
    made = {"seed": seed, "noise": noise, "changes": changes}
    return from_river("sea", "classification", pairs, made)


def hyperplane(rows: int | None = None, seed: int = 0, speed: float = 0.001) -> Stream:
    """A hyperplane in ten dimensions that moves by `speed` a row; 5 % of the labels are wrong."""
    rows = _check.count("rows", 20000 if rows is None else rows)
    sizes = {"n_features": 10, "n_drift_features": 10}
    source = iter(_river().synth.Hyperplane(seed=seed, mag_change=speed, **sizes))
    made = {"seed": seed, "speed": speed}
    return from_river("hyperplane", "classification", islice(source, rows), made)


def rbf(rows: int | None = None, seed: int = 0, speed: float = 0.001, classes: int = 5) -> Stream:
    """Fifty clouds of points in ten dimensions, each of one class, that move by `speed` a row."""
    rows = _check.count("rows", 20000 if rows is None else rows)
    pairs = islice(_clouds(seed, speed, _check.count("classes", classes, least=2)), rows)
    return from_river("rbf", "classification", pairs, {"seed": seed, "speed": speed})


CLOUDS, DIMENSIONS = 50, 10


def _clouds(seed: int, speed: float, classes: int) -> Iterator[Any]:
    """What river's RandomRBFDrift yields, with all clouds moved at once, which is far faster."""
    model, sample = Random(seed), Random(seed + 1)
    clouds = [
        (_uniform(model), model.randint(0, classes - 1), model.random(), model.random())
        for _ in range(CLOUDS)
    ]
    centres = np.array([centre for centre, *_ in clouds])
    model = Random(seed)  # river begins again for the directions
    directions = np.array([_uniform(model) for _ in range(CLOUDS)])
    speeds = speed * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ends = np.cumsum([weight for *_, weight in clouds])
    while True:
        centres += speeds
        out = (centres > 1) | (centres < 0)
        np.clip(centres, 0, 1, out=centres)
        speeds[out] *= -1
        chosen = int(np.searchsorted(ends, sample.random() * ends[-1], side="right"))
        _, label, width, _ = clouds[chosen]
        way = 2.0 * np.array(_uniform(sample)) - 1.0
        point = centres[chosen] + way * (sample.gauss(0, 1) * width / np.linalg.norm(way))
        yield dict(enumerate(point.tolist())), label


def _uniform(random: Random) -> list[float]:
    return [random.random() for _ in range(DIMENSIONS)]


def trump(rows: int | None = None) -> Stream:
    """trump_approval: 1001 days, five pollsters and the day in; an approval rating out."""
    kept = None if rows is None else _check.count("rows", rows)
    return from_river("trump", "regression", islice(iter(_river().TrumpApproval()), kept), {})


def from_river(name: str, task: str, pairs: Iterable[Any], made: dict[str, Any]) -> Stream:
    """River's pairs of features, always the same ones in a dictionary, and target, as a stream."""
    features, target = zip(*pairs, strict=True)
    names = list(features[0])
    for i, row in enumerate(features):
        if row.keys() != features[0].keys():
            raise _check.fail(f"row {i}", f"of the features {names}", list(row))
    x = np.array([[row[key] for key in names] for row in features], np.float64)
    if task == "regression":
        numbers = np.array(target, np.float64)
        return blocks(x, numbers, task, name, features=map(str, names), made=made)
    classes = sorted(set(target))
    y = np.searchsorted(np.array(classes), np.array(target))
    plain = [c if isinstance(c, str) else int(c) for c in classes]
    return blocks(x, y, task, name, features=map(str, names), classes=plain, made=made)


STREAMS: dict[str, Callable[..., Stream]] = {
    "elec2": electricity,
    "sea": sea,
    "hyperplane": hyperplane,
    "rbf": rbf,
    "trump": trump,
}
"""Streams by name; each takes `rows`, and all but elec2 and trump a `seed`."""
