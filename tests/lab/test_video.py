import io
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hmnn import metrics
from hmnn.data import files
from hmnn.lab.flag import video as flag

av = pytest.importorskip("av")


def made_video(frames=6, size=(208, 200)):
    """A small MPEG of moving stripes."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mpeg") as out:
        stream = out.add_stream("mpeg1video", rate=30)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for t in range(frames):
            picture = np.zeros((size[1], size[0], 3), np.uint8)
            picture[:, 8 * t : 8 * t + 60] = 200
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def clip():
    if not any(s.name == "vtflag.mpg" and s.verified for s in files.status()):
        pytest.skip("vtflag.mpg is not on this machine (see docs/data.md)")
    return flag.clip()


def of_pixels(truth, prediction):
    """M as the paper writes it, on whole frames in double precision."""
    return np.sqrt(np.square(truth - prediction).sum() / np.square(truth).sum())


def test_the_papers_trivial_predictor_comes_out_to_four_digits(clip):
    t = np.arange(150, 300, 2)
    assert clip.codes.shape == (416, 130)
    assert (
        f"{metrics.standardised_rmse(clip.codes[t] - clip.codes[t - 1], clip.energy[t]):.4f}"
        == "0.2162"
    )
    pixels = clip.pixels(clip.codes[148:299]).astype(np.float64)
    assert f"{of_pixels(pixels[2::2], pixels[1:-1:2]):.4f}" == "0.2162"


def test_frames_are_stored_twice_and_the_clip_is_a_loop(clip):
    even, t = np.arange(0, 416, 2), np.arange(150, 300, 2)
    twice = metrics.standardised_rmse(clip.codes[even] - clip.codes[even + 1], clip.energy[even])
    loop = metrics.standardised_rmse(clip.codes[t] - clip.codes[t - flag.LOOP], clip.energy[t])
    assert twice < 0.01
    assert f"{loop:.4f}" == "0.0341"
    off = metrics.standardised_rmse(clip.codes[t] - clip.codes[t - flag.LOOP + 2], clip.energy[t])
    assert off > 0.15  # no other lag does


def test_the_stream_maps_frames_to_the_next_ones(clip):
    stream = flag.waving_flag(36, 300)
    assert (len(stream), stream.task, stream.made["components"]) == (264, "forecast", 130)
    np.testing.assert_array_equal(stream[10].x, clip.codes[10:46])
    np.testing.assert_array_equal(stream[10].y, clip.codes[11:47])


def test_the_clean_protocol_knows_nothing_of_later_frames():
    rng = np.random.default_rng(0)
    frames = rng.random((12, 10, 10)).astype(np.float32)
    other = frames.copy()
    other[8:] = rng.random((4, 10, 10))
    first, second = flag.encode(frames, 8), flag.encode(other, 8)
    np.testing.assert_array_equal(first.axes, second.axes)
    np.testing.assert_array_equal(first.codes[:8], second.codes[:8])
    assert np.abs(flag.encode(frames, 12).axes[:7] - flag.encode(other, 12).axes[:7]).max() > 0.1


def test_the_components_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    frames = (
        rng.normal(size=(30, 1, 1)) * rng.normal(size=(1, 12, 9))
        + 0.3 * rng.normal(size=(30, 12, 9))
        + 1.0
    ).astype(np.float32)
    ours, flat = flag.encode(frames, 20), frames.reshape(30, -1)
    theirs = PCA(flag.VARIANCE, svd_solver="full").fit(flat[:20])
    assert len(ours.axes) == theirs.n_components_
    expected = theirs.transform(flat)
    signs = np.sign((expected * ours.codes).sum(axis=0))
    np.testing.assert_allclose(ours.codes * signs, expected, atol=1e-4)
    shown = ours.pixels(ours.codes).reshape(30, -1)
    np.testing.assert_allclose(shown, theirs.inverse_transform(expected), atol=1e-4)
    np.testing.assert_allclose(ours.energy, np.square(shown).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(ours.rest, np.square(flat - shown).sum(axis=1), atol=1e-3)
    np.testing.assert_allclose(ours.whole, np.square(flat).sum(axis=1), rtol=1e-5)


def test_the_logo_is_covered_and_nothing_else_is_touched():
    frames = np.random.default_rng(2).integers(0, 256, (2, 200, 208), dtype=np.uint8)
    prepared = flag.prepare(frames)
    np.testing.assert_array_equal(prepared[:, 30:60, 95:200], prepared[:, :30, 95:200])
    prepared[:, 30:60, 95:200] = frames[:, 30:60, 95:200] / np.float32(126)
    np.testing.assert_array_equal(prepared, frames / np.float32(126))


def test_a_video_is_decoded_to_grey():
    frames = flag.decode(made_video(), 6)
    assert frames.shape == (6, 200, 208)
    for t, frame in enumerate(frames):
        assert frame[:, 8 * t + 10 : 8 * t + 50].min() > 150
        assert frame[:, 8 * t + 90 :].max() < 60


@pytest.mark.parametrize(
    "content",
    [b"", b"no video" * 100, made_video()[: len(made_video()) // 2], made_video(3)],
    ids=["empty", "text", "half", "short"],
)
def test_a_damaged_or_shorter_video_is_refused_in_one_sentence(content):
    with pytest.raises(ValueError, match=r"^The video must be whole.* Got "):
        flag.decode(content, 6)


def test_without_pyav_one_sentence_says_what_to_install(monkeypatch):
    content = made_video()
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ValueError, match=r"pip install 'hmnn\[lab\]'"):
        flag.decode(content)


def test_frames_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"^frames must be at most 416. Got 500."):
        flag.waving_flag(frames=500)
    with pytest.raises(
        ValueError, match=r"^protocol must be one of 'paper', 'clean'. Got 'dirty'."
    ):
        flag.clip("dirty")
