"""What the page shows of each kind of record: true to the numbers, whatever is missing, and text as
text."""

import base64
import copy
import io
import json
import math

import numpy as np
import pytest
from made_records import HOSTILE, MADE, OLD, RESULTS, evolving_record, regression_record, scene
from PIL import Image

from hmnn import store
from hmnn.lab import diagnostics, records
from hmnn.lab.commands.run import perform
from hmnn.lab.drawing.figure import Figure, Film
from hmnn.lab.evolving_mnist.evolving_digits import chances
from hmnn.lab.page.section import section
from hmnn.lab.runs import Run
from hmnn.metrics import reliability


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {kind: build(tmp_path_factory.mktemp(kind)) for kind, (build, _) in MADE.items()}


def figure(pair, name):
    return next(f for f in section(*pair).figures if f.name == name)


def axes(plot):
    return {
        key: value for key, value in plot["layout"].items() if key.startswith(("xaxis", "yaxis"))
    }


def check(found):
    """What every section must have; plotly's own validation is the judge of its figures."""
    json.dumps(found, allow_nan=False)
    assert found.title
    assert found.command
    names = [f.name for f in found.figures]
    assert len(set(names)) == len(names)
    for f in found.figures:
        assert f.title
        assert f.caption.endswith(".")
        assert "None" not in f.caption
        assert f.rows, f.name
        assert all(row.keys() == f.rows[0].keys() for row in f.rows)
        if isinstance(f, Figure):
            valid(f)


def valid(f):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    assert len(graph_objects.Figure(f.plot).data) == len(f.plot["data"])
    layout = f.plot["layout"]
    assert not {"paper_bgcolor", "plot_bgcolor", "font", "template"} & set(
        layout
    )  # these are the page's
    assert all("text" in axis["title"] for axis in axes(f.plot).values())
    assert any(axis["title"]["text"] for axis in axes(f.plot).values()) or "scene" in layout
    with pytest.raises(ValueError, match="Invalid"):  # the judge is awake
        graph_objects.Figure({"data": [{"type": "scatter", "mode": "circles"}]})


@pytest.mark.parametrize("kind", MADE)
def test_every_kind_of_record_has_its_figures(made, kind):
    found = section(*made[kind])
    assert [f.name for f in found.figures] == MADE[kind][1]
    assert found.table
    assert all("missing" not in note for note in found.notes)
    check(found)


@pytest.mark.parametrize("path", OLD, ids=lambda path: str(path.relative_to(RESULTS)))
def test_records_without_a_view_are_shown_and_say_so(path):
    record = json.loads(path.read_text())
    found = section(record, None)
    check(found)
    assert found.figures
    assert found.table
    assert found.command == record["command"]
    assert any("no view" in note for note in found.notes) == ("experiment" in record)


def parts(tree, path=()):
    """The paths of all dictionaries' keys in a tree, two deep."""
    if isinstance(tree, dict) and len(path) < 2:
        for key, value in tree.items():
            yield (*path, key)
            yield from parts(value, (*path, key))


def without(tree, path, put=None):
    """A copy in which one thing is gone, or something else."""
    changed = copy.deepcopy(tree)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if put is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = put
    return changed


@pytest.mark.parametrize("kind", ["logistic", "evolving", "vdc", "flag", "stream", "regression"])
def test_whatever_is_missing_or_wrong_nothing_is_raised(made, kind):
    record, view = made[kind]
    lost = 0
    for i, path in enumerate(
        path for path in parts(record) if path[0] not in ("config", "versions")
    ):
        found = section(without(record, path, (None, "text", 3)[i % 3]), view)
        lost += any("missing" in note for note in found.notes)
    for i, path in enumerate(parts(view or {})):
        lost += len(section(record, without(view, path, (None, "text")[i % 2])).figures) < len(
            MADE[kind][1]
        )
    assert lost > 1


