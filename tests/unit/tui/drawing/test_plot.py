"""The drawing behind the charts: literal rows of text, and what must hold for any data."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dlmon.figures.value_axis import fitted_bottom, grown_top, nice_top, short_number
from tui.drawing.plot import (
    Tone,
    bar,
    braille_rows,
    curve_rows,
    mark_row,
    row_of,
    split_rows,
    thick_bar,
)

any_value = st.none() | st.floats() | st.integers(-(10**6), 10**6)
any_columns = st.lists(any_value, max_size=60)
cells = st.integers(0, 20)
known = st.floats(0, 100)


def test_a_rising_line_climbs_one_dot_a_column():
    assert braille_rows((0, 1, 2, 3, 4, 5, 6, 7), 4, 2, 7) == [
        "  ⡠⠊",
        "⡠⠊  ",
    ]


def test_a_part_is_filled_and_the_rest_above_it_striped_up_to_its_top():
    whole, part = (15, 15, 15, 14, None, 15), (7, 7, 3, 3, 7, None)
    assert split_rows(whole, part, 3, 4, 15) == [
        ("⣛⣓⢘", [Tone.REST, Tone.REST, Tone.REST]),
        ("⣒⣒⢐", [Tone.REST, Tone.REST, Tone.REST]),
        ("⣿⣒⢐", [Tone.CURVE, Tone.REST, Tone.REST]),
        ("⣿⣿⢐", [Tone.CURVE, Tone.CURVE, Tone.REST]),
    ]


@given(any_columns, any_columns, cells, cells)
def test_a_part_never_reaches_above_the_whole(columns, part, width, height):
    part = (part + [None] * len(columns))[: len(columns)]
    split = split_rows(columns, part, width, height, 100)
    filled = braille_rows(columns, width, height, 100, filled=True)
    assert len(split) == height
    for (text, is_part), row in zip(split, filled, strict=True):
        assert len(text) == len(is_part) == width
        for cell, inside, all_filled in zip(text, is_part, row, strict=True):
            assert (cell != " ") == (all_filled != " ")
            assert cell != " " or inside is Tone.REST
            if cell != " ":
                assert (ord(cell) - 0x2800) & ~(ord(all_filled) - 0x2800) == 0


def test_a_gap_breaks_the_line_and_a_lone_value_stays_visible():
    assert braille_rows((7, 7, None, None, 0, None, 7, 7), 4, 2, 7) == [
        "⠉  ⠉",
        "  ⡀ ",
    ]


def test_a_filled_line_reaches_the_bottom_and_a_gap_stays_blank():
    assert braille_rows((7, 7, None, None, 3, 0), 3, 2, 7, filled=True) == [
        "⣿  ",
        "⣿ ⣇",
    ]


def test_fewer_columns_start_at_the_left_and_of_too_many_the_newest_are_drawn():
    assert braille_rows((10, 10), 3, 1, 10) == ["⠉  "]
    assert braille_rows((10, 10, 10, 0, 0, 0, 0), 2, 1, 10) == ["⣀⣀"]


@given(columns=any_columns, width=cells, height=cells, top=st.floats(), bottom=st.floats())
def test_rows_are_exactly_as_many_and_as_wide_as_asked(columns, width, height, top, bottom):
    for filled in (False, True):
        rows = braille_rows(columns, width, height, top, bottom, filled)
        assert len(rows) == height
        assert all(len(row) == width for row in rows)


@given(pairs=st.lists(st.none() | st.tuples(known, known), max_size=20), height=st.integers(1, 9))
def test_a_cell_is_blank_just_where_both_of_its_columns_are_unknown(pairs, height):
    columns = [value for pair in pairs for value in (pair or (None, None))]
    for filled in (False, True):
        rows = braille_rows(columns, len(pairs), height, 100, filled=filled)
        drawn = [any(row[cell] != " " for row in rows) for cell in range(len(pairs))]
        assert drawn == [pair is not None for pair in pairs]


@given(columns=st.lists(known, min_size=1, max_size=30), height=st.integers(1, 6))
def test_a_line_without_gaps_has_no_hole(columns, height):
    """Each column's dots touch the next one's, in height at most one dot apart."""
    rows = braille_rows(columns, 15, height, 100)
    heights = [dots for dots in _dots_by_column(rows) if dots]
    assert len(heights) == len(columns)
    for left, right in pairwise(heights):
        assert min(right) - max(left) <= 1
        assert min(left) - max(right) <= 1


def _dots_by_column(rows):
    """Return for each column the heights of its dots, counted from the bottom."""
    bits = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
    columns = []
    for cell in range(len(rows[0])):
        for side in bits:
            columns.append(
                [
                    4 * (len(rows) - 1 - y) + level
                    for y, row in enumerate(rows)
                    for level, bit in enumerate(side)
                    if row[cell] != " " and (ord(row[cell]) - 0x2800) & bit
                ]
            )
    return columns


def test_marks_stand_under_their_columns():
    assert mark_row(((0, "1"), (12, "2"), (20, "3")), (), 14) == "┊1    ┊2  ┊3  "


def test_a_stretch_says_what_it_is_as_far_as_there_is_room():
    assert mark_row((), ((0, 23, "compile"),), 14) == "╌╌compile╌╌╌  "
    assert mark_row((), ((4, 9, "validation"),), 8) == "        "
    assert mark_row((), ((4, 5, "validation"),), 8) == "        "
    assert mark_row((), ((-6, 3, "compile"),), 8) == "        "


@given(
    marks=st.lists(st.tuples(st.integers(-50, 90), st.text("0123456789", max_size=4))),
    stretches=st.lists(
        st.tuples(st.integers(-50, 90), st.integers(-50, 90), st.sampled_from(["", "compile"]))
    ),
    width=cells,
)
def test_the_mark_row_is_exactly_as_wide_as_asked(marks, stretches, width):
    assert len(mark_row(marks, stretches, width)) == width


@pytest.mark.parametrize(
    ("largest", "top"),
    [(0, 1), (-3, 1), (0.3, 0.3), (1, 1), (1.01, 1.5), (2.1, 2.5), (5540, 6000), (20_000, 20_000)],
)
def test_the_axis_ends_at_a_round_number(largest, top):
    assert nice_top(largest) == top


@given(st.floats(1e-99, 1e300))
def test_the_axis_holds_the_largest_value_and_is_at_most_half_as_much_again(largest):
    top = nice_top(largest)
    assert largest <= top <= (1.5 if 1e-3 <= largest < 1e18 else 2) * largest
    digits = f"{top:e}".partition("e")[0].rstrip("0").rstrip(".")
    assert digits in ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "8")


def test_the_axis_shrinks_only_when_all_data_is_far_below():
    assert grown_top(5000, 2000) == 5000
    assert grown_top(5000, 1999) == 2000


@given(top=st.floats(1e-6, 1e9), values=st.tuples(known, known))
def test_the_axis_never_swings_between_two_values(top, values):
    low, high = sorted(values)
    if low <= 0.8 * high:
        low = 0.8 * high
    for _ in range(3):
        top = grown_top(grown_top(top, low), high)
    assert grown_top(top, low) == grown_top(top, high) == top


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (0.42, "0.42"),
        (0.0004, "4e-4"),
        (9.02, "9.02"),
        (62.5, "62.5"),
        (950, "950"),
        (999.6, "1k"),
        (1250, "1.25k"),
        (5540, "5.5k"),
        (12_500, "12.5k"),
        (999_950, "1M"),
        (1_200_000, "1.2M"),
        (-5540, "-5.5k"),
        (1e18, "1e18"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_a_short_number_reads_as_a_person_writes_it(value, text):
    assert short_number(value) == text


@given(st.floats(-1e99, 1e99).filter(lambda value: value == 0 or abs(value) > 1e-99))
def test_a_short_number_is_at_most_five_characters_and_a_sign(value):
    assert len(short_number(value).lstrip("-")) <= 5


@given(st.floats(1e-3, 1e14))
def test_a_short_number_is_true_to_a_fortieth(value):
    text = short_number(value)
    factor = {suffix: 10.0 ** (3 * i) for i, suffix in enumerate("kMGTP", start=1)}.get(text[-1], 1)
    read_back = float(text.rstrip("kMGTP")) * factor
    # Three decimals are all that a number below 0.1 gets.
    assert read_back == pytest.approx(value, rel=0.026, abs=0.00051)


@given(st.none() | st.floats(), st.integers(-3, 40))
def test_a_bar_is_exactly_as_wide_as_asked(fraction, width):
    assert len(bar(fraction, width)) == max(0, width)


# ---- an axis that begins above 0 ----


def test_an_axis_begins_above_0_where_all_values_lie_in_its_upper_half():
    assert fitted_bottom(0, 6000, 5500) == 4800
    assert fitted_bottom(0, 6000, 4000) == 3000
    assert fitted_bottom(0, 6000, 2999) == 0
    assert fitted_bottom(0, 0, 0) == 0


@given(st.floats(0, 1e9), st.floats(1e-6, 1e9), st.floats(0, 1))
def test_nothing_lies_below_the_bottom_of_an_axis(current, top, share):
    least = share * top
    bottom = fitted_bottom(current, top, least)
    assert 0 <= bottom <= least
    assert bottom == 0 or bottom >= top / 2


# ---- a curve with what lies below and around it ----

values = st.lists(st.none() | st.floats(0, 100), max_size=40)


def test_below_the_line_it_is_filled_in_another_tone_but_for_the_cells_of_the_line():
    rows = curve_rows((15, 15, 15, 15, None, None), (), (), 3, 4, 15)
    assert [text for text, _ in rows] == ["⣿⣿ ", "⣿⣿ ", "⣿⣿ ", "⣿⣿ "]
    assert rows[0][1] == [Tone.CURVE, Tone.CURVE, Tone.BLANK]
    assert rows[1][1] == [Tone.AREA, Tone.AREA, Tone.BLANK]


def test_a_band_is_striped_between_the_least_and_the_greatest_value():
    rows = curve_rows((8,) * 4, (4,) * 4, (15,) * 4, 2, 4, 15, area=False)
    assert [text for text, _ in rows] == ["⣒⣒", "⣀⣀", "⣒⣒", "  "]
    assert [tones[0] for _, tones in rows] == [Tone.BAND, Tone.CURVE, Tone.BAND, Tone.BLANK]


@given(columns=values, height=st.integers(1, 6))
def test_the_line_is_the_same_with_and_without_a_band_around_it(columns, height):
    width = 20
    plain = braille_rows(columns, width, height, 100)
    rows = curve_rows(columns, columns, columns, width, height, 100, area=False)
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


# ---- thick bars ----

fractions = st.none() | st.floats(allow_nan=True, allow_infinity=False)


def length(bar):
    """Return how many cells a bar fills, in eighths."""
    return sum(8 if cell == "█" else " ▏▎▍▌▋▊▉".index(cell) for cell in bar)


@given(fractions, st.integers(0, 80))
def test_a_bar_fills_its_room_exactly(fraction, width):
    bar = thick_bar(fraction, width)
    assert cell_len(bar) == width
    if fraction is None or math.isnan(fraction) or fraction <= 0:
        assert bar.strip() == ""
    elif width:
        assert bar.strip() != ""


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 80))
def test_a_larger_share_is_never_shorter(one, other, width):
    low, high = sorted((one, other))
    assert length(thick_bar(low, width)) <= length(thick_bar(high, width))


def test_a_bar_is_drawn_to_an_eighth_of_a_cell():
    assert thick_bar(0.53125, 4) == "██▏ "
    assert thick_bar(1.0, 4) == "████"
    assert thick_bar(1e-9, 4) == "▏   "
