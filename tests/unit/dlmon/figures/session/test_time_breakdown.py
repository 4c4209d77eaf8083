"""The parts of a session's time: their shares, and the few that are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.session.time_breakdown import breakdown_rows, in_short
from dlmon.records import TimePart


def test_the_parts_have_their_share_in_the_order_of_a_run():
    account = {TimePart.TRAINING: 7.5, TimePart.STARTUP: 2.0, TimePart.GAPS: 0.5}
    rows = breakdown_rows(account)
    assert [f"{row.name} {row.in_figures}" for row in rows] == [
        "start and imports 2.00 s, 20 %",
        "steps 7.50 s, 75 %",
        "between epochs 0.50 s, 5 %",
    ]
    assert [f"{row.name} {row.percent}" for row in in_short(rows, 1)] == [
        *("start 20", "steps 75", "other 5")
    ]
    assert [row.name for row in in_short(rows, 2)] == ["start", "steps", "between"]
    assert breakdown_rows({}) == ()
    # One of which no time could be written has no row.
    rows = breakdown_rows({TimePart.LOADING: 0.004, TimePart.TRAINING: 9.996})
    assert [f"{row.name} {row.in_figures}" for row in rows] == ["steps 10.0 s, 100 %"]
    rows = breakdown_rows({TimePart.LOADING: 0.006, TimePart.TRAINING: 9.994})
    assert rows[0].in_figures == "0.01 s, under 0.1 %"


@given(
    account=st.dictionaries(
        st.sampled_from(TimePart),
        st.floats(0.005, 10_000),
        min_size=1,
        max_size=len(TimePart),
    ),
    count=st.integers(0, 5),
)
def test_no_part_is_named_that_takes_0_percent_and_nothing_is_named_twice_or_lost(account, count):
    rows = breakdown_rows(account)
    shown = in_short(rows, count)
    assert all(row.percent for row in shown)
    apart = (TimePart.TRAINING, TimePart.UNKNOWN)
    assert len([row for row in shown if row.part not in apart]) <= count
    assert sum(row.share for row in shown) == pytest.approx(1, abs=0.0051)
