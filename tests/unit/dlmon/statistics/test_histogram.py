import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import LARGEST
from dlmon.statistics.histogram import StepHistogram, weighted_quantile

ANY = st.integers(0, 10**9) | st.integers(0, LARGEST)
DURATIONS = st.lists(ANY, min_size=1, max_size=200)


def nearest_rank(values, share):
    ranked = sorted(values)
    return ranked[max(1, math.ceil(share * len(ranked))) - 1]


def test_the_histogram_stays_small_however_long_the_run():
    histogram = StepHistogram()
    source = random.Random(1)
    for _ in range(200):
        histogram.add(Counter(int(source.lognormvariate(9, 0.3)) for _ in range(500)))
    assert histogram.count == 100_000
    assert len(histogram.ranked()) < 400


@given(DURATIONS, st.floats(0, 1), st.randoms())
def test_a_quantile_is_right_to_half_a_percent_whatever_the_order(durations, share, source):
    forwards, backwards = StepHistogram(), StepHistogram()
    for start in range(0, len(durations), 7):
        forwards.add(Counter(durations[start : start + 7]))
    assert forwards.count == len(durations)
    expected = nearest_rank(durations, share)
    assert forwards.quantile(share) == pytest.approx(expected, rel=0.005, abs=1)
    source.shuffle(durations)
    backwards.add(Counter(durations))
    assert forwards.ranked() == backwards.ranked()


def test_a_weighted_quantile_counts_each_value_as_often_as_it_came():
    ranked = [(1.0, 5), (2.0, 4), (9.0, 1)]
    assert [weighted_quantile(ranked, share) for share in (0, 0.5, 0.51, 0.9, 0.95, 1)] == [
        *(1, 1, 2, 2, 9, 9),
    ]
