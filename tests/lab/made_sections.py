"""Small sections made by hand: every kind of figure, and one in which all text is hostile."""

import base64
import io
import math

import numpy as np
from PIL import Image

from hmnn.lab.drawing.figure import Figure, Film
from hmnn.lab.page import document
from hmnn.lab.page.section import Section

HOSTILE = (
    "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'& "
    "<a href='javascript:alert(3)'>\u2028</a>"
)
SUMMARY = [
    {"what": "accuracy", "ours": 0.99846, "paper": None},
    {"what": "M", "ours": 0.19645, "paper": 0.1891},
]
INSTANTS = 6


def picture(i):
    x = np.arange(16)
    buffer = io.BytesIO()
    Image.fromarray((127 + 120 * np.sin((x[:, None] + 2 * i) / 3 + x / 5)).astype("uint8")).save(
        buffer, "PNG"
    )
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def lines():
    t = list(range(30))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": t,
            "y": [math.sin(i / 5 + k) for i in t],
            "name": name,
        }
        for k, name in enumerate(("ours", "theirs"))
    ]
    layout = {"xaxis": {"title": {"text": "t"}}, "yaxis": {"title": {"text": "weight"}}}
    rows = [{"t": i, "ours": math.sin(i / 5), "word": 'a "b", c'} for i in t]
    return Figure(
        "lines", "Weights over time", {"data": data, "layout": layout}, "Two lines.", rows
    )


def surface():
    grid = np.linspace(-2, 2, 8)

    def height(i):
        return np.tanh(grid[:, None] * math.cos(i) + grid * math.sin(i)).round(3).tolist()

    steps = [{"label": str(i + 1), "method": "animate", "args": [[f"f{i}"], {}]} for i in range(3)]
    plot = {
        "data": [{"type": "surface", "z": height(0), "showscale": False}],
        "layout": {
            "height": 300,
            "sliders": [{"currentvalue": {"prefix": "t = "}, "steps": steps}],
        },
        "frames": [
            {"name": f"f{i}", "data": [{"type": "surface", "z": height(i)}]} for i in range(3)
        ],
    }
    return Figure("surface", "The surface", plot, "A height over the plane.", [])


def bars():
    buttons = [
        {"label": label, "method": "restyle", "args": [{"y": [y]}, [0]]}
        for label, y in (("paper", [1, 2]), ("clean", [2, 1]))
    ]
    data = [
        {"type": "bar", "x": ["a", HOSTILE], "y": [1, 2], "name": HOSTILE},
        {"type": "bar", "x": ["a"], "y": [2], "name": "other"},
    ]
    layout = {
        "title": {"text": HOSTILE},
        "yaxis": {"title": {"text": HOSTILE}},
        "updatemenus": [{"name": HOSTILE, "buttons": buttons}],
    }
    return Figure(HOSTILE, HOSTILE, {"data": data, "layout": layout}, HOSTILE, [{HOSTILE: HOSTILE}])


def film():
    strips = [
        {"label": label, "pictures": [picture(i + k) for i in range(INSTANTS)]}
        for k, label in enumerate(("truth", "prediction"))
    ]
    return Film(
        "film",
        "The flag",
        strips,
        [f"frame {150 + i}" for i in range(INSTANTS)],
        "Two strips.",
        [{"frame": 150, "M": 0.2}],
    )


def sections():
    settings = {"seed": 0, "config": {"hidden": [50, 50], "memory": 0.5}}
    table = [
        {"method": "HMNN", "M": 0.1965, "paper": 0.1891, "s.d.": None},
        {"method": "BBP", "M": 0.1944, "paper": 0.1932, "s.d.": 1e-5},
    ]
    hostile = Section(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        HOSTILE,
        {"seed": HOSTILE, HOSTILE: {HOSTILE: [HOSTILE]}},
        [{HOSTILE: HOSTILE}],
        [bars()],
        [HOSTILE],
    )
    return [
        Section("flag", "The flag", "Is it?", "hmnn run flag", settings, table, [film(), lines()]),
        Section(
            "two-moons",
            "Two moons",
            "Does it?",
            "hmnn run two-moons",
            settings,
            table,
            [surface()],
            ["A note."],
        ),
        hostile,
    ]


def entries():
    found = [document.entry({"summary": SUMMARY}, section) for section in sections()]
    hostile = [{"experiment": HOSTILE, "what": HOSTILE, "ours": HOSTILE, "paper": HOSTILE}]
    return [*found[:-1], found[-1]._replace(overview=hostile)]
