"""The chart of a sweep, as text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.figures.sections import Line, LineChart
from dlmon.figures.value_axis import is_doubling
from tui.sweep.chart import legend, picture_of
from tui.widgets.chart import picture_rows
from tui.widgets.lines import row_width


def series(*ys, xs=None, label="", low=None, high=None, out_of_memory=()):
    xs = xs or [32 * 2**number for number in range(len(ys))]
    none = (None,) * len(ys)
    return Line(label, tuple(xs), ys, low or none, high or none, out_of_memory=out_of_memory)


def picture(lines, width):
    labels = sorted({(x, str(x)) for line in lines for x in line.xs})
    return picture_of(LineChart("", "", tuple(lines), x_labels=tuple(labels)), width - 6)


def plot_rows(lines, width, height):
    return picture_rows(picture(lines, width), width, height, 6)


def text(rows):
    return [("".join(text for text, _ in row)).rstrip() for row in rows]


def marked(rows, marker):
    """Return the (column, row) of each cell with a marker."""
    return [(x, y) for y, row in enumerate(text(rows)) for x, c in enumerate(row) if c == marker]


@pytest.mark.parametrize(
    ("xs", "doubling"),
    [
        ((1, 2, 4), True),
        ((128, 32, 64), True),
        ((1, 4, 16), True),
        ((32, 64, 96), False),
        ((1, 2, 3, 4), False),
        ((0, 1, 2), False),
        ((32,), False),
    ],
)
def test_an_axis_is_logarithmic_where_its_values_double(xs, doubling):
    assert is_doubling(xs) is doubling


def test_points_are_joined_and_labelled():
    assert text(plot_rows([series(0.8, 0.4, 0.1)], 40, 7)) == [
        "  0.8   ●⠒⠤⣀          ┊             ┊",
        "        ┊   ⠉⠒⠤⣀      ┊             ┊",
        "        ┊       ⠉⠒⠤⣀  ┊             ┊",
        "  0.4 ┈┈┼┈┈┈┈┈┈┈┈┈┈┈⠉⠒●⢄⣀┈┈┈┈┈┈┈┈┈┈┈┼┈┈┈",
        "        ┊             ┊  ⠉⠑⠒⠤⣀⡀     ┊",
        "        ┊             ┊       ⠈⠉⠒⠢⢄⣀┊",
        "    0   ┊             ┊             ●",
    ]
    labels = picture([series(0.8, 0.4, 0.2)], 40).times.marks
    assert labels == ((4, "32"), (32, "64"), (60, "128"))


def test_the_axis_begins_at_zero_unless_all_points_lie_far_above_it():
    assert picture([series(0.8, 0.4, 0.1)], 40).bottom == 0
    assert picture([series(0.5)], 40).bottom == 0
    assert 0 < picture([series(0.41, 0.3, 0.28)], 40).bottom <= 0.28
    # The bands of the points count too.
    assert picture([series(0.41, 0.3, low=(0.4, 0.01), high=(0.42, 0.6))], 40).bottom == 0


def test_a_combination_without_a_figure_parts_the_line():
    whole = text(plot_rows([series(1.0, 1.0, 1.0)], 40, 6))[0]
    parted = text(plot_rows([series(1.0, None, 1.0)], 40, 6))[0]
    assert " " not in whole[8:].strip()
    assert parted.replace("1", "").split() == ["●", "┊", "●"]


def test_where_memory_ran_out_a_cross_stands_at_the_top():
    rows = plot_rows([series(0.5, None, out_of_memory=(64,))], 40, 8)
    assert [y for _, y in marked(rows, "✗")] == [0]


def test_the_band_of_several_runs_is_drawn_through_the_point():
    rows = plot_rows([series(0.5, 0.9, low=(0.2, 0.9), high=(0.8, 0.9))], 40, 10)
    at = sorted(marked(rows, "●"))[0]
    band = [y for x, y in marked(rows, "│") if x == at[0]]
    assert min(band) < at[1] < max(band)


def test_several_series_are_distinguished_without_colour():
    drawn = [series(3, 2, label="cpu"), series(1, 2.5, label="gpu:0")]
    lines = text(plot_rows(drawn, 40, 10))
    assert text([legend(["cpu", "gpu:0"], 40)]) == ["● cpu  ◆ gpu:0"]
    assert sum(row.count("●") for row in lines) == 2
    assert sum(row.count("◆") for row in lines) == 2


points = st.lists(
    st.tuples(st.integers(1, 100_000), st.none() | st.floats(0, 1e6), st.floats(0, 10)), max_size=6
)


def line_of(points):
    xs, ys, spreads = zip(*points, strict=True) if points else ((), (), ())
    ends = [[y and y + sign * s for y, s in zip(ys, spreads, strict=True)] for sign in (-1, 1)]
    return Line("name", xs, ys, *map(tuple, ends), out_of_memory=xs[:1])


@given(st.lists(points.map(line_of), max_size=8), st.integers(18, 90), st.integers(1, 30))
@example([Line("name", (1,), (4e-181,), (None,), (None,))], 24, 2)
def test_whatever_is_drawn_fits(drawn, width, height):
    rows = plot_rows(drawn, width, height)
    assert len(rows) <= max(0, height)
    assert all(row_width(row) <= width for row in rows)
