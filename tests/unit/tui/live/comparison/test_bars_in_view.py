"""Which of the comparison bars are in view where not all have room."""

from hypothesis import given
from hypothesis import strategies as st

from tui.live.comparison.bar_rows import BarRow
from tui.live.comparison.bars import around_this_run, first_around, first_in_view


@given(
    this_run=st.none() | st.integers(0, 40),
    first=st.integers(0, 60),
    shown=st.integers(1, 50),
    total=st.integers(1, 41),
)
def test_the_view_never_leaves_the_rows_nor_this_run(this_run, first, shown, total):
    if this_run is not None:
        this_run %= total
    begin = first_in_view(this_run, first, shown, total)
    assert 0 <= begin <= max(0, total - shown)
    assert this_run is None or begin <= this_run < begin + shown
    around = first_around(this_run, first, shown, total)
    assert 0 <= around <= max(0, total - shown)
    assert this_run is None or around <= this_run < around + shown


def test_a_run_near_an_end_has_that_in_view_whatever_was_there_before():
    for before in range(12):
        assert first_around(2, before, 8, 20) == 0
        assert first_around(18, before, 8, 20) == 12
    assert [first_around(10, before, 8, 20) for before in (3, 5, 9, 12)] == [3, 5, 9, 6]


def bars_around_this_run(faster, slower, in_headline):
    """Return bars of which this run's has so many above and below it, and those in the headline."""
    return [
        BarRow(
            str(index),
            0.5,
            "1.00 s",
            style="this" if index == faster else "published",
            headline_place=in_headline.index(index) if index in in_headline else None,
        )
        for index in range(faster + 1 + slower)
    ]


@given(
    faster=st.integers(0, 12),
    slower=st.integers(0, 12),
    in_headline=st.lists(st.integers(0, 24), max_size=2, unique=True),
    shown=st.integers(2, 12),
)
def test_what_the_headline_compares_with_is_in_view_with_this_run(
    faster, slower, in_headline, shown
):
    bars = bars_around_this_run(faster, slower, in_headline)
    indices = around_this_run(bars, 0, shown)
    assert faster in indices
    wanted = [index for index in in_headline if index < len(bars) and index != faster]
    assert set(wanted[: shown - 1]) <= set(indices)
    assert indices == sorted(set(indices))
    assert len(indices) == min(shown, len(bars))
