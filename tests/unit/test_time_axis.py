"""The time axis that all charts of a screen share: what stands where, for any run."""

from hypothesis import given
from hypothesis import strategies as st

from dlmon.series import Series
from dlmon.session import Stretch
from tui.time_axis import MARK_COLUMNS, SETTLED_NS, TimeAxis, latest_axis, whole_axis

S = 1_000_000_000

starts = st.integers(0, 10**18)
lengths = st.integers(0, 400 * 24 * 3600 * S)
columns_ns = st.integers(S // 10, 3600 * S)
counts = st.integers(1, 600)


def one_second_columns(begin_s=0, count=10, known=10):
    return TimeAxis(begin_s * S, S, count, known)


# ---- what stands where ----


def test_a_series_is_read_column_by_column_and_what_is_not_over_is_a_gap():
    series = Series()
    series.add(1 * S, 3 * S, 50.0)
    series.add(4 * S, 5 * S, 80.0)
    axis = one_second_columns(count=7, known=5)
    assert axis.columns(series) == (None, 50.0, 50.0, None, 80.0, None, None)


def test_epochs_are_marked_where_they_begin_and_numbered_from_one():
    axis = one_second_columns(begin_s=100, count=40, known=30)
    begins = [(0, 99 * S), (1, 100 * S), (2, 116 * S + 1), (3, 129 * S), (4, 130 * S)]
    assert axis.marks(begins) == ((0, "2"), (16, "3"), (29, "4"))


def test_of_epochs_too_short_for_their_numbers_only_round_ones_are_marked():
    axis = one_second_columns(count=200, known=100)
    begins = [(epoch, epoch * S) for epoch in range(100)]
    assert axis.marks(begins) == tuple((n - 1, str(n)) for n in range(10, 101, 10))
    at_once = [(epoch, 5 * S) for epoch in range(2000)]
    assert len(axis.marks(at_once)) <= 1


@given(st.lists(st.integers(0, 400 * S), max_size=200).map(sorted))
def test_marks_are_never_crowded_on_the_average(begins):
    axis = one_second_columns(count=400, known=300)
    marks = axis.marks(enumerate(begins))
    assert len(marks) <= 300 / MARK_COLUMNS + 2


def test_only_what_compiles_or_validates_is_shaded():
    axis = one_second_columns()
    stretches = [
        Stretch("importing", 0, 1 * S),
        Stretch("compiling", 1 * S, 2 * S),
        Stretch("training", 2 * S, 5 * S),
        Stretch("validating", 5 * S, 6 * S - 1),
        Stretch("evaluating", 8 * S, None),
    ]
    assert axis.shades(stretches) == ((1, 2, "compile"), (5, 5, "validation"), (8, 9, "validation"))


def test_a_shade_ends_with_what_is_known_and_begins_with_the_axis():
    axis = one_second_columns(begin_s=10, known=4)
    assert axis.shades([Stretch("compiling", 0, 12 * S)]) == ((0, 2, "compile"),)
    assert axis.shades([Stretch("compiling", 12 * S, None)]) == ((2, 3, "compile"),)
    assert axis.shades([Stretch("compiling", 0, 9 * S)]) == ()
    assert axis.shades([Stretch("compiling", 14 * S, 20 * S)]) == ()


# ---- a run that goes on ----


def test_a_run_that_goes_on_fills_the_axis_from_the_left_then_moves_a_column_at_a_time():
    start = 100 * S + 300_000_000
    at = [latest_axis(start, start + second * S, S, 3) for second in range(6)]
    assert [(axis.begin_ns // S, axis.known) for axis in at] == [
        (100, 0), (100, 0), (100, 1), (100, 2), (100, 3), (101, 3),
    ]  # fmt: skip


def test_a_column_is_over_when_what_tells_of_it_has_arrived():
    end = 105 * S
    assert latest_axis(100 * S, end + SETTLED_NS - 1, S, 10).known == 4
    assert latest_axis(100 * S, end + SETTLED_NS, S, 10).known == 5


@given(starts, lengths, columns_ns, counts)
def test_the_axis_of_a_run_that_goes_on_ends_at_its_last_whole_column(
    start, length, column_ns, count
):
    now = start + length
    axis = latest_axis(start, now, column_ns, count)
    assert axis.column_ns == column_ns
    assert 0 <= axis.known <= axis.count == count
    assert axis.begin_ns % column_ns == 0
    assert axis.begin_ns >= start // column_ns * column_ns
    end = axis.begin_ns + axis.known * column_ns
    assert axis.known == 0 or now - SETTLED_NS - column_ns < end <= now - SETTLED_NS
    assert axis.known == count or axis.begin_ns == start // column_ns * column_ns


@given(starts, lengths, columns_ns, counts, st.integers(0, 10 * S))
def test_no_column_is_drawn_twice_with_another_place(start, length, column_ns, count, later):
    before = latest_axis(start, start + length, column_ns, count)
    after = latest_axis(start, start + length + later, column_ns, count)
    assert after.begin_ns >= before.begin_ns
    assert (after.begin_ns - before.begin_ns) % column_ns == 0
    assert after.begin_ns + after.known * column_ns >= before.begin_ns + before.known * column_ns


# ---- a run that is over ----


def test_a_short_run_that_is_over_keeps_the_columns_it_had():
    axis = whole_axis(100 * S + 5, 109 * S, S, 50)
    assert axis == TimeAxis(100 * S, S, 50, 10)


def test_a_long_run_that_is_over_is_shown_whole_in_columns_of_whole_samples():
    axis = whole_axis(0, 1000 * S, S, 100)
    assert (axis.column_ns, axis.known) == (11 * S, 91)


@given(starts, lengths, columns_ns, counts)
def test_the_axis_of_a_run_that_is_over_holds_all_of_it(start, length, column_ns, count):
    end = start + length
    axis = whole_axis(start, end, column_ns, count)
    assert 1 <= axis.known <= axis.count == count
    assert axis.column_ns % column_ns == 0
    assert axis.begin_ns % column_ns == 0
    assert axis.begin_ns <= start
    last_column = axis.begin_ns + (axis.known - 1) * axis.column_ns
    assert last_column <= max(end, start) < last_column + axis.column_ns


@given(starts, lengths, columns_ns, counts)
def test_no_narrower_columns_would_hold_a_run_that_is_over(start, length, column_ns, count):
    axis = whole_axis(start, start + length, column_ns, count)
    narrower = axis.column_ns - column_ns
    assert narrower == 0 or (start + length - axis.begin_ns) // narrower >= count


@given(starts, lengths, st.integers(-5, 0))
def test_a_chart_without_room_has_an_axis_without_columns(start, length, count):
    series = Series()
    for axis in (
        whole_axis(start, start + length, S, max(0, count)),
        latest_axis(start, start + length, S, max(0, count)),
    ):
        assert axis.known == 0
        assert axis.columns(series) == ()
        assert axis.marks([(0, start)]) == ()
        assert axis.shades([Stretch("compiling", start, None)]) == ()


@given(
    st.lists(st.tuples(st.integers(0, 100 * S), st.integers(0, 100 * S)), max_size=5),
    st.integers(1, 30),
)
def test_shades_never_leave_the_columns_that_are_known(spans, known):
    axis = one_second_columns(begin_s=20, count=40, known=known)
    stretches = [Stretch("validating", min(span), max(span)) for span in spans]
    for first, last, _ in axis.shades(stretches):
        assert 0 <= first <= last < known
