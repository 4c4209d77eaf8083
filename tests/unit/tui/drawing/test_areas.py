"""A curve with what lies below and around it: literal rows, and what must hold for any data."""

from hypothesis import given
from hypothesis import strategies as st

from tui.drawing.plot import Tone, braille_rows, curve_rows, row_of

values = st.lists(st.none() | st.floats(0, 100), max_size=40)


def test_below_the_line_there_are_dots_and_beside_it_none_in_its_own_cells():
    rows = curve_rows((15, 15, 15, 15, None, None), (), (), 3, 4, 15)
    assert [text for text, _ in rows] == ["⠉⠉ ", "⡐⡐ ", "⡐⡐ ", "⡐⡐ "]
    assert rows[0][1] == [Tone.CURVE, Tone.CURVE, Tone.BLANK]
    assert rows[1][1] == [Tone.AREA, Tone.AREA, Tone.BLANK]


def test_a_band_is_filled_between_the_least_and_the_greatest_value():
    rows = curve_rows((8,) * 4, (4,) * 4, (15,) * 4, 2, 4, 15, area=False)
    assert [text for text, _ in rows] == ["⣿⣿", "⣀⣀", "⣿⣿", "  "]
    assert [tones[0] for _, tones in rows] == [Tone.BAND, Tone.CURVE, Tone.BAND, Tone.BLANK]


@given(columns=values, height=st.integers(1, 6), area=st.booleans())
def test_the_line_is_the_same_with_and_without_what_lies_around_it(columns, height, area):
    width = 20
    plain = braille_rows(columns, width, height, 100)
    rows = curve_rows(columns, columns, columns, width, height, 100, area=area)
    for line, (text, tones) in zip(plain, rows, strict=True):
        assert len(text) == len(tones) == width
        of_line = [c if tone is Tone.CURVE else " " for c, tone in zip(text, tones, strict=True)]
        assert "".join(of_line) == line


@given(st.floats(0, 100), st.integers(1, 20))
def test_a_value_lies_in_the_row_in_which_its_line_is_drawn(value, height):
    drawn = [row.strip() != "" for row in braille_rows((value, value), 1, height, 100)]
    assert drawn.index(True) == row_of(value, height, 100)


def test_a_gap_has_no_row():
    assert row_of(None, 5, 100) is None
    assert row_of(5.0, 0, 100) is None
    assert row_of(5.0, 5, float("inf")) is None
