"""The page in a real browser; where there is no Chromium, it cannot be seen."""

import csv
import io
import json
import shutil
import time
from pathlib import Path

import made_sections
import numpy as np
import pytest
from made_sections import HOSTILE, INSTANTS
from PIL import Image

from hmnn.lab.page import document, server, writing

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Chromium and its driver are not installed."
)
FLAGS = """
--headless=new --no-sandbox --disable-gpu --disable-background-networking
--disable-component-update --disable-sync --no-first-run --disable-default-apps
--disable-dev-shm-usage --enable-unsafe-swiftshader
"""
ALARM = "window.alert = () => { window.hurt = true; };"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One Chromium for all tests, with a profile of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ALARM})
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page of the sections that were made by hand, on disk."""
    return writing.write(made_sections.entries(), tmp_path_factory.mktemp("page") / "site").as_uri()


@pytest.fixture(scope="module")
def first(browser, site):
    """The page, opened once at 1440 pixels and drawn to its end; what it asked for, and how long it
    took."""
    requests(browser)
    draw(browser, site, 1440)
    timing = (
        "const n = performance.getEntriesByType('navigation')[0]; return "
        "[n.domContentLoadedEventEnd, n.loadEventEnd]"
    )
    return requests(browser), browser.execute_script(timing)


@pytest.fixture
def opened(browser, first):
    """That page; no error is on the console afterwards."""
    yield browser
    assert errors(browser) == []


def draw(browser, address, width, **media):
    """Open a page and look at each figure, so that all are drawn."""
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    emulate(browser, **media)
    browser.get(address)
    for figure in all_of(browser, "figure"):
        browser.execute_script(
            "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", figure
        )
        until(lambda figure=figure: figure.get_attribute("data-drawn") == "yes")
    return browser


def emulate(browser, **media):
    """What the system says: light without a wish."""
    wishes = {"prefers_color_scheme": "light", **media}
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def one(browser, selector):
    return browser.find_element("css selector", selector)


def until(holds, seconds=90):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return found


def click(browser, element):
    """Click where the element is now: the page scrolls smoothly, which the driver does not wait
    for."""
    browser.execute_script(
        "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", element
    )
    element.click()


def errors(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def press(browser, element, *keys):
    browser.execute_script("arguments[0].focus()", element)
    element.send_keys(*keys)


def requests(browser):
    """The addresses that the page asked for since the log was last read."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def colours(browser):
    """How many colours a picture of what is seen has."""
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    return picture.size, len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0))


def test_nothing_leaves_the_machine(opened, first, site, record_property):
    asked, milliseconds = first
    folder = site.rsplit("/", 1)[0]
    assert {url for url in asked if not url.startswith(("data:", "blob:", folder))} == set()
    assert sum(url.startswith(folder) for url in asked) == len(writing.FILES)
    record_property("milliseconds until the text is there, until all is loaded", milliseconds)


def test_negative_control_a_request_would_be_seen_and_refused(opened):
    requests(opened)
    script = "return fetch('http://192.0.2.1/').then(() => 'sent', (error) => error.message)"
    assert opened.execute_script(script) != "sent"
    refused = [
        entry
        for entry in opened.get_log("browser")
        if "Content Security Policy" in entry["message"]
    ]
    assert len(refused) >= 1


def test_hostile_text_is_shown_as_text(opened):
    assert opened.execute_script("return window.hurt") is None
    assert all_of(opened, "img[src='x'], [onerror], a[href^='javascript'], iframe") == []
    links = "return [...document.querySelectorAll('svg a')].length"
    assert opened.execute_script(links) == 0
    sources = opened.execute_script(
        "return [...document.scripts].filter((s) => s.type !== "
        "'application/json').map((s) => s.src)"
    )
    assert sorted(Path(source).name for source in sources) == sorted(
        [document.THEME, document.PLOTLY, *document.SCRIPTS]
    )
    words = " ".join(HOSTILE.split())
    assert one(opened, "section:last-of-type h2").get_property("textContent") == HOSTILE
    drawn = opened.execute_script(
        "return [...document.querySelectorAll('svg text')].map((t) => t.textContent)"
    )
    assert any("<img src=x onerror=alert(1)>" in text for text in drawn)
    assert words[:20] in one(opened, "section:last-of-type .legend").text


