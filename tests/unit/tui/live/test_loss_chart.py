"""The curve of a few cells: what it shows of what was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.live.session_charts import small_curve

values = st.floats(-1e99, 1e99)
gaps = st.none() | values


def test_a_loss_that_falls_is_drawn_as_one():
    falls = [2.0 - number / 20 for number in range(20)]
    drawn = small_curve(falls, 10)
    assert drawn == "⠉⠉⠒⠒⠒⠤⠤⠤⣀⣀"
    assert small_curve(falls[::-1], 10) != drawn


@given(st.data())
def test_every_cell_without_a_value_is_blank_and_no_other(data):
    cells = data.draw(st.integers(1, 12))
    columns = data.draw(st.lists(gaps, min_size=2 * cells, max_size=2 * cells))
    drawn = small_curve(columns, cells)
    assert len(drawn) == cells
    pairs = zip(columns[::2], columns[1::2], strict=True)
    assert [cell == " " for cell in drawn] == [left is right is None for left, right in pairs]


@given(st.lists(st.floats(0.001, 1e6), min_size=12, max_size=12), st.sampled_from([0.125, 2, 64]))
def test_the_picture_does_not_depend_on_the_unit(columns, factor):
    in_another = [value * factor for value in columns]
    assert small_curve(in_another, 6) == small_curve(columns, 6)


@pytest.mark.parametrize("level", [0.0, 1e-30, 0.5, -3.0, 1e90])
def test_what_differs_by_noise_alone_is_a_straight_line(level):
    noisy = [level * (1 + 1e-4 * (number % 3)) for number in range(12)]
    drawn = small_curve(noisy, 6)
    assert len(set(drawn)) == 1
