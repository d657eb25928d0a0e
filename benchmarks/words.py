"""Raw 32-bit words of the engine's hash on standard output, for batteries of statistical tests.

`python benchmarks/words.py [--seed 0] | dieharder -a -g 200`. The order is weights x steps, as in
training: every step takes two new threefry words as its key and hashes all indices of a (512, 1024)
leaf. Ends when the reader does.
"""

import argparse
import sys

SHAPE = (512, 1024)
STEPS = 8
"""Steps in one compiled call: 16 MB of words."""


def stream(seed: int):
    """Blocks of words, without end."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from hmnn.core.cpu import hashing

    @jax.jit
    def block(key):
        keys = jax.random.bits(key, (STEPS, 2), jnp.uint32)
        return jax.lax.map(lambda words: hashing.mixed(SHAPE, words), keys)

    key = jax.random.key(seed)
    for i in range(2**31):
        yield np.asarray(block(jax.random.fold_in(key, i)))


def main() -> None:
    """Write words until nobody reads them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    try:
        for block in stream(parser.parse_args().seed):
            sys.stdout.buffer.write(memoryview(block).cast("B"))
    except BrokenPipeError:
        sys.stderr.close()  # or the interpreter would complain of the pipe once more
        sys.exit(0)


if __name__ == "__main__":
    main()