def test_a_slider_over_time_draws_another_surface(opened):
    figure = one(opened, "#two-moons-surface")
    plot, slider = (
        figure.find_element("css selector", name) for name in (".drawing", "input[type=range]")
    )
    click(opened, slider.find_element("xpath", "../button"))  # to where it is drawn, and at rest
    until(lambda: figure.find_element("css selector", "output").text == "t = 3")
    press(opened, slider, "\ue011")  # home
    before = until(
        lambda: (picture := plot.screenshot_as_png) == plot.screenshot_as_png and picture
    )
    press(opened, slider, "\ue014")  # arrow right
    until(lambda: figure.find_element("css selector", "output").text == "t = 2")
    until(lambda: plot.screenshot_as_png != before)
    assert slider.get_attribute("aria-valuetext") == "t = 2"


def test_the_film_plays_by_mouse_and_by_keyboard_and_never_by_itself(opened):
    film = one(opened, "#flag-film")
    button, slider, label = (
        film.find_element("css selector", name) for name in (".play", "input", "output")
    )
    pictures = film.find_elements("css selector", "img")
    first = [image.get_attribute("src") for image in pictures]
    time.sleep(0.3)
    assert (label.text, button.text) == ("frame 150", "Play")
    click(opened, button)
    until(lambda: label.text != "frame 150")
    assert button.text == "Pause"
    assert all(
        image.get_attribute("src") != was for image, was in zip(pictures, first, strict=True)
    )
    until(lambda: button.text == "Play")
    assert label.text == f"frame {150 + INSTANTS - 1}"
    press(opened, slider, "\ue011")  # home
    assert label.text == "frame 150"
    press(opened, slider, " ")
    until(lambda: label.text == "frame 151")
    press(opened, slider, " ")
    assert button.text == "Play"
    press(opened, button, "\ue012")  # arrow left
    assert label.text == f"frame {149 + int(slider.get_property('value')) + 1}"


def test_methods_are_switched_and_menus_choose(opened):
    figure = one(opened, "#flag-lines")
    button = figure.find_element("css selector", ".legend button")
    shown = "return [...document.querySelectorAll('#flag-lines .scatterlayer .trace')].length"
    assert (opened.execute_script(shown), button.get_attribute("aria-pressed")) == (2, "true")
    press(opened, button, "\ue007")  # enter
    until(lambda: opened.execute_script(shown) == 1)
    assert button.get_attribute("aria-pressed") == "false"
    click(opened, button)
    until(lambda: opened.execute_script(shown) == 2)
    menu = one(opened, "section:last-of-type select")
    heights = "return document.querySelector('section:last-of-type .drawing').data[0].y.join()"
    assert opened.execute_script(heights) == "1,2"
    press(opened, menu, "clean")
    until(lambda: opened.execute_script(heights) == "2,1")


def test_what_is_drawn_can_be_downloaded(opened, tmp_path):
    place = {"behavior": "allow", "downloadPath": str(tmp_path)}
    opened.execute_cdp_cmd("Browser.setDownloadBehavior", place)
    for anchor in ("flag-lines", "flag-film", "two-moons-surface"):
        for button in all_of(opened, f"#{anchor} .downloads button"):
            opened.execute_script("arguments[0].click()", button)
            name = tmp_path / f"{anchor}.{button.text.lower()}"
            until(name.exists)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "flag-lines.csv").read_bytes().decode())))
    assert [float(row["ours"]) for row in rows] == pytest.approx(
        [row["ours"] for row in made_sections.lines().rows]
    )
    assert rows[0]["word"] == 'a "b", c'
    for anchor in ("flag-lines", "flag-film", "two-moons-surface"):
        assert np.ptp(np.asarray(Image.open(tmp_path / f"{anchor}.png").convert("L"))) > 100


