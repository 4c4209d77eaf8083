"""Values over time in bounded memory, with their extremes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.statistics.envelope import MOST_BUCKETS, Envelope

SECOND = 1_000_000_000


def test_a_column_has_the_mean_the_least_and_the_greatest():
    line = Envelope(0, SECOND)
    line.add(0, SECOND // 4, 1.0)
    line.add(SECOND // 4, SECOND, 5.0)
    columns = line.columns(SECOND, 1)
    assert (columns.mean, columns.low, columns.high) == ((4.0,), (1.0,), (5.0,))


def test_what_nothing_covers_is_a_gap():
    line = Envelope(0, SECOND)
    line.add(0, SECOND, 1.0)
    line.add(2 * SECOND, 3 * SECOND, 2.0)
    assert line.columns(SECOND, 4).mean == (1.0, None, 2.0, None)


def test_what_is_before_the_origin_is_left_out():
    line = Envelope(10 * SECOND, SECOND)
    line.add(0, 9 * SECOND, 1.0)
    assert not line
    line.add(9 * SECOND, 11 * SECOND, 1.0)
    assert line.columns(SECOND, 2).mean == (1.0, None)


def test_wider_columns_keep_a_short_extreme():
    line = Envelope(0, SECOND)
    for second in range(64):
        line.add(second * SECOND, (second + 1) * SECOND, 900.0 if second == 40 else 10.0)
    columns = line.columns(16 * SECOND, 4)
    assert columns.high == (10.0, 10.0, 900.0, 10.0)
    assert columns.low == (10.0,) * 4
    assert columns.mean[2] == pytest.approx((15 * 10 + 900) / 16)


def test_short_batches_are_taken_together():
    line = Envelope(0, SECOND)
    line.add_batches(0, (1_000,) * 3_000, (32,) * 3_000)
    columns = line.columns(SECOND, 3)
    assert columns.mean == columns.low == columns.high == (32_000.0,) * 3


def test_a_batch_longer_than_a_column_fills_several():
    line = Envelope(0, SECOND)
    line.add_batches(0, (0, 4_000_000), (8, 32))
    assert line.columns(SECOND, 5).mean == (10.0,) * 4 + (None,)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63), st.integers(0, 2**63), st.floats(-1e300, 1e300)),
        max_size=20,
    )
)
def test_any_times_are_kept_in_bounded_memory(spans):
    line = Envelope(0)
    for start, length, value in spans:
        line.add(start, start + length, value)
    assert line.end_ns <= MOST_BUCKETS * line.width_ns
    columns = line.columns(line.width_ns, min(line.end_ns // line.width_ns, MOST_BUCKETS))
    for low, high in zip(columns.low, columns.high, strict=True):
        assert low is None or low <= high
