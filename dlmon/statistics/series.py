"""Values over time, ready to be drawn as columns.

Pure. Times are CLOCK_MONOTONIC nanoseconds. A series holds means in buckets; when there are too
many, neighbours are merged in pairs. A time without a value is a gap (None), never zero.
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
"""A day and a half of seconds. A longer series doubles the width of its buckets."""
MOST_AT_ONCE = 4096
LARGEST, SMALLEST = 1e100, 1e-100
"""Absolute values from LARGEST on are ignored; values up to SMALLEST are drawn as 0."""


class Series:
    """One quantity over time.

    Args:
        bucket_ns: the finest resolution; about the sampling interval.
    """

    def __init__(self, bucket_ns: int = 1_000_000_000) -> None:
        self.width_ns = bucket_ns
        self.first = 0
        """The number of the first bucket, from the clock's 0."""
        # For each bucket: value × time, and the time with a value.
        self.sums: array[float] = array("d")
        self.covered_ns: array[float] = array("d")
        self._has_others = False
        self.end_ns: int | None = None

    @property
    def mean(self) -> float | None:
        """The mean over all time with a value; None without any."""
        covered_ns = sum(self.covered_ns)
        return sum(self.sums) / covered_ns if covered_ns else None

    @property
    def newest(self) -> float | None:
        """The mean of the last bucket; None if it has no value."""
        covered_ns = self.covered_ns[-1] if self.sums else 0.0
        return self.sums[-1] / covered_ns if covered_ns else None

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        """Set the quantity to `value` from `start_ns` to `end_ns`."""
        is_later = self.end_ns is None or end_ns > self.end_ns
        if self._add(start_ns, end_ns, value, 1.0) and is_later:
            self.end_ns = end_ns

    def add_beside(self, start_ns: int, end_ns: int, value: float) -> None:
        """Add the value of another source of the quantity to the value of the first.

        It counts only for times to which `add` gave a value.
        """
        self._has_others = True
        self._add(start_ns, end_ns, value, 0.0)

    def _add(self, start_ns: int, end_ns: int, value: float, covers: float) -> bool:
        if end_ns <= start_ns or not -LARGEST < value < LARGEST:
            return False
        if end_ns - start_ns > MOST_AT_ONCE * self.width_ns:
            # A forged or broken log may claim a span of years: don't fill buckets for it.
            start_ns = end_ns - MOST_AT_ONCE * self.width_ns
        at, behind = self._indexes(start_ns, end_ns)
        if at < 0 or behind > len(self.sums):
            at = self._reach(start_ns, end_ns)
        sums, covered_ns, width = self.sums, self.covered_ns, self.width_ns
        edge_ns = (self.first + at + 1) * width
        while edge_ns < end_ns:
            sums[at] += value * (edge_ns - start_ns)
            covered_ns[at] += covers * (edge_ns - start_ns)
            start_ns, edge_ns, at = edge_ns, edge_ns + width, at + 1
        sums[at] += value * (end_ns - start_ns)
        covered_ns[at] += covers * (end_ns - start_ns)
        return True

    def add_batches(self, start_ns: int, dt_us: Sequence[int], samples: Sequence[int]) -> None:
        """Add the throughput, in samples per second, of consecutive batches.

        A batch longer than a bucket is spread over its duration; many short
        ones in a bucket become one value.
        """
        width_ns, total_us = self.width_ns, sum(dt_us)
        end_ns = start_ns + total_us * 1000
        if total_us and start_ns // width_ns == (end_ns - 1) // width_ns:
            # The usual case: all lie within one bucket.
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
        """Keep four bytes of each number if they can hold it: enough for a chart."""
        sums, covered_ns = array("f", self.sums), array("f", self.covered_ns)
        small = {"sums": sums, "covered_ns": covered_ns} if isfinite(sum(sums)) else {}
        return vars(self) | small

    def until(self, end_ns: int | None) -> Series:
        """Return the series up to the bucket before `end_ns`."""
        series = Series(self.width_ns)
        if end_ns is not None:
            count = max(0, end_ns // self.width_ns - self.first)
            series.first, series.end_ns, series._has_others = self.first, end_ns, True
            series.sums, series.covered_ns = self.sums[:count], self.covered_ns[:count]
        return series

    @property
    def whole(self) -> Series:
        """The series without a first and a last bucket of which only a part has a value.

        A few steps of a bucket say little of it. The series itself if no other bucket is left.
        """
        covered_ns, width_ns = self.covered_ns, self.width_ns
        first, behind = 0, len(covered_ns)
        first += behind > 0 and covered_ns[0] < width_ns
        behind -= behind > 0 and covered_ns[-1] < width_ns
        if (first == 0 and behind == len(covered_ns)) or first >= behind:
            return self
        series = Series(width_ns)
        series.first, series._has_others = self.first + first, True
        series.sums, series.covered_ns = self.sums[first:behind], covered_ns[first:behind]
        series.end_ns = min(self.end_ns or 0, (self.first + behind) * width_ns)
        return series

    def double(self) -> None:
        """Make each bucket twice as wide."""
        for name in ("sums", "covered_ns"):
            buckets = getattr(self, name)
            buckets[:0] = array(buckets.typecode, (0.0,) * (self.first % 2))
            buckets.extend((0.0,) * (len(buckets) % 2))
            setattr(self, name, array(buckets.typecode, map(add, buckets[::2], buckets[1::2])))
        self.first, self.width_ns = self.first // 2, 2 * self.width_ns

    def _reach(self, start_ns: int, end_ns: int) -> int:
        """Create missing buckets between two moments; return the index of the first one."""
        at, behind = self._indexes(start_ns, end_ns)
        if not self.sums:
            self.first, at, behind = self.first + at, 0, behind - at
        if at >= 0 and behind == len(self.sums) + 1 <= MOST_BUCKETS:
            # As a rule time goes on.
            self.sums.append(0.0)
            self.covered_ns.append(0.0)
            return at
        while max(behind, len(self.sums)) - min(at, 0) > MOST_BUCKETS:
            self.double()
            at, behind = self._indexes(start_ns, end_ns)
        for buckets in (self.sums, self.covered_ns):
            buckets.extend((0.0,) * (behind - len(buckets)))
            if at < 0:
                buckets[:0] = array(buckets.typecode, (0.0,) * -at)
        self.first += min(at, 0)
        return max(at, 0)

    def _indexes(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Return the indexes of the first bucket and behind the last; they may be out of range."""
        return start_ns // self.width_ns - self.first, -(-end_ns // self.width_ns) - self.first

    def _within(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """Return value × time and the time with a value, between two moments."""
        at, behind = self._indexes(start_ns, end_ns)
        count = len(self.sums)
        within = slice(max(at, 0), max(behind, 0))
        sums, covered_ns = self.sums[within], self.covered_ns[within]
        if not sums:
            return 0.0, 0.0
        origin_ns = self.first * self.width_ns
        # Only a part of the first and the last bucket may lie within.
        for edge, outside_ns in (
            (0, start_ns - origin_ns - at * self.width_ns if at >= 0 else 0),
            (-1, behind * self.width_ns - end_ns + origin_ns if behind <= count else 0),
        ):
            if outside_ns:
                share = 1 - outside_ns / self.width_ns
                sums[edge] *= share
                covered_ns[edge] *= share
        return sum(compress(sums, covered_ns) if self._has_others else sums), sum(covered_ns)

    def mean_between(self, start_ns: int, end_ns: int) -> float | None:
        """Return the mean between two moments; None without a value."""
        total, covered_ns = self._within(start_ns, end_ns)
        return total / covered_ns if covered_ns else None

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        """Return the mean of each of `count` columns from `start_ns` on; None if it has no value.

        If the last value ends within a column, the mean of the column before fills the rest of
        it: otherwise a slow batch at the end would look like a drop.
        """
        column_ns = max(1, column_ns)
        edges = range(start_ns, start_ns + column_ns * count, column_ns)
        if self.width_ns % column_ns or start_ns % column_ns:
            sums = [self._within(edge, edge + column_ns) for edge in edges]
        else:
            sums = self._parts_of_buckets(edges, column_ns / self.width_ns)
        means = [total / covered_ns if covered_ns else None for total, covered_ns in sums]
        if self.end_ns is None:
            return means
        last = (self.end_ns - 1 - start_ns) // column_ns
        # A bucket may reach beyond the end of its value.
        first_after = min(count, max(0, last + 1))
        means[first_after:] = [None] * (count - first_after)
        if 0 < last < count:
            before, mean = means[last - 1], means[last]
            if before is not None and mean is not None:
                open_ns = edges[last] + column_ns - self.end_ns
                covered_ns = sums[last][1]
                means[last] = (mean * covered_ns + before * open_ns) / (covered_ns + open_ns)
        return means

    def _parts_of_buckets(self, starts: range, share: float) -> list[tuple[float, float]]:
        """Return value × time and the time with a value of columns that are parts of buckets."""
        indexes = (start_ns // self.width_ns - self.first for start_ns in starts)
        sums, covered_ns, count = self.sums, self.covered_ns, len(self.sums)
        return [
            (sums[at] * share, covered_ns[at] * share) if 0 <= at < count else (0.0, 0.0)
            for at in indexes
        ]

    def extremes(self, start_ns: int, end_ns: int) -> tuple[float, float] | None:
        """Return the least and the greatest mean of the buckets between two moments."""
        at, behind = (max(0, index) for index in self._indexes(start_ns, end_ns))
        sums, covered_ns = self.sums[at:behind], self.covered_ns[at:behind]
        values = list(map(truediv, compress(sums, covered_ns), filter(None, covered_ns)))
        return (min(values), max(values)) if values else None

    @property
    def start_ns(self) -> int | None:
        """The begin of the first bucket; None without one."""
        return self.first * self.width_ns if self.sums else None


def _interpolate(ends: list[int], done: list[int], at_us: float) -> float:
    """Return the number of samples done by `at_us`, linear within a batch."""
    after = bisect_right(ends, at_us)
    if after >= len(ends):
        return done[-1]
    length = ends[after] - ends[after - 1]
    share = (at_us - ends[after - 1]) / length if length else 0.0
    return done[after - 1] + (done[after] - done[after - 1]) * share
