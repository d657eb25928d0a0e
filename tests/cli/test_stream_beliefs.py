"""hmnn stream shows what a bank of filters believes: a line, a part of the record, a figure."""

import json

import numpy as np
import pytest
from matplotlib.image import imread
from plotly import graph_objects

from hmnn.cli import app
from hmnn.estimators import HMNNRegressor
from hmnn.evaluate import peers
from hmnn.lab import streams
from hmnn.lab.page.section import section


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run whose rule changes at row 200, and what it printed."""
    place = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=300)
    y[200:] += 5.0 * x[200:, 1]
    lines = [f"{a:.4f},{b:.4f},{t:.4f}" for (a, b), t in zip(x, y, strict=True)]
    (place / "mine.csv").write_text("a,b,y\n" + "\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            peers.REGRESSORS, "small", lambda classes, seed: HMNNRegressor((4,), random_state=seed)
        )
        said = list[str]()
        patch.setattr("hmnn.cli.stream.display.say", said.append)
        command = f"stream {place}/mine.csv --target y --models small,last-value --out {place}/out"
        app([*command.split(), "--window", "50"], standalone_mode=False)
    return place / "out", said


def test_the_record_says_it(ran):
    record = json.loads((ran[0] / "record.json").read_text())
    found = record["metrics"]["small"]["forgetting"]
    assert len(found["names"]) == len(found["jumps"]) == len(found["weights"]) == 8
    assert sum(found["weights"]) == pytest.approx(1.0, abs=1e-4)
    assert found["row"] == list(range(0, 300, 10))
    np.testing.assert_allclose(np.sum(found["history"], axis=1), 1.0, atol=1e-4)
    assert 200 <= found["alarms"][0] < 230
    assert "forgetting" not in record["metrics"]["last-value"]


def test_a_line_says_it(ran):
    (line,) = [line for line in ran[1] if "believed" in line]
    assert line.startswith("small: believed most: ")
    assert "alarm" in line
    assert any(line.endswith("forgetting.png") for line in ran[1])


def test_the_figure_shows_it(ran):
    assert np.ptp(imread(ran[0] / "forgetting.png")) > 0.5
    record = json.loads((ran[0] / "record.json").read_text())
    found = section(record, None)
    assert [figure.name for figure in found.figures] == ["curves", "coverage", "forgetting"]
    assert any("believed most" in note for note in found.notes)
    figure = found.figures[-1]
    graph_objects.Figure(figure.plot)  # the judge of plotly
    bands = [trace for trace in figure.plot["data"] if trace.get("fill")]
    assert [band["name"] for band in bands] == record["metrics"]["small"]["forgetting"]["names"]
    np.testing.assert_allclose(bands[-1]["y"], 1.0, atol=1e-3)
    assert len(figure.rows) == 8 * 30
    record["metrics"]["small"]["forgetting"] = "text"
    assert [figure.name for figure in section(record, None).figures] == ["curves", "coverage"]


def test_words_for_alarms():
    def line(alarms, names=("a", "b")):
        part = {"names": list(names), "weights": [0.39, 0.61][-len(names) :], "alarms": alarms}
        part |= {"row": [1], "history": [[0.39, 0.61]]}
        return streams.beliefs({"metrics": {"hmnn": {"forgetting": part}}})[0]

    assert line([]) == "hmnn: believed most: b (.61); no alarm"
    assert line([7]) == "hmnn: believed most: b (.61); 1 alarm, at row 7"
    assert line([5012, 10020]) == "hmnn: believed most: b (.61); 2 alarms, at rows 5012, 10020"
    assert line(list(range(7))).endswith("7 alarms, at rows 0, 1, 2, 3, 4, ...")
    assert line([3], ["yours"]) == "hmnn: one filter; 1 alarm, at row 3"
