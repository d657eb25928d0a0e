"""What the page shows of each kind of record: true to the numbers, whatever is missing, and text as text."""

import base64
import copy
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hmnn import store
from hmnn.cli.run import perform
from hmnn.data.evolving import chances
from hmnn.data.flag import Clip
from hmnn.experiments import views
from hmnn.experiments.evolving_mnist import config as evolving_config
from hmnn.experiments.evolving_mnist import scores as evolving_scores
from hmnn.experiments.folders import Run
from hmnn.experiments.vdc_mnist import config as vdc_config
from hmnn.experiments.vdc_mnist import scores as vdc_scores
from hmnn.metrics import reliability
from hmnn.report import drift, film, flag, moons, records
from hmnn.report.site.parts import Figure, Film
from hmnn.report.site.sections import section

RESULTS = Path(__file__).parents[2] / "results"
OLD = sorted(RESULTS.glob("*/record*.json"))
HOSTILE = "<img src=x onerror=alert(1)>"


def kept(view, folder):
    """A view as the page gets it: written and read."""
    return store.load(store.save(view, folder / "view", finite=False))


def plain(outcome, **about):
    """A record as `hmnn run` writes it."""
    made = {"metrics": outcome.metrics, "table": outcome.table, "summary": outcome.summary, "chosen": outcome.chosen}
    return json.loads(json.dumps(records.plain({"command": "hmnn run", "seed": 0, **about, **made}), allow_nan=False))


def old(name):
    return json.loads((RESULTS / name).read_text())


def moons_record(folder):
    """The record of the paper profile with made-up grids."""
    rng = np.random.default_rng(0)

    def panel(t):
        side, p = np.linspace(-2, 2, 8), rng.uniform(0.2, 0.8, (8, 8))
        x, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
        made = moons.Panel(f"{45 * t}°", x, y, side, side, p, p - 0.1, p + 0.15)
        return moons.view(made) | {"drift": {"all weights": 0.5, "layers[0].weight": 0.2 * t}}

    view = {scenario: [panel(t) for t in range(5)] for scenario in ("separated", "overlapping")}
    return old("two-moons/record-0.json"), kept(view, folder)


def logistic_record(folder):
    record = old("logistic-drift/record.json")
    rng, steps = np.random.default_rng(0), 60
    angle = np.radians(5 * np.arange(1, steps + 1))
    truth = 10 * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    tracks = {
        method: drift.Track(
            f"the {method}",
            np.pad(truth, ((0, 0), (0, 1))) + rng.normal(size=(3, steps, 3)),
            np.full((3, steps, 3), 0.5),
            rng.uniform(size=(3, steps, 3)) if method == "hmnn" else None,
        )
        for method in record["metrics"]
    }
    return record, kept(drift.view(tracks, truth), folder)


