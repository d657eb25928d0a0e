"""Compiled programs kept on disk, so that the next process need not compile them again."""

import os
import tempfile
from pathlib import Path

import jax

OFTEN = {"xla_cpu_prefer_vector_width": 512, "xla_backend_optimization_level": 1}
"""How programs that run often are compiled: with the widest vectors, without passes that buy nothing."""
SELDOM = OFTEN | {"xla_cpu_use_fusion_emitters": False}
"""How programs that run once a time step are compiled: XLA:CPU's older code generator is done sooner, and as good where
everything is arithmetic."""
ONCE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""How programs that run once are compiled: quickly, with XLA:CPU's older code generator, whose programs are slower."""


def persist(folder: Path) -> bool:
    """Keep compiled programs in `folder` from now on; a folder that cannot be written to only means that none are kept.

    Returns:
        Whether they are kept. Setting HMNN_NO_COMPILATION_CACHE=1 turns it off, and JAX_COMPILATION_CACHE_DIR wins.
    """
    if os.environ.get("HMNN_NO_COMPILATION_CACHE", "0") not in ("", "0") or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell, on a full or read-only disk
            pass
    except OSError:
        return False
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return True
