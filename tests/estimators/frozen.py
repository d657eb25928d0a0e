"""What a model has learned as bytes, to see whether anything changed."""

import jax
import numpy as np


def as_bytes(tree):
    """Every leaf of a tree, keys included."""
    return [_array(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def _array(leaf):
    is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def as_numbers(tree):
    """All real numbers of a tree one after the other, to see how much changed."""
    leaves = jax.tree.leaves(tree)
    leaves = [leaf for leaf in leaves if jax.dtypes.issubdtype(leaf.dtype, np.floating)]
    return np.concatenate([np.ravel(leaf) for leaf in leaves])
