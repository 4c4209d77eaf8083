"""Values over time in bounded memory, ready to be drawn as columns.

Pure. Times are CLOCK_MONOTONIC nanoseconds. Two resolutions are kept: fine
buckets for the recent past, and buckets that double in width as the run grows
for all of it. A time that nothing covered is a gap (None), never zero.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import NamedTuple

FINE_BUCKETS = 4096
WHOLE_BUCKETS = 2048
FORGOTTEN_AT_ONCE = 256
CELL_NS = 4_000_000_000
"""How fine a series is kept in an index."""
CELLS_OF_QUARTER = 4
_COARSE_NS = CELL_NS * CELLS_OF_QUARTER


class _Buckets:
    """Sums of value × time and of time, by bucket number; of some the extremes within them."""

    def __init__(self, width_ns: int) -> None:
        self.width_ns = width_ns
        self.sums: dict[int, float] = {}
        self.covered_ns: dict[int, float] = {}
        self.extremes: dict[int, tuple[float, float]] = {}
        self.has_forgotten = False

    def add_to_covered(self, start_ns: int, end_ns: int, value: float) -> None:
        """Raise the values where others were added, or will be."""
        width = self.width_ns
        for number in range(start_ns // width, -(-end_ns // width)):
            overlap = min(end_ns, (number + 1) * width) - max(start_ns, number * width)
            self.sums[number] = self.sums.get(number, 0.0) + value * overlap
            self.covered_ns.setdefault(number, 0.0)

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

    def add_cells(self, cells: Iterable[tuple[int, float]]) -> None:
        """Add the means of cells of `CELL_NS`, each with its number, to empty buckets."""
        each = CELL_NS // self.width_ns
        if each * self.width_ns == CELL_NS:
            # A seek comes by here with many thousands of them.
            known = list(cells)
            starts = [number * each for number, _ in known]
            numbers = map(range, starts, [start + each for start in starts])
            totals = map(repeat, [value * self.width_ns for _, value in known], repeat(each))
            self.sums = dict(
                zip(chain.from_iterable(numbers), chain.from_iterable(totals), strict=True)
            )
            self.covered_ns = dict.fromkeys(self.sums, float(self.width_ns))
        else:
            for number, value in cells:
                self.add(number * CELL_NS, (number + 1) * CELL_NS, value)

    def forget_oldest(self, keep: int) -> list[tuple[int, float]]:
        """Keep so many at most, and forget several at once; return these, each with its mean.

        A dict whose first entries were deleted takes long to find the first that is left.
        """
        if len(self.sums) <= keep:
            return []
        self.has_forgotten = True
        oldest = list(islice(self.sums, len(self.sums) - keep + FORGOTTEN_AT_ONCE))
        forgotten = [(n, self.sums.pop(n), self.covered_ns.pop(n)) for n in oldest]
        return [(n, total / covered_ns) for n, total, covered_ns in forgotten if covered_ns]

    def widen(self, start_ns: int, low: float, high: float) -> None:
        """Let the extremes of the bucket that a moment lies in hold these too."""
        number = start_ns // self.width_ns
        least, most = self.extremes.get(number, (low, high))
        self.extremes[number] = (low if low < least else least, high if high > most else most)

    def widen_all(self, start_ns: int, end_ns: int, value: float) -> None:
        """Let the extremes of all buckets between two moments hold a value."""
        for number in range(start_ns // self.width_ns, -(-end_ns // self.width_ns)):
            self.widen(number * self.width_ns, value, value)

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
        extremes: dict[int, tuple[float, float]] = {}
        for number, span in self.extremes.items():
            half = number // 2
            least, most = extremes.get(half, span)
            low, high = span
            extremes[half] = (low if low < least else least, high if high > most else most)
        self.extremes, self.width_ns = extremes, 2 * self.width_ns


class Part(NamedTuple):
    """A part of a series, in cells of `CELL_NS`, with the least and the most within them."""

    first: int
    """The number of its first cell, from the clock's 0."""
    cells: list[float | None]
    low: float
    high: float

    @property
    def end(self) -> int:
        """The number of the cell behind it."""
        return self.first + len(self.cells)

    def coarse(self) -> list[float | None]:
        """Return the means of quarters, of four cells each but for the last."""
        count = len(self.cells)
        return [_mean(self.cells[at : at + CELLS_OF_QUARTER]) for at in range(0, count, 4)]


