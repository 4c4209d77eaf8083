"""Values over time, ready to be drawn as columns.

Pure. Times are CLOCK_MONOTONIC nanoseconds. A series holds its mean in buckets, as numbers one
after another; where there get very many, two become one. A time that nothing covered is a gap
(None), never zero.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress
from math import isfinite
from operator import add, truediv
from typing import Any

MOST_BUCKETS = 1 << 17
"""A day and a half of seconds: of longer times all buckets are twice as wide, and so on."""
MOST_AT_ONCE = 4096
LARGEST, SMALLEST = 1e100, 1e-100
"""Nothing has a value as large as the one, whatever its sign; one as small as the other is 0."""


class Series:
    """One quantity over time.

    Args:
        bucket_ns: the finest resolution; about the sampling interval.
    """

    def __init__(self, bucket_ns: int = 1_000_000_000) -> None:
        self.width_ns = bucket_ns
        self.first = 0
        """The number of the first bucket, from the clock's 0."""
        # Of each bucket: value × time, and how much of its time is covered.
        self.sums: array[float] = array("d")
        self.covered_ns: array[float] = array("d")
        self._has_others = False
        self.end_ns: int | None = None

    @property
    def mean(self) -> float | None:
        """The mean over all time that is covered; None where none is."""
        covered_ns = sum(self.covered_ns)
        return sum(self.sums) / covered_ns if covered_ns else None

    @property
    def newest(self) -> float | None:
        """The mean of the last bucket; None where nothing covers it."""
        covered_ns = self.covered_ns[-1] if self.sums else 0.0
        return self.sums[-1] / covered_ns if covered_ns else None

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        """Say that the quantity had `value` from `start_ns` to `end_ns`."""
        if self._add(start_ns, end_ns, value, 1.0):
            self.end_ns = end_ns if self.end_ns is None else max(self.end_ns, end_ns)

    def add_beside(self, start_ns: int, end_ns: int, value: float) -> None:
        """Add what another source of the quantity had meanwhile: together they are the value.

        It counts where `add` says that there was a value at all.
        """
        self._has_others = True
        self._add(start_ns, end_ns, value, 0.0)

    def _add(self, start_ns: int, end_ns: int, value: float, covers: float) -> bool:
        if end_ns <= start_ns or not -LARGEST < value < LARGEST:
            return False
        # A forged or broken log may claim a span of years: don't fill buckets for it.
        start_ns = max(start_ns, end_ns - MOST_AT_ONCE * self.width_ns)
        at = self._reach(start_ns, end_ns)
        sums, covered_ns, width = self.sums, self.covered_ns, self.width_ns
        edge_ns = (start_ns // width + 1) * width
        while start_ns < end_ns:
            until_ns = edge_ns if edge_ns < end_ns else end_ns
            sums[at] += value * (until_ns - start_ns)
            covered_ns[at] += covers * (until_ns - start_ns)
            start_ns, edge_ns, at = until_ns, edge_ns + width, at + 1
        return True

    def add_batches(self, start_ns: int, dt_us: Sequence[int], samples: Sequence[int]) -> None:
        """Add the throughput, in samples per second, of consecutive batches.

        A batch longer than a bucket is spread over its duration; many short
        ones in a bucket become one value.
        """
        width_ns, total_us = self.width_ns, sum(dt_us)
        end_ns = start_ns + total_us * 1000
        if total_us and start_ns // width_ns == (end_ns - 1) // width_ns:
            # Most lie within one bucket.
            self.add(start_ns, end_ns, sum(samples) / (total_us / 1e6))
            return
        ends = list(accumulate(dt_us, initial=0))
        done = list(accumulate(samples, initial=0))
        at_us = before = 0.0
        while at_us < total_us:
            at_ns = start_ns + int(at_us * 1000)
            boundary_ns = (at_ns // width_ns + 1) * width_ns
            next_us = min(total_us, max((boundary_ns - start_ns) / 1000, at_us + 1))
            if total_us > MOST_AT_ONCE * 1e6:
                next_us = total_us
            by_then = _interpolate(ends, done, next_us)
            rate = (by_then - before) / ((next_us - at_us) / 1e6)
            self.add(at_ns, start_ns + int(next_us * 1000), rate)
            at_us, before = next_us, by_then

    def __getstate__(self) -> dict[str, Any]:
        """Four bytes each are enough to be drawn, where they hold it."""
        sums, covered_ns = array("f", self.sums), array("f", self.covered_ns)
        small = {"sums": sums, "covered_ns": covered_ns} if isfinite(sum(sums)) else {}
        return vars(self) | small

    def until(self, end_ns: int | None) -> Series:
        """Return the series as it was when it had come to a moment, but for the bucket of that."""
        series = Series(self.width_ns)
        if end_ns is not None:
            held = max(0, end_ns // self.width_ns - self.first)
            series.first, series.end_ns, series._has_others = self.first, end_ns, True
            series.sums, series.covered_ns = self.sums[:held], self.covered_ns[:held]
        return series

    def double(self) -> None:
        """Make each bucket twice as wide."""
        for name in ("sums", "covered_ns"):
            held = getattr(self, name)
            held[:0] = array(held.typecode, (0.0,) * (self.first % 2))
            held.extend((0.0,) * (len(held) % 2))
            setattr(self, name, array(held.typecode, map(add, held[::2], held[1::2])))
        self.first, self.width_ns = self.first // 2, 2 * self.width_ns

    def _reach(self, start_ns: int, end_ns: int) -> int:
        """Have buckets between two moments; return the place of the first of them."""
        at, behind = self._places(start_ns, end_ns)
        if at >= 0 and behind <= len(self.sums):
            return at
        if not self.sums:
            self.first, at, behind = self.first + at, 0, behind - at
        while max(behind, len(self.sums)) - min(at, 0) > MOST_BUCKETS:
            self.double()
            at, behind = self._places(start_ns, end_ns)
        for held in (self.sums, self.covered_ns):
            held.extend((0.0,) * (behind - len(held)))
            if at < 0:
                held[:0] = array(held.typecode, (0.0,) * -at)
        self.first += min(at, 0)
        return max(at, 0)

    def _places(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Return where the buckets between two moments begin and end, be they held or not."""
        return start_ns // self.width_ns - self.first, -(-end_ns // self.width_ns) - self.first

    def _within(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """Return what is held between two moments: value × time, and the time that is covered."""
        at, behind = self._places(start_ns, end_ns)
        count = len(self.sums)
        within = slice(max(at, 0), max(behind, 0))
        sums, covered_ns = self.sums[within], self.covered_ns[within]
        if not sums:
            return 0.0, 0.0
        origin_ns = self.first * self.width_ns
        # Of the first bucket and the last only a part may lie within.
        for edge, outside_ns in (
            (0, start_ns - origin_ns - at * self.width_ns if at >= 0 else 0),
            (-1, behind * self.width_ns - end_ns + origin_ns if behind <= count else 0),
        ):
            if outside_ns:
                left = 1 - outside_ns / self.width_ns
                sums[edge] *= left
                covered_ns[edge] *= left
        return sum(compress(sums, covered_ns) if self._has_others else sums), sum(covered_ns)

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        """Return the mean over each of `count` columns from `start_ns` on; None where unknown.

        Where the last value ends within a column, that column is the mean of a
        whole one up to there, as far as the one before it is known: else a slow
        batch at the end would look like a drop.
        """
        column_ns = max(1, column_ns)
        edges = range(start_ns, start_ns + column_ns * count, column_ns)
        held = [self._within(edge, edge + column_ns) for edge in edges]
        means = [total / covered if covered else None for total, covered in held]
        if self.end_ns is None:
            return means
        last = (self.end_ns - 1 - start_ns) // column_ns
        # A bucket may reach further than what it covers.
        first_after = min(count, max(0, last + 1))
        means[first_after:] = [None] * (count - first_after)
        if 0 < last < count:
            before, mean = means[last - 1], means[last]
            if before is not None and mean is not None:
                open_ns = edges[last] + column_ns - self.end_ns
                covered_ns = held[last][1]
                means[last] = (mean * covered_ns + before * open_ns) / (covered_ns + open_ns)
        return means

    def extremes(self, start_ns: int, end_ns: int) -> tuple[float, float] | None:
        """Return the least and the greatest mean of the buckets that lie between two moments."""
        at, behind = (max(0, place) for place in self._places(start_ns, end_ns))
        sums, covered_ns = self.sums[at:behind], self.covered_ns[at:behind]
        values = list(map(truediv, compress(sums, covered_ns), filter(None, covered_ns)))
        return (min(values), max(values)) if values else None

    @property
    def start_ns(self) -> int | None:
        """Where the first bucket begins; None without one."""
        return self.first * self.width_ns if self.sums else None


def _interpolate(ends: list[int], done: list[int], at_us: float) -> float:
    """Return how many samples were done at a time, linear within a batch."""
    after = bisect_right(ends, at_us)
    if after >= len(ends):
        return done[-1]
    length = ends[after] - ends[after - 1]
    share = (at_us - ends[after - 1]) / length if length else 0.0
    return done[after - 1] + (done[after] - done[after - 1]) * share
