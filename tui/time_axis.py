"""The one time axis that all charts of a screen share. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dlmon.session import Stretch

# Records arrive up to this much after what they tell of.
SETTLED_NS = 400_000_000


@dataclass(frozen=True)
class TimeAxis:
    """`count` columns of `column_ns` from `begin_ns` on."""

    begin_ns: int
    column_ns: int
    count: int

    @property
    def end_ns(self) -> int:
        """Where the newest column ends."""
        return self.begin_ns + self.count * self.column_ns

    def column_of(self, t_ns: int) -> int:
        """Return the column of a time; it may lie outside."""
        return (t_ns - self.begin_ns) // self.column_ns

    def marks(self, epoch_begins: Iterable[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        """Return where epochs began, numbered as people do."""
        placed = ((self.column_of(begin), str(epoch + 1)) for epoch, begin in epoch_begins)
        return tuple((column, label) for column, label in placed if 0 <= column < self.count)

    def shades(self, stretches: Iterable[Stretch]) -> tuple[tuple[int, int, str], ...]:
        """Return the stretches that compile or validate."""
        kinds = {"compiling": "compile", "validating": "validation", "evaluating": "validation"}
        found = []
        for stretch in stretches:
            kind = kinds.get(stretch.phase)
            if kind is None:
                continue
            first = self.column_of(stretch.begin)
            last = self.column_of(stretch.end) if stretch.end is not None else self.count - 1
            if last >= 0 and first < self.count:
                found.append((max(0, first), min(self.count - 1, last), kind))
        return tuple(found)


def latest_axis(now_ns: int, column_ns: int, count: int) -> TimeAxis:
    """Return the axis that ends with the newest whole column, so that no column changes twice."""
    end = (now_ns - SETTLED_NS) // column_ns
    return TimeAxis((end - count) * column_ns, column_ns, count)
