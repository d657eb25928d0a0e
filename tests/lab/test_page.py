import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.request import urlopen

import made_sections
import pytest
from made_sections import HOSTILE

from hmnn.lab import progress
from hmnn.lab.commands import report
from hmnn.lab.page import document, markup, server, writing

ROOT = Path(__file__).resolve().parents[2]


class Reader(HTMLParser):
    """The elements of a document with their attributes, and the text outside of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.data, self.inside = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside.clear()

    def handle_data(self, data):
        (self.data if self.inside else self.texts).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(entries=None):
    return Reader(document.render(entries or made_sections.entries(), []).decode())


def test_hostile_text_is_text():
    seen = parsed()
    scripts = [a for a in seen.all("script") if a.get("type") != "application/json"]
    assert [a["src"] for a in scripts] == [document.THEME, *document.SCRIPTS]
    assert seen.all("img") == []
    assert {a["href"][0] for a in seen.all("a")} == {"#"}
    assert [
        name for _, attributes in seen.elements for name in attributes if name.startswith("on")
    ] == []
    assert sum(HOSTILE in text for text in seen.texts) >= 12
    assert [json.loads(text) for text in seen.data if text][-1]["csv"]["rows"] == [[HOSTILE]]


def test_negative_control_the_reader_sees_what_unescaped_text_would_make():
    assert [a["src"] for a in Reader(f"<p>{HOSTILE}</p>").all("img")] == ["x"]


@pytest.mark.parametrize(
    "value", [HOSTILE, {HOSTILE: [HOSTILE, "<!--", "]]>", "\u2029", "\ud800", 1e-300]}]
)
def test_data_comes_back_and_cannot_end_its_element(value):
    text = markup.data(value).text
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == value


def test_plotly_is_given_no_element_but_line_breaks():
    said = markup.untagged({"a": ["x<br>%{y}<extra></extra>", HOSTILE, 1, None]})
    assert said["a"][0] == "x<br>%{y}<extra></extra>"
    assert "<" not in said["a"][1]
    assert said["a"][1].replace("&lt;", "<") == HOSTILE
    assert said["a"][2:] == [1, None]


def test_anchors_are_unique_and_lead_somewhere():
    seen = parsed(made_sections.entries() * 3)
    ids = [a["id"] for _, a in seen.elements if "id" in a]
    assert len(ids) == len(set(ids))
    wanted = [a["href"][1:] for a in seen.all("a")]
    wanted += [
        a[key]
        for _, a in seen.elements
        for key in ("aria-labelledby", "aria-describedby")
        if key in a
    ]
    assert len(wanted) > 30
    assert set(wanted) <= set(ids)


def test_a_screen_reader_finds_its_way():
    seen = parsed()
    names = [tag for tag, _ in seen.elements]
    assert all(names.count(tag) == 1 for tag in ("header", "nav", "main", "footer", "h1"))
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert names.count("caption") == names.count("table") == 4
    assert all(a.get("scope") in ("col", "row", "rowgroup") for a in seen.all("th"))
    assert names.count("figcaption") == names.count("figure") == 4
    assert seen.all("html") == [{"lang": "en-GB"}]


def test_every_figure_says_how_it_was_made():
    text = document.render(made_sections.entries(), []).decode()
    for figure in re.findall("<figure.*?</figure>", text, re.DOTALL)[:3]:
        assert re.search(
            r"Made by <code>hmnn run [\w-]+</code>, seed 0; <a href=\"#[\w-]+-settings\">", figure
        )
    assert "<dt>config.memory</dt><dd>0.5000</dd>" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.19645, "0.1965"),
        (1e-5, "1e\u221205"),
        (45312.0, "45312"),
        (None, "\u2013"),
        (float("nan"), "\u2013"),
        (-0.5, "\u22120.5000"),
        (7, "7"),
        (True, "yes"),
        ([1, 2], "[1, 2]"),
        (0.0, "0.0000"),
    ],
)
def test_numbers_are_for_readers(value, said):
    assert markup.words(value) == said


def test_a_stream_shows_the_first_score_of_each_model():
    record = {
        "stream": "elec2",
        "metrics": {"hmnn": {"accuracy": 0.9, "ece": 0.1}, "arf": {"accuracy": 0.8}},
    }
    rows = document.entry(record, made_sections.sections()[0]).overview
    assert [(row["what"], row["ours"]) for row in rows] == [
        ("accuracy, hmnn", 0.9),
        ("accuracy, arf", 0.8),
    ]


def test_a_film_with_a_picture_missing_is_refused():
    film = made_sections.film()
    short = film._replace(labels=film.labels[:-1])
    entry = document.entry({}, made_sections.sections()[0]._replace(figures=[short]))
    with pytest.raises(
        ValueError, match=r"pictures of 'truth' must be as many as labels, 5. Got 6"
    ):
        document.render([entry], [])


def test_a_page_is_written_whole_and_replaces_only_a_page(tmp_path):
    out = tmp_path / "site"
    assert writing.write(made_sections.entries(), out) == out / "index.html"
    assert {path.name for path in out.iterdir()} == writing.FILES
    assert b"fetch(" not in b"".join((out / name).read_bytes() for name in document.SCRIPTS)
    writing.write(made_sections.entries()[:1], out)
    assert "two-moons" not in (out / "index.html").read_text()
    (out / "thesis.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(
        ValueError, match=r"--out must be a new or empty folder, or that of a report. Got"
    ):
        writing.write(made_sections.entries(), out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("kind", ["file", "page of others", "link"])
def test_what_is_not_ours_is_left_alone(kind, tmp_path):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        target = tmp_path / "target" if kind == "link" else out
        target.mkdir()
        (target / "index.html").write_text("<p>mine</p>")
        if kind == "link":
            out.symlink_to(target)
    with pytest.raises(ValueError, match="--out must be"):
        writing.write(made_sections.entries(), out)


def test_the_wheel_has_the_page(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert {
        f"hmnn/lab/page/assets/{name}"
        for name in (document.STYLE, document.THEME, *document.SCRIPTS, document.LIVE)
    } <= set(names)


@pytest.fixture
def site(tmp_path):
    """A page with one run; `ended` is a list whose length tells whether its record is there."""
    ended = []
    made = writing.files(made_sections.entries()[:1], [document.Running("a run", "progress/0")])
    return server.Site(lambda: made, [tmp_path / "progress.jsonl"], lambda _: bool(ended)), ended


def asked(address, target, **headers):
    """Status, headers and body; the target is sent as it is."""
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=10)
    connection.putrequest("GET", target, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.headers), answer.read()
    connection.close()
    return found


def test_the_page_is_served_here_and_nowhere_else(site):
    with server.served(site[0]) as address:
        port = address.rsplit(":", 1)[1].rstrip("/")
        assert address.startswith("http://127.0.0.1:")
        status, headers, body = asked(address, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b'src="live.js"' in body
        assert b"connect-src 'self'" in body
        assert asked(address, "/index.html", Host=f"localhost:{port}")[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", ""):
            assert asked(address, "/", Host=host)[0] == 421
        with urlopen(address + "style.css") as answer:
            assert answer.headers["Content-Type"].startswith("text/css")
    with pytest.raises(ConnectionRefusedError):
        asked(address, "/")


@pytest.mark.parametrize(
    "target",
    [
        "/../record.json",
        "/%2e%2e/progress.jsonl",
        "/progress/1",
        "/progress/-1",
        "/progress/0/../../x",
        "//etc/passwd",
        "/progress/\u00b2".encode().decode("latin-1"),
        "/style.css/",
        "http://evil.example/x",
    ],
)
def test_only_the_names_of_the_page_are_served(site, target, tmp_path):
    (tmp_path / "record.json").write_text("{}")
    assert server.answer(site[0], target).status == 404


def test_new_lines_are_served_from_where_the_reader_is(site, tmp_path):
    made, ended = site
    file = tmp_path / "progress.jsonl"
    assert server.answer(made, "/progress/0?offset=0").body == b""
    content, seen = b"".join(b'{"t": %d}\n' % i for i in range(100)), b""
    for cut in (5, 203, 204, 700, len(content)):
        file.write_bytes(content[:cut])
        found = server.answer(made, f"/progress/0?offset={len(seen)}")
        assert int(found.headers["Hmnn-Offset"]) == len(seen)
        seen += found.body
        assert seen == content[:cut][: content[:cut].rfind(b"\n") + 1]
    assert seen == content
    assert found.headers["Hmnn-Record"] == "no"
    file.write_bytes(content[:50])
    found = server.answer(made, f"/progress/0?offset={len(seen)}")
    assert found.headers["Hmnn-Offset"] == "0"
    for odd in ("-1", "x", "\u00b2", "", "9" * 400):
        assert server.answer(made, f"/progress/0?offset={odd}").headers["Hmnn-Offset"] == "0"
    ended.append(True)
    assert server.answer(made, "/progress/0?offset=0").headers["Hmnn-Record"] == "yes"


def test_a_port_that_is_taken_is_said(site):
    with server.served(site[0]) as address:
        port = int(address.rsplit(":", 1)[1].rstrip("/"))
        with (
            pytest.raises(ValueError, match=f"--port must be free on 127.0.0.1. Got {port}."),
            server.served(site[0], port),
        ):
            pass


def hmnn(*arguments, cwd, before=""):
    """Run the command line as a user does."""
    command = [sys.executable, "-c", f"{before}\nfrom hmnn.cli import main; main()", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"COLUMNS": "200"},
    )


def test_the_command_makes_the_page_of_the_records_of_this_project(tmp_path):
    done = hmnn("report", str(ROOT / "results"), "--out", "site", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, f"wrote {tmp_path / 'site/index.html'}"), (
        done.stderr
    )
    weight = sum(path.stat().st_size for path in (tmp_path / "site").iterdir())
    assert 4e6 < weight < 15e6
    seen = Reader((tmp_path / "site/index.html").read_text())
    records = list((ROOT / "results").glob("*/record*.json"))
    assert len(seen.all("section")) == len(records) + 1
    assert len(seen.all("figure")) >= len(records)
    assert [
        a["href"] for a in seen.all("a") if a.get("href") in ("#two-moons", "#two-moons-2", "#flag")
    ]


def test_without_plotly_one_sentence_says_what_to_install(tmp_path):
    (tmp_path / "record.json").write_text("{}")
    done = hmnn("report", ".", cwd=tmp_path, before="import sys; sys.modules['plotly'] = None")
    assert (done.returncode, done.stderr) == (
        2,
        "hmnn: hmnn report needs plotly: pip install 'hmnn[lab]'\n",
    )
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("directory", "options", "said"),
    [
        (
            "nowhere",
            {},
            "DIR must be a folder with record.json, or a folder of such folders. Got 'nowhere'.",
        ),
        ("bad", {}, "record must be JSON that hmnn wrote. Got 'bad/record.json'."),
        ("odd", {}, "'odd/record.json' is not a record that can be shown"),
        ("good", {"port": 8000}, "--port must stand with --serve."),
        (
            "good",
            {"out": Path("odd")},
            "--out must be a new or empty folder, or that of a report. Got",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    directory, options, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("bad", "{"),
        ("good", "{}"),
        ("odd", '{"summary": "none", "metrics": {"M": 1}}'),
    ):
        Path(name).mkdir()
        Path(name, "record.json").write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        report.report([Path(directory)], **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "good", "odd"]


def test_a_run_is_followed_and_its_page_shown_until_ctrl_c(tmp_path):
    browser = tmp_path / "browser.py"
    browser.write_text("import sys; open('asked', 'w').write(sys.argv[1])")
    words = ["run", "two-moons", "--profile", "smoke", "--out", "run", "--workers", "1", "--open"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from hmnn.cli import main; main()", *words],
        cwd=tmp_path,
        env=os.environ | {"BROWSER": f"{sys.executable} {browser} %s", "COLUMNS": "200"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            address = process.stdout.readline().removeprefix("the run is shown at ").strip()
            live = asked(address, "/")[2].decode()
            until = f"serving {address} until Ctrl-C\n"
            assert until in iter(process.stdout.readline, "")
            told = asked(address, "/progress/0")
            done = asked(address, "/")[2].decode()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped.\n"
    assert process.returncode == 0
    assert (tmp_path / "asked").read_text() == address
    assert 'data-progress="progress/0"' in live
    assert told[1]["Hmnn-Record"] == "yes"
    lines = [json.loads(line) for line in told[2].decode().splitlines()]
    assert lines == progress.read(tmp_path / "run/progress.jsonl")
    assert all(line["values"] for line in lines)
    assert "data-progress" not in done
    assert "<figure" in done
