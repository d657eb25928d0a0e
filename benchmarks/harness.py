"""What the benchmarks share: one pinned core, interleaved timing, networks by name, the machine in
words."""

import os

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


def interleaved(functions: dict, repeats: int) -> dict:
    """Call each function in turn, `repeats` times; return the list of seconds of each, after a
    warm-up."""
    import time

    for function in functions.values():
        function()
    seconds: dict = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def sizes(name: str) -> list[int]:
    """The layer widths of a network written as "784-400-400-10"."""
    return [int(width) for width in name.split("-")]
