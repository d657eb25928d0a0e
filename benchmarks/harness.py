"""What the benchmarks share: one pinned core, interleaved timing, networks by name, the machine in
words, the streams to develop on."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

CORES = sorted(os.sched_getaffinity(0))


def pin(cores: int = 1) -> None:
    """Keep to so many cores and as many XLA threads; call before jax is imported."""
    os.sched_setaffinity(0, CORES[:cores])
    if cores == 1:
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )


def machine() -> dict:
    """The processor and the versions that a figure depends on."""
    import platform
    from importlib.metadata import version

    with open("/proc/cpuinfo") as file:
        lines = file.read().splitlines()
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"
    )
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    return {"processor": model, "vectors": vectors, "python": platform.python_version()} | {
        name: version(name) for name in ("jax", "jaxlib", "optax", "equinox", "hmnn")
    }


def interleaved(
    functions: dict, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict:
    """Call each function in turn, `repeats` times; return the list of seconds of each, after a
    warm-up."""
    for function in functions.values():
        function()
    seconds: dict = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = clock()
            function()
            seconds[name].append(clock() - began)
    return seconds


def sizes(name: str) -> list[int]:
    """The layer widths of a network written as "784-400-400-10"."""
    return [int(width) for width in name.split("-")]


GENERATED = 100
"""The seed of the generated streams; results elsewhere have 0, 1 and 2."""
TENTH = 4531
"""Rows of the first tenth of Elec2."""


def arrays(stream) -> tuple:
    """All of a stream: the inputs, the targets, and the number of classes (0 for numbers)."""
    import numpy as np

    x, y = (np.concatenate(part) for part in zip(*stream, strict=True))
    labels = stream.task == "classification"
    return x.astype(float), y, max(len(stream.made["classes"]), 2) if labels else 0


def files(rows: int) -> dict:
    """The streams in HMNN_DATA/streams: a name -> how to read the first `rows` of it."""
    folder = os.environ.get("HMNN_DATA")
    found = sorted((Path(folder) / "streams").glob("*.npz")) if folder else []
    return {file.stem: lambda file=file: _read(file, rows) for file in found}


def _read(file: Path, rows: int):
    import numpy as np

    from hmnn.data.tables import blocks

    with np.load(file, allow_pickle=False) as data:
        x, y, labels = data["x"][:rows].astype(float), data["y"], str(data["task"]) == "c"
    if not labels:
        return blocks(x, y[:rows].astype(float), "regression", file.stem)
    classes = range(int(y.max()) + 1)
    return blocks(x, y[:rows].astype(int), "classification", file.stem, classes=classes)


def development(rows: int) -> dict:
    """All streams to develop on: a name -> how to make it, `rows` long or as long as it is.

    Elec2 is there three times: its first `rows`, its first tenth (`elec2-tenth`) and whole
    (`elec2-all`), both whatever `rows` is.
    """
    from hmnn.data import generators

    some = {
        "elec2": lambda: generators.electricity(rows),
        "elec2-tenth": lambda: generators.electricity(TENTH),
        "elec2-all": generators.electricity,
    }
    drifting = (generators.sea, generators.hyperplane, generators.rbf)
    some |= {f.__name__: lambda f=f: f(rows, seed=GENERATED) for f in drifting}
    some["trump"] = lambda: generators.trump(rows)
    return files(rows) | some | river_streams(rows)


def river_streams(rows: int, seed: int = GENERATED) -> dict:
    """The other data sets that river brings along, and its other generators."""
    made = {name: ("classification", source) for name, source in _LABELS.items()}
    made |= {name: ("regression", source) for name, source in _NUMBERS.items()}
    return {
        name: lambda name=name, task=task, source=source: _from_river(
            name, task, source, rows, seed
        )
        for name, (task, source) in made.items()
    }


def _from_river(name: str, task: str, source: Callable, rows: int, seed: int):
    from hmnn.data import generators

    try:
        from river import datasets
    except ImportError:
        raise ValueError("This stream needs river: pip install 'hmnn[river]'.") from None
    pairs = islice(source(datasets, rows, seed), rows)
    return generators.from_river(name, task, map(_as_numbers, pairs), {"seed": seed})


def _switched(build: Callable, laws: Iterable, rows: int) -> Iterator:
    """Equal stretches of a generator, each with another law."""
    laws = list(laws)
    return chain.from_iterable(islice(iter(build(law)), -(-rows // len(laws))) for law in laws)


def _tree(data, rows: int, seed: int) -> Iterator:
    """Two trees of decisions, one after the other."""
    return _switched(
        lambda law: data.synth.RandomTree(seed_tree=seed + law, seed_sample=seed + law),
        (0, 1),
        rows,
    )


def _led(data, rows: int, seed: int) -> Iterator:
    """Digits of seven lamps, a tenth of them wrong, and 17 idle lamps that change places."""
    idle = {"noise_percentage": 0.1, "irrelevant_features": True}
    return _switched(
        lambda law: data.synth.LEDDrift(seed=seed + law, n_drift_features=law, **idle),
        (1, 3, 5, 7),
        rows,
    )


def _ruled(name: str, laws: Iterable[int]) -> Callable:
    """A generator of river whose rule changes suddenly."""
    return lambda data, rows, seed: _switched(
        lambda law: getattr(data.synth, name)(classification_function=law, seed=seed + law),
        laws,
        rows,
    )


def _friedman(kind: str, quarters: tuple[int, ...]) -> Callable:
    """Friedman's function, which changes at so many quarters of the rows."""

    def source(data, rows: int, seed: int) -> Iterator:
        position = tuple(rows * quarter // 4 for quarter in quarters)
        window = max(rows // 10, 1)
        return iter(data.synth.FriedmanDrift(kind, position, window, seed=seed))

    return source


def _as_numbers(pair: tuple) -> tuple:
    """Times as day, month, weekday and hour; words as columns of 0 and 1 (Mv: a colour of three,
    a yes or no, a size of two)."""
    row, target = pair
    words = {3: ("green", "red", "brown"), 7: ("yes",), 8: ("normal",)}
    plain: dict = {}
    for name, value in row.items():
        if hasattr(value, "toordinal"):
            plain |= {"day": value.toordinal(), "month": value.month}
            plain |= {"weekday": value.weekday(), "hour": value.hour + value.minute / 60}
        elif isinstance(value, str):
            plain |= {f"{name}={word}": float(value == word) for word in words[name]}
        else:
            plain[name] = value
    return plain, target


def _whole(name: str) -> Callable:
    return lambda data, rows, seed: iter(getattr(data, name)())


_LABELS: dict[str, Callable] = {
    "agrawal": _ruled("Agrawal", (0, 2, 4, 6)),
    "led": _led,
    "mixed": _ruled("Mixed", (0, 1)),
    "phishing": _whole("Phishing"),
    "segments": _whole("ImageSegments"),
    "shuttle": _whole("Shuttle"),
    "stagger": _ruled("STAGGER", (0, 1, 2)),
    "tree": _tree,
    "waveform": lambda data, rows, seed: iter(data.synth.Waveform(seed=seed)),
}
_NUMBERS: dict[str, Callable] = {
    "airline": _whole("AirlinePassengers"),
    "chicks": _whole("ChickWeights"),
    "friedman": _friedman("lea", (1, 2, 3)),
    "friedman-gradual": _friedman("gsg", (1, 3)),
    "mv": lambda data, rows, seed: iter(data.synth.Mv(seed=seed)),
    "planes": lambda data, rows, seed: iter(data.synth.Planes2D(seed=seed)),
    "stocks": _whole("SP500Stocks"),
    "water": _whole("WaterFlow"),
}
