"""Digits that are read from across a room: even rows, told apart, plain in ASCII."""

import pytest
from fakes.glyphs import GLYPHS

from tui.machine.tiles import LARGE_ROWS, SMALL_ROWS, big_digits


def test_small_digits_are_three_rows_of_half_blocks():
    assert big_digits("42 %") == [
        "█ █ ▀▀█   ▀ █",
        "▀▀█ █▀▀   ▄▀ ",
        "  ▀ ▀▀▀   ▀ ▀",
    ]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("ascii", [False, True])
def test_all_digits_differ_and_their_rows_are_even(large, ascii):
    drawn = {
        tuple(big_digits(digit, large=large, glyphs=GLYPHS[ascii])) for digit in "0123456789%–"
    }
    assert len(drawn) == 12
    rows = big_digits("100 %", large=large, glyphs=GLYPHS[ascii])
    assert len(rows) == (LARGE_ROWS if large or ascii else SMALL_ROWS)
    assert len({len(row) for row in rows}) == 1
    assert not ascii or all(row.isascii() for row in rows)


def test_a_character_without_a_drawing_is_left_out():
    assert big_digits("1x") == big_digits("1")
    assert big_digits("") == [""] * SMALL_ROWS
