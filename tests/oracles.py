"""Independent exact answers, in plain NumPy and SciPy: only the type of the noise is shared with
the package."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, stats

from hmnn.core.families import Noise


# --- noise ----------------------------------------------------------------------------------------
def sigma_points(weights: int) -> np.ndarray:
    """Rows of +-1 with mean zero and identity covariance, so that means of quadratics are exact."""
    order = 2 ** int(np.ceil(np.log2(weights + 1)))
    return linalg.hadamard(order)[:, 1 : weights + 1].astype(float)


def hadamard_source(words, i, weights, family):
    """A noise source for Gaussian families: draw i is row i of the sigma points; take as many
    samples as rows."""
    leaves, structure = jax.tree.flatten(weights)
    points = sigma_points(sum(leaf.size for leaf in leaves))
    out, start = [], 0
    for leaf in leaves:
        rows = jnp.asarray(points[:, start : start + leaf.size], leaf.dtype)
        out.append(Noise(None, rows[i].reshape(leaf.shape)))
        start += leaf.size
    return structure.unflatten(out)


# --- linear-Gaussian streams ----------------------------------------------------------------------
def correct(m, cov, x, y, noise):
    """The exact posterior of w ~ N(m, cov) after y = x w + N(0, noise^2): mean and covariance."""
    precision = np.linalg.inv(cov) + x.T @ x / noise**2
    after = np.linalg.inv(precision)
    return after @ (np.linalg.solve(cov, m) + x.T @ y / noise**2), after


def kalman(m, variance, memory, centre, jump_variance, xs, ys, noise):
    """The Kalman filter with transition w -> centre + memory (w - centre) + N(0, jump_variance); a
    row per t. `variance` has a number for each weight, or is their covariance."""
    m, cov = np.asarray(m, float), np.asarray(variance, float)
    cov = cov if cov.ndim == 2 else np.diag(cov)
    means, covs = [], []
    for x, y in zip(xs, ys, strict=True):
        m, cov = centre + memory * (m - centre), memory**2 * cov + jump_variance * np.eye(len(m))
        m, cov = correct(m, cov, x, y, noise)
        means.append(m)
        covs.append(cov)
    return np.array(means), np.array(covs)


def diagonal_filter(m, variance, memory, centre, jump_variance, xs, ys, noise, marginal=False):
    """The best diagonal Gaussian at every t: exact mean, variance 1 / Lambda_vv (or, wrongly, the
    marginal's)."""
    m, variance = np.asarray(m, float), np.asarray(variance, float)
    means, variances = [], []
    for x, y in zip(xs, ys, strict=True):
        m, cov = centre + memory * (m - centre), np.diag(memory**2 * variance + jump_variance)
        m, cov = correct(m, cov, x, y, noise)
        variance = np.diag(cov) if marginal else 1 / np.diag(np.linalg.inv(cov))
        means.append(m)
        variances.append(variance)
    return np.array(means), np.array(variances)


def linear_stream(
    seed, steps, rows, weights, memory, jump_variance, noise, orthogonal=False, correlation=0.0
):
    """xs, ys of a linear-Gaussian stream."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=weights)
    xs, ys = [], []
    for _ in range(steps):
        w = memory * w + np.sqrt(jump_variance) * rng.normal(size=weights)
        x = rng.normal(size=(rows, weights))
        if orthogonal:
            x = linalg.hadamard(rows)[:, 1 : weights + 1] * rng.uniform(0.2, 1.0, size=weights)
        x = x + correlation * rng.normal(size=(rows, 1))
        xs.append(x)
        ys.append(x @ w + noise * rng.normal(size=rows))
    return np.array(xs), np.array(ys)


# --- mixtures -------------------------------------------------------------------------------------
def family_density(w, m, s, keep):
    """Eq. (scalemixvarapp)."""
    return keep * stats.norm.pdf(w, m, s) + (1 - keep) * stats.norm.pdf(w, 0, s)


def family_cdf(w, m, s, keep):
    return keep * stats.norm.cdf(w, m, s) + (1 - keep) * stats.norm.cdf(w, 0, s)


def kernel_density(old, new, memory, jump_scale, shrink, jump_prob, centre):
    """Eq. (trans_kernel): the density of W_t = new given W_{t-1} = old."""
    middle = centre + memory * (old - centre)
    small = stats.norm.pdf(new, middle, jump_scale / shrink)
    return jump_prob * stats.norm.pdf(new, middle, jump_scale) + (1 - jump_prob) * small


def evolving_prior(w, m, s, keep, memory, jump_scale, shrink, jump_prob, centre):
    """P pi at w: the kernel against the family, integrated over W_{t-1} numerically, peak by
    peak."""
    args = (memory, jump_scale, shrink, jump_prob, centre)
    origin = centre + (w - centre) / memory if memory > 0 else m
    widths = [s] if memory == 0 else [s, jump_scale / memory, jump_scale / shrink / memory]
    peaks = {
        p + k * d for p in (0.0, m, origin) for d in widths for k in (-12, -4, -1, 0, 1, 4, 12)
    }
    low, high = min(0.0, m) - 12 * s, max(0.0, m) + 12 * s
    cuts = [low, *sorted(p for p in peaks if low < p < high), high]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    left, right = np.array(cuts[:-1])[:, None], np.array(cuts[1:])[:, None]
    old = (left + right) / 2 + (right - left) / 2 * nodes
    values = kernel_density(old, w, *args) * family_density(old, m, s, keep)
    return float(np.sum(values * weights * (right - left) / 2))


def gaussian_kl(m, s, mu, sigma):
    """KL(N(m, s^2) || N(mu, sigma^2))."""
    return np.log(sigma / s) + (s**2 + (m - mu) ** 2) / (2 * sigma**2) - 0.5


def free_energy(m, rho, keep, prior_density, loss):
    """E_q[loss + log q - log prior] for one weight, by the trapezoid rule over xi and a sum over
    eta."""
    s = np.logaddexp(0, rho)
    xi = np.linspace(-9, 9, 6001)
    total = 0.0
    for eta, p in ((1, keep), (0, 1 - keep)):
        w = eta * m + s * xi
        value = loss(w) + np.log(family_density(w, m, s, keep)) - np.log(prior_density(w))
        total += p * np.sum(stats.norm.pdf(xi) * value) * (xi[1] - xi[0])
    return total


def central(f, at, h=1e-5):
    """Central differences of a scalar function, coordinate by coordinate."""
    at = np.asarray(at, float)
    steps = h * np.eye(at.size).reshape(at.size, *at.shape)
    return np.array([(f(at + e) - f(at - e)) / (2 * h) for e in steps]).reshape(at.shape)
