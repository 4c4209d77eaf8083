"""Values at their times: none is lost from the extremes, and there are never too many."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.statistics.points import MOST_POINTS, Points

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=200)


def points_of(values):
    points = Points()
    for t, value in enumerate(values):
        points.add(t, value)
    return points


@given(values=VALUES, most=st.integers(1, 300))
def test_points_hold_the_extremes_the_mean_and_the_order(values, most):
    drawn = points_of(values).at_most(most)
    assert len(drawn) <= most
    assert [point.t for point in drawn] == sorted(point.t for point in drawn)
    known = [value for value in values if value is not None]
    lows = [point.low for point in drawn if point.low is not None]
    highs = [point.high for point in drawn if point.high is not None]
    assert (bool(known), bool(lows)) in ((True, True), (False, False))
    if known:
        assert (min(lows), max(highs)) == (min(known), max(known))
    for point in drawn:
        if point.mean is not None:
            assert point.low - 1e-6 <= point.mean <= point.high + 1e-6


def test_a_day_of_values_is_bounded():
    points = points_of([float(n % 10) for n in range(86_400)])
    drawn = points.at_most(10**9)
    assert len(drawn) <= 2 * MOST_POINTS
    assert sum(point.count for point in drawn) == 86_400
    assert sum(point.taken for point in drawn) == 86_400
    assert all(point.mean == pytest.approx(4.5, abs=2.5) for point in drawn)


def test_a_gap_in_few_values_stays():
    assert [point.mean for point in points_of([1.0, None, 2.0]).at_most(3)] == [1.0, None, 2.0]
    assert not points_of([None, None])


@pytest.mark.parametrize("gap", [None, math.nan, math.inf])
def test_a_gap_counts_for_no_number_where_both_are_taken_together(gap):
    for values in ([gap, 2.0], [2.0, gap]):
        (point,) = points_of(values).at_most(1)
        assert (point.t, point.mean, point.count, point.taken) == (0.5, 2.0, 1, 2)
    (point,) = points_of([gap, 2.0, 6.0, gap]).at_most(1)
    assert (point.t, point.mean, point.count) == (1.5, 4.0, 2)
    (point,) = points_of([gap, gap]).at_most(1)
    assert (point.mean, point.count) == (None, 0)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_mean_of_any_numbers_is_between_them(values):
    (point,) = points_of(values).at_most(1)
    assert min(values) == point.low <= point.mean <= point.high == max(values)
    assert point.count == len(values)


def test_there_is_one_point_at_least():
    assert points_of([1.0, 3.0]).at_most(0) == points_of([1.0, 3.0]).at_most(1)
    assert points_of([]).at_most(0) == ()
