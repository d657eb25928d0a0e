import numpy as np
import pytest

from hmnn import metrics
from hmnn.data import two_moons


def test_a_stream_gives_the_same_data_at_every_call():
    stream = two_moons(rows=50, seed=3)
    for first, second in zip(stream, stream, strict=True):
        np.testing.assert_array_equal(first.x, second.x)
        np.testing.assert_array_equal(first.y, second.y)
    assert not np.array_equal(stream[0].x, two_moons(rows=50, seed=4)[0].x)


def test_the_moons_turn_about_their_middle():
    still, turned = two_moons(2000, 0.0, (0.0, 90.0))[0], two_moons(2000, 0.0, (90.0, 90.0))[0]
    np.testing.assert_allclose(
        turned.x, np.stack([-still.x[:, 1], still.x[:, 0]], axis=1), atol=1e-6
    )
    np.testing.assert_allclose(still.x.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_array_equal(still.y, turned.y)


def test_a_time_step_that_is_not_there_is_refused():
    with pytest.raises(IndexError, match=r"t must be from 0 to 4. Got 5."):
        two_moons(10)[5]
    with pytest.raises(ValueError, match=r"rows must be a whole number of at least 2. Got 1."):
        two_moons(1)


def test_far_points_are_those_no_datum_is_near():
    data = np.array([[0.0, 0.0], [1.0, 0.0]])
    points = np.array([[0.1, 0.0], [0.5, 0.0], [1.0, 0.3]])
    np.testing.assert_array_equal(metrics.far_from(points, data, 0.2), [False, True, True])


def test_a_grid_covers_the_bounding_box():
    grid = metrics.box_grid(np.array([[0.0, -1.0], [2.0, 3.0]]), 5)
    assert grid.shape == (25, 2)
    np.testing.assert_array_equal(grid.min(axis=0), [0, -1])
    np.testing.assert_array_equal(grid.max(axis=0), [2, 3])
