"""The one time axis that all charts of a screen share, and the part of a run that it shows. Pure.

A column is a whole multiple or a whole fraction of the sampling interval, and
all columns stand at whole columns from the run's begin, so that a sample is
never drawn half here and half there. An axis moves by whole cells and whole
samples. Only a run that is over, seen whole, has the columns that fill the
charts: nothing moves any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dlmon.series import Series
from dlmon.session import Stretch
from tui import figures
from tui.widgets.plot import COLUMNS_PER_CELL

# Records arrive up to this much after what they tell of.
SETTLED_NS = 400_000_000

_STEPS: tuple[int, ...] = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))

# A full chart moves by so large a part of its width at a time.
MOVES = 8

_SHADES = {"compiling": "compile", "validating": "validation", "evaluating": "validation"}

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class TimeAxis:
    """`count` columns of `column_ns` from `begin_ns` on, of which the first `known` are over."""

    begin_ns: int
    column_ns: int
    count: int
    known: int

    @property
    def end_ns(self) -> int:
        """The end of the last column that is over."""
        return self.begin_ns + self.known * self.column_ns

    def columns(self, series: Series) -> tuple[float | None, ...]:
        """Return a series along this axis; what is not over yet is a gap."""
        told = series.columns(self.begin_ns, self.column_ns, self.known)
        return (*told, *(None,) * (self.count - self.known))

    def marks(self, epoch_begins: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return where epochs began, numbered as people do.

        Of short ones, only the very first and round numbers.
        """
        placed = [(self.column_of(begin), epoch + 1) for epoch, begin in epoch_begins]
        placed = [(column, number) for column, number in placed if 0 <= column < self.known]
        step = _marked_step(placed)
        free_from = 0
        marked = []
        for column, number in placed:
            if number == 1 or (number % step == 0 and column >= free_from):
                marked.append((column, str(number)))
            if number == 1:
                free_from = column + mark_columns(number)
        return tuple(marked)

    def shades(self, stretches: Iterable[Stretch]) -> tuple[tuple[int, int, str], ...]:
        """Return the stretches that compile or validate."""
        found = []
        for stretch in stretches:
            kind = _SHADES.get(stretch.phase)
            if kind is None:
                continue
            first = max(0, self.column_of(stretch.begin))
            last = self.known - 1
            if stretch.end is not None:
                last = min(last, self.column_of(stretch.end))
            if first <= last:
                found.append((first, last, kind))
        return tuple(found)

    def column_of(self, t_ns: int) -> int:
        """Return the column that an instant falls in; it may lie outside of the axis."""
        return (t_ns - self.begin_ns) // self.column_ns

    def stretched(self, count: int) -> TimeAxis:
        """Return the same time in another number of columns, for a chart of another width."""
        if count < 1 or self.count < 1:
            return replace(self, count=max(0, count), known=0)
        column_ns = max(1, self.column_ns * self.count // count)
        known = min(count, self.known * count // self.count)
        return replace(self, column_ns=column_ns, count=count, known=known)


def mark_columns(number: int) -> int:
    """Return how many columns a mark takes: itself, its number and a blank."""
    return COLUMNS_PER_CELL * (len(str(number)) + 2)


def _marked_step(placed: list[tuple[int, int]]) -> int:
    """Return of how many epochs one is marked, so that the marks have room for their numbers."""
    if not placed:
        return 1
    (begin, _), (end, last) = placed[0], placed[-1]
    for step in _STEPS:
        if (end - begin) * step >= mark_columns(last) * (len(placed) - 1):
            return step
    return _STEPS[-1]


# ---- what part of a run is seen ----


@dataclass(frozen=True)
class Run:
    """When a run began, how far it has come, and how often the machine was sampled."""

    begin_ns: int
    end_ns: int
    goes_on: bool
    interval_ns: int = _SECOND_NS

    @property
    def settled_ns(self) -> int:
        """The time up to which everything has been told."""
        return self.end_ns - SETTLED_NS if self.goes_on else self.end_ns


class View(StrEnum):
    """How much of a run is seen at once."""

    MINUTE = "last minute"
    TEN_MINUTES = "last ten minutes"
    WHOLE = "whole run"


_NEAREST_FIRST = tuple(View)
_VIEW_NS = {View.MINUTE: 60 * _SECOND_NS, View.TEN_MINUTES: 600 * _SECOND_NS}


@dataclass(frozen=True)
class TimeWindow:
    """The part of a run that a person looks at, and the instant that is read.

    Args:
        view: how much is seen; None, until one looks for oneself, for the last minute of a run
            that goes on and all of one that is over.
        paused_ns: where the window begins that stays; None while it follows the run.
        cursor_ns: the instant that is read. It is always in sight.
    """

    view: View | None = None
    paused_ns: int | None = None
    cursor_ns: int | None = None

    def shown_view(self, run: Run) -> View:
        """Return how much of a run is seen."""
        return self.view or (View.MINUTE if run.goes_on else View.WHOLE)

    def axis(self, run: Run, count: int) -> TimeAxis:
        """Return the axis of `count` columns that shows the window."""
        latest = self._latest(run, count)
        begin_ns = latest.begin_ns if self.paused_ns is None else self.paused_ns
        if self.cursor_ns is None:
            return _axis_from(run, begin_ns, latest)
        axis = _axis_from(run, min(begin_ns, self.cursor_ns), latest)
        excess_ns = self.cursor_ns + 1 - (axis.begin_ns + axis.count * axis.column_ns)
        if excess_ns <= 0:
            return axis
        return _axis_from(run, axis.begin_ns + excess_ns + _step_ns(run, axis.column_ns), latest)

    def read_ns(self, axis: TimeAxis) -> int | None:
        """Return the instant that is read: the cursor's, or the nearest one that `axis` knows."""
        if self.cursor_ns is None or axis.known == 0:
            return None
        return max(axis.begin_ns, min(self.cursor_ns, axis.end_ns - 1))

    def cursor_column(self, axis: TimeAxis) -> int | None:
        """Return where the cursor stands on an axis of this window."""
        read_ns = self.read_ns(axis)
        return None if read_ns is None else axis.column_of(read_ns)

    def what_is_seen(self, run: Run, count: int) -> str:
        """Name how much of a run is seen: all of it, the view, or what columns make of that."""
        view, axis = self.shown_view(run), self.axis(run, count)
        all_is_seen = axis.begin_ns <= run.begin_ns and not self.is_paused(run, count)
        if view is View.WHOLE or all_is_seen:
            return str(View.WHOLE)
        seen_ns = axis.column_ns * axis.count
        return str(view) if seen_ns <= _VIEW_NS[view] else f"last {figures.clock(seen_ns / 1e9)}"

    def is_paused(self, run: Run, count: int) -> bool:
        """Whether newer columns of the run are out of sight."""
        return self.axis(run, count).begin_ns < self._latest(run, count).begin_ns

    def zoomed_in(self, run: Run, count: int) -> TimeWindow:
        """Return the window that shows less of the run, around its cursor where there is one.

        It is this one where there is nothing nearer.
        """
        place = _NEAREST_FIRST.index(self.shown_view(run))
        others = self._that_differ(_NEAREST_FIRST[:place], run, count)
        return self.viewing(others[-1], run, count) if others else self

    def zoomed_out(self, run: Run, count: int) -> TimeWindow:
        """Return the window that shows more of the run; this one where there is no more."""
        place = _NEAREST_FIRST.index(self.shown_view(run))
        others = self._that_differ(_NEAREST_FIRST[place + 1 :], run, count)
        if not others:
            return self
        # What shows the whole run now goes on to do so.
        whole_ns = _column_ns(View.WHOLE, run, count)
        shows_all = _column_ns(others[0], run, count) == whole_ns
        return self.viewing(View.WHOLE if shows_all else others[0], run, count)

    def _that_differ(self, views: Sequence[View], run: Run, count: int) -> list[View]:
        """Return the views that don't draw the same as this window's own: a short run's do."""
        own_ns = _column_ns(self.shown_view(run), run, count)
        return [view for view in views if _column_ns(view, run, count) != own_ns]

    def viewing(self, view: View, run: Run, count: int) -> TimeWindow:
        """Return the window of a view, around the cursor, else around the middle when paused."""
        axis = self.axis(run, count)
        following = TimeWindow(view, None, self.cursor_ns)
        if self.cursor_ns is not None:
            middle_ns = self.cursor_ns
        elif self.is_paused(run, count):
            middle_ns = (axis.begin_ns + axis.end_ns) // 2
        else:
            return following
        half_ns = following._latest(run, count).column_ns * count // 2
        return replace(following, paused_ns=middle_ns - half_ns)._kept(run, count)

    def panned(self, columns: int, run: Run, count: int) -> TimeWindow:
        """Return the window moved by columns, later for positive ones; the cursor stays in it."""
        axis = self.axis(run, count)
        begin_ns = axis.begin_ns + columns * axis.column_ns + _step_ns(run, axis.column_ns) // 2
        moved = _axis_from(run, begin_ns, self._latest(run, count))
        cursor_ns = self.cursor_ns
        if cursor_ns is not None:
            cursor_ns = max(moved.begin_ns, min(cursor_ns, moved.end_ns - moved.column_ns))
        return TimeWindow(self.view, moved.begin_ns, cursor_ns)._kept(run, count)

    def followed(self, run: Run, count: int) -> TimeWindow:
        """Return the window that follows the run; a cursor that is out of its sight is gone."""
        seen = self.cursor_ns is not None and self.cursor_ns >= self._latest(run, count).begin_ns
        return TimeWindow(self.view, None, self.cursor_ns if seen else None)

    def with_cursor_at(self, column: int, run: Run, count: int) -> TimeWindow:
        """Return the window with the cursor on a column; on the last that is over, beyond it."""
        axis = self.axis(run, count)
        if axis.known == 0:
            return self
        column = max(0, min(axis.known - 1, column))
        cursor_ns = axis.begin_ns + column * axis.column_ns
        return replace(self, view=self.shown_view(run), cursor_ns=cursor_ns)

    def with_cursor_moved(self, samples: int, run: Run, count: int) -> TimeWindow:
        """Return the window with the cursor so many samples later, or earlier for negative ones.

        Where a column holds several samples it moves by columns. One that is
        not there yet comes where the newest column is. At the edge it takes the
        window along.
        """
        axis, latest = self.axis(run, count), self._latest(run, count)
        if self.cursor_ns is None or latest.known == 0:
            return self.with_cursor_at(axis.known - 1, run, count)
        cursor_ns = self.cursor_ns + samples * max(run.interval_ns, axis.column_ns)
        last_ns = latest.end_ns - latest.column_ns
        cursor_ns = max(_begin_ns(run, axis.column_ns), min(cursor_ns, last_ns))
        return TimeWindow(self.view, self.paused_ns, cursor_ns)._kept(run, count)

    def at_begin(self, run: Run, count: int) -> TimeWindow:
        """Return the window at the run's begin, with its cursor there where it has one."""
        begin_ns = _begin_ns(run, self._latest(run, count).column_ns)
        cursor_ns = None if self.cursor_ns is None else begin_ns
        return TimeWindow(self.view, begin_ns, cursor_ns)._kept(run, count)

    def at_end(self, run: Run, count: int) -> TimeWindow:
        """Return the window that follows the run, with its cursor, if any, at the newest column."""
        following = TimeWindow(self.view)
        return following if self.cursor_ns is None else following.with_cursor_at(count, run, count)

    def without_cursor(self) -> TimeWindow:
        """Return the window without its cursor."""
        return replace(self, cursor_ns=None)

    def _latest(self, run: Run, count: int) -> TimeAxis:
        return latest_axis(run, _column_ns(self.shown_view(run), run, count), count)

    def _kept(self, run: Run, count: int) -> TimeWindow:
        """Return the window that stays where it is now, or follows if that is the newest place."""
        begin_ns = self.axis(run, count).begin_ns
        follows = begin_ns >= self._latest(run, count).begin_ns
        return replace(self, view=self.shown_view(run), paused_ns=None if follows else begin_ns)


def _begin_ns(run: Run, column_ns: int) -> int:
    """Return where a run's first column begins: with a sample, or a whole part of one."""
    unit_ns = min(column_ns, run.interval_ns)
    return run.begin_ns // unit_ns * unit_ns


def _step_ns(run: Run, column_ns: int) -> int:
    """Return by how much an axis moves at a time: whole cells, and whole samples."""
    return math.lcm(COLUMNS_PER_CELL * column_ns, run.interval_ns)


def latest_axis(run: Run, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that ends where the run does.

    That of a run that goes on fills by whole cells, then makes room for several
    more at once: to move costs a repaint of all charts. One that is over shows
    its last column even if it isn't whole.
    """
    begin_ns = _begin_ns(run, column_ns)
    step = _step_ns(run, column_ns) // column_ns
    over = max(0, run.settled_ns - begin_ns) // column_ns
    if run.goes_on:
        over = over // COLUMNS_PER_CELL * COLUMNS_PER_CELL
        step = max(step, count // MOVES // step * step)
    else:
        over += 1
    # Where a step is longer than the axis, the next one could lie beyond the run's end.
    first = min(-(-max(0, over - count) // step), over // step) * step
    known = max(0, min(count, over - first))
    return TimeAxis(begin_ns + first * column_ns, column_ns, count, known)


def _axis_from(run: Run, begin_ns: int, latest: TimeAxis) -> TimeAxis:
    """Return the axis that begins at the last whole step before `begin_ns`, within the run."""
    first_ns = _begin_ns(run, latest.column_ns)
    step_ns = _step_ns(run, latest.column_ns)
    begin_ns = first_ns + max(0, begin_ns - first_ns) // step_ns * step_ns
    if begin_ns >= latest.begin_ns:
        return latest
    known = (latest.end_ns - begin_ns) // latest.column_ns
    return replace(latest, begin_ns=begin_ns, known=min(latest.count, known))


# ---- how wide a column is ----


def _column_ns(view: View, run: Run, count: int) -> int:
    """Return how wide a column is in a view, on a chart with room for `count` of them."""
    count = max(1, count)
    whole_ns = _whole_column_ns(run, count)
    if view is View.WHOLE:
        return whole_ns
    if view is View.MINUTE:
        column_ns = _minute_column_ns(run, count)
    else:
        # Whole seconds, as far as they are whole samples.
        unit_ns = -(-_SECOND_NS // run.interval_ns) * run.interval_ns
        column_ns = -(-600 * _SECOND_NS // (count * unit_ns)) * unit_ns
    # A short run shall not leave the charts empty.
    return min(column_ns, whole_ns)


def _minute_column_ns(run: Run, count: int) -> int:
    """Return the column of which `count` are at least a minute, and as little more as may be."""
    minute_ns = 60 * _SECOND_NS
    samples_ns = run.interval_ns * count
    if samples_ns < minute_ns:
        return -(-minute_ns // samples_ns) * run.interval_ns
    return next(ns for ns in _fractions(run, samples_ns // minute_ns) if ns * count >= minute_ns)


def _whole_column_ns(run: Run, count: int) -> int:
    """Return the column of which `count` hold all of a run.

    While it goes on, the column grows seldom, and is never narrower than that
    of the last minute; once it is over, the columns fill the chart.
    """
    if run.goes_on:
        return next(ns for ns in _growing(run, count) if _holds(run, ns, count))
    length_ns = max(run.interval_ns, run.end_ns + 1 - run.begin_ns)
    column_ns = -(-length_ns // count)
    # The first column begins up to one earlier than the run.
    while not _holds(run, column_ns, count):
        column_ns += -(-column_ns // count)
    return column_ns


def _growing(run: Run, count: int) -> Iterator[int]:
    """Yield widths: that of the last minute, then 1, 2, 3, 4, 6, 8, 12, 16 ... samples."""
    least_ns = _minute_column_ns(run, count)
    yield least_ns
    widths = (factor * run.interval_ns << power for power in itertools.count() for factor in (2, 3))
    yield from (ns for ns in itertools.chain((run.interval_ns,), widths) if ns > least_ns)


def _fractions(run: Run, most: int) -> Iterator[int]:
    """Yield the sampling interval in whole parts, from at most `most` of them down to one."""
    return (run.interval_ns // n for n in range(max(1, most), 0, -1) if run.interval_ns % n == 0)


def _holds(run: Run, column_ns: int, count: int) -> bool:
    return run.end_ns < _begin_ns(run, column_ns) + column_ns * count
