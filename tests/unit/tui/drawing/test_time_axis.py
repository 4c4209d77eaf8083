"""The time axis that all charts of a screen share: what stands where, for any run."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.session.snapshot import PhaseSpan
from dlmon.statistics.series import Series
from tui.drawing.plot import mark_row
from tui.drawing.time_axis import (
    RunSpan,
    TimeAxis,
    TimeWindow,
    ViewLength,
    latest_axis,
)
from tui.widgets.lines import Ruler, ruled_row

S = 1_000_000_000

starts = st.integers(0, 10**18)
lengths = st.integers(0, 400 * 24 * 3600 * S)
columns_ns = st.integers(S // 10, 3600 * S)
counts = st.integers(1, 300).map(lambda cells: 2 * cells)


def one_second_columns(begin_s=0, count=10, elapsed=10):
    return TimeAxis(begin_s * S, S, count, elapsed)


# ---- what stands where ----


def test_a_series_is_read_column_by_column_and_what_is_not_over_is_a_gap():
    series = Series()
    series.add(1 * S, 3 * S, 50.0)
    series.add(4 * S, 5 * S, 80.0)
    axis = one_second_columns(count=7, elapsed=5)
    assert axis.columns(series) == (None, 50.0, 50.0, None, 80.0, None, None)


def test_epochs_are_marked_where_they_begin_and_numbered_from_one():
    axis = one_second_columns(begin_s=100, count=40, elapsed=30)
    begins = [(0, 99 * S), (1, 100 * S), (2, 116 * S + 1), (3, 129 * S), (4, 130 * S)]
    assert axis.marks(begins) == ((0, "2"), (16, "3"), (29, "4"))


def drawn(axis, begins, cells=10):
    """Return the row of marks under a chart."""
    return mark_row(axis.marks(begins), (), cells).rstrip()


def test_epochs_whose_numbers_would_collide_thin_out_evenly_and_never_vanish():
    axis = one_second_columns(count=20, elapsed=20)
    assert drawn(axis, [(0, 0), (1, 2 * S), (2, 4 * S)]) == "  ┊3"
    assert drawn(axis, [(0, 0), (1, 1 * S)]) == "┊2"
    assert drawn(axis, [(6, 0), (7, 1), (8, 2)]) == "┊9"
    assert drawn(axis, [(4, 3 * S)]) == " ┊5"


@given(st.integers(1, 5000), st.integers(1, 60 * S), st.integers(0, 900))
def test_marks_of_even_epochs_are_even_have_room_and_at_least_one_is_there(count, length, first):
    axis = one_second_columns(count=400, elapsed=300)
    begins = [(first + epoch, epoch * length) for epoch in range(count)]
    marks = axis.marks(begins)
    assert marks
    (_, *rest), numbers = marks, [int(label) for _, label in marks]
    assert all(after - before >= 4 for (before, _), (after, _) in itertools.pairwise(rest))
    assert len({b - a for a, b in itertools.pairwise(numbers[1:])}) <= 1


def test_a_wide_column_knows_the_least_and_the_greatest_value_within_it():
    series = Series()
    for second, value in enumerate((5.0, 9.0, 7.0, 6.0)):
        series.add(second * S, (second + 1) * S, value)
    axis = TimeAxis(0, 2 * S, 4, 3)
    assert axis.extremes(series) == ((5.0, 6.0, None, None), (9.0, 7.0, None, None))


@pytest.mark.parametrize(
    ("axis", "stretches", "shades"),
    [
        (
            TimeAxis(0, S, 10, 10),
            [
                PhaseSpan("importing", 0, 1 * S),
                PhaseSpan("compiling", 1 * S, 2 * S),
                PhaseSpan("training", 2 * S, 5 * S),
                PhaseSpan("validating", 5 * S, 6 * S - 1),
                PhaseSpan("evaluating", 8 * S, None),
            ],
            ((1, 2, "compile"), (5, 5, "validation"), (8, 9, "validation")),
        ),
        (
            TimeAxis(0, S, 10, 10),
            [PhaseSpan("opening", 1 * S, 3 * S - 1), PhaseSpan("closing", 6 * S, None)],
            ((1, 2, "pause"), (6, 9, "pause")),
        ),
        # Validations that take next to none of their columns.
        (
            TimeAxis(0, 60 * S, 10, 10),
            [PhaseSpan("validating", 60 * n * S, (60 * n + 29) * S) for n in range(9)],
            (),
        ),
        (
            TimeAxis(0, 60 * S, 10, 10),
            [PhaseSpan("stalled", 130 * S, 132 * S)],
            ((2, 2, "stall"),),
        ),
        # A shade ends with what is known, and begins with the axis.
        *(
            (TimeAxis(10 * S, S, 10, 4), [PhaseSpan("compiling", *span)], shades)
            for span, shades in (
                ((0, 12 * S), ((0, 2, "compile"),)),
                ((12 * S, None), ((2, 3, "compile"),)),
                ((0, 9 * S), ()),
                ((14 * S, 20 * S), ()),
            )
        ),
    ],
)
def test_what_is_not_training_is_shaded(axis, stretches, shades):
    assert axis.shades(stretches) == shades


@given(starts, columns_ns, counts, st.integers(1, 100), st.floats(0, 1))
def test_in_fewer_columns_an_axis_shows_the_same_time(start, column_ns, count, fewer, share):
    axis = TimeAxis(start, column_ns, count, int(share * count))
    narrow = axis.in_columns(max(1, count - fewer))
    assert narrow.start_ns == axis.start_ns
    assert 0 <= narrow.end_ns - axis.end_ns < narrow.column_ns
    assert narrow.elapsed <= narrow.count
    end, narrow_end = (each.start_ns + each.count * each.column_ns for each in (axis, narrow))
    assert 0 <= narrow_end - end < narrow.count


# ---- a run that goes on, at one width of column ----


def latest(start_ns, now_ns, column_ns, count):
    run = RunSpan(start_ns, now_ns, is_running=True, interval_ns=column_ns)
    return latest_axis(run, column_ns, count)


def test_a_run_that_goes_on_fills_the_axis_by_cells_then_makes_room_for_more():
    start = 100 * S + 300_000_000
    at = [latest(start, start + second * S, S, 16) for second in range(22)]
    assert [axis.elapsed for axis in at[:6]] == [0, 0, 0, 2, 2, 4]
    full = [(axis.start_ns // S - 100, axis.elapsed) for axis in at[16:]]
    assert full == [(0, 14), (0, 16), (0, 16), (2, 16), (2, 16), (4, 16)]


@given(starts, lengths, columns_ns, counts, st.integers(0, 10 * S))
def test_an_axis_never_goes_back_and_moves_by_whole_cells(start, length, column_ns, count, later):
    before = latest(start, start + length, column_ns, count)
    after = latest(start, start + length + later, column_ns, count)
    assert after.start_ns >= before.start_ns
    assert (after.start_ns - before.start_ns) % (2 * column_ns) == 0
    assert after.end_ns >= before.end_ns


@given(starts, lengths, st.booleans())
def test_a_chart_without_room_has_an_axis_without_columns(start, length, is_running):
    series = Series()
    for window in (TimeWindow(), TimeWindow(start_ns=start, cursor_ns=start + length)):
        axis = window.axis(RunSpan(start, start + length, is_running), 0)
        assert axis.elapsed == 0
        assert axis.columns(series) == ()
        assert axis.marks([(0, start)]) == ()
        assert axis.shades([PhaseSpan("compiling", start, None)]) == ()
        assert window.cursor_column(axis) is None


@given(
    st.lists(st.tuples(st.integers(0, 100 * S), st.integers(0, 100 * S)), max_size=5),
    st.integers(1, 30),
)
def test_shades_never_leave_the_columns_that_are_known(spans, known):
    axis = one_second_columns(begin_s=20, count=40, elapsed=known)
    stretches = [PhaseSpan("validating", min(span), max(span)) for span in spans]
    for first, last, _ in axis.shades(stretches):
        assert 0 <= first <= last < known


# ---- how much of a run is seen ----


def run_of(seconds, is_running=True, interval_ns=S):
    return RunSpan(1000 * S, (1000 + seconds) * S, is_running, interval_ns)


@pytest.mark.parametrize(
    ("count", "interval_s", "column_s"),
    [
        *((30, 1, 2), (60, 1, 1), (104, 1, 1), (120, 1, 0.5), (300, 1, 0.2)),
        *((104, 0.1, 0.6), (104, 0.5, 1), (104, 2, 1), (104, 60, 0.6)),
    ],
)
def test_the_last_minute_is_in_whole_samples_or_whole_parts_of_one(count, interval_s, column_s):
    run = run_of(7200, interval_ns=int(interval_s * S))
    axis = TimeWindow(ViewLength.MINUTE).axis(run, count)
    assert axis.column_ns == column_s * S
    assert axis.column_ns * count >= 60 * S


@given(st.floats(5, 3600), st.integers(20, 300), st.sampled_from([S // 2, S, 5 * S]))
def test_all_of_a_run_that_goes_on_fills_three_quarters_of_a_chart(seconds, count, interval_ns):
    run = RunSpan(1000 * S, 1000 * S + round(seconds * S), True, interval_ns)
    axis = TimeWindow(ViewLength.WHOLE).axis(run, count)
    first_ns = axis.start_ns
    assert (run.end_ns - first_ns) / (count * axis.column_ns) > 0.75
    assert run.end_ns < first_ns + count * axis.column_ns


@pytest.mark.parametrize(
    ("stalled_s", "view"),
    [
        (0, ViewLength.MINUTE),
        (20, ViewLength.MINUTE),
        (75, ViewLength.TEN_MINUTES),
        (400, ViewLength.WHOLE),
    ],
)
def test_what_stands_opens_on_as_much_as_shows_how_it_went_before(stalled_s, view):
    run = RunSpan(0, 3_600 * S, is_running=True, stalled_ns=stalled_s * S)
    assert TimeWindow().shown_view(run) is view
    assert TimeWindow(ViewLength.MINUTE).shown_view(run) is ViewLength.MINUTE


def test_what_goes_on_opens_on_the_last_minute_and_what_is_over_on_the_whole_run():
    assert TimeWindow().shown_view(run_of(3600)) is ViewLength.MINUTE
    assert TimeWindow().shown_view(run_of(3600, is_running=False)) is ViewLength.WHOLE
    assert (
        TimeWindow(ViewLength.MINUTE).shown_view(run_of(3600, is_running=False))
        is ViewLength.MINUTE
    )


# ---- looking elsewhere ----

runs = st.builds(
    lambda begin, length, is_running, interval_ns: RunSpan(
        begin, begin + length, is_running, interval_ns
    ),
    starts,
    st.integers(0, 10 * 3600 * S) | lengths,
    st.booleans(),
    st.sampled_from([S // 20, S // 10, S // 3, S // 2, S, 2 * S, 7 * S, 60 * S]),
)

moves = st.one_of(
    st.tuples(
        st.sampled_from(
            ["zoomed_in", "zoomed_out", "followed", "at_start", "at_end", "without_cursor"]
        )
    ),
    st.tuples(st.just("panned"), st.integers(-500, 500)),
    st.tuples(st.just("with_cursor_moved"), st.integers(-50, 50)),
    st.tuples(st.just("with_cursor_at"), st.integers(-5, 700)),
    st.tuples(st.just("viewing"), st.sampled_from(list(ViewLength))),
)


def after(window, taken, run, count):
    """Return the window after what a person did, each a method's name and its own arguments."""
    for name, *arguments in taken:
        if name == "without_cursor":
            window = window.without_cursor()
        else:
            window = getattr(window, name)(*arguments, run, count)
    return window


