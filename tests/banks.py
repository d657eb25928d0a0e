"""Small banks and filters for the tests of hmnn/core/learning.py."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from hmnn._types import Batch
from hmnn.core import filtering, kernels, likelihoods
from hmnn.core.cpu.compilation import OFTEN, ONCE, compiled
from hmnn.core.filtering import Filter
from hmnn.core.learning import Bank
from hmnn.core.members import Group, banked
from hmnn.methods.natural import natural
from hmnn.networks import mlp

NETWORK = mlp(2, (4,), 1)
step, rows, init = (compiled(ONCE)(f) for f in (filtering.step, filtering.rows, filtering.init))
often = compiled(OFTEN)(filtering.rows)


def member(
    network=NETWORK,
    likelihood="bernoulli",
    jump=0.02,
    level=0.1,
    correlations="last",
    memory=0.999,
    initial_scale=0.3,
):
    """One filter in closed form."""
    law = likelihoods.LIKELIHOODS[likelihood]() if isinstance(likelihood, str) else likelihood
    how = natural(initial_scale, level, bound=1.0, correlations=correlations, level_bound=10.0)
    kernel = kernels.jump(memory, jump, jump_prob=1.0)
    parts = Filter(network.init, network.apply, kernel, None, law, how)
    return jax.tree.map(jnp.asarray, parts)


def group(*members, replay=0.0, lots=0, expert=False):
    """Filters side by side, all with the same weight of rows that are relearned."""
    return Group(banked(members), jnp.full(len(members), float(replay)), lots, expert)


def bank(*groups, share=1e-3, spreads=(1.0,), buffer=20, columns=2, **settings):
    """A bank as a filter; the first group tells which network and which likelihood."""
    first = jax.tree.map(lambda a: a[0], groups[0].members)
    how = Bank(groups, jnp.asarray(share), spreads, (columns,), buffer, **settings)
    return replace(first, kernel=kernels.static(), projection=how)


def data(number=30, seed=0, kind="bernoulli", columns=2, classes=3):
    """Rows of a noisy line, as classes or as numbers, all of weight 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, columns))
    score = x[:, 0] - 0.5 * x[:, 1] + 0.5 * rng.normal(size=number)
    if kind == "bernoulli":
        y = (score > 0).astype(np.int32)
    elif kind == "categorical":
        y = np.digitize(score, np.linspace(-1.0, 1.0, classes - 1)).astype(np.int32)
    else:
        y = score
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(number))


def cut(batch, *places):
    """Some of the rows."""
    return jax.tree.map(lambda a: a[slice(*places)], batch)
