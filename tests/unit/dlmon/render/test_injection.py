"""A foreign log puts nothing into a report but text: no markup, script, link or formula."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from fakes.hostile_log import ATTACK, hostile_log
from markdown_it import MarkdownIt

from dlmon.figures.report.report import make_report
from dlmon.render.charts import svg_of
from dlmon.render.html import html_of
from dlmon.render.markdown import inline, markdown_of
from dlmon.render.plot import draw_chart
from dlmon.render.tidy import TABLES, csv_lines, rows_of

# What makes a spreadsheet compute.
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", " =1", "＝1", "－1")
KNOWN_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "h1",
    "h2", "h3", "p", "small", "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td",
    "svg", "rect", "path", "line", "text", "circle", "ul", "li", "pre", "code", "button",
    "noscript", "details", "summary", "script",
}  # fmt: skip
KNOWN_ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "type", "viewbox", "width",
    "height", "preserveaspectratio", "aria-hidden", "aria-label", "role", "xmlns", "x", "y", "x1",
    "x2", "y1", "y2", "d", "cx", "cy", "r",
}  # fmt: skip


class Page(HTMLParser):
    """Collects the elements of a page, and what stands in its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.texts = [], [], []
        self._within = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._within = None

    def handle_data(self, data):
        if self._within == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)


@pytest.fixture(params=[False, True], ids=["texts", "every text"])
def log(tmp_path, request):
    return hostile_log(tmp_path, every=request.param)


@pytest.mark.parametrize("full", [False, True])
def test_a_page_holds_no_element_of_the_log(log, full):
    page = Page(html_of(make_report([log], [], full)))
    assert {tag for tag, _ in page.elements} <= KNOWN_TAGS
    assert {name for _, attributes in page.elements for name in attributes} <= KNOWN_ATTRIBUTES
    assert any("<img src=x onerror=alert(1)>" in text for text in page.texts)
    assert any("{{7*7}}" in text for text in page.texts)
    data, *ours = page.scripts
    assert len(ours) == 2
    assert not any("alert" in script or "evil" in script for script in ours)
    assert json.loads(data)["charts"]


def test_nothing_ends_the_data_in_a_page(tmp_path):
    name = "</script><script>alert(1)</script>\u2028<!--"
    paths = [hostile_log(tmp_path / part, name, every=True) for part in ("one", "two")]
    text = html_of(make_report(paths, []))
    data = re.search(r'<script type="application/json" id="drawn">(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(data)
    labels = [line["label"] for chart in json.loads(data)["charts"] for line in chart["lines"]]
    assert any(label.startswith("</script><script>alert(1)</script>") for label in labels)


@pytest.mark.parametrize("full", [False, True])
def test_markdown_holds_no_link_and_no_markup_of_the_log(log, full):
    text = markdown_of(make_report([log], [], full))
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = list(_all(parser.parse(text)))
    kinds = {token.type for token in tokens}
    assert not {kind for kind in kinds if kind.startswith(("html", "link", "image", "em_", "s_"))}
    headings = [token.level for token in tokens if token.type == "heading_open"]
    assert set(headings) == {0}
    plain = " ".join(token.content for token in tokens if token.type == "text")
    assert "alert" not in plain
    assert not re.search(r"[@<>#|]|www\.|://", plain)
    assert any(token.type == "td_open" for token in tokens)
    # A table keeps its columns.
    for block in text.split("\n\n"):
        if block.startswith("| "):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_sessions_that_are_compared_bring_nothing_in(tmp_path):
    paths = [hostile_log(tmp_path / part, ATTACK + part) for part in ("one", "two")]
    report = make_report(paths, [])
    assert report.compared
    page = Page(html_of(report))
    assert {tag for tag, _ in page.elements} <= KNOWN_TAGS
    assert {name for _, attributes in page.elements for name in attributes} <= KNOWN_ATTRIBUTES
    tokens = list(_all(MarkdownIt("commonmark").enable("table").parse(markdown_of(report))))
    kinds = {token.type for token in tokens}
    assert not {kind for kind in kinds if kind.startswith(("html", "link", "image"))}


def _all(tokens):
    for token in tokens:
        yield token
        yield from _all(token.children or ())


@pytest.mark.parametrize(
    "text",
    ["a|b", "`a", "<b>", "[x](y)", "a_b_c", "*a*", "@ada", "#12", "www.x.example", "http://x", "\\",
     "~~a~~", "&amp;", "!", "$x$", "HTTPS:x", "- a", "+ a", "1. a", "2) a", "---", "-", "1.",
     "==a==", "a ==b", "="],
)  # fmt: skip
def test_what_could_mean_something_in_markdown_stands_in_a_code_span(text):
    shown = inline(text)
    assert shown.startswith("`")
    assert shown.endswith("`")
    assert shown.count("`") == 2
    assert "|" not in shown


@pytest.mark.parametrize(
    "text",
    ["9.02 s ± 0.05", "~ 9.0 s", "5,540 samples/s", "GTX 1060", "0.818×", "1.5 s", "fused=True"],
)
def test_words_and_figures_are_plain_in_markdown(text):
    assert inline(text) == text


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("table", [None, *TABLES])
def test_no_cell_of_a_csv_is_a_formula(tmp_path, formula, table):
    log = hostile_log(tmp_path, formula, every=True)
    rows = list(csv.reader(io.StringIO("".join(csv_lines(rows_of([log], table))))))
    assert len(rows) > 1
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        if cell.lstrip().startswith(("=", "+", "-", "@", "＝", "－")):
            assert re.fullmatch(r"-\d+(\.\d+)?(e[+-]\d+)?", cell)
    assert any(cell.startswith("'") for cell in rows[1])


def test_no_escape_sequence_reaches_a_report(log):
    report = make_report([log], [], full=True)
    for text in (
        html_of(report),
        markdown_of(report),
        json.dumps(report.as_json()),
        *csv_lines(rows_of([log])),
    ):
        assert not set("\x1b\x07\u2028\u202e\r") & set(text)
        assert "\\u001b" not in text


def test_a_picture_is_xml_with_nothing_of_the_log_but_text(tmp_path):
    paths = [hostile_log(tmp_path / part, ATTACK, every=True) for part in ("one", "two")]
    report = make_report(paths, [])
    for chart in report.charts:
        tree = ElementTree.fromstring(svg_of(draw_chart(chart, report.marks)))
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert tags <= {"svg", "style", "rect", "text", "line", "path", "circle"}
        attributes = {name for element in tree.iter() for name in element.attrib}
        assert not {name for name in attributes if name.startswith("on") or "href" in name}
