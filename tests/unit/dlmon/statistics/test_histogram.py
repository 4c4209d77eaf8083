import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import LARGEST
from dlmon.statistics.histogram import StepHistogram, weighted_quantile

DURATIONS = st.lists(st.integers(1, 10**9), min_size=1, max_size=200)


def nearest_rank(values, share):
    ranked = sorted(values)
    return ranked[max(1, math.ceil(share * len(ranked))) - 1]


@given(DURATIONS, st.floats(0, 1))
def test_a_quantile_of_the_histogram_is_right_to_half_a_percent(durations, share):
    histogram = StepHistogram()
    for start in range(0, len(durations), 7):
        histogram.add(Counter(durations[start : start + 7]))
    assert histogram.count == len(durations)
    assert histogram.quantile(share) == pytest.approx(nearest_rank(durations, share), rel=0.005)


def test_the_histogram_stays_small_however_long_the_run():
    histogram = StepHistogram()
    source = random.Random(1)
    for _ in range(200):
        histogram.add(Counter(int(source.lognormvariate(9, 0.3)) for _ in range(500)))
    assert histogram.count == 100_000
    assert len(histogram.ranked()) < 400


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=3_000), st.randoms())
def test_the_order_of_durations_makes_no_difference_to_a_histogram(durations, source):
    forwards, backwards = StepHistogram(), StepHistogram()
    forwards.add(Counter(durations))
    source.shuffle(durations)
    for duration in durations:
        backwards.add(Counter([duration]))
    assert forwards.ranked() == backwards.ranked()
    assert forwards.quantile(0.5) == pytest.approx(nearest_rank(durations, 0.5), rel=0.005)


@given(st.lists(st.integers(0, LARGEST), min_size=1, max_size=20), st.floats(0, 1))
def test_every_quantile_of_any_durations_lies_among_them(durations, share):
    histogram = StepHistogram()
    histogram.add(Counter(durations))
    quantile = histogram.quantile(share)
    assert 0.994 * min(durations) <= quantile <= 1.006 * max(durations) + 1


def test_a_weighted_quantile_counts_each_value_as_often_as_it_came():
    ranked = [(1.0, 5), (2.0, 4), (9.0, 1)]
    assert [weighted_quantile(ranked, share) for share in (0, 0.5, 0.51, 0.9, 0.95, 1)] == [
        *(1, 1, 2, 2, 9, 9),
    ]
