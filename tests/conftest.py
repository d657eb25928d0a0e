"""Shapes and types are enforced while the tests run, and dtypes never promote by accident."""

import os
from pathlib import Path

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

# Not the rooms with doors, methods and estimators: they are typed for readers, and check and word
# errors themselves.
ROOMS = [
    "core",
    "networks",
    "data",
    "metrics",
    "store",
    "evaluate",
    "lab",
    "cli",
    "_check",
    "_tree",
    "_types",
]
hook = install_import_hook([f"hmnn.{room}" for room in ROOMS], "beartype.beartype")

import jax  # noqa: E402
import pytest  # noqa: E402

from hmnn.core.cpu import compilation  # noqa: E402
from hmnn.methods import method, streams  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """A cache of the tests' own, unless one is given; what one worker compiled all of them have."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ.setdefault("HMNN_CACHE", str(shared / "cache"))
    compilation.persist(shared / "programs")


@pytest.fixture(scope="module", autouse=True)
def _few_programs():
    """Let go of compiled programs in time: each takes maps of memory, of which there are 65530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > 30000:
        jax.clear_caches()


_quick = {}


@pytest.fixture(scope="module")
def compiled_quickly():
    """For tests that ask what is learned from few rows: most of their time is the compiler's.

    The programs of methods and estimators are compiled quickly, and run slowly.
    """
    found = [*vars(method).values(), *vars(streams).values()]
    with pytest.MonkeyPatch.context() as patch:
        for program in (p for p in found if isinstance(p, compilation.Compiled)):
            if program not in _quick:
                settings = program.__wrapped__, compilation.ONCE
                _quick[program] = compilation.Compiled(*settings, **program._settings).jitted
            patch.setitem(program.__dict__, "jitted", _quick[program])
        yield


@pytest.fixture
def float64():
    """Run a test in double precision."""
    with jax.enable_x64(True):
        yield
