"""The part of a run that the charts of a screen show, and how much of it a column is. Pure.

A column is a whole multiple or a whole fraction of the sampling interval, and
all columns stand at whole columns from the run's start, so that a sample is
never drawn half here and half there. An axis moves by whole cells and whole
samples. Only a run that is over, seen whole, has the columns that fill the
charts: nothing moves any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from dlmon.figures import units
from dlmon.records.record import record
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import TimeAxis

# Records arrive up to this much after what they report.
SETTLED_NS = 400_000_000

# A full chart moves by so large a part of its width at a time.
MOVES = 8

NOTHING_MORE = "nothing more to show"
ZOOM_NOTE_S = 5.0
"""How long it is said why a key did nothing."""

_SECOND_NS = 1_000_000_000


@record(frozen=True)
class RunSpan:
    """When a run began, how far it has come, and how often the machine was sampled."""

    start_ns: int
    end_ns: int
    is_running: bool
    interval_ns: int = _SECOND_NS

    @property
    def settled_ns(self) -> int:
        """The time up to which every record has arrived."""
        return self.end_ns - SETTLED_NS if self.is_running else self.end_ns


class View(StrEnum):
    """How much of a run is seen at once."""

    TEN_SECONDS = "last 10 s"
    HALF_A_MINUTE = "last 30 s"
    MINUTE = "last minute"
    TEN_MINUTES = "last ten minutes"
    WHOLE = "whole run"


_VIEW_NS = {
    View.TEN_SECONDS: 10 * _SECOND_NS,
    View.HALF_A_MINUTE: 30 * _SECOND_NS,
    View.MINUTE: 60 * _SECOND_NS,
    View.TEN_MINUTES: 600 * _SECOND_NS,
}
# A view of less than a minute needs as many samples, or it would be all steps.
_LEAST_SAMPLES = 10
# Before a run has lasted a minute, all of it is seen in the first of these that holds it, so that
# it fills the charts. One needs so many samples.
_YOUNG_NS = tuple(seconds * _SECOND_NS for seconds in (5, 10, 20, 40))
_LEAST_YOUNG_SAMPLES = 5


@record(frozen=True)
class TimeWindow:
    """The part of a run that a person looks at, and the instant that is read.

    Args:
        view: how much is seen; None, until one looks for oneself, for the last minute of a run
            that goes on and all of one that is over.
        paused_ns: where the window begins that stays; None while it follows the run.
        cursor_ns: the instant that is read. It is always visible.
        span_ns: a stretch from its start to its end that fills the charts, in place of a view.
    """

    view: View | None = None
    paused_ns: int | None = None
    cursor_ns: int | None = None
    span_ns: tuple[int, int] | None = None

    def shown_view(self, run: RunSpan) -> View:
        """Return how much of a run is seen."""
        return self.view or (View.MINUTE if run.is_running else View.WHOLE)

    def axis(self, run: RunSpan, count: int) -> TimeAxis:
        """Return the axis of `count` columns that shows the window."""
        if self.span_ns is not None:
            return _axis_of_span(run, self.span_ns, count)
        latest = self._latest(run, count)
        start_ns = latest.start_ns if self.paused_ns is None else self.paused_ns
        if self.cursor_ns is None:
            return _axis_from(run, start_ns, latest)
        axis = _axis_from(run, min(start_ns, self.cursor_ns), latest)
        excess_ns = self.cursor_ns + 1 - (axis.start_ns + axis.count * axis.column_ns)
        if excess_ns <= 0:
            return axis
        return _axis_from(run, axis.start_ns + excess_ns + _step_ns(run, axis.column_ns), latest)

    def read_ns(self, axis: TimeAxis) -> int | None:
        """Return the instant that is read: the cursor's, or the nearest one that `axis` knows."""
        if self.cursor_ns is None or axis.known == 0:
            return None
        return max(axis.start_ns, min(self.cursor_ns, axis.end_ns - 1))

    def cursor_column(self, axis: TimeAxis) -> int | None:
        """Return where the cursor stands on an axis of this window."""
        read_ns = self.read_ns(axis)
        return None if read_ns is None else axis.column_of(read_ns)

    def shown_part(self, run: RunSpan, count: int) -> str:
        """Name how much of a run is seen: all of it, the view, or what columns make of that."""
        view, axis = self.shown_view(run), self.axis(run, count)
        all_is_seen = axis.start_ns <= run.start_ns and not self.is_paused(run, count)
        if view is View.WHOLE or all_is_seen:
            return str(View.WHOLE)
        seen_ns = axis.column_ns * axis.count
        if seen_ns <= _VIEW_NS[view]:
            return str(view)
        seen_s = seen_ns / 1e9
        return f"last {seen_s:.0f} s" if seen_s < 60 else f"last {units.clock(seen_s)}"

    def is_paused(self, run: RunSpan, count: int) -> bool:
        """Whether newer columns of the run are out of sight."""
        if self.span_ns is not None:
            return True
        return self.axis(run, count).start_ns < self._latest(run, count).start_ns

    def zoomed_in(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that shows less of the run; this one where there is nothing nearer."""
        return self._zoomed(-1, run, count)

    def zoomed_out(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that shows more of the run; this one where there is no more."""
        return self._zoomed(1, run, count)

    def next_view(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of the next larger view; after the largest comes the nearest."""
        larger = self.zoomed_out(run, count)
        nearest = _views(run, count)[0]
        return larger if larger is not self else self._viewing_other(nearest, run, count)

    def _zoomed(self, step: int, run: RunSpan, count: int) -> TimeWindow:
        if self.span_ns is not None:
            return self._without_span()._zoomed(step, run, count)
        own_ns = _column_ns(self.shown_view(run), run, count)
        others = [view for view in _views(run, count) if _column_ns(view, run, count) != own_ns]
        nearer = [view for view in others if _column_ns(view, run, count) < own_ns]
        at = len(nearer) + min(step, 0)
        return self.viewing(others[at], run, count) if 0 <= at < len(others) else self

    def _viewing_other(self, view: View, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of a view; this one where that draws the same."""
        own_ns = _column_ns(self.shown_view(run), run, count)
        is_same = _column_ns(view, run, count) == own_ns
        return self if is_same else self.viewing(view, run, count)

    def why_no_nearer(self, run: RunSpan, count: int) -> str:
        """Say why there is no nearer view than this window's."""
        shown, whole = (_column_ns(v, run, count) for v in (self.shown_view(run), View.WHOLE))
        if shown == whole:
            return "too short to zoom in"
        return f"no finer: {run.interval_ns / 1e9:g} s samples"

    def viewing(self, view: View, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of a view, around the cursor, else around the middle when paused."""
        axis = self.axis(run, count)
        following = TimeWindow(view, None, self.cursor_ns)
        if self.cursor_ns is not None:
            middle_ns = self.cursor_ns
        elif self.is_paused(run, count):
            middle_ns = (axis.start_ns + axis.end_ns) // 2
        else:
            return following
        half_ns = following._latest(run, count).column_ns * count // 2
        return replace(following, paused_ns=middle_ns - half_ns)._kept(run, count)

    def panned(self, columns: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window moved by columns, later for positive ones; the cursor stays in it."""
        if self.span_ns is not None:
            return self._without_span().panned(columns, run, count)
        axis = self.axis(run, count)
        start_ns = axis.start_ns + columns * axis.column_ns + _step_ns(run, axis.column_ns) // 2
        moved = _axis_from(run, start_ns, self._latest(run, count))
        cursor_ns = self.cursor_ns
        if cursor_ns is not None:
            cursor_ns = max(moved.start_ns, min(cursor_ns, moved.end_ns - moved.column_ns))
        return TimeWindow(self.view, moved.start_ns, cursor_ns)._kept(run, count)

    def followed(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run; a cursor that is out of its sight is gone."""
        seen = self.cursor_ns is not None and self.cursor_ns >= self._latest(run, count).start_ns
        return TimeWindow(self.view, None, self.cursor_ns if seen else None)

    def with_cursor_at(self, column: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with the cursor on a column; on the last that is over, beyond it."""
        axis = self.axis(run, count)
        if axis.known == 0:
            return self
        column = max(0, min(axis.known - 1, column))
        cursor_ns = axis.start_ns + column * axis.column_ns
        return replace(self, view=self.shown_view(run), cursor_ns=cursor_ns)

    def with_cursor_moved(self, samples: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with the cursor so many samples later, or earlier for negative ones.

        Where a column holds several samples it moves by columns. One that is
        not there yet comes where the newest column is. At the edge it takes the
        window along.
        """
        axis, latest = self.axis(run, count), self._latest(run, count)
        if self.cursor_ns is None or latest.known == 0:
            return self.with_cursor_at(axis.known - 1, run, count)
        if self.span_ns is not None:
            return self.with_cursor_at(axis.column_of(self.cursor_ns) + samples, run, count)
        cursor_ns = self.cursor_ns + samples * max(run.interval_ns, axis.column_ns)
        last_ns = latest.end_ns - latest.column_ns
        cursor_ns = max(_start_ns(run, axis.column_ns), min(cursor_ns, last_ns))
        return TimeWindow(self.view, self.paused_ns, cursor_ns)._kept(run, count)

    def at_start(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window at the run's start, with its cursor there where it has one."""
        start_ns = _start_ns(run, self._latest(run, count).column_ns)
        cursor_ns = None if self.cursor_ns is None else start_ns
        return TimeWindow(self.view, start_ns, cursor_ns)._kept(run, count)

    def at_end(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run, with its cursor, if any, at the newest column."""
        following = TimeWindow(self.view)
        return following if self.cursor_ns is None else following.with_cursor_at(count, run, count)

    def spanning(self, start_ns: int, end_ns: int) -> TimeWindow:
        """Return the window that a stretch of the run fills."""
        return TimeWindow(self.view, self.paused_ns, None, (start_ns, max(end_ns, start_ns + 1)))

    def _without_span(self) -> TimeWindow:
        """Return the window that shows a view from where the stretch began."""
        start_ns = self.paused_ns if self.span_ns is None else self.span_ns[0]
        return TimeWindow(self.view, start_ns, self.cursor_ns)

    def without_cursor(self) -> TimeWindow:
        """Return the window without its cursor."""
        return replace(self, cursor_ns=None)

    def _latest(self, run: RunSpan, count: int) -> TimeAxis:
        return latest_axis(run, _column_ns(self.shown_view(run), run, count), count)

    def _kept(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that stays where it is now, or follows if that is the newest place."""
        start_ns = self.axis(run, count).start_ns
        follows = start_ns >= self._latest(run, count).start_ns
        return replace(self, view=self.shown_view(run), paused_ns=None if follows else start_ns)


def _start_ns(run: RunSpan, column_ns: int) -> int:
    """Return where a run's first column begins: with a sample, or a whole part of one."""
    unit_ns = min(column_ns, run.interval_ns)
    return run.start_ns // unit_ns * unit_ns


def _step_ns(run: RunSpan, column_ns: int) -> int:
    """Return by how much an axis moves at a time: whole cells, and whole samples."""
    return math.lcm(COLUMNS_PER_CELL * column_ns, run.interval_ns)


def latest_axis(run: RunSpan, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that ends where the run does.

    That of a run that goes on fills by whole cells, then makes room for several
    more at once: to move costs a repaint of all charts. One that is over shows
    its last column even if it isn't whole.
    """
    start_ns = _start_ns(run, column_ns)
    step = _step_ns(run, column_ns) // column_ns
    over = max(0, run.settled_ns - start_ns) // column_ns
    if run.is_running:
        over = over // COLUMNS_PER_CELL * COLUMNS_PER_CELL
        step = max(step, count // MOVES // step * step)
    else:
        over += 1
    # Where a step is longer than the axis, the next one could lie beyond the run's end.
    first = min(-(-max(0, over - count) // step), max(0, over - 1) // step) * step
    known = max(0, min(count, over - first))
    return TimeAxis(start_ns + first * column_ns, column_ns, count, known)


def _axis_of_span(run: RunSpan, span_ns: tuple[int, int], count: int) -> TimeAxis:
    """Return the axis that a stretch of a run fills: nothing in it moves."""
    start_ns, end_ns = span_ns
    column_ns = max(1, -(-(end_ns - start_ns) // max(1, count)))
    over = (run.settled_ns - start_ns) // column_ns + (not run.is_running)
    return TimeAxis(start_ns, column_ns, count, max(0, min(count, over)))


def _axis_from(run: RunSpan, start_ns: int, latest: TimeAxis) -> TimeAxis:
    """Return the axis that begins at the last whole step before `start_ns`, within the run."""
    first_ns = _start_ns(run, latest.column_ns)
    step_ns = _step_ns(run, latest.column_ns)
    start_ns = first_ns + max(0, start_ns - first_ns) // step_ns * step_ns
    if start_ns >= latest.start_ns:
        return latest
    known = (latest.end_ns - start_ns) // latest.column_ns
    return replace(latest, start_ns=start_ns, known=min(latest.count, known))


# ---- how wide a column is ----


def _views(run: RunSpan, count: int) -> list[View]:
    """Return the views that have enough samples, the nearest first; of those alike, the largest."""
    minute_ns = _VIEW_NS[View.MINUTE]
    least_ns = min(minute_ns, _LEAST_SAMPLES * run.interval_ns)
    offered = [view for view in View if _VIEW_NS.get(view, minute_ns) >= least_ns]
    return [*{_column_ns(view, run, count): view for view in offered}.values()]


def _column_ns(view: View, run: RunSpan, count: int) -> int:
    """Return how wide a column is in a view, on a chart with room for `count` of them."""
    count = max(1, count)
    whole_ns = _whole_column_ns(run, count)
    if view is View.WHOLE:
        return whole_ns
    if view is not View.TEN_MINUTES:
        column_ns = _short_column_ns(_VIEW_NS[view], run, count)
    else:
        # Whole seconds, as far as they are whole samples.
        unit_ns = -(-_SECOND_NS // run.interval_ns) * run.interval_ns
        column_ns = -(-600 * _SECOND_NS // (count * unit_ns)) * unit_ns
    # A short run shall not leave the charts empty.
    return min(column_ns, whole_ns)


def _short_column_ns(view_ns: int, run: RunSpan, count: int) -> int:
    """Return the column of which `count` are at least `view_ns`, and as little more as may be."""
    samples_ns = run.interval_ns * count
    if samples_ns < view_ns:
        return -(-view_ns // samples_ns) * run.interval_ns
    return next(ns for ns in _fractions(run, samples_ns // view_ns) if ns * count >= view_ns)


def _whole_column_ns(run: RunSpan, count: int) -> int:
    """Return the column of which `count` hold all of a run.

    While it goes on, the column grows seldom; once it is over, the columns fill
    the chart.
    """
    if run.is_running:
        return next(ns for ns in _growing(run, count) if _holds(run, ns, count))
    length_ns = max(run.interval_ns, run.end_ns + 1 - run.start_ns)
    column_ns = -(-length_ns // count)
    # The first column begins up to one earlier than the run.
    while not _holds(run, column_ns, count):
        column_ns += -(-column_ns // count)
    return column_ns


def _growing(run: RunSpan, count: int) -> Iterator[int]:
    """Yield widths: those of a young run, of the last minute, then 1, 2, 3, 4, 6, 8 ... samples."""
    least_ns = _short_column_ns(_VIEW_NS[View.MINUTE], run, count)
    for span_ns in _YOUNG_NS:
        column_ns = _short_column_ns(span_ns, run, count)
        if span_ns >= _LEAST_YOUNG_SAMPLES * run.interval_ns and column_ns < least_ns:
            yield column_ns
    yield least_ns
    widths = (factor * run.interval_ns << power for power in itertools.count() for factor in (2, 3))
    yield from (ns for ns in itertools.chain((run.interval_ns,), widths) if ns > least_ns)


def _fractions(run: RunSpan, most: int) -> Iterator[int]:
    """Yield the sampling interval in whole parts, from at most `most` of them down to one."""
    return (run.interval_ns // n for n in range(max(1, most), 0, -1) if run.interval_ns % n == 0)


def _holds(run: RunSpan, column_ns: int, count: int) -> bool:
    return run.end_ns < _start_ns(run, column_ns) + column_ns * count