def test_text_stays_text_and_unknown_records_are_tables():
    record = {
        "experiment": HOSTILE,
        "metrics": {HOSTILE: 1.5, "deep": {"er": [1]}},
        "command": HOSTILE,
        "seed": 7,
    }
    found = section(record, None)
    assert (found.title, found.command, found.table) == (
        HOSTILE,
        HOSTILE,
        [{"what": HOSTILE, "ours": 1.5}],
    )
    assert found.settings["seed"] == 7
    assert section({}, None).figures == []
    names = [trace["name"] for trace in figure(regression_record(None), "curves").plot["data"]]
    assert names == ["hmnn", HOSTILE]
    assert f"arf failed: {HOSTILE}" in section(*regression_record(None)).notes


def test_the_moons_slider_shows_the_grids_of_its_time_step(made):
    view = made["moons"][1]
    plot = figure(made["moons"], "plane").plot
    names = [step["args"][0][0] for step in plot["layout"]["sliders"][0]["steps"]]
    assert (
        names == [frame["name"] for frame in plot["frames"]] == ["0°", "45°", "90°", "135°", "180°"]
    )
    for column, scenario in enumerate(("separated", "overlapping")):
        for t, frame in enumerate(plot["frames"]):
            panel = view[scenario][t]
            belief, length = frame["data"][6 * column], frame["data"][6 * column + 1]
            np.testing.assert_allclose(belief["z"], panel["probability"], rtol=6e-3)
            np.testing.assert_allclose(length["z"], panel["upper"] - panel["lower"], rtol=6e-3)
            first, second = frame["data"][6 * column + 3 : 6 * column + 5]
            assert (len(first["x"]), len(second["x"])) == (
                np.sum(panel["y"] == 0),
                np.sum(panel["y"] == 1),
            )
            assert belief["xaxis"] != length["xaxis"]
    signal = figure(made["moons"], "drift").plot["data"]
    assert [trace["name"] for trace in signal] == ["all weights", "layer 1, weights"] * 2
    np.testing.assert_allclose(signal[1]["y"], 0.2 * np.arange(5), rtol=1e-3)


def test_the_film_is_the_forecast(made):
    found, drawn = figure(made["flag"], "film"), scene()
    assert isinstance(found, Film)
    assert [strip["label"] for strip in found.strips] == [
        "truth",
        "forecast",
        "error",
        "interval width",
    ]
    assert (found.labels[0], found.labels[-1]) == ("frame 150", "frame 298")
    for strip in found.strips:
        assert len(strip["pictures"]) == len(found.labels) == 75
    header, _, content = found.strips[0]["pictures"][3].partition(",")
    assert header == "data:image/jpeg;base64"
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))), float)
    truth = 126 * drawn.clip.pixels(drawn.clip.codes[[156, 158]])
    assert picture.shape == (8, 10)
    own, other = (np.abs(picture - np.clip(frame, 0, 255)).mean() for frame in truth)
    assert own < 0.4 * other


def test_errors_of_the_flag_are_its_m_frame_by_frame(made):
    rows = [row for row in figure(made["flag"], "error").rows if row["method"] == "BBP"]
    energy = scene().clip.energy[150]
    value = next(row["error"] for row in rows if row["frame"] == 150)
    assert value == pytest.approx(math.sqrt(6 * 0.1**2 / energy), rel=1e-4)


def test_the_menu_of_protocols_puts_the_other_protocols_numbers_in_place(made):
    record, _ = made["evolving"]
    plot = figure(made["evolving"], "accuracy").plot
    paper, clean = plot["layout"]["updatemenus"][0]["buttons"]
    for button, protocol in ((paper, "paper"), (clean, "clean")):
        put, traces = button["args"]
        shown = {
            plot["data"][i]["name"]: y for i, y in zip(traces, put["y"], strict=True)
        }  # the line comes last
        for method, label in (("hmnn", "HMNN"), ("vcl", "VCL")):
            expected = record["metrics"][protocol][method]["by_step"]["accuracy"]
            np.testing.assert_allclose(shown[label], expected, rtol=1e-3)
    below = next(trace for trace in plot["data"] if trace["name"] == "f_t")
    assert below["yaxis"] == "y3"
    np.testing.assert_allclose(below["y"], chances(19), atol=1e-3)


