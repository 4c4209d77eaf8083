"""How long steps take, as a histogram in words."""

from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.session.step_times import MOST_ROWS, step_times_of

TIMES = st.dictionaries(st.floats(1, 1e9), st.integers(1, 10**6), min_size=1, max_size=40)


def test_the_last_row_holds_the_few_long_steps():
    steps = [(1_000.0, 50), (2_000.0, 40), (3_000.0, 6), (90_000.0, 4)]
    times = step_times_of(steps)
    assert times.rows == (
        ("to 1.40 ms", 0.5),
        ("to 2.20 ms", 0.4),
        ("to 3.00 ms", 0.06),
        ("to 90.0 ms", 0.04),
    )
    assert (times.median, times.slow, times.longest) == ("1.00 ms", "3.00 ms", "90.0 ms")


def test_steps_that_take_the_same_time_have_one_row_and_none_have_none():
    assert step_times_of([(5_000.0, 7)]).rows == (("to 5.00 ms", 1.0),)
    assert step_times_of([]) is None


def test_times_that_read_alike_share_a_row():
    times = step_times_of([(20_160.0, 4), (20_210.0, 3), (20_260.0, 2), (20_310.0, 1)])
    assert [text for text, _ in times.rows] == ["to 20.2 ms", "to 20.3 ms"]


@given(TIMES)
def test_every_step_is_in_one_of_few_rows(counts):
    rows = step_times_of(sorted(counts.items())).rows
    assert 1 <= len(rows) <= MOST_ROWS
    assert abs(sum(share for _, share in rows) - 1) < 1e-9
