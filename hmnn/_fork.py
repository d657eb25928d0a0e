"""A process forked from one in which JAX ran cannot compute: JAX's threads do not come along.

A program that waits for them waits for ever, so the doors ask here first. Before JAX has begun, a
fork is harmless.
"""

import os
import sys

_running = False
forked = False
"""Whether JAX had begun when this process was forked: ask before every compiled call."""


def hang() -> RuntimeError:
    """Word the error of a process where JAX would wait for threads that a fork left behind."""
    return RuntimeError(
        "This process was forked after JAX had begun, and JAX's threads do not survive a fork: "
        "start processes by spawn, by forkserver or by joblib's loky."
    )


def refuse_to_hang() -> None:
    """Raise it, where a call more costs nothing."""
    if forked:
        raise hang()


def _look() -> None:
    """Before a fork: has JAX begun? A release that does not tell is taken to have."""
    global _running
    bridge = sys.modules.get("jax._src.xla_bridge")
    begun = getattr(bridge, "backends_are_initialized", lambda: bridge is not None)
    _running = bool(begun())


def _mark() -> None:
    global forked
    forked = forked or _running


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_mark)