def test_paired_differences_have_their_intervals(made):
    record, _ = made["evolving"]
    data = figure(made["evolving"], "paired").plot["data"]
    pair = record["metrics"]["paired"]["clean"]["hmnn - kurle"]["expected_accuracy"]
    assert data[1]["x"][0] == pytest.approx(pair["mean"], rel=1e-3)
    assert data[1]["x"][0] + data[1]["error_x"]["array"][0] == pytest.approx(
        pair["upper"], abs=1e-3
    )


def test_one_seed_has_no_interval_and_is_drawn(tmp_path):
    found = figure(evolving_record(tmp_path, seeds=1), "paired")
    assert found.plot["data"][0]["error_x"]["array"] == [None] * 5


def test_the_stream_shows_the_record(made):
    record, _ = made["stream"]
    data = figure(made["stream"], "curves").plot["data"]
    arf = [trace for trace in data if trace["name"] == "arf"]
    np.testing.assert_allclose(arf[0]["y"], record["curves"]["arf"]["accuracy"], rtol=1e-3)
    np.testing.assert_allclose(arf[1]["y"], record["curves"]["arf"]["log_loss"], rtol=1e-3)
    assert [trace["yaxis"] for trace in arf] == ["y", "y2"]
    assert sum(trace["name"] == "last-label" for trace in data) == 1  # it states no probabilities
    names = [trace["name"] for trace in figure(made["stream"], "reliability").plot["data"]]
    assert names == ["perfectly calibrated", "hmnn", "logistic", "hoeffding", "arf"]


def test_methods_keep_their_colour(made):
    """In all figures with lines of methods; relatives differ in their dash."""
    seen = {}
    for kind, name in (
        ("evolving", "accuracy"),
        ("evolving", "reliability"),
        ("flag", "error"),
        ("stream", "curves"),
    ):
        for trace in figure(made[kind], name).plot["data"]:
            if trace["line"]["width"]:
                seen.setdefault((kind, trace["name"]), set()).add(
                    (trace["line"]["color"], trace["line"]["dash"])
                )
    assert all(len(looks) == 1 for looks in seen.values())
    for kind in ("evolving", "flag", "stream"):
        looks = [next(iter(found)) for (where, _), found in seen.items() if where == kind]
        assert len(set(looks)) >= len(looks) - 1  # f_t and the perfect reader are no methods
    assert seen["evolving", "HMNN"] == seen["flag", "HMNN"] == seen["stream", "hmnn"]


def test_a_run_leaves_what_its_page_needs(tmp_path):
    small = ["rows=60", "epochs=1", "grid=6", "draws=2", "hidden=4,4"]
    _, table, _ = perform(Run("two-moons", "smoke", 1, small), tmp_path, 0, "again", True, [])
    written = json.loads((tmp_path / "record.json").read_text())
    assert written["table"] == records.plain(table)
    view = store.load(tmp_path / "view")
    assert view["separated"][1]["probability"].shape == (6, 6)
    found = section(written, view)
    check(found)
    assert [f.name for f in found.figures] == MADE["moons"][1]
    assert "mean nothing" in found.notes[0]
    names = {trace["name"] for trace in figure((written, view), "drift").plot["data"]}
    assert {"all weights", "layer 1, weights", "layer 1, biases", "layer 2, weights"} <= names


def test_reliability_in_parts_is_that_of_all_rows():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4) * 0.5, 600), rng.integers(0, 4, 600)
    whole = reliability(p, y)._asdict()
    halves = [diagnostics.reliability(p[i : i + 200], y[i : i + 200]) for i in (0, 200, 400)]
    pooled = diagnostics.pooled(halves)
    for key, values in whole.items():
        np.testing.assert_allclose(pooled[key], values, rtol=1e-5)
    assert diagnostics.pooled([halves[0], None]) == diagnostics.pooled([]) == {}
    assert not np.allclose(diagnostics.pooled(halves[:2])["accuracy"], whole["accuracy"])