@given(runs, counts, st.lists(moves, max_size=12))
def test_whatever_one_does_the_axis_lies_in_the_run_and_is_crisp(run, count, taken):
    axis = after(TimeWindow(), taken, run, count).axis(run, count)
    whole_samples = axis.column_ns % run.interval_ns == 0
    whole_parts = run.interval_ns % axis.column_ns == 0
    whole_run = TimeWindow(ViewLength.WHOLE).axis(run, count)
    fills_the_chart = axis.column_ns == whole_run.column_ns
    assert whole_samples or whole_parts or fills_the_chart
    unit_ns = min(axis.column_ns, run.interval_ns)
    assert axis.start_ns % unit_ns == 0
    assert run.start_ns - unit_ns < axis.start_ns <= max(run.end_ns, run.start_ns)
    assert 0 <= axis.elapsed <= axis.count == count
    assert axis.end_ns <= run.end_ns + axis.column_ns


@given(runs, counts, st.lists(moves, max_size=12), counts)
def test_the_cursor_is_always_in_sight_also_on_a_chart_of_another_width(
    run, count, taken, other_count
):
    window = after(TimeWindow(), taken, run, count)
    for width in (count, other_count):
        axis = window.axis(run, width)
        column = window.cursor_column(axis)
        if window.cursor_ns is None or not axis.elapsed:
            assert column is None
        else:
            assert column is not None
            assert 0 <= column < axis.elapsed
    if window.cursor_ns is not None:
        assert run.start_ns - run.interval_ns < window.cursor_ns <= run.end_ns


