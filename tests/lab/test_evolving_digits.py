"""The evolving labels, on images that carry their own number, so that it can be read which ones
were drawn."""

import numpy as np
import pytest

from hmnn.data import files
from hmnn.lab.evolving_mnist import evolving_digits as evolving
from hmnn.lab.evolving_mnist.evolving_digits import ceiling, chances, evolving_mnist, labelled

ROWS = 2000
TRAIN, TEST = 60000, 10000


def numbered(first, count):
    """Images of three pixels: their number in base 250."""
    number = np.arange(first, first + count)
    return (
        np.stack([number % 250, number // 250 % 250, number // 62500], axis=1)
        .astype(np.uint8)
        .reshape(-1, 1, 3)
    )


def names(x):
    """The numbers of images."""
    pixels = np.rint(x * 126).astype(np.int64)
    return pixels @ np.array([1, 250, 62500])


@pytest.fixture
def images(monkeypatch):
    labels = np.random.default_rng(0).integers(0, 10, TRAIN + TEST).astype(np.uint8)
    made = (numbered(0, TRAIN), labels[:TRAIN], numbered(TRAIN, TEST), labels[TRAIN:])
    monkeypatch.setattr(evolving, "images", lambda: made)
    return labels


def test_f_is_the_papers():
    f = chances()
    assert len(f) == 19
    np.testing.assert_allclose(f[[0, 5, 10, 15]], [1.0, 0.5, 0.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(
        f, 0.5 + 0.5 * np.cos(np.pi / 10 * np.arange(19)), atol=1e-12
    )  # another form of it
    assert round(ceiling(), 4) == 0.8073


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_labels_are_the_digit_or_the_next_one_as_often_as_f_says(images, protocol):
    for t, f in enumerate(chances()):
        found = labelled(t, "train", protocol, ROWS)
        np.testing.assert_array_equal(found.digit, images[names(found.x)])
        first = found.y == found.digit
        assert (first | (found.y == (found.digit + 1) % 10)).all()
        within = 6 * np.sqrt(f * (1 - f) / ROWS)  # a chance of 2e-9 in each of 38 cases
        assert abs(first.mean() - f) <= within + 1e-12
        if abs(f - 0.5) > 0.3:
            assert abs(first.mean() - (1 - f)) > within  # the labellers are not swapped


def test_no_image_twice_in_a_time_step_and_other_images_in_the_next(images):
    stream = evolving_mnist("train", rows=ROWS, steps=3)
    drawn = [names(data.x) for data in stream]
    assert all(len(np.unique(d)) == ROWS for d in drawn)
    assert len(np.unique(np.concatenate(drawn))) > 2 * ROWS


def test_the_clean_protocol_never_shows_an_image_in_two_parts(images):
    drawn = {
        part: np.unique(
            np.concatenate([names(labelled(t, part, "clean", 5000).x) for t in range(19)])
        )
        for part in evolving.PARTS
    }
    assert drawn["train"].max() < 50000 <= drawn["validation"].min()
    assert drawn["validation"].max() < TRAIN <= drawn["test"].min()
    test = names(labelled(0, "test", "paper", 5000).x)
    assert (
        test.max() < TRAIN
    )  # as printed: test images are MNIST's training images, so that they meet again
    assert np.isin(test, names(labelled(0, "train", "paper", 10000).x)).any()


def test_the_same_bits_at_every_call_and_others_for_every_argument(images):
    one = labelled(4, "test", "clean", 500, seed=3)
    for again in (
        labelled(4, "test", "clean", 500, seed=3),
        evolving_mnist("test", "clean", 500, seed=3)[4],
    ):
        np.testing.assert_array_equal(again.x, one.x)
        np.testing.assert_array_equal(again.y, one.y)
    others = [
        (5, "test", "clean", 500, 3),
        (4, "validation", "paper", 500, 3),
        (4, "test", "clean", 500, 4),
    ]
    for arguments in others:
        assert (names(labelled(*arguments).x) != names(one.x)).mean() > 0.9


def test_what_cannot_be_drawn_is_refused(images):
    with pytest.raises(ValueError, match=r"rows must be at most 10000, .* Got 10001\."):
        evolving_mnist("test", "clean", 10001)
    with pytest.raises(
        ValueError, match=r"protocol must be one of 'paper', 'clean'\. Got 'dirty'\."
    ):
        evolving_mnist(protocol="dirty")
    with pytest.raises(
        ValueError, match=r"part must be one of 'train', 'validation', 'test'\. Got 'all'\."
    ):
        evolving_mnist("all")


@pytest.mark.skipif(
    not all(s.verified for s in files.status() if "ubyte" in s.name),
    reason="MNIST is not on this machine (see docs/data.md)",
)
def test_real_digits_are_divided_by_126():
    found = labelled(0, "test", "clean", 300)
    assert found.x.shape == (300, 784)
    assert found.x.dtype == np.float32
    assert found.x.max() == np.float32(255) / np.float32(126)
    np.testing.assert_array_equal(found.y, found.digit)  # f_1 = 1
    rows = evolving.images()[2].reshape(-1, 784)
    for x, digit in zip(found.x[:5], found.digit[:5], strict=True):
        (which,) = np.flatnonzero((rows == np.rint(x * 126)).all(axis=1))
        assert evolving.images()[3][which] == digit
