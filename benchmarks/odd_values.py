"""Good and bad arguments for `benchmarks/fuzz.py`: one of many, as a generator says."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy import sparse

COLUMNS = ["a", "b", "c"]
SIZES = (1, 8)
NAN, INF, HUGE, VAST = float("nan"), float("inf"), 10**400, 10**5000
DAY = datetime.date(2020, 1, 1)


def pick(rng: Generator, options: Any) -> Any:
    """One of several things, of any kind."""
    listed = list(options)
    return listed[int(rng.integers(len(listed)))]


def either(rng: Generator, good: Callable[[], Any], bad: Callable[[], Any], share: float) -> Any:
    """A bad value with this probability, else a good one."""
    return bad() if rng.random() < share else good()


def plain(rng: Generator, rows: int) -> np.ndarray:
    """Good numbers, some of them large or small."""
    x = rng.normal(size=(rows, 3)) * pick(rng, [1, 1, 1, 1e3, 1e-3, 1e30])
    x[:, int(rng.integers(3))] = 1.0 if rng.random() < 0.1 else x[:, 0]
    return x


def with_cell(x: np.ndarray, value: Any, dtype: Any = np.float64) -> np.ndarray:
    """The same with one other value."""
    x = x.astype(dtype)
    x[-1, 1] = value
    return x


def good_table(rng: Generator, x: np.ndarray) -> Any:
    """Numbers in one of the forms that numbers come in."""
    forms = [
        lambda: x,
        lambda: x.tolist(),
        lambda: np.asfortranarray(x),
        lambda: np.broadcast_to(x, (2, *x.shape))[1],
        lambda: x.astype(np.float32),
        lambda: x > 0,
        lambda: np.clip(x, -9, 9).astype(np.int8),
        lambda: np.clip(x, -9, 9).astype(np.float16),
        lambda: np.clip(x, -9, 9).astype(ml_dtypes.bfloat16),
        lambda: x.astype(">f8"),
        lambda: x.astype(np.longdouble),
        lambda: x.astype(object),
        lambda: np.repeat(x, 2, axis=1)[:, ::2],
        lambda: tuple(map(tuple, x.tolist())),
    ]
    return pick(rng, forms)()


def bad_table(rng: Generator, x: np.ndarray) -> Any:
    """What is no table of three columns of finite numbers."""
    n = len(x)
    frame = pd.DataFrame(x, columns=COLUMNS)
    forms = [
        lambda: with_cell(x, pick(rng, [NAN, INF, -INF, 1e300, -1e39])),
        lambda: with_cell(x, pick(rng, [None, "high", HUGE, [1.0], {}, DAY, 1j, b"1"]), object),
        lambda: pick(rng, [x[0], x[None], x[:0], x[:, :0], x[:, :2], np.hstack([x, x]), x[0, 0]]),
        lambda: np.full((n, 3), pick(rng, ["high", "1e", "", "nan", b"x"])),
        lambda: [[1.0, 2.0, 3.0]] * n + [[1.0]],
        lambda: pick(rng, [None, 3, "abc", b"abc", {}, [], set(), len, NAN, [[]], [None]]),
        lambda: [[HUGE] * 3] * n,
        lambda: np.full((n, 3), 1 + 1j),
        lambda: np.full((n, 3), np.datetime64("2020-01-01")),
        lambda: np.full((n, 3), np.timedelta64(1, "s")),
        lambda: np.zeros(n, dtype=[("a", float), ("b", float), ("c", float)]),
        lambda: pick(rng, [sparse.csr_matrix, sparse.coo_array])(x),
        lambda: np.ma.masked_array(x, mask=rng.random(x.shape) < 0.5),
        lambda: x.view(np.matrix),
        lambda: frame.rename(columns={"a": "z"}),
        lambda: frame[["a", "b", "b"]],
        lambda: frame.assign(b=pd.array([None] * n, dtype="Int64")),
        lambda: frame.assign(b=pd.Categorical(["u"] * n)),
        lambda: (row for row in x),
        lambda: dict(zip(COLUMNS, x.T, strict=True)),
        lambda: frame.to_dict("records"),
    ]
    return pick(rng, forms)()


def any_table(rng: Generator, x: np.ndarray) -> Any:
    """A table, good or bad."""
    return either(rng, lambda: good_table(rng, x), lambda: bad_table(rng, x), 0.4)


def target(rng: Generator, rows: int, labels: list | None) -> Any:
    """Good targets in one of their forms."""
    if labels:
        y = np.array(labels)[rng.integers(len(labels), size=rows)]
    else:
        y = rng.normal(size=rows) * pick(rng, [1, 1, 1e3, 1e-3])
    return pick(rng, [lambda: y, y.tolist, lambda: pd.Series(y), lambda: tuple(y.tolist())])()


def bad_target(rng: Generator, rows: int, labels: list | None) -> Any:
    """What is no target of these rows."""
    y = np.asarray(target(rng, rows, labels), object)
    forms = [
        lambda: with_cell(np.stack([y, y], 1), pick(rng, [NAN, INF, 1e300, None, HUGE]), object)[
            :, 1
        ],
        lambda: np.full(rows, pick(rng, [NAN, INF, -INF, 1e300, -1e39, 0.5, 7])),
        lambda: [pick(rng, [HUGE, None, [1], (1,), {}, set(), DAY, 1j, b"a", "zz", len])] * rows,
        lambda: np.concatenate([y, y[:1]]),
        lambda: y[:-1],
        lambda: np.stack([y, y], axis=1),
        lambda: pick(rng, [None, 3, "abc", {}, [], set(), object(), NAN, y[0], [[]]]),
        lambda: np.full(rows, 1 + 1j),
        lambda: np.full(rows, np.datetime64("NaT", "s")),
        lambda: np.array(["a", 1, None, 2.5] * rows, object)[:rows],
        lambda: np.zeros(rows, dtype=[("a", float)]),
        lambda: np.ma.masked_array(np.zeros(rows), mask=np.ones(rows)),
        lambda: sparse.csr_matrix(np.zeros((rows, 1))),
        lambda: pd.Series([pd.NA] * rows),
        lambda: (value for value in y),
    ]
    return pick(rng, forms)()


def any_target(rng: Generator, rows: int, labels: list | None) -> Any:
    """Targets, good or bad."""
    kinds = (lambda: target(rng, rows, labels)), (lambda: bad_target(rng, rows, labels))
    return either(rng, *kinds, 0.4)


def weight(rng: Generator, rows: int) -> Any:
    """Weights, good or bad."""
    good = [None, np.ones(rows), 2.0, [0.5] * rows, np.arange(1, rows + 1)]
    bad = [
        -1.0,
        np.zeros(rows),
        np.full(rows, pick(rng, [NAN, INF, -1.0, 1e300, 1e38, 1e-300])),
        np.ones(rows + 1),
        np.ones((rows, 1)),
        ["a"] * rows,
        [None] * rows,
        "abc",
        {},
        [1j] * rows,
        [HUGE] * rows,
        np.full(rows, 1e-30),
    ]
    return pick(rng, either(rng, lambda: good, lambda: bad, 0.5))


def classes(rng: Generator, labels: list) -> Any:
    """A list of classes, good or bad."""
    bad = [
        [],
        [0],
        [NAN, 1],
        ["a", 1],
        3,
        "ab",
        [[0, 1]],
        [None, None],
        {},
        [*labels, 7],
        [0.5, 1.5],
    ]
    return pick(rng, either(rng, lambda: [None, labels, np.array(labels)], lambda: bad, 0.3))


def number(rng: Generator) -> Any:
    """A whole number, a share, or neither."""
    bad = [
        0,
        -1,
        2**31,
        HUGE,
        VAST,
        NAN,
        INF,
        None,
        "a",
        [1],
        np.ones(2),
        1j,
        True,
        {},
        1e300,
        -0.5,
        1.5,
    ]
    return pick(rng, either(rng, lambda: [1, 2, np.int64(3), 0.5, 0.95], lambda: bad, 0.4))


def path(rng: Generator, folder: Path) -> Any:
    """A place to write to or to read from, or not."""
    (folder / "file").write_text("{}")
    bad = [
        None,
        3,
        "",
        os.fsencode(folder / "bytes"),
        folder,
        folder / "file",
        folder / "file" / "x",
        "a\0b",
        [],
        "/proc/x",
    ]
    return pick(rng, either(rng, lambda: [folder / "m", str(folder / "m")], lambda: bad, 0.5))


def option(rng: Generator, names: list[str]) -> tuple[str, Any]:
    """A parameter and a value that most have no use for."""
    bad = [NAN, INF, -1, 0, 2.5, "abc", None, [0.5], np.array([0.5, 0.5]), {}, object(), len, 1e300]
    return pick(rng, names), pick(
        rng, [*bad, (0,), (-3,), ("a",), (1.5,), True, b"a", 2**40, 1j, VAST]
    )


def row(rng: Generator, share: float) -> Any:
    """A dictionary of features, good or bad."""
    good = {name: float(rng.normal()) for name in pick(rng, [COLUMNS, COLUMNS[:2], "cab"])}
    odd = [None, NAN, True, 3, np.float32(1.5), np.int64(2), 1e30, "d", ("t", 1), 7]
    if rng.random() < 0.2:
        good[pick(rng, ["a", "d", ("t", 1), 7, None])] = pick(rng, odd[:7])
    values = [INF, -INF, 1e300, HUGE, "high", [1.0], {}, 1j, VAST, DAY, np.ones(2), b"1", len]
    bad = [
        lambda: good | {pick(rng, ["a", "new", 9]): pick(rng, values)},
        lambda: pick(rng, [None, [1.0], 3, "abc", set(), list(good.items()), np.ones(3)]),
        lambda: pd.Series(good),
    ]
    return either(rng, lambda: good, lambda: pick(rng, bad)(), share)


def frame(rng: Generator, x: np.ndarray, share: float) -> Any:
    """A table for river's door, good or bad."""
    table = pd.DataFrame(np.clip(x, -1e20, 1e20), columns=COLUMNS)
    good = [table, table[["c", "a"]], table.astype(np.float32), table.assign(d=True), table[[]]]
    good += [table.assign(a=NAN), table.assign(b=pd.array([None] * len(x), dtype="Int64"))]
    values = [INF, 1e300, "high", 1j, DAY, None, HUGE, b"1"]
    bad = [
        lambda: table.assign(**{pick(rng, ["a", "new"]): pick(rng, values)}),
        lambda: table.assign(a=[[1.0]] * len(x)),
        lambda: table[["a", "b", "b"]],
        lambda: pick(rng, [None, x, x.tolist(), {}, 3, "abc", table["a"], [{"a": 1.0}]]),
        lambda: table.assign(a=pd.to_datetime(["2020-01-01"] * len(x))),
        lambda: table.assign(a=pd.Categorical(["u"] * len(x))),
    ]
    return either(rng, lambda: pick(rng, good), lambda: pick(rng, bad)(), share)
