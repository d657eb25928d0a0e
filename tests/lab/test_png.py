"""PNG files are drawn from the very descriptions that the page shows."""

import json

import numpy as np
import pytest
from made_records import MADE
from PIL import Image

from hmnn.lab.drawing import panels, png, shapes
from hmnn.lab.drawing.figure import Figure
from hmnn.lab.drawing.palette import Look
from hmnn.lab.page.section import section

BLUE = Look("#0000ff", width=4.0)


def picture(path):
    with Image.open(path) as found:
        return np.asarray(found.convert("RGB")).astype(int)


def blue(path):
    """Where the picture is blue."""
    red, green, other = np.moveaxis(picture(path), 2, 0)
    return (other > 200) & (red < 120) & (green < 120)


def figure(data, layout, **more):
    return Figure("made", "Made up", {"data": data, "layout": layout, **more}, "Made up.", [])


def printed(folder, data, layout, **more):
    (path,) = png.write([figure(data, layout, **more)], folder)
    return path


@pytest.mark.parametrize("kind", MADE)
def test_every_figure_of_every_record_is_printed(kind, tmp_path):
    found = section(*MADE[kind][0](tmp_path))
    before = json.dumps(found.figures)
    names = [path.name for path in png.write(found.figures, tmp_path)]
    assert [n for n in names if n.endswith(".png")] == [f"{name}.png" for name in MADE[kind][1]]
    assert ("film.gif" in names) == (kind == "flag")
    assert all(np.ptp(picture(tmp_path / name)) > 100 for name in names)
    assert json.dumps(found.figures) == before  # a print leaves the description as it was


def test_a_line_goes_where_its_numbers_say(tmp_path):
    layout = shapes.stacked("x", "y")
    up = printed(tmp_path, [shapes.line("up", [0, 1, 2], [0, 1, 2], BLUE)], layout)
    rows, columns = np.nonzero(blue(up)[200:])  # below the legend
    assert np.corrcoef(rows, columns)[0, 1] < -0.99
    level = printed(tmp_path, [shapes.line("flat", [0, 1, 2], [1, 1, 1], BLUE)], layout)
    assert np.ptp(np.nonzero(blue(level)[200:])[0]) < 10


def test_what_waits_in_the_legend_is_not_drawn(tmp_path):
    layout, line = shapes.stacked("x", "y"), shapes.line("it", [0, 1], [0, 1], BLUE)
    assert blue(printed(tmp_path, [line], layout)).any()
    assert not blue(printed(tmp_path, [line | {"visible": "legendonly"}], layout)).any()


def test_menus_and_sliders_are_laid_out_side_by_side():
    line = shapes.line("it", [0.0, 1.0], [0.0, 1.0], BLUE)
    layout = shapes.stacked("x", "y")
    layout["updatemenus"] = shapes.menu("Which", {"a": {"y": [[1, 1]]}, "b": {"y": [[2, 2]]}}, [0])
    frames = [{"name": str(t), "data": [line | {"x": [t, t]}], "traces": [0]} for t in range(3)]
    grid = png.positions({"data": [line], "layout": layout, "frames": frames})
    assert [[p.title for p in row] for row in grid] == [
        ["a, 0", "a, 1", "a, 2"],
        ["b, 0", "b, 1", "b, 2"],
    ]
    assert [p.data[0]["y"] for p in grid[1]] == [[2, 2]] * 3
    assert [row[2].data[0]["x"] for row in grid] == [[2, 2]] * 2
    assert png.positions({"data": [line], "layout": shapes.stacked("x", "y")}) == [[("", [line])]]


def test_the_legend_has_each_name_once_and_what_is_shown():
    a, b = (shapes.line(name, [0, 1], [0, 1], BLUE) for name in "ab")
    quiet = shapes.line("c", [0, 1], [0, 1], BLUE, showlegend=False)
    assert list(panels.entries([a, b, a, quiet], {})) == ["a", "b"]
    assert panels.entries([a], {"showlegend": False}) == {}
