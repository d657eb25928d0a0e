"""Arrays in, numbers out."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.neighbors import KDTree


def accuracy(probabilities: Float[ndarray, "rows classes"], y: Int[ndarray, " rows"]) -> float:
    """The share of rows whose most probable class is the label."""
    return float(np.mean(np.argmax(probabilities, axis=1) == y))


def far_from(points: Float[ndarray, "rows d"], data: Float[ndarray, "n d"], distance: float) -> ndarray:
    """Which points lie farther than `distance` from every row of the data."""
    return KDTree(data).query(points, k=1)[0][:, 0] > distance


def box_grid(data: Float[ndarray, "n 2"], side: int) -> Float[ndarray, "points 2"]:
    """side x side points over the bounding box of two-dimensional data, row by row."""
    axes = [np.linspace(low, high, side) for low, high in zip(data.min(axis=0), data.max(axis=0), strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2).astype(data.dtype)
