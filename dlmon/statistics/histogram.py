"""Durations counted in buckets, and their quantiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

# A histogram's buckets are at most 1 % wide, and at first a 1,024th of that.
_WIDEST = math.log(1.01)
_FINEST = _WIDEST / 1024
_MAX_BUCKETS = 128
# The bucket of a duration that occurs many times is computed once.
_MAX_NEW = 1024
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def step_quantiles(dt_us: Sequence[int]) -> tuple[int, ...]:
    """Return the `QUANTILES` of durations (nearest rank)."""
    ranked, total = sorted(dt_us), len(dt_us)
    return tuple(ranked[max(1, min(total, round(share * total))) - 1] for share in QUANTILES)


@dataclass(eq=False)
class StepHistogram:
    """Durations in buckets, so that memory stays flat however long the run.

    The width of a bucket is a share of its duration: the smallest that needs no more than 128
    buckets, and at most 1 %. So a quantile is right to 0.5 %, and durations that hardly differ
    stay apart.
    """

    count: int = 0
    _width: float = _FINEST
    _buckets: Counter[int] = field(default_factory=Counter)
    # Durations that are in no bucket yet, with their counts.
    _new: Counter[int] = field(default_factory=Counter)
    _ranked: list[tuple[float, int]] = field(default_factory=list, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Put all durations into buckets first: these are small."""
        self._put_into_buckets()
        return vars(self)

    def add(self, durations_us: Counter[int] | Sequence[int]) -> None:
        """Count durations, or add those that a counter has counted."""
        self._new.update(durations_us)
        if isinstance(durations_us, Counter):
            self.count += durations_us.total()
        else:
            self.count += len(durations_us)
        if len(self._new) > _MAX_NEW:
            self._put_into_buckets()

    def _put_into_buckets(self) -> None:
        if not self._new:
            return
        buckets, width, log = self._buckets, self._width, math.log
        for duration, count in self._new.items():
            buckets[1 + int(log(duration) / width) if duration > 0 else 0] += count
        self._new.clear()
        self._ranked = []
        if len(buckets) > _MAX_BUCKETS:
            self._widen()

    def ranked(self) -> Sequence[tuple[float, int]]:
        self._put_into_buckets()
        if not self._ranked:
            self._ranked = [(self._middle_of(b), n) for b, n in sorted(self._buckets.items())]
        return self._ranked

    def count_over(self, limit_us: float) -> int:
        return sum(count for duration, count in self.ranked() if duration > limit_us)

    def _middle_of(self, bucket: int) -> float:
        if bucket == 0:
            return 0.0
        low, high = (math.exp((bucket - 1 + edge) * self._width) for edge in (0, 1))
        # Durations are whole microseconds.
        return float(round(high - 0.5)) if high - low < 1 else (low + high) / 2

    def _widen(self) -> None:
        """Merge neighbouring buckets in pairs until they are few enough, or as wide as allowed."""
        while len(self._buckets) > _MAX_BUCKETS and self._width < _WIDEST:
            self._width *= 2
            merged: Counter[int] = Counter()
            for bucket, count in self._buckets.items():
                merged[(bucket - 1) // 2 + 1 if bucket else 0] += count
            self._buckets = merged

    def quantile(self, share: float) -> float:
        """Return a quantile in µs (nearest rank); the histogram must not be empty."""
        self._put_into_buckets()
        bucket = weighted_quantile(sorted(self._buckets.items()), share)
        return self._middle_of(bucket)


_Value = TypeVar("_Value", int, float)


def weighted_quantile(ranked: Sequence[tuple[_Value, int]], share: float) -> _Value:
    """Return the nearest-rank quantile of (value, count) pairs, smallest value first."""
    total = sum(count for _, count in ranked)
    rank = max(1, math.ceil(share * total))
    for value, count in ranked:
        rank -= count
        if rank <= 0:
            return value
    return ranked[-1][0]
