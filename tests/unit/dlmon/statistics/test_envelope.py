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


def test_what_others_had_meanwhile_is_added_where_a_value_is_known():
    line = Envelope(0, SECOND)
    line.add_beside(0, 3 * SECOND, 5.0)
    line.add(0, SECOND // 2, 1.0)
    line.add(SECOND // 2, SECOND, 3.0)
    columns = line.columns(SECOND, 3)
    assert columns.mean == (7.0, None, None)
    assert (columns.low, columns.high) == ((6.0, None, None), (8.0, None, None))


def test_a_pause_takes_nothing_from_what_others_had_before_it():
    line = Envelope(0, SECOND)
    line.add(0, SECOND // 4, 1.0)
    line.add_beside(0, SECOND // 4, 2.0)
    columns = line.columns(SECOND, 1)
    assert columns.mean == columns.low == columns.high == (3.0,)


def test_what_others_had_where_no_value_is_known_counts_in_no_wider_column():
    line = Envelope(0, SECOND)
    for second in (0, 3):
        line.add(second * SECOND, (second + 1) * SECOND, 1.0)
    line.add_beside(0, 4 * SECOND, 2.0)
    columns = line.columns(4 * SECOND, 1)
    assert columns.mean == columns.low == columns.high == (3.0,)


def test_what_others_had_before_the_line_is_known_that_far_is_kept():
    line = Envelope(0, 1)
    line.add_beside(0, 2 * MOST_BUCKETS, 2.0)
    line.add(0, 2 * MOST_BUCKETS, 1.0)
    assert set(line.columns(2, MOST_BUCKETS).low) == {3.0}


# Of a process: when it begins and how long a batch takes, in µs, the samples of a batch, and how
# many batches a record has.
PROCESSES = st.tuples(
    st.integers(0, 2_000_000),
    st.integers(10_000, 1_500_000),
    st.integers(1, 256),
    st.integers(1, 9),
)


@pytest.mark.slow
@given(st.lists(PROCESSES, min_size=1, max_size=8), st.sampled_from([1, 2, 4]), st.randoms())
def test_constant_throughputs_come_to_their_sum_without_a_band(processes, columns_wide, random):
    line, end_us = Envelope(0, SECOND), 10_000_000
    records = [
        (number, begin_us)
        for number, (start_us, dt_us, _, count) in enumerate(processes)
        for begin_us in range(start_us, end_us, dt_us * count)
    ]
    random.shuffle(records)
    for number, begin_us in records:
        _, dt_us, samples, count = processes[number]
        if number:
            line.add_beside(
                begin_us * 1000, (begin_us + dt_us * count) * 1000, samples / dt_us * 1e6
            )
        else:
            line.add_batches(begin_us * 1000, (dt_us,) * count, (samples,) * count)
    width_us = columns_wide * 1_000_000
    first, end = -(-max(start for start, *_ in processes) // width_us), end_us // width_us
    columns = line.columns(width_us * 1000, end)
    together = sum(samples / dt_us * 1e6 for _, dt_us, samples, _ in processes)
    for values in (columns.mean, columns.low, columns.high):
        assert values[first:] == pytest.approx((together,) * (end - first))


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
