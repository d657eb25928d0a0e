"""Shapes and types are enforced while the tests run, and dtypes never promote by accident."""

import os

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

import hmnn  # noqa: E402, F401

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """A cache directory of the tests' own, unless one is given."""
    os.environ.setdefault("HMNN_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def float64():
    """Run a test in double precision."""
    with jax.enable_x64(True):
        yield
