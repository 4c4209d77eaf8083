"""Values over time in bounded memory: the mean, the least and the greatest of each bucket. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.records.record import record

BUCKET_NS = 250_000_000
MOST_BUCKETS = 8192


@record(frozen=True)
class Columns:
    """A quantity over time, a value for each column from the origin on; None where unknown."""

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


class Envelope:
    """One quantity over the whole of a session.

    Its buckets double in width as the session grows, so nothing of it is forgotten.

    Args:
        origin_ns: where the first bucket begins; what is before it is left out.
        bucket_ns: how wide the buckets are at first.
    """

    def __init__(self, origin_ns: int, bucket_ns: int = BUCKET_NS) -> None:
        self.width_ns = bucket_ns
        self._origin_ns = origin_ns
        # Of each bucket: value × time, time, least, greatest.
        self._buckets: dict[int, list[float]] = {}
        # Of each bucket, what other sources had in it: value × time.
        self._beside: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._buckets)

    @property
    def end_ns(self) -> int:
        """How far from the origin the last bucket reaches."""
        return (max(self._buckets, default=-1) + 1) * self.width_ns

    def add(self, start_ns: int, end_ns: int, value: float) -> None:
        """Say that the quantity had `value` from `start_ns` to `end_ns`."""
        start_ns = max(0, start_ns - self._origin_ns)
        end_ns -= self._origin_ns
        if end_ns <= start_ns:
            return
        while end_ns > MOST_BUCKETS * self.width_ns:
            self._double()
        width = self.width_ns
        for number in range(start_ns // width, -(-end_ns // width)):
            covered = min(end_ns, (number + 1) * width) - max(start_ns, number * width)
            self._put(number, value * covered, covered, value, value)

    def add_beside(self, start_ns: int, end_ns: int, value: float) -> None:
        """Add what another source of the quantity had meanwhile: together they are the value.

        It counts where `add` says that there was a value at all.
        """
        start_ns = max(0, start_ns - self._origin_ns)
        end_ns -= self._origin_ns
        if end_ns <= start_ns or end_ns > MOST_BUCKETS * self.width_ns * 2:
            return
        width = self.width_ns
        for number in range(start_ns // width, -(-end_ns // width)):
            covered = min(end_ns, (number + 1) * width) - max(start_ns, number * width)
            self._beside[number] = self._beside.get(number, 0.0) + value * covered

    def add_batches(self, start_ns: int, dt_us: Sequence[int], samples: Sequence[int]) -> None:
        """Add the throughput, in samples per second, of consecutive batches.

        Those shorter than a bucket are taken together: the extremes are of spans about as long.
        """
        took_us = done = 0
        last = len(dt_us) - 1
        for index, (batch_us, count) in enumerate(zip(dt_us, samples)):  # noqa: B905 - Python 3.10
            took_us += batch_us
            done += count
            if took_us and (took_us * 1000 >= self.width_ns or index == last):
                end_ns = start_ns + took_us * 1000
                self.add(start_ns, end_ns, done / took_us * 1e6)
                start_ns, took_us, done = end_ns, 0, 0

    def columns(self, width_ns: int, count: int) -> Columns:
        """Return `count` columns from the origin on, each `width_ns` wide.

        Args:
            width_ns: the width of the buckets, doubled as often as one likes.
            count: how many.
        """
        while self.width_ns < width_ns:
            self._double()
        found = [self._column(number) for number in range(count)]
        return Columns(
            mean=tuple(mean for mean, _, _ in found),
            low=tuple(low for _, low, _ in found),
            high=tuple(high for _, _, high in found),
        )

    def _column(self, number: int) -> tuple[float | None, float | None, float | None]:
        bucket = self._buckets.get(number)
        if bucket is None:
            return None, None, None
        area, covered, low, high = bucket
        # Together they train and pause: in a pause the others had nothing either.
        beside = self._beside.get(number, 0.0) / covered
        return area / covered + beside, low + beside, high + beside

    def _put(self, number: int, area: float, covered: float, low: float, high: float) -> None:
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [area, covered, low, high]
            return
        bucket[0] += area
        bucket[1] += covered
        bucket[2] = min(bucket[2], low)
        bucket[3] = max(bucket[3], high)

    def _double(self) -> None:
        finer, self._buckets = self._buckets, {}
        for number, (area, covered, low, high) in finer.items():
            self._put(number // 2, area, covered, low, high)
        finer_beside, self._beside = self._beside, {}
        last = max(finer, default=-1)
        for number, area in finer_beside.items():
            # Where there is no value by now, there will be none.
            if number in finer or number > last:
                self._beside[number // 2] = self._beside.get(number // 2, 0.0) + area
        self.width_ns *= 2
