import numpy as np
import pandas as pd
import pytest

from hmnn.data import windows

ROWS = np.arange(20.0).reshape(10, 2)


def test_without_targets_the_target_is_the_row_a_horizon_later():
    stream = windows.sliding(ROWS, size=3, horizon=2)
    assert (len(stream), stream.task, stream.made["horizon"]) == (6, "forecast", 2)
    for t, data in enumerate(stream):
        np.testing.assert_array_equal(data.x, ROWS[t : t + 3])
        np.testing.assert_array_equal(data.y, ROWS[t + 2 : t + 5])


def test_every_pair_is_in_some_window_and_the_last_window_ends_with_the_table():
    stream = windows.sliding(ROWS, size=4)
    seen = np.unique(np.concatenate([data.y for data in stream]), axis=0)
    np.testing.assert_array_equal(seen, ROWS[1:])
    np.testing.assert_array_equal(stream[len(stream) - 1].y[-1], ROWS[-1])


def test_windows_with_targets_of_their_own_slide_by_a_step():
    y = np.arange(10)
    stream = windows.sliding(ROWS, y, size=4, step=3)
    assert (len(stream), stream.task) == (3, "regression")
    np.testing.assert_array_equal(stream[2].y, [6, 7, 8, 9])
    np.testing.assert_array_equal(stream[2].x, ROWS[6:])


def test_a_frame_is_cut_by_place_and_keeps_its_labels():
    frame = pd.DataFrame(
        ROWS, columns=["a", "b"], index=range(100, 90, -1)
    )  # by label this would be another cut
    data = windows.sliding(frame, frame["b"], size=3)[1]
    assert list(data.x.index) == [99, 98, 97]
    np.testing.assert_array_equal(data.x.to_numpy(), windows.sliding(ROWS, size=3)[1].x)
    np.testing.assert_array_equal(data.y.to_numpy(), ROWS[1:4, 1])
    first, last = windows.split(frame, 7)
    assert list(last.index) == [93, 92, 91]
    assert len(first) == 7


def test_a_split_loses_and_repeats_nothing():
    parts = windows.split(ROWS, 2, 7)
    assert [len(part) for part in parts] == [2, 5, 3]
    np.testing.assert_array_equal(np.concatenate(parts), ROWS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: windows.sliding(ROWS, size=10),
            "size must be at most the number of pairs, 9. Got 10.",
        ),
        (
            lambda: windows.sliding(ROWS, size=0),
            "size must be a whole number of at least 1. Got 0.",
        ),
        (
            lambda: windows.sliding(ROWS, ROWS[:-1]),
            "y must be as long as x, 10 rows. Got '9 rows'.",
        ),
        (
            lambda: windows.split(ROWS, 7, 2),
            r"starts must be increasing and below the number of rows, 10. Got \(7, 2\).",
        ),
        (
            lambda: windows.split(ROWS, 10),
            "starts must be increasing and below the number of rows, 10.",
        ),
    ],
)
def test_mistakes_are_refused_in_one_sentence(call, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        call()
