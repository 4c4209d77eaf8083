"""The one time axis that all charts of a screen share. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dlmon.series import Series
from dlmon.session import Stretch

# Records arrive up to this much after what they tell of.
SETTLED_NS = 400_000_000

# Between two marks, on the average.
MARK_COLUMNS = 8
_STEPS: tuple[int, ...] = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))

_SHADES = {"compiling": "compile", "validating": "validation", "evaluating": "validation"}


@dataclass(frozen=True)
class TimeAxis:
    """`count` columns of `column_ns` from `begin_ns` on, of which the first `known` are over."""

    begin_ns: int
    column_ns: int
    count: int
    known: int

    def columns(self, series: Series) -> tuple[float | None, ...]:
        """Return a series along this axis; what is not over yet is a gap."""
        told = series.columns(self.begin_ns, self.column_ns, self.known)
        return (*told, *(None,) * (self.count - self.known))

    def marks(self, epoch_begins: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return where epochs began, numbered as people do; of short ones, only round numbers."""
        placed = [(self._column_of(begin), epoch + 1) for epoch, begin in epoch_begins]
        placed = [(column, number) for column, number in placed if 0 <= column < self.known]
        step = _marked_step(placed)
        return tuple((column, str(number)) for column, number in placed if number % step == 0)

    def shades(self, stretches: Iterable[Stretch]) -> tuple[tuple[int, int, str], ...]:
        """Return the stretches that compile or validate."""
        found = []
        for stretch in stretches:
            kind = _SHADES.get(stretch.phase)
            if kind is None:
                continue
            first = max(0, self._column_of(stretch.begin))
            last = self.known - 1
            if stretch.end is not None:
                last = min(last, self._column_of(stretch.end))
            if first <= last:
                found.append((first, last, kind))
        return tuple(found)

    def _column_of(self, t_ns: int) -> int:
        return (t_ns - self.begin_ns) // self.column_ns


def _marked_step(placed: list[tuple[int, int]]) -> int:
    """Return of how many epochs one is marked, so that the marks have room for their numbers."""
    span = placed[-1][0] - placed[0][0] if placed else 0
    for step in _STEPS:
        if span * step >= MARK_COLUMNS * (len(placed) - 1):
            return step
    return _STEPS[-1]


def whole_axis(start_ns: int, end_ns: int, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that holds all of a run that is over, in columns of whole `column_ns`."""
    begin_ns = start_ns // column_ns * column_ns
    length_ns = max(0, end_ns - begin_ns)
    width_ns = column_ns * (length_ns // (column_ns * max(1, count)) + 1)
    known = min(count, length_ns // width_ns + 1)
    return TimeAxis(begin_ns, width_ns, count, known)


def latest_axis(start_ns: int, now_ns: int, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that fills from `start_ns` on, and then moves a column at a time.

    A column that is not over stays out until it is, so none is drawn twice.
    """
    start, end = start_ns // column_ns, (now_ns - SETTLED_NS) // column_ns
    first = max(start, end - count)
    return TimeAxis(first * column_ns, column_ns, count, max(0, min(count, end - first)))
