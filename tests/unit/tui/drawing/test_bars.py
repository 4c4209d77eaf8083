"""Thick bars: as long as their share."""

import math

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.drawing.plot import thick_bar

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
