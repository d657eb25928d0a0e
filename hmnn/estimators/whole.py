"""A call that learns is taken whole or not at all, and one at a time.

Any number of threads may predict while others learn. A prediction of the scikit-learn door reads
one finished state and never waits; the river door, whose predictions learn the rows that wait,
takes its calls in turn.
"""

import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from hmnn import _fork

_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The lock of every estimator: not a part of it, so that no copy and no file has it."""
_finding = Lock()


def whole(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method work on a draft of the object, which takes its place only when all went well."""

    @wraps(method)
    def safe(self: Any, *args: Any, **named: Any) -> Any:
        if _fork.forked:
            raise _fork.hang()
        with _finding:
            lock = _locks.setdefault(self, RLock())
        with lock:
            draft = object.__new__(type(self))
            draft.__dict__.update(self.__dict__)
            result = method(draft, *args, **named)
            self.__dict__.update(draft.__dict__)  # nobody sees half of it
            for gone in self.__dict__.keys() - draft.__dict__.keys():
                self.__dict__.pop(gone, None)
            return self if result is draft else result

    return safe


def _let_go() -> None:
    """In a forked child: whoever held a lock is not there to give it back."""
    global _finding
    _finding = Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
