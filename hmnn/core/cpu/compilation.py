"""How programs are compiled, and kept on disk so that the next process need not compile them again.

Compile options differ between releases of XLA. They are asked for, never assumed: an option that
this XLA refuses is left out, and the program is a little slower to compile or to run, and as right.
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from operator import attrgetter
from pathlib import Path
from typing import Any

import jax

Option = bool | int | float | str

OFTEN: Mapping[str, Option] = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_backend_optimization_level": 1,
}
"""Programs that run often: with the widest vectors, without passes that buy nothing."""
SELDOM: Mapping[str, Option] = {**OFTEN, "xla_cpu_use_fusion_emitters": False}
"""Programs that run once a time step: XLA:CPU's older code generator, where it is still there, is
done sooner, and as good where everything is arithmetic."""
ONCE: Mapping[str, Option] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
}
"""Programs that run once: compiled quickly, and slower."""


class Compiled:
    """A function that `jax.jit` compiles with those options that this XLA accepts.

    Nothing is asked when the module is imported. JAX takes options at the outermost call only: do
    not call it from another compiled function, or give that one the function itself.
    """

    def __init__(
        self, function: Callable[..., Any], wished: Mapping[str, Option], **settings: Any
    ) -> None:
        update_wrapper(self, function)
        self._function, self._wished, self._settings = function, wished, settings

    @cached_property
    def jitted(self) -> Any:
        """What `jax.jit` returns: lower it, clear its cache, or call it in a narrow loop."""
        return jax.jit(
            self._function, compiler_options=options(self._wished) or None, **self._settings
        )

    def __getattr__(self, name: str) -> Any:
        """What `jax.jit` returns has more to offer, such as `lower`."""
        return getattr(self.jitted, name)

    # Python looks a call up as a property here, in C: a method would add a frame to every call.
    __call__: Callable[..., Any] = property(attrgetter("jitted"))  # type: ignore[assignment]


def compiled(
    wished: Mapping[str, Option],
    *,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Callable[[Callable[..., Any]], Compiled]:
    """A decorator like `jax.jit` with options that an XLA may lack, such as `OFTEN`."""
    settings = {"static_argnums": static_argnums, "donate_argnums": donate_argnums}
    return lambda function: Compiled(function, wished, **settings)


_answers: dict[tuple[str, Option], bool] = {}
"""What this XLA said to an option, so that it is asked once in a process."""


def options(wished: Mapping[str, Option]) -> dict[str, Option]:
    """Those of the wished options that this XLA accepts.

    None where the arrays do not live on the processor.
    """
    if jax.default_backend() != "cpu":
        return {}
    new = {name: value for name, value in wished.items() if (name, value) not in _answers}
    if new and _accepts(new):  # all at once, which is usual
        _answers.update(dict.fromkeys(new.items(), True))
    else:
        _answers.update({option: _accepts(dict([option])) for option in new.items()})
    return {name: value for name, value in wished.items() if _answers[name, value]}


def _accepts(wished: dict[str, Any]) -> bool:
    """Whether a program that does nothing compiles with these options.

    That takes a few milliseconds.
    """
    nothing = jax.jit(lambda x: x).lower(jax.ShapeDtypeStruct((), "float32"))
    try:
        nothing.compile(compiler_options=wished)
    except (RuntimeError, TypeError, ValueError):  # unknown to this XLA, or not with this value
        return False
    return True


def persist(folder: Path) -> bool:
    """Keep compiled programs in `folder` from now on.

    A folder that cannot be written to only means that none are kept.

    Returns:
        Whether they are kept. Setting HMNN_NO_COMPILATION_CACHE=1 turns it off, and
            JAX_COMPILATION_CACHE_DIR wins.
    """
    if (
        os.environ.get("HMNN_NO_COMPILATION_CACHE", "0") not in ("", "0")
        or "JAX_COMPILATION_CACHE_DIR" in os.environ
    ):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(
            dir=folder
        ):  # permissions alone do not tell, on a full or read-only disk
            pass
    except OSError:
        return False
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return True
