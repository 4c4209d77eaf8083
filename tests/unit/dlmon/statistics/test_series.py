import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import LARGEST
from dlmon.statistics.series import MOST_BUCKETS, Series

SECOND = 1_000_000_000
ANY_TIME = st.integers(-LARGEST, LARGEST) | st.sampled_from([0, 1, LARGEST, -LARGEST])
# Of what is next to nothing, a mean loses digits that no reading has.
VALUES = st.just(0.0) | st.floats(1e-9, 1e6)


@pytest.mark.parametrize(
    ("stretches", "columns", "begin_s", "width_s"),
    [
        ([(0, 2, 10.0), (2, 3, 40.0)], [10, 10, 40], 0, 1),
        ([(0, 2, 10.0), (2, 3, 40.0)], [20], 0, 3),
        # Those of one bucket are weighed by their time, also where a column cuts it.
        ([(0, 0.25, 8.0), (0.25, 1, 4.0)], [5], 0, 1),
        ([(0, 1, 0.0), (1, 2, 10.0)], [pytest.approx(1)], 0.1, 1),
        # What nothing covered is a gap, and a zero is none; no time is no value.
        ([(1, 2, 7.0), (4, 5, 9.0)], [None, 7, None, None, 9, None], 0, 1),
        ([(0, 1, 0.0)], [0, None], 0, 1),
        *(([(begin, end, 1.0)], [None] * 3, -1, 1) for begin, end in ((5, 5), (6, 5), (0, -1))),
        # The last column is the mean of what it covers: a slow batch at the very end is no drop.
        (
            [(0, 3, 5_500.0), (3, 3.05, 4_600.0)],
            [5_500, 5_500, 5_500, pytest.approx(5_455), None],
            0,
            1,
        ),
        ([(0, 1, 10.0), (2, 2.25, 30.0)], [10, None, 30, None], 0, 1),
        # One that begins after the end shows nothing, though its bucket began before.
        (
            [(0, 3, 5_500.0), (3, 3.05, 4_600.0)],
            [*[5_500] * 6, pytest.approx(5_500, rel=0.02), None],
            0,
            0.5,
        ),
    ],
)
def test_a_value_stands_for_the_time_that_it_was_said_of(stretches, columns, begin_s, width_s):
    series = Series()
    for start_s, end_s, value in stretches:
        series.add(int(start_s * SECOND), int(end_s * SECOND), value)
    found = series.columns(int(begin_s * SECOND), int(width_s * SECOND), len(columns))
    assert found == columns


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


@given(
    st.lists(st.tuples(st.integers(1, 900 * SECOND), VALUES), min_size=1, max_size=30),
    st.integers(-10 * SECOND, 10 * SECOND),
    st.integers(1, 20 * SECOND),
    st.integers(0, 50),
)
def test_no_column_is_beyond_what_was_said(stretches, begin, width, count):
    series, at = Series(), 0
    for took, value in stretches:
        series.add(at, at + took, value)
        at += took
    values = [value for _, value in stretches]
    for column in series.columns(begin, width, count):
        if column is not None:
            assert min(values) * (1 - 1e-6) <= column <= max(values) * (1 + 1e-6)
    low, high = series.extremes(0, at)
    (mean,) = series.columns(0, at, 1)
    assert low * (1 - 1e-6) <= mean <= high * (1 + 1e-6)


@given(
    st.lists(st.tuples(ANY_TIME, ANY_TIME), max_size=6),
    st.lists(st.integers(0, LARGEST) | st.integers(0, 10**6), max_size=8),
    *(ANY_TIME, ANY_TIME, st.integers(0, 9)),
)
def test_no_times_are_too_wild(stretches, dt_us, begin, width, count):
    series, of_batches = Series(), Series()
    for first, second in stretches:
        series.add(first, second, 1.0)
    assert all(column in (None, pytest.approx(1)) for column in series.columns(begin, width, count))
    assert len(series.sums) == len(series.covered_ns) <= MOST_BUCKETS
    of_batches.add_batches(begin, dt_us, [LARGEST] * len(dt_us))
    assert len(of_batches.sums) <= MOST_BUCKETS
    assert len(of_batches.columns(begin, SECOND, 20)) == 20


@pytest.mark.parametrize(
    ("begin_s", "dt_us", "samples", "columns"),
    [
        (0, [10_000] * 200, [32] * 200, [3_200, 3_200, None]),
        # One longer than a second is spread over its duration, and each keeps its own rate.
        (0.5, [4_000_000], [64], [16] * 5),
        (0, [2_000_000, 1_500_000, 500_000], [100, 300, 50], [50, 50, 200, 150, None]),
        # Without a duration they say nothing.
        (0, [0, 0], [5, 5], [None]),
        (0, [], [], [None]),
    ],
)
def test_batches_become_the_rate_of_their_second(begin_s, dt_us, samples, columns):
    series = Series()
    series.add_batches(int(begin_s * SECOND), dt_us, samples)
    expected = [rate and pytest.approx(rate) for rate in columns]
    assert series.columns(0, SECOND, len(columns)) == expected


@given(
    st.integers(0, 10**15),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 512)), min_size=1, max_size=60),
)
def test_no_sample_is_lost_between_batches_and_columns(begin, batches):
    dt_us = [took for took, _ in batches]
    samples = [count for _, count in batches]
    series = Series()
    series.add_batches(begin, dt_us, samples)
    seconds = sum(dt_us) / 1e6
    first = begin // SECOND * SECOND
    (mean,) = series.columns(first, (int(seconds) + 3) * SECOND, 1)
    if seconds == 0:
        assert mean is None
    else:
        assert mean * seconds == pytest.approx(sum(samples), rel=1e-4, abs=1e-2)


def test_batches_of_thousands_of_years_fit_in_buckets_as_wide():
    series = Series(1 << 58)
    series.add_batches(1 << 61, [22_112_936, 505_128_291_876_852_417], [1, 1])
    assert series.mean == pytest.approx(2 / 505_128_291_898.965_353)


def test_the_mean_is_of_the_time_that_is_covered():
    series = Series()
    assert series.mean is None
    series.add(0, 3_000_000_000, 10.0)
    series.add(60_000_000_000, 61_000_000_000, 30.0)
    assert series.mean == 15.0


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


def test_a_column_that_is_a_part_of_a_bucket_has_its_mean():
    series = Series(1_000)
    for second, value in ((3, 10.0), (4, 20.0), (6, 40.0)):
        series.add(second * 1_000, (second + 1) * 1_000, value)
    columns = series.columns(2_000, 500, 12)
    means = [series.mean_between(at, at + 500) for at in range(2_000, 8_000, 500)]
    # What follows the last value is a gap.
    assert (
        columns
        == means
        == [None] * 2 + [10.0] * 2 + [20.0] * 2 + [None] * 2 + [40.0] * 2 + [None] * 2
    )


def test_a_first_and_a_last_bucket_with_few_values_can_be_left_out():
    series = Series(1_000)
    for start, end, value in ((700, 1_000, 9.0), (1_000, 3_000, 5.0), (3_000, 3_200, 1.0)):
        series.add(start, end, value)
    assert series.whole.columns(0, 1_000, 4) == [None, 5.0, 5.0, None]
    assert series.whole.end_ns == 3_000
    short = Series(1_000)
    short.add(700, 1_200, 9.0)
    assert short.whole is short
    assert Series().whole.mean is None
