from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dlmon.instrument.batch_summary import step_quantiles


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_the_quantiles_of_a_summary_are_durations_that_occurred(durations):
    quantiles = step_quantiles(Counter(durations))
    assert list(quantiles) == sorted(quantiles)
    assert (quantiles[0], quantiles[-1]) == (min(durations), max(durations))
    assert set(quantiles) <= set(durations)
    middle = sorted(durations)
    assert middle[(len(middle) - 1) // 2 - 1 if len(middle) > 2 else 0] <= quantiles[3]
    assert quantiles[3] <= middle[min(len(middle) - 1, len(middle) // 2 + 1)]