def legible(browser, width):
    """Nothing is wider than the page, every control can be reached by keyboard, and both themes
    show something."""
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    inside = (
        "return [...document.querySelectorAll('main p, figcaption, "
        "h2')].filter((e) => e.scrollWidth > e.clientWidth)"
    )
    assert browser.execute_script(inside) == []
    controls = (
        "return [...document.querySelectorAll('button, input, select, "
        "summary, .scroll, a')].map(c => c.tabIndex)"
    )
    assert len(browser.execute_script(controls)) > 25
    assert set(browser.execute_script(controls)) == {0}
    for theme in ("dark", "light"):
        emulate(browser, prefers_color_scheme=theme)
        size, many = colours(browser)
        assert size == (width, 900)
        assert many > 20


def test_the_page_can_be_read_on_a_wide_screen(opened):
    legible(opened, 1440)


def test_the_theme_follows_the_system_until_one_is_chosen_and_that_is_remembered(opened, site):
    ink = "return getComputedStyle(document.querySelector('#flag-lines .xtitle')).fill"
    theme = "return document.documentElement.dataset.theme"
    light = "rgb(28, 30, 33)"
    until(lambda: opened.execute_script(ink) == light)
    emulate(opened, prefers_color_scheme="dark")
    until(lambda: opened.execute_script(ink) != light)
    assert opened.execute_script(theme) == "dark"
    click(opened, one(opened, "#theme"))
    until(lambda: opened.execute_script(ink) == light)
    opened.execute_script("location.reload()")
    until(lambda: all_of(opened, "#flag-film[data-drawn]"))
    assert opened.execute_script(theme) == "light"
    opened.execute_script("localStorage.clear()")


def test_the_page_can_be_read_on_a_phone_and_begins_with_a_way_past_the_contents(browser, site):
    draw(browser, site, 390, prefers_reduced_motion="reduce")
    assert (
        browser.execute_script("return getComputedStyle(document.documentElement).scrollBehavior")
        == "auto"
    )
    one(browser, "body").send_keys("\ue004")  # tab
    skip = browser.switch_to.active_element
    assert (
        skip.text,
        browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", skip),
    ) == ("Skip to the results", "solid")
    legible(browser, 390)
    assert errors(browser) == []


def test_a_page_follows_a_run_and_becomes_its_report(browser, tmp_path):
    ended, file = [], tmp_path / "progress.jsonl"
    running = [document.Running(f"a run {HOSTILE}", "progress/0")]

    def files():
        return writing.files(made_sections.entries()[:1]) if ended else writing.files([], running)

    def tell(t, part):
        with file.open("a") as stream:
            line = {
                "time": 1.0 * t,
                "part": part,
                "t": t,
                "values": {"free energy": -t, HOSTILE: 2.0},
            }
            stream.write(json.dumps(line) + "\n")

    points = (
        "return [...document.querySelectorAll('.drawing')].map((d) => "
        "(d.data || []).map((p) => p.y.length).join())"
    )
    with server.served(server.Site(files, [file], lambda _: bool(ended))) as address:
        requests(browser)
        browser.get(address)
        assert one(browser, ".state").text == "Waiting for the first time step."
        tell(1, "hmnn")
        until(lambda: browser.execute_script(points) == ["1", "1"])
        for t in (2, 3):
            tell(t, "hmnn")
        tell(1, HOSTILE)
        until(lambda: browser.execute_script(points) == ["3,1", "3,1"])
        assert one(browser, ".state").text == "The run goes on."
        assert [h.get_property("textContent") for h in all_of(browser, ".charts h3")] == [
            "free energy",
            HOSTILE,
        ]
        assert "t = 1, after 1 s" in one(browser, ".latest").text
        ended.append(True)
        until(lambda: all_of(browser, "#flag-film"))
        assert browser.execute_script("return window.hurt") is None
        assert {url.split("/")[2] for url in requests(browser) if url.startswith("http")} == {
            address.split("/")[2]
        }
        browser.get("about:blank")
    assert errors(browser) == []
