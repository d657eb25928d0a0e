"""The free energy KL(q || P pi) - E_q[log g], estimated from draws of the weights, eq. (KL).

It falls as the fit improves; the ELBO of eq. (ELBO) is its negative.
"""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float, PyTree

from hmnn import _tree
from hmnn._types import Batch, Scalar, Weights
from hmnn.core import families, likelihoods, mixtures
from hmnn.core.families import Posterior

Apply = Callable[[Weights, Array], Array]
"""apply(weights, x) -> outputs, one row of outputs per row of x."""


def draw(posterior: Posterior, family: PyTree, noise: PyTree) -> Weights:
    """Weights from parameters and noise, leaf by leaf."""
    return draw_scaled(
        posterior.location, jax.tree.map(families.scale, posterior.rho), family, noise
    )


def draw_scaled(location: Weights, scale: Weights, family: PyTree, noise: PyTree) -> Weights:
    """Draw weights when s has already been computed."""
    return jax.tree.map(
        lambda m, s, member, epsilon: member.draw(m, s, epsilon), location, scale, family, noise
    )


def mixture(posterior: Posterior, family: PyTree) -> PyTree:
    """The posterior as one mixture per leaf."""
    return jax.tree.map(
        lambda m, rho, member: member.mixture(Posterior(m, rho)),
        posterior.location,
        posterior.rho,
        family,
    )


def divergence(posterior: Posterior, family: PyTree, prior: PyTree, w: Weights) -> Float[Array, ""]:
    """log q(w) - log P pi(w), whose mean over draws of q is the KL divergence."""
    own = _tree.total(lambda w, q: mixtures.log_prob(q, w), w, mixture(posterior, family))
    return own - _tree.total(lambda w, p: mixtures.log_prob(p, w), w, prior)


def misfit(
    apply: Apply, likelihood: likelihoods.Likelihood, w: Weights, *, batch: Batch
) -> Float[Array, ""]:
    """-log g(w, D), summed over the rows, each as often as its weight says."""
    return -likelihoods.log_g(likelihood, apply(w, batch.x), batch)


def gradient(
    loss: Callable[[Weights], Array],
    posterior: Posterior,
    family: PyTree,
    prior: PyTree,
    noise: PyTree,
    weight: Scalar,
) -> Posterior:
    """One term of eq. (reparamTrick_sampled): the gradient in theta at fixed noise.

    Args:
        loss: -log g of the minibatch as a function of the weights.
        posterior: theta.
        family: the family of each leaf.
        prior: P pi_{t-1}, a mixture per leaf.
        noise: epsilon, per leaf.
        weight: what the KL term counts in this minibatch.
    """

    def free_energy(theta: Posterior) -> Array:
        w = draw(theta, family, noise)
        return loss(w) + weight * divergence(theta, family, prior, w)

    return jax.grad(free_energy)(posterior)
