"""Values over time in bounded memory, ready to be drawn as columns.

Pure. Times are CLOCK_MONOTONIC nanoseconds. Two resolutions are kept: fine
buckets for the recent past, and buckets that double in width as the run grows
for all of it. A time that nothing covered is a gap (None), never zero.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice

FINE_BUCKETS = 4096
WHOLE_BUCKETS = 2048
FORGOTTEN_AT_ONCE = 256


class _Buckets:
    """Sums of value × time and of time, by bucket number."""

    def __init__(self, width_ns: int) -> None:
        self.width_ns = width_ns
        self.sums: dict[int, float] = {}
        self.covered_ns: dict[int, float] = {}
        self.has_forgotten = False

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        # A day's log comes by here millions of times.
        width, sums, covered_ns = self.width_ns, self.sums, self.covered_ns
        number = start_ns // width
        edge_ns = (number + 1) * width
        while start_ns < end_ns:
            until_ns = edge_ns if edge_ns < end_ns else end_ns
            overlap = until_ns - start_ns
            sums[number] = sums.get(number, 0.0) + value * overlap
            covered_ns[number] = covered_ns.get(number, 0.0) + overlap
            start_ns = until_ns
            number += 1
            edge_ns += width

    def forget_oldest(self, keep: int) -> None:
        """Keep so many at most, and forget several at once.

        A dict whose first entries were deleted takes long to find the first that is left.
        """
        if len(self.sums) > keep:
            self.has_forgotten = True
            for oldest in list(islice(self.sums, len(self.sums) - keep + FORGOTTEN_AT_ONCE)):
                del self.sums[oldest], self.covered_ns[oldest]

    def between(self, start_ns: int, end_ns: int) -> Iterable[int]:
        """Return the numbers of buckets that may lie there, never more than are asked or held."""
        asked = range(start_ns // self.width_ns, -(-end_ns // self.width_ns))
        # By their ends: a forged log may ask for more than len() can return.
        if asked.stop - asked.start <= len(self.sums):
            return asked
        return [number for number in self.sums if asked.start <= number < asked.stop]

    def double(self) -> None:
        sums, covered = self.sums, self.covered_ns
        self.sums, self.covered_ns = {}, {}
        for number, total in sums.items():
            half = number // 2
            self.sums[half] = self.sums.get(half, 0.0) + total
            self.covered_ns[half] = self.covered_ns.get(half, 0.0) + covered[number]
        self.width_ns *= 2


class Series:
    """One quantity over time.

    Args:
        bucket_ns: the finest resolution; about the sampling interval.
    """

    def __init__(self, bucket_ns: int = 1_000_000_000) -> None:
        self._fine = _Buckets(bucket_ns)
        self._whole = _Buckets(bucket_ns)
        self.start_ns: int | None = None
        self.end_ns: int | None = None

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        """Say that the quantity had `value` from `start_ns` to `end_ns`."""
        if end_ns <= start_ns:
            return
        # A forged or broken log may claim a span of years: don't fill buckets for it.
        start_ns = max(start_ns, end_ns - FINE_BUCKETS * self._fine.width_ns)
        self._fine.add(start_ns, end_ns, value)
        self._fine.forget_oldest(FINE_BUCKETS)
        self._whole.add(start_ns, end_ns, value)
        while len(self._whole.sums) > WHOLE_BUCKETS:
            self._whole.double()
        self.start_ns = start_ns if self.start_ns is None else min(self.start_ns, start_ns)
        self.end_ns = end_ns if self.end_ns is None else max(self.end_ns, end_ns)

    def add_batches(self, start_ns: int, dt_us: Sequence[int], samples: Sequence[int]) -> None:
        """Add the throughput, in samples per second, of consecutive batches.

        A batch longer than a bucket is spread over its duration; many short
        ones in a bucket become one value.
        """
        ends = list(accumulate(dt_us, initial=0))
        done = list(accumulate(samples, initial=0))
        width_us = self._fine.width_ns / 1000
        total_us = ends[-1]
        at_us = 0.0
        while at_us < total_us:
            boundary_ns = ((start_ns + int(at_us * 1000)) // self._fine.width_ns + 1) * (
                self._fine.width_ns
            )
            next_us = min(total_us, max((boundary_ns - start_ns) / 1000, at_us + 1))
            if total_us > FINE_BUCKETS * width_us:
                next_us = total_us
            amount = _interpolate(ends, done, next_us) - _interpolate(ends, done, at_us)
            self.add(
                start_ns + int(at_us * 1000),
                start_ns + int(next_us * 1000),
                amount / ((next_us - at_us) / 1e6),
            )
            at_us = next_us

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        """Return the mean over each of `count` columns from `start_ns` on; None where unknown.

        Where the last value ends within a column, that column is the mean of a
        whole one up to there, as far as the one before it is known: else a slow
        batch at the end would look like a drop.
        """
        column_ns = max(1, column_ns)
        fine_reaches_back = (
            not self._fine.sums or start_ns >= next(iter(self._fine.sums)) * self._fine.width_ns
        )
        all_is_fine = not self._fine.has_forgotten
        buckets = self._fine if fine_reaches_back or all_is_fine else self._whole
        sums = [0.0] * count
        covered = [0.0] * count
        width = buckets.width_ns
        for number in buckets.between(start_ns, start_ns + column_ns * count):
            bucket_covered = buckets.covered_ns.get(number)
            if not bucket_covered:
                continue
            value = buckets.sums[number] / bucket_covered
            # Where the bucket lies, from the first column's start.
            left, right = number * width - start_ns, (number + 1) * width - start_ns
            for column in range(
                max(0, left // column_ns), min(count - 1, (right - 1) // column_ns) + 1
            ):
                overlap = min(right, (column + 1) * column_ns) - max(left, column * column_ns)
                share = bucket_covered * (overlap / width)
                sums[column] += value * share
                covered[column] += share
        pairs = zip(sums, covered, strict=True)
        means = [total / share if share else None for total, share in pairs]
        if self.end_ns is None:
            return means
        last = (self.end_ns - 1 - start_ns) // column_ns
        # A bucket may reach further than what it covers.
        first_after = min(count, max(0, last + 1))
        means[first_after:] = [None] * (count - first_after)
        if 0 < last < count:
            before, mean = means[last - 1], means[last]
            if before is not None and mean is not None:
                open_ns = start_ns + (last + 1) * column_ns - self.end_ns
                covered_ns = covered[last]
                means[last] = (mean * covered_ns + before * open_ns) / (covered_ns + open_ns)
        return means


def _interpolate(ends: list[int], done: list[int], at_us: float) -> float:
    """Return how many samples were done at a time, linear within a batch."""
    after = bisect_right(ends, at_us)
    if after >= len(ends):
        return done[-1]
    length = ends[after] - ends[after - 1]
    share = (at_us - ends[after - 1]) / length if length else 0.0
    return done[after - 1] + (done[after] - done[after - 1]) * share
