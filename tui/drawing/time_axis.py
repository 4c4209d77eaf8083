"""The one time axis that all charts of a screen share: what stands where along it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
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
    """`count` columns of `column_ns` from `start_ns` on, of which the first `known` are over."""

    start_ns: int
    column_ns: int
    count: int
    known: int

    @property
    def end_ns(self) -> int:
        """The end of the last column that is over."""
        return self.start_ns + self.known * self.column_ns

    @property
    def ending_now(self) -> TimeAxis:
        """The axis of as many columns that ends with the last one that is over."""
        start_ns = self.end_ns - self.count * self.column_ns
        return replace(self, start_ns=start_ns, known=self.count)

    def columns(self, series: Series) -> tuple[float | None, ...]:
        """Return a series along this axis; what is not over yet is a gap."""
        known = series.columns(self.start_ns, self.column_ns, self.known)
        return (*known, *(None,) * (self.count - self.known))

    def extremes(self, series: Series) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """Return the least and the greatest value in each column; None where that isn't known."""
        edges = range(self.start_ns, self.start_ns + self.count * self.column_ns, self.column_ns)
        found = [
            series.extremes(start, start + self.column_ns) if n < self.known else None
            for n, start in enumerate(edges)
        ]
        lows = tuple(None if pair is None else pair[0] for pair in found)
        return lows, tuple(None if pair is None else pair[1] for pair in found)

    def marks(self, epoch_starts: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return where epochs began, numbered as people do.

        Where not all of their numbers have room, every second, fifth, tenth … of them, so that
        the marks thin out evenly; at least one of those that are in sight.
        """
        starts = [(n, t) for n, t in epoch_starts if 0 <= self.column_of(t) < self.known]
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
        """Return the stretches that compile or validate, the pauses, the stalls and the alerts."""
        found = []
        for stretch in phase_spans:
            kind = _SHADES.get(stretch.phase)
            if kind is None:
                continue
            first = max(0, self.column_of(stretch.start))
            last = self.known - 1
            if stretch.end is not None:
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
        """Whether there is any text."""
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