class Earlier(NamedTuple):
    """Cells before those that a series is given: it reads them once they are asked for."""

    first: int
    """None of them has a lower number."""
    read: Callable[[], Iterable[tuple[int, float]]]
    """Returns them, each with its number, in the order of time."""


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


class Series:
    """One quantity over time.

    Args:
        bucket_ns: the finest resolution; about the sampling interval.
    """

    def __init__(self, bucket_ns: int = 1_000_000_000) -> None:
        self._fine = _Buckets(bucket_ns)
        self._whole = _Buckets(bucket_ns)
        self._fine_since_ns: int | None = None
        self._earlier: Earlier | None = None
        self.end_ns: int | None = None

    @classmethod
    def of_span(cls, start_ns: int, end_ns: int) -> Series:
        """Return an empty series as coarse as it is once all between two moments was added.

        To add that is quick: what lies too far back is never held finely.
        """
        series = cls()
        fine, whole = series._fine, series._whole
        oldest_ns = end_ns - FINE_BUCKETS * fine.width_ns
        series._fine_since_ns = oldest_ns - oldest_ns % fine.width_ns
        while end_ns - start_ns > WHOLE_BUCKETS * whole.width_ns:
            whole.double()
        return series

    @property
    def start_ns(self) -> int | None:
        """Where the first bucket with a value begins; None without one."""
        firsts = (next(iter(b.sums)) * b.width_ns for b in (self._whole, self._fine) if b.sums)
        return min(firsts, default=None)

    @property
    def mean(self) -> float | None:
        """The mean over all time that is covered; None where none is."""
        covered_ns = sum(self._whole.covered_ns.values())
        return sum(self._whole.sums.values()) / covered_ns if covered_ns else None

    def part_since(self, first: int | None) -> Part | None:
        """Return the whole cells from that one on, or from the first; None without a value there.

        Cells that are too long ago to be known finely are left out, as are empty ones before the
        first value.
        """
        fine, end_ns = self._fine, self.end_ns
        wanted = 0 if first is None else first * CELL_NS // fine.width_ns
        begin = next((number for number in fine.sums if number >= wanted), None)
        if begin is None or end_ns is None:
            return None
        first = max(begin * fine.width_ns // CELL_NS, first or 0)
        count = min(end_ns // CELL_NS - first, FINE_BUCKETS)
        if count < 1:
            return None
        cells = self.columns(first * CELL_NS, CELL_NS, count)
        edges = (first * CELL_NS // fine.width_ns, (first + count) * CELL_NS // fine.width_ns)
        covered = fine.covered_ns
        values = [fine.sums[n] / covered[n] for n in range(*edges) if covered.get(n)]
        return Part(first, cells, min(values), max(values)) if values else None

    def rest_since(self, first: int) -> tuple[int, int, float] | None:
        """Return (start, end, mean) of what lies behind the last whole cell."""
        if self.end_ns is None or self.end_ns <= first * CELL_NS:
            return None
        start_ns = max(first * CELL_NS, self.end_ns - CELL_NS)
        (mean,) = self.columns(start_ns, self.end_ns - start_ns, 1)
        return None if mean is None else (start_ns, self.end_ns, mean)

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        """Say that the quantity had `value` from `start_ns` to `end_ns`."""
        if end_ns <= start_ns:
            return
        # A forged or broken log may claim a span of years: don't fill buckets for it.
        start_ns = max(start_ns, end_ns - FINE_BUCKETS * self._fine.width_ns)
        self._whole.add(start_ns, end_ns, value)
        while len(self._whole.sums) > WHOLE_BUCKETS:
            self._whole.double()
        if self._fine_since_ns is not None and start_ns < self._fine_since_ns:
            coarse_end_ns = min(self._fine_since_ns, end_ns)
            self._whole.widen_all(start_ns, coarse_end_ns, value)
            self._fine.has_forgotten = True
            start_ns = coarse_end_ns
        self._fine.add(start_ns, end_ns, value)
        for number, mean in self._fine.forget_oldest(FINE_BUCKETS):
            self._whole.widen(number * self._fine.width_ns, mean, mean)
            self._earlier = None
        self.end_ns = end_ns if self.end_ns is None else max(self.end_ns, end_ns)

    def add_beside(self, start_ns: int, end_ns: int, value: float) -> None:
        """Add what another source of the quantity had meanwhile: together they are the value.

        It counts where `add` says that there was a value at all.
        """
        if end_ns <= start_ns:
            return
        start_ns = max(start_ns, end_ns - FINE_BUCKETS * self._fine.width_ns)
        self._fine.add_to_covered(start_ns, end_ns, value)
        self._whole.add_to_covered(start_ns, end_ns, value)

    def add_batches(self, start_ns: int, dt_us: Sequence[int], samples: Sequence[int]) -> None:
        """Add the throughput, in samples per second, of consecutive batches.

        A batch longer than a bucket is spread over its duration; many short
        ones in a bucket become one value.
        """
        ends = list(accumulate(dt_us, initial=0))
        done = list(accumulate(samples, initial=0))
        width_ns, total_us = self._fine.width_ns, ends[-1]
        at_us = 0.0
        while at_us < total_us:
            at_ns = start_ns + int(at_us * 1000)
            boundary_ns = (at_ns // width_ns + 1) * width_ns
            next_us = min(total_us, max((boundary_ns - start_ns) / 1000, at_us + 1))
            if total_us > FINE_BUCKETS * width_ns / 1000:
                next_us = total_us
            amount = _interpolate(ends, done, next_us) - _interpolate(ends, done, at_us)
            rate = amount / ((next_us - at_us) / 1e6)
            self.add(at_ns, start_ns + int(next_us * 1000), rate)
            at_us = next_us

    def columns(self, start_ns: int, column_ns: int, count: int) -> list[float | None]:
        """Return the mean over each of `count` columns from `start_ns` on; None where unknown.

        Where the last value ends within a column, that column is the mean of a
        whole one up to there, as far as the one before it is known: else a slow
        batch at the end would look like a drop.
        """
        column_ns = max(1, column_ns)
        if self._earlier is not None:
            self._read_earlier(self._earlier, start_ns)
        buckets = self._fine
        if buckets.has_forgotten and (
            not buckets.sums or start_ns < next(iter(buckets.sums)) * buckets.width_ns
        ):
            buckets = self._whole
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
            first, last = max(0, left // column_ns), min(count - 1, (right - 1) // column_ns)
            edge = first * column_ns
            for column in range(first, last + 1):
                start, edge = edge, edge + column_ns
                # Of every screen the innermost loop: min and max take twice as long.
                overlap = (edge if edge < right else right) - (start if start > left else left)
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

    def _read_earlier(self, earlier: Earlier, start_ns: int) -> None:
        """Read the earlier cells if they reach back to a moment that the others don't."""
        fine = self._fine
        begin_ns = next(iter(fine.sums)) * fine.width_ns if fine.sums else self.end_ns or 0
        if not earlier.first * CELL_NS <= start_ns < begin_ns:
            return
        self._earlier = None
        newer, newer_covered_ns = fine.sums, fine.covered_ns
        fine.sums, fine.covered_ns = {}, {}
        fine.add_cells(earlier.read())
        fine.sums |= newer
        fine.covered_ns |= newer_covered_ns
        # Their extremes are among the coarse ones.
        fine.forget_oldest(FINE_BUCKETS)

    def extremes(self, start_ns: int, end_ns: int) -> tuple[float, float] | None:
        """Return the least and the greatest mean of the finest buckets between two moments.

        Of what is long ago they are known of longer times only: None for a shorter one.
        """
        fine, whole = self._fine, self._whole
        covered_ns = fine.covered_ns
        values = [
            fine.sums[number] / covered_ns[number]
            for number in fine.between(start_ns, end_ns)
            if covered_ns.get(number)
        ]
        if fine.has_forgotten:
            coarse = [whole.extremes.get(n, ()) for n in whole.between(start_ns, end_ns)]
            if any(coarse) and end_ns - start_ns < whole.width_ns:
                return None
            values.extend(value for pair in coarse for value in pair)
        return (min(values), max(values)) if values else None


class CoarseSeries:
    """All of a quantity in coarse buckets, from which it can be had as it was at a time."""

    def __init__(self) -> None:
        self._buckets = _Buckets(_COARSE_NS)

    def add(self, first: int, means: Iterable[float | None], low: float, high: float) -> None:
        """Add a part that was kept coarsely; parts come in the order of time.

        Args:
            first: its first cell.
            means: of its quarters (see `Part.coarse`).
            low: the least of it.
            high: the greatest.
        """
        buckets, start_ns = self._buckets, first * CELL_NS
        for mean in means:
            if mean is not None:
                buckets.add(start_ns, start_ns + _COARSE_NS, mean)
                buckets.widen(start_ns, low, high)
            start_ns += _COARSE_NS
        while len(buckets.sums) > WHOLE_BUCKETS:
            buckets.double()

    def series_until(
        self,
        end: int,
        cells: Iterable[tuple[int, float]],
        rest: tuple[int, int, float] | None,
        bucket_ns: int,
        earlier: Earlier | None = None,
    ) -> Series:
        """Return the series as it was up to a cell.

        Args:
            end: the number of that cell.
            cells: the newest before it, each with its number.
            rest: (start, end, value) of what lies behind.
            bucket_ns: the series' finest resolution.
            earlier: cells before those.
        """
        series = Series(bucket_ns)
        series._earlier = earlier
        fine, whole, all_of_it = series._fine, series._whole, self._buckets
        whole.width_ns = width_ns = all_of_it.width_ns
        last, within_ns = divmod(end * CELL_NS, width_ns)
        before = bisect_left(list(all_of_it.sums), last)
        whole.sums = dict(islice(all_of_it.sums.items(), before))
        whole.covered_ns = dict(islice(all_of_it.covered_ns.items(), before))
        whole.extremes = {n: span for n, span in all_of_it.extremes.items() if n <= last}
        if within_ns and last in all_of_it.sums:
            # It reaches further: what it holds until then is as good as all of it.
            whole.sums[last] = all_of_it.sums[last] * within_ns / width_ns
            whole.covered_ns[last] = all_of_it.covered_ns[last] * within_ns / width_ns
        fine.add_cells(cells)
        if whole.sums:
            series.end_ns = end * CELL_NS
        if rest is not None:
            fine.add(*rest)
            whole.add(*rest)
            series.end_ns = rest[1]
        # Their extremes are among the coarse ones.
        fine.forget_oldest(FINE_BUCKETS)
        fine.has_forgotten = bool(whole.sums)
        return series


def _interpolate(ends: list[int], done: list[int], at_us: float) -> float:
    """Return how many samples were done at a time, linear within a batch."""
    after = bisect_right(ends, at_us)
    if after >= len(ends):
        return done[-1]
    length = ends[after] - ends[after - 1]
    share = (at_us - ends[after - 1]) / length if length else 0.0
    return done[after - 1] + (done[after] - done[after - 1]) * share
