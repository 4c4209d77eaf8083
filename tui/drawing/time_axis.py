"""The time axis that all charts of a screen share, and what part of a run it shows. Pure.

A column is a whole multiple or a whole fraction of the sampling interval, and
all columns stand at whole columns from the run's start, so that a sample is
never drawn half here and half there. An axis moves by whole cells. Only a run
that is over, seen whole, has the columns that fill the charts: nothing moves
any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.records.record import record
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL

if TYPE_CHECKING:
    from dlmon.session.snapshot import PhaseSpan

_STEPS: tuple[int, ...] = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))

# Times that people count in, and the cells for a label's tick and the gap to the next one.
_LABELLED_S = (
    *(1, 2, 5, 10, 20, 30),
    *(minutes * 60 for minutes in (1, 2, 5, 10, 20, 30)),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12, 24)),
)
_LABEL_APART = 3
BETWEEN_STEPS = "between steps"
"""A stretch between two steps as it comes every so many steps, which is no phase."""
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
    """`count` columns of `column_ns` from `start_ns` on, of which the first `elapsed` are over."""

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
        """The axis of as many columns that ends with the last one that is over."""
        start_ns = self.end_ns - self.count * self.column_ns
        return replace(self, start_ns=start_ns, elapsed=self.count)

    def columns(self, series: Series) -> tuple[float | None, ...]:
        """Return a series along this axis; what is not over yet is a gap."""
        known = series.columns(self.start_ns, self.column_ns, self.elapsed)
        return (*known, *(None,) * (self.count - self.elapsed))

    def extremes(self, series: Series) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """Return the least and the greatest value in each column; None where that isn't known."""
        edges = range(self.start_ns, self.start_ns + self.count * self.column_ns, self.column_ns)
        found = [
            series.extremes(start, start + self.column_ns) if n < self.elapsed else None
            for n, start in enumerate(edges)
        ]
        lows = tuple(None if pair is None else pair[0] for pair in found)
        return lows, tuple(None if pair is None else pair[1] for pair in found)

    def marks(self, epoch_starts: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return where epochs began, numbered as people do.

        Where not all of their numbers have room, every second, fifth, tenth … of them, so that
        the marks thin out evenly; at least one of those that are in sight.
        """
        starts = [(n, t) for n, t in epoch_starts if 0 <= self.column_of(t) < self.elapsed]
        placed = [(self.column_of(t), epoch + 1) for epoch, t in starts]
        room_ns = mark_columns(placed[-1][1]) * self.column_ns if placed else 0
        step = _marked_step([t for _, t in starts], room_ns)
        marked = [(column, number) for column, number in placed if number % step == 0]
        # The very first is kept where it doesn't take the next one's room.
        first = [(column, number) for column, number in placed[:1] if number == 1]
        if step > 1 and first and marked[:1]:
            has_room = marked[0][0] - first[0][0] >= mark_columns(1)
            marked = first + marked if has_room else marked
        return tuple((column, str(number)) for column, number in marked or placed[-1:])

    def time_elapsed(self, start_ns: int) -> TimeLabels:
        """Return round times since `start_ns` and where they stand: 0:30, 1:00, 12:30."""
        end_ns = self.start_ns + self.count * self.column_ns
        step_ns = self._labelled_step_ns(max(0, end_ns - start_ns), _elapsed_text, _LABEL_APART)
        first = max(0, -(-(self.start_ns - start_ns) // step_ns))
        times = range(start_ns + first * step_ns, end_ns, step_ns)
        return TimeLabels(
            tuple((max(0, self.column_of(t)), _elapsed_text((t - start_ns) / 1e9)) for t in times)
        )

    def time_before_now(self, is_over: bool = False) -> TimeLabels:
        """Return round times before now, or the end, and where they stand: -2m, -1m."""
        length_ns = self.count * self.column_ns
        step_ns = self._labelled_step_ns(length_ns, _ago_text, _LABEL_APART + len(_NOW))
        before = range(length_ns // step_ns * step_ns, 0, -step_ns)
        marks = ((self.column_of(self.start_ns + length_ns - ns), ns) for ns in before)
        texts = tuple((column, _ago_text(ns / 1e9)) for column, ns in marks)
        return TimeLabels(texts, last=_END if is_over else _NOW)

    def _labelled_step_ns(
        self, longest_ns: int, text_of: Callable[[float], str], apart: int
    ) -> int:
        """Return the least round time that is wider than its labels and what keeps them apart."""
        room_ns = 0
        for step_s in _LABELLED_S:
            last = longest_ns // (step_s * _SECOND_NS)
            widest = max(len(text_of(step_s * n)) for n in (last, max(0, last - 1)))
            room_ns = self.column_ns * COLUMNS_PER_CELL * (widest + apart)
            if step_s * _SECOND_NS >= room_ns:
                return step_s * _SECOND_NS
        return -(-room_ns // _DAY_NS) * _DAY_NS

    def shades(self, phase_spans: Iterable[PhaseSpan]) -> tuple[tuple[int, int, str], ...]:
        """Return the stretches that compile or validate, the pauses, the stalls and the alerts.

        Of epochs of a second, each of whose validations takes hundredths, all columns would be
        shaded: what ends within half a column is not, unless it stands out.
        """
        found = []
        for stretch in phase_spans:
            kind = _SHADES.get(stretch.phase)
            if kind is None:
                continue
            first = max(0, self.column_of(stretch.start))
            last = self.elapsed - 1
            if stretch.end is not None:
                is_short = stretch.end - stretch.start < self.column_ns // 2
                if is_short and kind in ("validation", "pause"):
                    continue
                last = min(last, self.column_of(stretch.end))
            if first <= last:
                found.append((first, last, kind))
        return tuple(found)

    def column_of(self, t_ns: int) -> int:
        """Return the column that an instant falls in; it may lie outside of the axis."""
        return (t_ns - self.start_ns) // self.column_ns


@record(frozen=True)
class TimeLabels:
    """Instants along an axis: the column of each, and its text.

    `last` stands at the right end. A chart has a line of its grid at each of them, labelled or not.
    """

    marks: tuple[tuple[int, str], ...] = ()
    last: str = ""

    @property
    def unlabelled(self) -> TimeLabels:
        """The same instants without a text: another chart below labels them."""
        return TimeLabels(tuple((column, "") for column, _ in self.marks))

    @property
    def are_shown(self) -> bool:
        return any(text for _, text in self.marks)


NO_LABELS = TimeLabels()


def _elapsed_text(seconds: float) -> str:
    return units.clock(seconds).removeprefix("0")


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
    """Return how many columns a mark takes: itself, its number and a blank."""
    return COLUMNS_PER_CELL * (len(str(number)) + 2)


def _marked_step(starts: list[int], room_ns: int) -> int:
    """Return of how many epochs one is marked, so that most marks have room for their numbers."""
    lengths = sorted(after - before for before, after in pairwise(starts))
    if not lengths:
        return 1
    # The usual length: that the first one takes long, as it compiles, says nothing of the others.
    usual_ns = lengths[len(lengths) // 2]
    return next((step for step in _STEPS if usual_ns * step >= room_ns), _STEPS[-1])


# Records arrive up to this much after what they report.
SETTLED_NS = 400_000_000

# A full chart moves by so large a part of its width at a time.
MOVES = 8

WHOLE_RUN = "whole run"
NOTHING_MORE, NOTHING_FINER = "nothing more to show", "nothing finer to show"
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


class ViewLength(Enum):
    """How much of a run is seen at once, in seconds."""

    TEN_SECONDS = 10
    HALF_A_MINUTE = 30
    MINUTE = 60
    TEN_MINUTES = 600
    WHOLE = 0


# A view of less than a minute needs as many samples, or it would be all steps.
_LEAST_SAMPLES = 10
# All of a run that goes on is seen in the first of these that holds it, then in twice and three
# times as much, so that it fills the charts and they change seldom.
_YOUNG_S = (5, 10, 20, 40, 60)
_MOST_PARTS = 1000
"""Of a sample: columns are no narrower."""


@record(frozen=True)
class TimeWindow:
    """The part of a run that is seen: the newest, or where one stopped; and the instant read.

    Attributes:
        view: how much of it; None for the last minute while it goes on, then for all of it.
        start_ns: where what is seen begins; None where it follows the run.
        cursor_ns: the instant that is read; None where there is no cursor.
        length_ns: how much is seen, in place of a view, as that of an epoch alone.
    """

    view: ViewLength | None = None
    start_ns: int | None = None
    cursor_ns: int | None = None
    length_ns: int | None = None

    def shown_view(self, run: RunSpan) -> ViewLength:
        """Return how much of a run is seen."""
        return self.view or (ViewLength.MINUTE if run.is_running else ViewLength.WHOLE)

    def axis(self, run: RunSpan, count: int) -> TimeAxis:
        """Return the axis of `count` columns that shows the window."""
        latest = self._latest(run, count)
        start_ns = latest.start_ns if self.start_ns is None else self.start_ns
        if self.cursor_ns is not None:
            # The cursor is in sight, whatever the width.
            shown_ns = (count - COLUMNS_PER_CELL) * latest.column_ns
            start_ns = max(min(start_ns, self.cursor_ns), self.cursor_ns - shown_ns)
        return _axis_from(run, start_ns, latest)

    def read_ns(self, axis: TimeAxis) -> int | None:
        """Return the instant that is read: the cursor's, or the nearest one that `axis` knows."""
        if self.cursor_ns is None or axis.elapsed == 0:
            return None
        return max(axis.start_ns, min(self.cursor_ns, axis.end_ns - 1))

    def cursor_column(self, axis: TimeAxis) -> int | None:
        """Return where the cursor stands on an axis of this window."""
        read_ns = self.read_ns(axis)
        return None if read_ns is None else axis.column_of(read_ns)

    def shown_part(self, run: RunSpan, count: int) -> str:
        """Name how much of a run is seen."""
        axis = self.axis(run, count)
        if axis.start_ns <= run.start_ns and not self.is_paused(run, count):
            return WHOLE_RUN
        seen_s = axis.column_ns * axis.count / 1e9
        return f"last {seen_s:.0f} s" if seen_s < 60 else f"last {units.clock(seen_s)}"

    def is_paused(self, run: RunSpan, count: int) -> bool:
        """Whether newer columns of the run are out of sight."""
        return self.axis(run, count).start_ns < self._latest(run, count).start_ns

    def zoomed_in(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that shows less of the run; this one where there is nothing nearer."""
        own_ns = self._column_ns(run, count)
        nearer = [view for ns, view in _views(run, count).items() if ns < own_ns]
        return self.viewing(nearer[-1], run, count) if nearer else self

    def zoomed_out(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that shows more of the run; this one where there is no more."""
        own_ns = self._column_ns(run, count)
        larger = [view for ns, view in _views(run, count).items() if ns > own_ns]
        return self.viewing(larger[0], run, count) if larger else self

    def next_view(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of the next larger view; after the largest comes the nearest."""
        larger = self.zoomed_out(run, count)
        nearest_ns, nearest = next(iter(_views(run, count).items()))
        if larger is not self or nearest_ns == self._column_ns(run, count):
            return larger
        return self.viewing(nearest, run, count)

    def viewing(self, view: ViewLength, run: RunSpan, count: int) -> TimeWindow:
        """Return the window of a view, around the cursor, else around the middle when paused."""
        axis = self.axis(run, count)
        middle_ns = self.cursor_ns
        if middle_ns is None and self.is_paused(run, count):
            middle_ns = (axis.start_ns + axis.end_ns) // 2
        following = TimeWindow(view, None, self.cursor_ns)
        if middle_ns is None:
            return following
        half_ns = following._column_ns(run, count) * count // 2
        return replace(following, start_ns=middle_ns - half_ns)._kept(run, count)

    def panned(self, columns: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window moved by columns, later for positive ones; the cursor stays in it."""
        if self.length_ns is not None:
            return replace(self, length_ns=None).panned(columns, run, count)
        axis = self.axis(run, count)
        start_ns = axis.start_ns + (columns + COLUMNS_PER_CELL // 2) * axis.column_ns
        moved = _axis_from(run, start_ns, self._latest(run, count))
        cursor_ns = self.cursor_ns
        if cursor_ns is not None:
            cursor_ns = max(moved.start_ns, min(cursor_ns, moved.end_ns - moved.column_ns))
        return replace(self, start_ns=moved.start_ns, cursor_ns=cursor_ns)._kept(run, count)

    def followed(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run; a cursor that is out of its sight is gone."""
        following = TimeWindow(self.view)
        first_ns = following._latest(run, count).start_ns
        seen = self.cursor_ns is not None and self.cursor_ns >= first_ns
        return replace(following, cursor_ns=self.cursor_ns if seen else None)

    def with_cursor_at(self, column: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with the cursor on a column; on the last that is over, beyond it."""
        axis = self.axis(run, count)
        if axis.elapsed == 0:
            return self
        column = max(0, min(axis.elapsed - 1, column))
        cursor_ns = axis.start_ns + column * axis.column_ns
        return replace(self, view=self.shown_view(run), cursor_ns=cursor_ns)

    def with_cursor_moved(self, samples: int, run: RunSpan, count: int) -> TimeWindow:
        """Return the window with the cursor so many samples later, or earlier for negative ones.

        Where a column holds several samples it moves by columns. One that is
        not there yet comes where the newest column is. At the edge it takes the
        window along.
        """
        axis, latest = self.axis(run, count), self._latest(run, count)
        if self.cursor_ns is None or latest.elapsed == 0:
            return self.with_cursor_at(axis.elapsed - 1, run, count)
        cursor_ns = self.cursor_ns + samples * max(run.interval_ns, axis.column_ns)
        last_ns = latest.end_ns - latest.column_ns
        cursor_ns = max(_start_ns(run, axis.column_ns), min(cursor_ns, last_ns))
        return replace(self, cursor_ns=cursor_ns)._kept(run, count)

    def at_start(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window at the run's start, with its cursor there where it has one."""
        start_ns = _start_ns(run, self._column_ns(run, count))
        cursor_ns = None if self.cursor_ns is None else start_ns
        return replace(self, start_ns=start_ns, cursor_ns=cursor_ns)._kept(run, count)

    def at_end(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that follows the run, with its cursor, if any, at the newest column."""
        following = TimeWindow(self.view)
        return following if self.cursor_ns is None else following.with_cursor_at(count, run, count)

    def spanning(self, start_ns: int, end_ns: int) -> TimeWindow:
        """Return the window that a stretch of the run fills."""
        return TimeWindow(self.view, start_ns, None, max(1, end_ns - start_ns))

    def without_cursor(self) -> TimeWindow:
        return replace(self, cursor_ns=None)

    def _column_ns(self, run: RunSpan, count: int) -> int:
        if self.length_ns is not None:
            return _fitting(self.length_ns, run, count)
        return _column_of(self.shown_view(run), run, count)

    def _latest(self, run: RunSpan, count: int) -> TimeAxis:
        return latest_axis(run, self._column_ns(run, count), count)

    def _kept(self, run: RunSpan, count: int) -> TimeWindow:
        """Return the window that stays where it is now, or follows if that is the newest place."""
        start_ns = self.axis(run, count).start_ns
        follows = self.length_ns is None and start_ns >= self._latest(run, count).start_ns
        return replace(self, view=self.shown_view(run), start_ns=None if follows else start_ns)


def latest_axis(run: RunSpan, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that ends where the run does.

    That of a run that goes on fills by whole cells, then makes room for several
    more at once: to move costs a repaint of all charts. One that is over shows
    its last column even if it isn't whole.
    """
    start_ns, step = _start_ns(run, column_ns), COLUMNS_PER_CELL
    over = max(0, run.settled_ns - start_ns) // column_ns
    if run.is_running:
        over = over // step * step
        step = max(step, count // MOVES // step * step)
    else:
        over += 1
    first = -(-max(0, over - count) // step) * step
    return TimeAxis(
        start_ns + first * column_ns, column_ns, count, max(0, min(count, over - first))
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
    """Return where a run's first column begins: with a sample, or a whole part of one."""
    unit_ns = min(column_ns, run.interval_ns)
    return run.start_ns // unit_ns * unit_ns


# ---- how wide a column is ----


def _views(run: RunSpan, count: int) -> dict[int, ViewLength]:
    """Return the views that have enough samples by their columns; of those alike, the largest."""
    least_s = min(ViewLength.MINUTE.value, _LEAST_SAMPLES * run.interval_ns / _SECOND_NS)
    offered = (view for view in ViewLength if view is ViewLength.WHOLE or view.value >= least_s)
    return {_column_of(view, run, count): view for view in offered}


def _column_of(view: ViewLength, run: RunSpan, count: int) -> int:
    """Return how wide a column is in a view, on a chart with room for `count` of them."""
    whole_ns = _whole_column_ns(run, max(1, count))
    if view is ViewLength.WHOLE:
        return whole_ns
    # A short run shall not leave the charts empty.
    return min(_fitting(view.value * _SECOND_NS, run, count), whole_ns)


def _fitting(length_ns: int, run: RunSpan, count: int) -> int:
    """Return the narrowest column, in whole samples or whole parts of one, for such a length."""
    exact_ns, interval_ns = -(-length_ns // max(1, count)), run.interval_ns
    if exact_ns >= interval_ns:
        return -(-exact_ns // interval_ns) * interval_ns
    parts = range(min(_MOST_PARTS, interval_ns // exact_ns), 0, -1)
    return next(interval_ns // n for n in parts if interval_ns % n == 0)


def _whole_column_ns(run: RunSpan, count: int) -> int:
    """Return the column of which `count` hold all of a run.

    While it goes on, the column grows seldom; once it is over, the columns fill
    the chart.
    """
    if run.is_running:
        widths = (_fitting(length_s * _SECOND_NS, run, count) for length_s in _growing())
        return next(ns for ns in widths if _holds(run, ns, count))
    column_ns = -(-max(run.interval_ns, run.end_ns + 1 - run.start_ns) // count)
    # The first column begins up to one earlier than the run.
    while not _holds(run, column_ns, count):
        column_ns += -(-column_ns // count)
    return column_ns


def _growing() -> Iterator[int]:
    yield from _YOUNG_S
    yield from (factor * 30 << power for power in itertools.count() for factor in (3, 4))


def _holds(run: RunSpan, column_ns: int, count: int) -> bool:
    return run.end_ns < _start_ns(run, column_ns) + column_ns * count
