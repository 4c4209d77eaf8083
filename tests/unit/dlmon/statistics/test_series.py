import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import LARGEST
from dlmon.statistics.series import MOST_BUCKETS, Series

SECOND = 1_000_000_000
ANY_TIME = st.integers(-LARGEST, LARGEST) | st.sampled_from([0, 1, LARGEST, -LARGEST])
# Of what is next to nothing, a mean loses digits that no reading has.
VALUES = st.just(0.0) | st.floats(1e-9, 1e6)


def test_a_value_stands_for_the_time_that_it_was_said_of():
    series = Series()
    series.add(0, 2 * SECOND, 10.0)
    series.add(2 * SECOND, 3 * SECOND, 40.0)
    assert series.columns(0, SECOND, 3) == [10, 10, 40]
    assert series.columns(0, 3 * SECOND, 1) == [20]


def test_values_of_one_bucket_are_weighed_by_their_time():
    series = Series()
    series.add(0, SECOND // 4, 8.0)
    series.add(SECOND // 4, SECOND, 4.0)
    assert series.columns(0, SECOND, 1) == [5]


def test_what_nothing_covered_is_a_gap():
    series = Series()
    series.add(SECOND, 2 * SECOND, 7.0)
    series.add(4 * SECOND, 5 * SECOND, 9.0)
    assert series.columns(0, SECOND, 6) == [None, 7, None, None, 9, None]
    assert Series().columns(0, SECOND, 2) == [None, None]


def test_a_zero_is_no_gap():
    series = Series()
    series.add(0, SECOND, 0.0)
    assert series.columns(0, SECOND, 2) == [0, None]


def test_a_column_that_cuts_a_bucket_takes_its_part_of_it():
    series = Series()
    series.add(0, SECOND, 0.0)
    series.add(SECOND, 2 * SECOND, 10.0)
    # The column reaches from 0.1 to 1.1 s.
    assert series.columns(SECOND // 10, SECOND, 1) == [pytest.approx(1)]


@pytest.mark.parametrize(("begin", "end"), [(5, 5), (6, 5), (0, -SECOND)])
def test_no_time_is_no_value(begin, end):
    series = Series()
    series.add(begin, end, 1.0)
    assert (series.end_ns, series.columns(-SECOND, SECOND, 3)) == (None, [None] * 3)


@given(
    st.lists(st.tuples(st.integers(1, 5 * SECOND), VALUES), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_the_mean_is_the_same_however_wide_the_columns(stretches, count):
    series = Series()
    at, total = 0, 0.0
    for took, value in stretches:
        series.add(at, at + took, value)
        at, total = at + took, total + took * value
    # Columns of whole buckets: what lies in each is then known exactly.
    width = max(1, -(-at // (count * SECOND))) * SECOND
    series.add(at, count * width, 0.0)
    columns = series.columns(0, width, count)
    assert None not in columns
    assert sum(columns) * width == pytest.approx(total, rel=1e-6, abs=1e-3)


def test_a_slow_batch_at_the_very_end_is_no_drop():
    series = Series()
    series.add(0, 3 * SECOND, 5_500.0)
    series.add(3 * SECOND, 3 * SECOND + SECOND // 20, 4_600.0)
    # The mean over the second up to 3.05 s.
    assert series.columns(0, SECOND, 5) == [5_500, 5_500, 5_500, pytest.approx(5_455), None]
    # A column that begins after the end shows nothing, though its bucket began before.
    halves = series.columns(0, SECOND // 2, 8)
    assert halves[6] == pytest.approx(5_500, rel=0.02)
    assert halves[7] is None


def test_a_last_column_behind_a_gap_is_the_mean_of_what_it_covers():
    series = Series()
    series.add(0, SECOND, 10.0)
    series.add(2 * SECOND, 2 * SECOND + SECOND // 4, 30.0)
    assert series.columns(0, SECOND, 4) == [10, None, 30, None]


@given(
    st.lists(st.tuples(st.integers(1, 3 * SECOND), VALUES), min_size=1, max_size=20),
    st.integers(-10 * SECOND, 10 * SECOND),
    st.integers(1, 20 * SECOND),
    st.integers(0, 50),
)
def test_no_column_is_beyond_what_was_said(stretches, begin, width, count):
    series = Series()
    at = 0
    for took, value in stretches:
        series.add(at, at + took, value)
        at += took
    values = [value for _, value in stretches]
    for column in series.columns(begin, width, count):
        if column is not None:
            assert min(values) * (1 - 1e-6) <= column <= max(values) * (1 + 1e-6)


@given(st.lists(st.tuples(ANY_TIME, ANY_TIME), max_size=6), ANY_TIME, ANY_TIME, st.integers(0, 9))
def test_no_times_are_too_wild(stretches, begin, width, count):
    series = Series()
    for first, second in stretches:
        series.add(first, second, 1.0)
    assert all(column in (None, pytest.approx(1)) for column in series.columns(begin, width, count))
    assert len(series.sums) == len(series.covered_ns) <= MOST_BUCKETS


def test_short_batches_become_the_rate_of_their_second():
    series = Series()
    series.add_batches(0, [10_000] * 200, [32] * 200)
    assert series.columns(0, SECOND, 3) == [pytest.approx(3_200), pytest.approx(3_200), None]


def test_a_batch_longer_than_a_second_is_spread_over_its_duration():
    series = Series()
    series.add_batches(SECOND // 2, [4_000_000], [64])
    assert series.columns(0, SECOND, 5) == pytest.approx([16] * 5)
    assert series.columns(5 * SECOND, SECOND, 1) == [None]


def test_every_batch_keeps_its_own_rate():
    series = Series()
    series.add_batches(0, [2_000_000, 1_500_000, 500_000], [100, 300, 50])
    assert series.columns(0, SECOND, 4) == pytest.approx([50, 50, 200, 150])


@given(
    st.integers(0, 10**15),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 512)), min_size=1, max_size=60),
)
def test_no_sample_is_lost_between_batches_and_columns(begin, batches):
    dt_us = [took for took, _ in batches]
    samples = [count if took else 0 for took, count in batches]
    series = Series()
    series.add_batches(begin, dt_us, samples)
    seconds = sum(dt_us) / 1e6
    first = begin // SECOND * SECOND
    (mean,) = series.columns(first, (int(seconds) + 3) * SECOND, 1)
    if seconds == 0:
        assert mean is None
    else:
        assert mean * seconds == pytest.approx(sum(samples), rel=1e-4, abs=1e-2)


@given(ANY_TIME, st.lists(st.integers(0, LARGEST) | st.integers(0, 10**6), max_size=8))
def test_no_duration_is_too_wild(begin, dt_us):
    series = Series()
    series.add_batches(begin, dt_us, [LARGEST] * len(dt_us))
    assert len(series.sums) <= MOST_BUCKETS
    assert len(series.columns(begin, SECOND, 20)) == 20


def test_batches_without_a_duration_say_nothing():
    series = Series()
    series.add_batches(0, [0, 0], [5, 5])
    series.add_batches(0, [], [])
    assert series.columns(0, SECOND, 1) == [None]


def test_the_mean_is_of_the_time_that_is_covered():
    series = Series()
    assert series.mean is None
    series.add(0, 3_000_000_000, 10.0)
    series.add(60_000_000_000, 61_000_000_000, 30.0)
    assert series.mean == 15.0


@given(st.lists(st.tuples(st.integers(1, 900), st.floats(-1e6, 1e6)), min_size=1, max_size=40))
def test_the_mean_of_any_time_lies_between_its_extremes(stretches):
    series, at = Series(), 0
    for took_s, value in stretches:
        series.add(at, at + took_s * SECOND, value)
        at += took_s * SECOND
    low, high = series.extremes(0, at)
    (mean,) = series.columns(0, at, 1)
    assert low - 1e-6 * abs(low) - 1e-6 <= mean <= high + 1e-6 * abs(high) + 1e-6


def test_after_days_buckets_are_twice_as_wide_and_all_of_it_is_in_sight(monkeypatch):
    monkeypatch.setattr("dlmon.statistics.series.MOST_BUCKETS", 1024)
    series = Series()
    seconds = 5 * 1024
    for second in range(seconds):
        value = {100: 3.0, 4_000: 9_000.0}.get(second, float(second))
        series.add(second * SECOND, (second + 1) * SECOND, value)
    assert 512 <= len(series.sums) <= 1024
    assert series.columns(0, 640 * SECOND, 8) == pytest.approx(
        [640 * number + 319.5 for number in range(8)], rel=0.02
    )
    assert series.columns(seconds * SECOND - 80 * SECOND, 8 * SECOND, 10) == [
        8 * number + 3.5 for number in range(630, 640)
    ]
    assert series.extremes(0, seconds * SECOND)[1] == seconds - 4.5


def test_a_series_as_it_was_goes_on_as_that_did():
    whole, begun = Series(), Series()
    for number in range(200):
        stretch = number * SECOND // 2, (number + 1) * SECOND // 2, float(number)
        whole.add(*stretch)
        if number < 100:
            begun.add(*stretch)
    found = whole.until(begun.end_ns)
    assert found.end_ns == begun.end_ns
    assert found.columns(0, SECOND, 60) == begun.columns(0, SECOND, 60)


def test_what_runs_beside_counts_where_there_is_a_value():
    series = Series()
    series.add(0, 2 * SECOND, 10.0)
    series.add_beside(SECOND, 4 * SECOND, 5.0)
    series.add(3 * SECOND, 4 * SECOND, 1.0)
    assert series.columns(0, SECOND, 4) == [10.0, 15.0, None, 6.0]
    assert series.columns(0, 4 * SECOND, 1) == [pytest.approx(31 / 3)]
