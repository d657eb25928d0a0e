"""What pyarrow's tables do, as far as we ask for it, where pyarrow is not installed."""

import datetime as dt

import numpy as np


class Chunked:
    """A column: like pyarrow's, it takes the last word for a missing one when it becomes an
    array."""

    def __init__(self, values, words):
        self.values, self.type = values, "dictionary<values=string>" if words else "other"

    def __array__(self, dtype=None, copy=None):
        if self.type != "other":
            words = sorted({v for v in self.values if v is not None})
            return np.array([words[-1] if v is None else v for v in self.values], object)
        there = [v for v in self.values if v is not None]
        if isinstance(there[0], dt.datetime):
            return np.array(self.values, "datetime64[us]")
        kind = type(there[0]) if len(there) == len(self.values) else object
        if isinstance(there[0], float | int) and not isinstance(there[0], bool):
            kind = np.float64
        return np.array(self.values, kind)

    def to_pylist(self):
        return self.values


class Table:
    """A table: `columns` are the columns, not their names."""

    def __init__(self, rows, words=()):
        self.rows, self.words = rows, words
        self.column_names = list(dict.fromkeys(name for row in rows for name in row))

    def column(self, name):
        return Chunked([row.get(name) for row in self.rows], name in self.words)

    @property
    def columns(self):
        return [self.column(name) for name in self.column_names]

    def slice(self, offset, length):
        return Table(self.rows[offset : offset + length], self.words)

    def __len__(self):
        return len(self.rows)
