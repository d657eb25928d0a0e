"""What a stream is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hmnn._types import Dataset


@dataclass(frozen=True)
class Stream:
    """A sequence of data sets that knows its length, its task and how it was made."""

    name: str
    task: str
    length: int
    at: Callable[[int], Dataset]
    """The data of time step t = 0 .. length - 1, the same at every call."""
    made: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, t: int) -> Dataset:
        if not 0 <= t < self.length:
            raise IndexError(f"t must be from 0 to {self.length - 1}. Got {t}.")
        return self.at(t)

    def __iter__(self) -> Iterator[Dataset]:
        return (self.at(t) for t in range(self.length))