def scene():
    """A clip of noise, and forecasts of it that are off by a known amount."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(80, 6)))[0].T
    codes, centre = rng.normal(size=(300, 6)), np.full(80, 1.0)
    energy = np.square(codes @ axes + centre).sum(axis=1)
    clip = Clip(codes, centre, axes, energy, np.zeros(300), energy, (8, 10))
    labels = {kind: kind.upper() for kind in old("flag/record.json")["metrics"]["M"] if kind != "hmnn"}
    sure = {"mean": codes[37:299] + 0.1, "sd": np.full((262, 6), 0.2)}
    signal = {"drift of all weights": np.full(262, 0.5), "drift of layers[0].bias": np.linspace(0, 1, 262)}
    seen = {kind: sure | (signal if kind.startswith("hmnn") else {}) for kind in labels}
    return flag.Scene(clip, 36, seen, labels, (100, 150, 298), "hmnn_paper")


def flag_record(folder):
    return old("flag/record.json"), kept(film.view(scene()), folder)


def evolving_record(folder, seeds=3):
    """The real table and record of made-up time steps."""
    config = evolving_config.Config(seeds=seeds, settings=1)
    rng = np.random.default_rng(0)

    def step(t):
        bins = {"confidence": np.array([0.3, 0.9]), "accuracy": np.array([0.2, 0.8]), "share": np.array([0.25, 0.75])}
        names = (*evolving_scores.SCORES, *evolving_scores.SAMPLED, "lead")
        test = {name: rng.uniform(0.5, 0.9) for name in names}
        found = {"validation": {"accuracy": 0.7}, "test": test | {"reliability": bins, "sampled_reliability": bins}}
        return found | {"mean_scale": 0.1, "drift of all weights": 0.5, "drift of layers[1].weight": 0.04 * t}

    names = [f"{p}-{m}-{i}" for p in config.protocols for m in config.methods for i in range(seeds)]
    results = {name: [step(t) for t in range(config.steps)] for name in names}
    chosen = {(p, m): {} for p in config.protocols for m in config.methods}
    outcome = evolving_scores.outcome(config, results, chosen, {}, 1.0)
    return plain(outcome, experiment="evolving-mnist", profile="paper", config=vars(config)), kept(outcome.view, folder)


def vdc_record(folder):
    config = vdc_config.Config(epochs=40)
    rng = np.random.default_rng(0)
    bins = {"confidence": np.array([0.3, 0.9]), "accuracy": np.array([0.2, 0.8]), "share": np.array([0.25, 0.75])}

    def run():
        curves = {name: np.linspace(1, 0.98, len(vdc_scores.KEPT)) for name in vdc_scores.CURVES}
        names = [f"{point}_{score}" for point in vdc_scores.POINTS for score in vdc_scores.SCORES[1:]]
        test = {name: rng.uniform(0.97, 0.98) for name in names} | curves
        test |= {"reliability": bins, "sampled_reliability": bins}
        chosen = {point: rng.uniform(0.97, 0.98) for point in vdc_scores.POINTS}
        return {"validation": np.sort(rng.uniform(0.9, 0.98, 8)), "chosen": chosen, "test": test}

    runs = {str(keep): [run() for _ in range(config.seeds)] for keep in config.keeps}
    trials = {"0.25": [{"reports": {"2": 0.9, "4": 0.95}, "settings": {}}]}
    outcome = vdc_scores.outcome(config, runs, vdc_config.each(config, {}), trials, 1.0)
    return plain(outcome, experiment="vdc-mnist", profile="paper", config=vars(config)), kept(outcome.view, folder)


def stream_record(folder):
    return old("elec2/record.json"), None


def regression_record(folder):
    curve = {"row": [10, 20, 25], "mae": [1.0, 2.0, 3.0], "crps": [None, None, None]}
    names = ("hmnn", HOSTILE)
    return {
        "command": "hmnn stream trump",
        "stream": "trump",
        "seed": 0,
        "task": "regression",
        "made": {"rows": 25, "changes": [12]},
        "settings": {"window": 10},
        "metrics": {name: {"mae": 1.0, "rmse": 2.0} for name in names},
        "curves": dict.fromkeys(names, curve),
        "calibration": {"hmnn": {"level": [0.5, 0.9], "covered": [0.4, 0.8]}, HOSTILE: {}},
        "failed": {"arf": HOSTILE},
    }, None


MADE = {
    "moons": (moons_record, ["plane", "surface", "over-time", "drift"]),
    "logistic": (logistic_record, ["weights", "errors", "scores", "drift"]),
    "flag": (flag_record, ["film", "error", "scores", "drift"]),
    "evolving": (evolving_record, ["accuracy", "paired", "reliability", "drift"]),
    "vdc": (vdc_record, ["test", "validation", "rejection", "reliability"]),
    "stream": (stream_record, ["curves", "reliability"]),
    "regression": (regression_record, ["curves", "coverage"]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {kind: build(tmp_path_factory.mktemp(kind)) for kind, (build, _) in MADE.items()}


def figure(pair, name):
    return next(f for f in section(*pair).figures if f.name == name)


def axes(plot):
    return {key: value for key, value in plot["layout"].items() if key.startswith(("xaxis", "yaxis"))}


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
    assert not {"paper_bgcolor", "plot_bgcolor", "font", "template"} & set(layout)  # these are the page's
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
    for i, path in enumerate(path for path in parts(record) if path[0] not in ("config", "versions")):
        found = section(without(record, path, (None, "text", 3)[i % 3]), view)
        lost += any("missing" in note for note in found.notes)
    for i, path in enumerate(parts(view or {})):
        lost += len(section(record, without(view, path, (None, "text")[i % 2])).figures) < len(MADE[kind][1])
    assert lost > 1


def test_text_stays_text_and_unknown_records_are_tables():
    record = {"experiment": HOSTILE, "metrics": {HOSTILE: 1.5, "deep": {"er": [1]}}, "command": HOSTILE, "seed": 7}
    found = section(record, None)
    assert (found.title, found.command, found.table) == (HOSTILE, HOSTILE, [{"what": HOSTILE, "ours": 1.5}])
    assert found.settings["seed"] == 7
    assert section({}, None).figures == []
    names = [trace["name"] for trace in figure(regression_record(None), "curves").plot["data"]]
    assert names == ["hmnn", HOSTILE]
    assert f"arf failed: {HOSTILE}" in section(*regression_record(None)).notes


def test_the_moons_slider_shows_the_grids_of_its_time_step(made):
    view = made["moons"][1]
    plot = figure(made["moons"], "plane").plot
    names = [step["args"][0][0] for step in plot["layout"]["sliders"][0]["steps"]]
    assert names == [frame["name"] for frame in plot["frames"]] == ["0°", "45°", "90°", "135°", "180°"]
    for column, scenario in enumerate(("separated", "overlapping")):
        for t, frame in enumerate(plot["frames"]):
            panel = view[scenario][t]
            belief, length = frame["data"][6 * column], frame["data"][6 * column + 1]
            np.testing.assert_allclose(belief["z"], panel["probability"], rtol=6e-3)
            np.testing.assert_allclose(length["z"], panel["upper"] - panel["lower"], rtol=6e-3)
            first, second = frame["data"][6 * column + 3 : 6 * column + 5]
            assert (len(first["x"]), len(second["x"])) == (np.sum(panel["y"] == 0), np.sum(panel["y"] == 1))
            assert belief["xaxis"] != length["xaxis"]
    signal = figure(made["moons"], "drift").plot["data"]
    assert [trace["name"] for trace in signal] == ["all weights", "layer 1, weights"] * 2
    np.testing.assert_allclose(signal[1]["y"], 0.2 * np.arange(5), rtol=1e-3)


def test_the_film_is_the_forecast(made):
    found, drawn = figure(made["flag"], "film"), scene()
    assert isinstance(found, Film)
    assert [strip["label"] for strip in found.strips] == ["truth", "forecast", "error", "interval width"]
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
        shown = {plot["data"][i]["name"]: y for i, y in zip(traces, put["y"], strict=True)}  # the line comes last
        for method, label in (("hmnn", "HMNN"), ("vcl", "VCL")):
            expected = record["metrics"][protocol][method]["by_step"]["accuracy"]
            np.testing.assert_allclose(shown[label], expected, rtol=1e-3)
    below = next(trace for trace in plot["data"] if trace["name"] == "f_t")
    assert below["yaxis"] == "y2"
    np.testing.assert_allclose(below["y"], chances(19), atol=1e-3)


def test_paired_differences_have_their_intervals(made):
    record, _ = made["evolving"]
    data = figure(made["evolving"], "paired").plot["data"]
    pair = record["metrics"]["paired"]["clean"]["hmnn - kurle"]["expected_accuracy"]
    assert data[1]["x"][0] == pytest.approx(pair["mean"], rel=1e-3)
    assert data[1]["x"][0] + data[1]["error_x"]["array"][0] == pytest.approx(pair["upper"], abs=1e-3)


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
    for kind, name in (("evolving", "accuracy"), ("evolving", "reliability"), ("flag", "error"), ("stream", "curves")):
        for trace in figure(made[kind], name).plot["data"]:
            if trace["line"]["width"]:
                seen.setdefault((kind, trace["name"]), set()).add((trace["line"]["color"], trace["line"]["dash"]))
    assert all(len(looks) == 1 for looks in seen.values())
    for kind in ("evolving", "flag", "stream"):
        looks = [next(iter(found)) for (where, _), found in seen.items() if where == kind]
        assert len(set(looks)) >= len(looks) - 1  # f_t and the perfect reader are no methods
    assert seen["evolving", "HMNN"] == seen["flag", "HMNN_PAPER"] == seen["stream", "hmnn"]


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
    halves = [views.reliability(p[i : i + 200], y[i : i + 200]) for i in (0, 200, 400)]
    pooled = views.pooled(halves)
    for key, values in whole.items():
        np.testing.assert_allclose(pooled[key], values, rtol=1e-5)
    assert views.pooled([halves[0], None]) == views.pooled([]) == {}
    assert not np.allclose(views.pooled(halves[:2])["accuracy"], whole["accuracy"])
