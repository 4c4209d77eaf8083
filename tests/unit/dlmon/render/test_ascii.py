"""The last filter before a terminal that knows ASCII only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from dlmon.records.sanitize import clean
from dlmon.render.ascii import plain
from tui.drawing.ascii_filter import PlainCharacters


@pytest.mark.parametrize(
    ("drawn", "in_ascii"),
    [
        ("╭─ CPU ──╮", "+- CPU --+"),
        ("▶ 1.3× as fast", "> 1.3x as fast"),
        ("61 °C – 漢字", "61 'C - ????"),
        ("plain", "plain"),
        ("🔎 a", ">  a"),
        ("━━╸── ▏◂ auto ▸", "===-- |< auto >"),
        # A line, a gap in it, a filled area, what is striped above a part.
        ("⠤⠒⠉⠁ ⡇", "_--' |"),
        ("⣀⣤⣶⣿", "__##"),
        ("⢕", ":"),
        # A cluster of characters takes the cells that it took.
        ("👩🏽‍🚀 up", "?? up"),
        ("🇯🇵", "??"),
        ("❤️", "??"),
        ("e\u0301", "e"),
    ],
)
def test_glyphs_have_plain_forms(drawn, in_ascii):
    assert plain(drawn) == in_ascii
    assert cell_len(plain(drawn)) == cell_len(drawn)


@given(st.text().map(clean))
def test_what_is_left_is_ascii_in_as_many_cells(text):
    drawn = plain(text)
    assert drawn.isascii()
    if all(cell_len(character) == 1 for character in text):
        assert cell_len(drawn) == cell_len(text)


def test_styles_stay_as_they_are():
    segments = [Segment("─", Style(bold=True)), Segment("a", None)]
    filtered = PlainCharacters().apply(segments, Color(0, 0, 0))
    assert filtered == [Segment("-", Style(bold=True)), Segment("a", None)]