@given(runs, counts, st.lists(moves, max_size=12), st.integers(0, 3600 * S))
def test_the_cursor_stays_at_its_instant_while_a_run_goes_on(run, count, taken, later):
    run = replace(run, is_running=True)
    window = after(TimeWindow(), taken, run, count)
    axis = window.axis(replace(run, end_ns=run.end_ns + later), count)
    column = window.cursor_column(axis)
    if column is not None and window.cursor_ns < axis.end_ns:
        start_ns = axis.start_ns + column * axis.column_ns
        assert start_ns <= window.cursor_ns < start_ns + axis.column_ns


@given(runs, counts, st.lists(moves, max_size=6), st.integers(0, 3600 * S))
def test_what_is_paused_stands_still_while_the_run_goes_on(run, count, taken, later):
    window = after(TimeWindow(ViewLength.MINUTE), taken, replace(run, is_running=True), count)
    run = replace(run, is_running=True)
    before = window.axis(run, count)
    after_it = window.axis(replace(run, end_ns=run.end_ns + later), count)
    if window.start_ns is not None and after_it.column_ns == before.column_ns:
        assert after_it.start_ns == before.start_ns
        assert after_it.elapsed >= before.elapsed


def test_a_zoom_that_would_change_nothing_is_skipped():
    assert TimeWindow().zoomed_out(run_of(20), 104) == TimeWindow()
    # Ten minutes show seven whole, and so does the whole run from then on.
    far = TimeWindow().zoomed_out(run_of(420), 104)
    assert far.shown_view(run_of(420)) is ViewLength.WHOLE
    assert far.zoomed_out(run_of(420), 104) == far
    assert far.zoomed_in(run_of(420), 104).shown_view(run_of(420)) is ViewLength.MINUTE


