"""The page of a report in a real browser: what it draws, what it asks for, what it complains of."""

from dataclasses import replace

import pytest
from fakes.browser import CHROMIUM, browser_in
from fakes.hostile_log import hostile_log
from fakes.recorded import recorded_session, write_log

from dlmon.figures import units
from dlmon.figures.report.report import make_report
from dlmon.figures.sections import Line, LineChart
from dlmon.render.html import html_of

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("browser"),
]

# Of each chart, how many pixels are not of the background, and which.
PAINTED = """[...document.querySelectorAll("#charts canvas")].map((canvas) => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0, sum = 0;
  for (let at = 3; at < data.length; at += 4)
    if (data[at]) { count++; sum = (sum * 31 + at) % 1e9; }
  return [count, sum];
})"""
READINGS = '[...document.querySelectorAll(".legend")].map((legend) => legend.textContent)'
# Where the second chart lies, once it is in view.
OVER = """(() => {
  const over = document.querySelectorAll(".u-over")[1];
  over.scrollIntoView({block: "center"});
  const {x, y, width, height} = over.getBoundingClientRect();
  return [x, y, width, height];
})()"""

# Of each chart, how many lines it has, and of each dot under the cursor its colour, and that of the
# canvas below its middle.
DOTS = """[...document.querySelectorAll(".panel")].map((panel) => {
  const canvas = panel.querySelector("canvas"), {x, y} = canvas.getBoundingClientRect();
  const dots = [...panel.querySelectorAll(".u-cursor-pt")].filter((dot) => dot.offsetWidth);
  return [panel.querySelectorAll(".legend i").length, dots.map((dot) => {
    const {left, right, top, bottom} = dot.getBoundingClientRect();
    const middle = [(left + right) / 2 - x, (top + bottom) / 2 - y];
    const {data} = canvas.getContext("2d").getImageData(...middle, 1, 1);
    const colour = getComputedStyle(dot).backgroundColor.match(/\\d+/g).map(Number);
    return [colour, [...data.slice(0, colour.length)]];
  })];
})"""


# Of each row of a comparison: how wide its bar may be, whether its note is seen, where it ends.
BARS = """[...document.querySelectorAll("table.bars")[0].rows].map((row) => {
  const [, bar, , note] = [...row.cells].map((cell) => cell.getBoundingClientRect());
  return [bar.width, note.height > 10, Math.max(bar.right, note.right)];
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browser_in(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "run.html"
    path.write_text(html_of(make_report([write_log(tmp_path, recorded_session(gpus=2))], [])))
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
def test_every_chart_is_painted_and_nothing_is_asked_for(browser, page, width, scheme):
    browser.complaints.clear()
    browser.open(page, width, scheme)
    painted = browser.value(PAINTED)
    assert len(painted) == 7
    assert all(count > 500 for count, _ in painted)
    assert {url for url in browser.requests if not url.startswith("data:")} == {page.as_uri()}
    assert browser.complaints == []
    # Nothing is cut off, or has to be scrolled to from side to side.
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 20, 22)")
    # Bars have one scale, and their notes are seen.
    rows = browser.value(BARS)
    assert len(rows) > 5
    assert len({round(bar) for bar, _, _ in rows}) == 1
    assert all(is_seen for _, is_seen, _ in rows)
    assert all(right <= width for _, _, right in rows)


def test_a_drag_zooms_all_charts_and_a_button_shows_the_whole_run_again(browser, page):
    browser.open(page, 1200)
    before = browser.value(PAINTED)
    x, y, width, height = browser.value(OVER)
    middle = y + height / 2
    browser.mouse("mouseMoved", x + width * 0.3, middle)
    browser.mouse("mousePressed", x + width * 0.3, middle)
    for share in (0.35, 0.4, 0.5):
        browser.mouse("mouseMoved", x + width * share, middle, buttons=1)
    browser.mouse("mouseReleased", x + width * 0.5, middle)
    browser.until(lambda: all(a != b for a, b in zip(browser.value(PAINTED), before, strict=True)))
    browser.value('document.getElementById("whole").click()')
    browser.until(lambda: browser.value(PAINTED) == before)


def test_the_cursor_reads_all_charts_at_one_time(browser, page):
    browser.open(page, 1200)
    x, y, width, height = browser.value(OVER)
    browser.mouse("mouseMoved", x + width * 0.5, y + height / 2)
    browser.until(lambda: all(text.startswith("00:") for text in browser.value(READINGS)))
    readings = browser.value(READINGS)
    # To a pixel of each chart, which are not all as wide.
    seconds = {int(text[3:5]) for text in readings}
    assert max(seconds) - min(seconds) <= 1
    assert any("training 0." in text and "validation" in text for text in readings)
    assert "samples/s" in readings[0]
    assert sum("GPU 0 9" in text for text in readings) == 1
    # Each line has a dot under it, and no band has one.
    for lines, dots in browser.value(DOTS):
        assert len(dots) == lines
        # An edge of a line is softened.
        assert all(painted == pytest.approx(colour, abs=10) for colour, painted in dots)


def test_a_metric_reads_under_the_cursor_as_in_a_table(browser, tmp_path):
    values = (0.0, 3e-5, 5e-5, 4.2e-12, 1.5e-4, 0.00123, 0.5, 2.3026, 123.45, 1234.6, 56_789.0)
    charts = []
    for value in values:
        line = Line("training", (0.0, 60.0), (value,) * 2, (value,) * 2, (2 * value, value))
        charts.append(LineChart("Loss", "", (line,), 0.0, 1.0, metric="loss"))
    report = make_report([write_log(tmp_path, recorded_session())], [])
    path = tmp_path / "run.html"
    path.write_text(html_of(replace(report, charts=(), metrics=tuple(charts))))
    browser.open(path, 1200)
    x, y, width, height = browser.value(OVER)
    browser.mouse("mouseMoved", x + width * 0.5, y + height / 2)
    browser.until(lambda: all(text.startswith("00:") for text in browser.value(READINGS)))
    readings = [text.split("training ")[1] for text in browser.value(READINGS)]
    mean, *banded = [(units.metric(value), units.metric(2 * value)) for value in values]
    assert readings == [mean[0], *(f"{low} ({low} to {high})" for low, high in banded)]


def test_a_hostile_log_runs_nothing(browser, tmp_path):
    path = tmp_path / "run.html"
    path.write_text(html_of(make_report([hostile_log(tmp_path, every=True)], [], full=True)))
    browser.complaints.clear()
    browser.open(path, 1200)
    assert browser.complaints == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {path.as_uri()}
    foreign = 'document.querySelectorAll("img, a, iframe, object, b").length'
    assert browser.value(foreign) == 0
    assert all(count > 500 for count, _ in browser.value(PAINTED))
