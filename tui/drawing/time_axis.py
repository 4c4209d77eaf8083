"""The time axis that all charts of a screen share, and the part of a run that it shows. Pure.

The width of a column is a whole multiple or a whole fraction of the sampling interval, and columns
begin at multiples of it, so that no sample falls into two columns. An axis moves by whole cells.
Only if a run is shown whole, its columns have any width, so that they fill the charts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.value_axis import nice_step, short_number
from dlmon.records.record import record
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL

if TYPE_CHECKING:
    from dlmon.session.snapshot import PhaseSpan

_STEPS: tuple[int, ...] = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))

# Round times.
_LABELLED_S = (
    *(1, 2, 5, 10, 20, 30),
    *(minutes * 60 for minutes in (1, 2, 5, 10, 20, 30)),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12, 24)),
)
# Cells for a label's tick and the gap to the next label.
_LABEL_APART = 3
_LABEL_CELLS = 5
BETWEEN_STEPS = "between steps"
"""The kind of a regular pause between two steps, which is no phase."""
_NOW, _END = "now", "end"

_SHADES = {
    "compiling": "compile",
    "validating": "validation",
    "evaluating": "validation",
    "opening": "pause",
    "closing": "pause",
    BETWEEN_STEPS: "pause",
    "stalled": "stall",
    "alerted": "alert",
}

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


@record(frozen=True)
class TimeAxis:
    """`count` columns of `column_ns` from `start_ns` on; the first `elapsed` are over."""

    start_ns: int
    column_ns: int
    count: int
    elapsed: int

    @property
    def end_ns(self) -> int:
        """The end of the last column that is over."""
        return self.start_ns + self.elapsed * self.column_ns

    @property
    def ending_now(self) -> TimeAxis:
        """The axis of as many columns that ends with the last elapsed one."""
        start_ns = self.end_ns - self.count * self.column_ns
        return replace(self, start_ns=start_ns, elapsed=self.count)

    def in_columns(self, count: int) -> TimeAxis:
        """Return the axis of the same time in fewer columns, of any width."""
        column_ns = -(-self.count * self.column_ns // count)
        elapsed = -(-self.elapsed * self.column_ns // column_ns)
        return TimeAxis(self.start_ns, column_ns, count, elapsed)

    def columns(self, series: Series) -> tuple[float | None, ...]:
        """Return a series along this axis; a column that has not elapsed is a gap."""
        values = series.columns(self.start_ns, self.column_ns, self.elapsed)
        return (*values, *(None,) * (self.count - self.elapsed))

    def extremes(self, series: Series) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """Return the least and the greatest value in each column; None if unknown."""
        edges = range(self.start_ns, self.start_ns + self.count * self.column_ns, self.column_ns)
        pairs = [
            series.extremes(start, start + self.column_ns) if n < self.elapsed else None
            for n, start in enumerate(edges)
        ]
        lows = tuple(None if pair is None else pair[0] for pair in pairs)
        return lows, tuple(None if pair is None else pair[1] for pair in pairs)

    def marks(self, epoch_starts: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return the columns at which epochs began, with their numbers, counted from 1.

        If not all numbers fit, only every second, fifth, tenth … epoch is marked, but at least one
        of the visible ones.
        """
        starts = [(n, t) for n, t in epoch_starts if 0 <= self.column_of(t) < self.elapsed]
        placed = [(self.column_of(t), epoch + 1) for epoch, t in starts]
        room_ns = mark_columns(placed[-1][1]) * self.column_ns if placed else 0
        step = _marked_step([t for _, t in starts], room_ns)
        marked = [(column, number) for column, number in placed if number % step == 0]
        # Epoch 1 is marked too unless it leaves no room for the next mark.
        first = [(column, number) for column, number in placed[:1] if number == 1]
        if step > 1 and first and marked[:1]:
            has_room = marked[0][0] - first[0][0] >= mark_columns(1)
            marked = first + marked if has_room else marked
        return tuple((column, str(number)) for column, number in marked or placed[-1:])

    def time_elapsed(self, start_ns: int) -> TimeLabels:
        """Return labels at round times since `start_ns`: 0:30, 1:00, 12:30."""
        end_ns = self.start_ns + self.count * self.column_ns
        step_ns = self._labelled_step_ns(max(0, end_ns - start_ns), units.short_clock, _LABEL_APART)
        first = max(0, -(-(self.start_ns - start_ns) // step_ns))
        times = range(start_ns + first * step_ns, end_ns, step_ns)
        return TimeLabels(
            tuple(
                (max(0, self.column_of(t)), units.short_clock((t - start_ns) / 1e9)) for t in times
            )
        )

    def counted(self, unit_ns: float) -> TimeLabels:
        """Return labels at round counts, of which `unit_ns` stand for one."""
        room_ns = self.column_ns * COLUMNS_PER_CELL * (_LABEL_CELLS + _LABEL_APART)
        step = max(1.0, nice_step(room_ns / unit_ns))
        end_ns = self.start_ns + self.count * self.column_ns
        first, last = -(-self.start_ns // (step * unit_ns)), end_ns / (step * unit_ns)
        counts = [step * number for number in range(int(first), int(last) + 1)]
        return TimeLabels(
            tuple((max(0, self.column_of(int(n * unit_ns))), short_number(n)) for n in counts)
        )

    def time_before_now(self, is_over: bool = False) -> TimeLabels:
        """Return labels at round times before now, or before the end: -2m, -1m."""
        length_ns = self.count * self.column_ns
        step_ns = self._labelled_step_ns(length_ns, _ago_text, _LABEL_APART + len(_NOW))
        before = range(length_ns // step_ns * step_ns, 0, -step_ns)
        marks = ((self.column_of(self.start_ns + length_ns - ns), ns) for ns in before)
        texts = tuple((column, _ago_text(ns / 1e9)) for column, ns in marks)
        return TimeLabels(texts, last=_END if is_over else _NOW)

    def _labelled_step_ns(
        self, longest_ns: int, text_of: Callable[[float], str], apart: int
    ) -> int:
        """Return the least round time between labels at which they don't overlap."""
        room_ns = 0
        for step_s in _LABELLED_S:
            last = longest_ns // (step_s * _SECOND_NS)
            widest = max(len(text_of(step_s * n)) for n in (last, max(0, last - 1)))
            room_ns = self.column_ns * COLUMNS_PER_CELL * (widest + apart)
            if step_s * _SECOND_NS >= room_ns:
                return step_s * _SECOND_NS
        return -(-room_ns // _DAY_NS) * _DAY_NS

    def shades(self, phase_spans: Iterable[PhaseSpan]) -> tuple[tuple[int, int, str], ...]:
        """Return (first column, last column, kind) of phases, pauses, stalls and alerts.

        A validation or a pause of less than half a column is left out: with many short epochs all
        columns would be shaded.
        """
        shades = []
        for span in phase_spans:
            kind = _SHADES.get(span.phase)
            if kind is None:
                continue
            first = max(0, self.column_of(span.start))
            last = self.elapsed - 1
            if span.end is not None:
                is_short = span.end - span.start < self.column_ns // 2
                if is_short and kind in ("validation", "pause"):
                    continue
                last = min(last, self.column_of(span.end))
            if first <= last:
                shades.append((first, last, kind))
        return tuple(shades)

    def column_of(self, t_ns: int) -> int:
        """Return the column of an instant; it may lie outside the axis."""
        return (t_ns - self.start_ns) // self.column_ns


@record(frozen=True)
class TimeLabels:
    """Columns of an axis with their labels, which may be empty; each has a grid line.

    `last` is the label at the right end.
    """

    marks: tuple[tuple[int, str], ...] = ()
    last: str = ""

    @property
    def unlabelled(self) -> TimeLabels:
        """The same columns without a text: another chart below labels them."""
        return TimeLabels(tuple((column, "") for column, _ in self.marks))

    @property
    def are_shown(self) -> bool:
        return any(text for _, text in self.marks)


NO_LABELS = TimeLabels()


def _ago_text(seconds: float) -> str:
    """Write a time before now: -30s, -90s, -2m, -2m30s, -1h."""
    whole = round(seconds)
    if whole < 120 and whole % 60:
        return f"-{whole}s"
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    parts = ((hours, "h"), (minute, "m"), (second, "s"))
    return "-" + "".join(f"{value}{unit}" for value, unit in parts if value)


def mark_columns(number: int) -> int:
    """Return the columns that a mark takes: its tick, its number and a blank."""
    return COLUMNS_PER_CELL * (len(str(number)) + 2)


def _marked_step(starts: list[int], room_ns: int) -> int:
    """Return the step between marked epochs at which most of their numbers fit."""
    lengths = sorted(after - before for before, after in pairwise(starts))
    if not lengths:
        return 1
    # The median: the first epoch may take longer, as it compiles.
    median_ns = lengths[len(lengths) // 2]
    return next((step for step in _STEPS if median_ns * step >= room_ns), _STEPS[-1])


# The longest time from an event until its record arrives.
SETTLED_NS = 400_000_000

# A full chart moves by this fraction of its width at a time: an eighth.
MOVES = 8

WHOLE_RUN = "whole run"
NOTHING_MORE, NOTHING_FINER = "nothing more to show", "nothing finer to show"
ZOOM_NOTE_S = 5.0
"""Time for which a note says why a zoom key did nothing."""


@record(frozen=True)
class RunSpan:
    """The time span of a run, the sampling interval of its sensors, and for how long it stands."""

    start_ns: int
    end_ns: int
    is_running: bool
    interval_ns: int = _SECOND_NS
    stalled_ns: int = 0

    @property
    def settled_ns(self) -> int:
        """The instant up to which every record has arrived."""
        return self.end_ns - SETTLED_NS if self.is_running else self.end_ns


class ViewLength(Enum):
    """The length of the visible part of a run, in seconds."""

    TEN_SECONDS = 10
    HALF_A_MINUTE = 30
    MINUTE = 60
    TEN_MINUTES = 600
    WHOLE = 0


# The fewest samples in a view of less than a minute.
_LEAST_SAMPLES = 10
# While a run goes on, all of it is shown in the first of these lengths that holds it, or in a
# quarter, half, twice … of it: it fills three quarters of the charts, whose scale seldom changes.
_GROWING_S = (4, 5, 6.25)
_MOST_PARTS = 1000
"""The most columns per sample."""


@record(frozen=True)
class TimeWindow:
    """The visible part of a run, and its cursor.

    Attributes:
        view: its length; None for the last minute of a running session, for more of one that
            stands, and for all of a finished one.
        start_ns: its start; None if it follows the run.
        cursor_ns: the instant of the cursor; None without one.
        length_ns: its length in place of a view, such as that of an epoch.
    """

    view: ViewLength | None = None
    start_ns: int | None = None
    cursor_ns: int | None = None
    length_ns: int | None = None

    def shown_view(self, run: RunSpan) -> ViewLength:
        """Return the view, or its default for a run: if that stands, from well before it did."""
        lengths = (ViewLength.MINUTE, ViewLength.TEN_MINUTES) if run.is_running else ()
        least_s = 2 * run.stalled_ns / _SECOND_NS
        long_enough = (view for view in lengths if view.value >= least_s)
        return self.view or next(long_enough, ViewLength.WHOLE)

    def axis(self, run: RunSpan, count: int) -> TimeAxis:
        """Return the axis of `count` columns that shows the window."""
        latest = self._latest(run, count)
        start_ns = latest.start_ns if self.start_ns is None else self.start_ns
        if self.cursor_ns is not None:
            # Keep the cursor visible, whatever the width.
            shown_ns = (count - COLUMNS_PER_CELL) * latest.column_ns
            start_ns = max(min(start_ns, self.cursor_ns), self.cursor_ns - shown_ns)
        return _axis_from(run, start_ns, latest)

    def read_ns(self, axis: TimeAxis) -> int | None:
        """Return the instant of the cursor, or the nearest elapsed one on `axis`."""
        if self.cursor_ns is None or axis.elapsed == 0:
            return None
        return max(axis.start_ns, min(self.cursor_ns, axis.end_ns - 1))

    def cursor_column(self, axis: TimeAxis) -> int | None:
        """Return the column of the cursor on an axis of this window."""
        read_ns = self.read_ns(axis)
        return None if read_ns is None else axis.column_of(read_ns)

    def shown_part(self, run: RunSpan, count: int) -> str:
        """Name the visible part of a run: "whole run", "last 30 s"."""
        axis = self.axis(run, count)
        if axis.start_ns <= run.start_ns and not self.is_paused(run, count):
            return WHOLE_RUN
        length_s = axis.column_ns * axis.count / 1e9
        return f"last {length_s:.0f} s" if length_s < 60 else f"last {units.clock(length_s)}"

    def is_paused(self, run: RunSpan, count: int) -> bool:
        """Return whether the newest columns of the run are out of view."""
        return self.axis(run, count).start_ns < self._latest(run, count).start_ns

    def zoomed_in(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of the next shorter view; this window if there is none."""
        column_ns = self._column_ns(run, count)
        shorter = [view for ns, view in _views(run, count).items() if ns < column_ns]
        return self.viewing(shorter[-1], run, count) if shorter else self

    def zoomed_out(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of the next longer view; this window if there is none."""
        column_ns = self._column_ns(run, count)
        longer = [view for ns, view in _views(run, count).items() if ns > column_ns]
        return self.viewing(longer[0], run, count) if longer else self

    def next_view(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of the next longer view; after the longest comes the shortest."""
        longer = self.zoomed_out(run, count)
        shortest_ns, shortest = next(iter(_views(run, count).items()))
        if longer is not self or shortest_ns == self._column_ns(run, count):
            return longer
        return self.viewing(shortest, run, count)

    def viewing(self, view: ViewLength, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of a view, centred on the cursor, or on the old window if paused."""
        axis = self.axis(run, count)
        middle_ns = self.cursor_ns
        if middle_ns is None and self.is_paused(run, count):
            middle_ns = (axis.start_ns + axis.end_ns) // 2
        following = TimeWindow(view, None, self.cursor_ns)
        if middle_ns is None:
            return following
        half_ns = following._column_ns(run, count) * count // 2
        return replace(following, start_ns=middle_ns - half_ns)._pinned(run, count)

    def panned(self, columns: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window moved later by columns; its cursor stays visible."""
        if self.length_ns is not None:
            return replace(self, length_ns=None).panned(columns, run, count)
        axis = self.axis(run, count)
        start_ns = axis.start_ns + (columns + COLUMNS_PER_CELL // 2) * axis.column_ns
        moved = _axis_from(run, start_ns, self._latest(run, count))
        cursor_ns = self.cursor_ns
        if cursor_ns is not None:
            cursor_ns = max(moved.start_ns, min(cursor_ns, moved.end_ns - moved.column_ns))
        return replace(self, start_ns=moved.start_ns, cursor_ns=cursor_ns)._pinned(run, count)

    def followed(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run; it keeps the cursor if that is visible."""
        following = TimeWindow(self.view)
        first_ns = following._latest(run, count).start_ns
        is_visible = self.cursor_ns is not None and self.cursor_ns >= first_ns
        return replace(following, cursor_ns=self.cursor_ns if is_visible else None)

    def with_cursor_at(self, column: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with the cursor on the nearest elapsed column."""
        axis = self.axis(run, count)
        if axis.elapsed == 0:
            return self
        column = max(0, min(axis.elapsed - 1, column))
        cursor_ns = axis.start_ns + column * axis.column_ns
        return replace(self, view=self.shown_view(run), cursor_ns=cursor_ns)

    def with_cursor_moved(self, samples: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with its cursor moved later by samples, or by columns if wider.

        A new cursor starts at the newest column. At an edge, the cursor moves the window.
        """
        axis, latest = self.axis(run, count), self._latest(run, count)
        if self.cursor_ns is None or latest.elapsed == 0:
            return self.with_cursor_at(axis.elapsed - 1, run, count)
        cursor_ns = self.cursor_ns + samples * max(run.interval_ns, axis.column_ns)
        last_ns = latest.end_ns - latest.column_ns
        cursor_ns = max(_start_ns(run, axis.column_ns), min(cursor_ns, last_ns))
        return replace(self, cursor_ns=cursor_ns)._pinned(run, count)

    def at_start(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window at the run's start; its cursor, if any, moves there."""
        start_ns = _start_ns(run, self._column_ns(run, count))
        cursor_ns = None if self.cursor_ns is None else start_ns
        return replace(self, start_ns=start_ns, cursor_ns=cursor_ns)._pinned(run, count)

    def at_end(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run; its cursor, if any, moves to the end."""
        following = TimeWindow(self.view)
        return following if self.cursor_ns is None else following.with_cursor_at(count, run, count)

    def spanning(self, start_ns: int, end_ns: int) -> TimeWindow:
        """Return the window that a part of the run fills."""
        return TimeWindow(self.view, start_ns, None, max(1, end_ns - start_ns))

    def without_cursor(self) -> TimeWindow:
        return replace(self, cursor_ns=None)

    def _column_ns(self, run: RunSpan, count: int) -> int:
        if self.length_ns is not None:
            return _fitting_column_ns(self.length_ns, run, count)
        return _view_column_ns(self.shown_view(run), run, count)

    def _latest(self, run: RunSpan, count: int) -> TimeAxis:
        return latest_axis(run, self._column_ns(run, count), count)

    def _pinned(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window fixed at its start, or following the run if it shows the newest."""
        start_ns = self.axis(run, count).start_ns
        follows = self.length_ns is None and start_ns >= self._latest(run, count).start_ns
        return replace(self, view=self.shown_view(run), start_ns=None if follows else start_ns)


def latest_axis(run: RunSpan, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that ends with the run.

    While the run goes on, the axis fills by whole cells, then moves by several at once: each move
    repaints all charts. Once the run is over, its last column is shown even if it is not whole.
    """
    start_ns, step = _start_ns(run, column_ns), COLUMNS_PER_CELL
    elapsed = max(0, run.settled_ns - start_ns) // column_ns
    if run.is_running:
        elapsed = elapsed // step * step
        step = max(step, count // MOVES // step * step)
    else:
        elapsed += 1
    first = -(-max(0, elapsed - count) // step) * step
    return TimeAxis(
        start_ns + first * column_ns, column_ns, count, max(0, min(count, elapsed - first))
    )


def _axis_from(run: RunSpan, start_ns: int, latest: TimeAxis) -> TimeAxis:
    """Return the axis that begins at the last whole cell before `start_ns`, within the run."""
    first_ns = _start_ns(run, latest.column_ns)
    cell_ns = COLUMNS_PER_CELL * latest.column_ns
    start_ns = first_ns + max(0, start_ns - first_ns) // cell_ns * cell_ns
    if start_ns >= latest.start_ns:
        return latest
    elapsed = (latest.end_ns - start_ns) // latest.column_ns
    return replace(latest, start_ns=start_ns, elapsed=min(latest.count, elapsed))


def _start_ns(run: RunSpan, column_ns: int) -> int:
    """Return the start of a run's first column: a multiple of a column or of the interval."""
    unit_ns = min(column_ns, run.interval_ns)
    return run.start_ns // unit_ns * unit_ns


# ---- the width of a column ----


def _views(run: RunSpan, count: int) -> dict[int, ViewLength]:
    """Return the views with enough samples by column width; the longest of equal width."""
    least_s = min(ViewLength.MINUTE.value, _LEAST_SAMPLES * run.interval_ns / _SECOND_NS)
    offered = (view for view in ViewLength if view is ViewLength.WHOLE or view.value >= least_s)
    return {_view_column_ns(view, run, count): view for view in offered}


def _view_column_ns(view: ViewLength, run: RunSpan, count: int) -> int:
    """Return the width of a column in a view, on a chart of `count` columns."""
    whole_ns = _whole_column_ns(run, max(1, count))
    if view is ViewLength.WHOLE:
        return whole_ns
    # A run shorter than the view still fills the charts.
    return min(_fitting_column_ns(view.value * _SECOND_NS, run, count), whole_ns)


def _fitting_column_ns(length_ns: int, run: RunSpan, count: int) -> int:
    """Return the least width at which `count` columns, in whole or part samples, hold a length."""
    exact_ns, interval_ns = -(-length_ns // max(1, count)), run.interval_ns
    if exact_ns >= interval_ns:
        return -(-exact_ns // interval_ns) * interval_ns
    parts = range(min(_MOST_PARTS, interval_ns // exact_ns), 0, -1)
    return next(interval_ns // n for n in parts if interval_ns % n == 0)


def _whole_column_ns(run: RunSpan, count: int) -> int:
    """Return the width of a column at which `count` of them hold all of a run.

    While the run goes on, the width grows seldom; once it is over, the columns fill the chart.
    """
    if run.is_running:
        powers = itertools.count(-2)
        lengths_s = (length_s * 2.0**power for power in powers for length_s in _GROWING_S)
        widths = (round(length_s * _SECOND_NS / count) for length_s in lengths_s)
        return next(ns for ns in widths if _holds(run, ns, count))
    column_ns = -(-max(run.interval_ns, run.end_ns + 1 - run.start_ns) // count)
    # The first column may begin before the run.
    while not _holds(run, column_ns, count):
        column_ns += -(-column_ns // count)
    return column_ns


def _holds(run: RunSpan, column_ns: int, count: int) -> bool:
    return run.end_ns < _start_ns(run, column_ns) + column_ns * count