def test_the_cursor_comes_where_the_newest_column_is_and_moves_by_samples():
    run = run_of(300)
    window = TimeWindow().with_cursor_moved(-1, run, 240)
    axis = window.axis(run, 240)
    assert axis.column_ns == S // 4
    assert window.cursor_column(axis) == axis.elapsed - 1
    moved = window.with_cursor_moved(-1, run, 240)
    assert window.cursor_ns - moved.cursor_ns == S


def test_a_cursor_that_is_moved_past_the_edge_takes_the_window_along():
    run = run_of(600)
    window = TimeWindow().with_cursor_at(0, run, 104)
    edge = window.axis(run, 104).start_ns
    window = window.with_cursor_moved(-10, run, 104)
    axis = window.axis(run, 104)
    assert axis.start_ns == window.cursor_ns == edge - 10 * S
    assert window.is_paused(run, 104)
    window = window.with_cursor_moved(10, run, 104)
    assert window.axis(run, 104) == axis


# ---- labels of time ----


def bottom(axis, labels, width=60):
    """Return the line under a chart whose first column stands after a border and seven cells."""
    marks = tuple((7 + column // 2, text) for column, text in labels.marks)
    ruler = Ruler(marks, labels.last)
    return "".join(text for text, _ in ruled_row(ruler, "", width))


def test_elapsed_times_stand_at_round_times_under_their_columns():
    labels = one_second_columns(count=100, elapsed=20).time_elapsed(0)
    assert labels.marks == ((0, "0:00"), (20, "0:20"), (40, "0:40"), (60, "1:00"), (80, "1:20"))
    assert bottom(None, labels) == "┴0:00─────┴0:20─────┴0:40─────┴1:00─────┴1:20─────"


@pytest.mark.parametrize(
    ("column_s", "since_s", "texts"),
    [
        (0.1, 12, ["0:12", "0:14", "0:16", "0:18", "0:20", "0:22"]),
        (6, 600, ["10:00", "12:00", "14:00", "16:00", "18:00", "20:00"]),
        (60, 0, ["0:00", "20:00", "40:00", "1:00:00", "1:20:00", "1:40:00"]),
        (3600, 0, ["0:00", "24:00:00", "48:00:00", "72:00:00", "96:00:00"]),
    ],
)
def test_the_steps_of_elapsed_times_are_round_at_every_zoom(column_s, since_s, texts):
    axis = TimeAxis(int((1000 + since_s) * S), int(column_s * S), 104, 104)
    found = [text for _, text in axis.time_elapsed(1000 * S).marks]
    assert found == texts


@pytest.mark.parametrize(
    ("column_s", "texts"),
    [
        (0.1, ["-10s", "-8s", "-6s", "-4s", "-2s"]),
        (6, ["-10m", "-8m", "-6m", "-4m", "-2m"]),
        (60, ["-1h30m", "-1h", "-30m"]),
        (90, ["-2h", "-1h"]),
    ],
)
def test_times_before_now_are_round_at_every_zoom(column_s, texts):
    axis = TimeAxis(0, int(column_s * S), 104, 104)
    assert [text for _, text in axis.time_before_now().marks] == texts


@given(st.integers(0, 10**6), columns_ns, counts)
def test_labels_of_time_never_touch_each_other(since_s, column_ns, count):
    axis = TimeAxis(since_s * S, column_ns, count, count)
    for labels in (axis.time_elapsed(0), axis.time_before_now()):
        cells = [(column // 2, len(text) + 1) for column, text in labels.marks]
        for (at, width), (after, _) in itertools.pairwise(cells):
            assert at + width < after
        assert all(0 <= column < count for column, _ in labels.marks)


def test_the_text_of_a_chart_stands_before_its_labels_or_takes_the_place_of_some():
    marks = ((20, "-2m"), (35, "-1m"))

    def line(text, width=60, **how):
        return "".join(piece for piece, _ in ruled_row(Ruler(marks, "now"), text, width, **how))

    assert line("") == "┴-2m───────────┴-1m────────────── now"
    assert line("4.7 of 6.0 GiB") == "4.7 of 6.0 GiB ──┴-2m───────────┴-1m────────────── now"
    assert line("4.7 of 6.0 GiB, GTX 1060") == "┴-2m─── 4.7 of 6.0 GiB, GTX 1060  now"
    assert line("a text that leaves no room for labels at all, nor for now") == (
        "a text that leaves no room for labels at all, nor for now"
    )
