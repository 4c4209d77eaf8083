"""What repeated runs allow to be said about which combination is faster."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    Result,
    RunSeconds,
    SamplesPerSecond,
    SecondsPerEpoch,
    StepTime,
)
from dlmon.statistics.repeats import (
    METRICS,
    MIN_RUNS,
    Spread,
    faster,
    spread_of_repeats,
    time_of,
)

TIMES = st.floats(1e-6, 1e6)
REPEATS = st.lists(TIMES, min_size=MIN_RUNS, max_size=12)


def result(status: str = "completed", **figures: object) -> Result:
    return Result(status, "id", "log", "mnist-mlp", "cpu", {}, 1.0, **figures)


def test_the_interval_is_students_of_the_mean():
    spread = spread_of_repeats([9.0, 10.0, 11.0])
    # Standard deviation 1, three runs, and 4.303 for two degrees of freedom.
    assert spread is not None
    assert spread.mean == 10.0
    assert spread.low == pytest.approx(10 - 4.303 / math.sqrt(3))
    assert spread.high == pytest.approx(10 + 4.303 / math.sqrt(3))


@pytest.mark.parametrize("times", [[5.0], [5.0, 7.0]])
def test_one_or_two_runs_have_a_mean_and_no_interval(times):
    assert spread_of_repeats(times) == Spread(sum(times) / len(times), low=None, high=None)


def test_no_run_has_no_spread():
    assert spread_of_repeats([]) is None
    assert spread_of_repeats([0.0, -1.0, math.inf, math.nan]) is None


def test_what_is_no_time_does_not_count_as_a_run():
    assert spread_of_repeats([2.0, math.nan, 0.0, 4.0]) == Spread(3.0)


@given(REPEATS)
def test_the_mean_lies_in_the_middle_of_its_interval(times):
    spread = spread_of_repeats(times)
    assert spread.low <= spread.mean <= spread.high
    assert spread.mean - spread.low == pytest.approx(spread.high - spread.mean, rel=1e-6, abs=1e-6)


@given(REPEATS, st.floats(0.001, 1000))
def test_the_unit_makes_no_difference(times, unit):
    one, other = spread_of_repeats(times), spread_of_repeats([time * unit for time in times])
    assert other.high == pytest.approx(one.high * unit, rel=1e-6)


@given(REPEATS, REPEATS)
def test_of_two_combinations_at_most_one_is_faster(first, second):
    a, b = spread_of_repeats(first), spread_of_repeats(second)
    assert not (faster(a, b) and faster(b, a))
    overlap = a.low <= b.high and b.low <= a.high
    assert overlap == (not faster(a, b) and not faster(b, a))


@given(st.lists(TIMES, min_size=6, max_size=6, unique=True).map(sorted))
def test_a_speedup_and_its_interval_are_above_one(times):
    a, b = (Spread(mean, low, high) for low, mean, high in (times[:3], times[3:]))
    speedup = faster(a, b)
    assert speedup
    assert 1 < speedup.low <= speedup.times <= speedup.high
    assert faster(b, a) is None


def test_how_many_times_faster():
    a, b = Spread(10.0, 8.0, 12.0), Spread(30.0, 24.0, 36.0)
    speedup = faster(a, b)
    assert (speedup.times, speedup.low, speedup.high) == (3.0, 2.0, 4.5)
    assert faster(b, a) is None


def test_intervals_that_touch_show_nothing():
    assert faster(Spread(10.0, 9.0, 11.0), Spread(12.0, 11.0, 13.0)) is None


def test_without_an_interval_nothing_is_faster():
    slow = Spread(100.0, 99.0, 101.0)
    assert faster(Spread(1.0), slow) is None
    assert faster(Spread(1.0, 0.9, 1.1), Spread(100.0)) is None
    assert faster(None, slow) is None
    assert faster(slow, None) is None


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_an_interval_down_to_zero_leaves_the_speedup_without_an_upper_bound(low):
    speedup = faster(Spread(1.0, low, 2.0), Spread(10.0, 9.0, 11.0))
    assert (speedup.low, speedup.high) == (4.5, None)


@pytest.mark.parametrize(
    ("metric", "figures", "time"),
    [
        ("seconds_per_epoch", {"seconds_per_epoch": SecondsPerEpoch(9.0, 8, 10, 3, False)}, 9.0),
        ("run_seconds", {"run_seconds": RunSeconds(52.0, 51, 53, False)}, 52.0),
        ("step_ms", {"step_ms": StepTime(4.0, 5.0)}, 4.0),
        ("ms_per_sample", {"samples_per_second": SamplesPerSecond(260.0, 250.0, None, 1.0)}, 4.0),
    ],
)
def test_each_metric_is_read_from_a_result(metric, figures, time):
    assert time_of(metric, result(**figures)) == time
    assert time_of(metric, result("stopped", **figures)) == time
    assert time_of(metric, result("failed", **figures)) is None


@pytest.mark.parametrize("metric", METRICS)
def test_a_result_without_the_figure_has_no_time(metric):
    assert time_of(metric, result()) is None


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="no such metric: accuracy"):
        time_of("accuracy", result())
