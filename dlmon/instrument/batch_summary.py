"""Batches whose single times are not kept, folded into one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dlmon.instrument.queued import EpochStart
from dlmon.records import BatchSummary
from dlmon.statistics.steady_state import STALL_FACTOR

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass
class UnfinishedSummary:
    """Folds batches whose single times are not kept.

    `first_us` are the times of an epoch's first execution, `opening_us` what came before it. In
    an epoch that was cut short the two belong together, so that batch is no stalled step.
    """

    epoch: EpochStart
    first: int
    t: int
    opening_us: int | None
    first_us: Sequence[int]
    t_last: int = 0
    samples: int | None = 0
    time_us: int = 0
    wait_us: int | None = None
    updates: int | None = None
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, end_us: int, dt_us: list[int], samples: int | None) -> None:
        self.t_last = end_us * 1000
        known = self.samples is not None and samples is not None
        self.samples = self.samples + samples if known else None  # type: ignore[operator]
        self.time_us += sum(dt_us)
        self.counts.update(dt_us)

    def _stalls(self, usual_us: float) -> int:
        limit_us = STALL_FACTOR * usual_us
        slow = sum(count for took_us, count in self.counts.items() if took_us > limit_us)
        if self.epoch.capped:
            slow -= sum(took_us > limit_us for took_us in self.first_us)
        return slow

    def record(self, usual_us: float) -> BatchSummary:
        return BatchSummary(
            epoch=self.epoch.epoch,
            first=self.first,
            count=sum(self.counts.values()),
            samples=self.samples,
            t=self.t,
            t_last=self.t_last,
            time_us=self.time_us,
            step_us=step_quantiles(self.counts),
            stalls=self._stalls(usual_us),
            opening_us=self.opening_us,
            first_us=sum(self.first_us) if self.first_us else None,
            first_steps=len(self.first_us) if len(self.first_us) > 1 else None,
            wait_us=self.wait_us,
            updates=self.updates,
        )


def step_quantiles(counts: Counter[int]) -> tuple[int, ...]:
    """Return the `QUANTILES` of the counted values (nearest rank)."""
    total = sum(counts.values())
    ranked = sorted(counts.items())
    found: list[int] = []
    seen = 0
    position = iter(ranked)
    value, count = next(position)
    for quantile in QUANTILES:
        rank = max(1, min(total, round(quantile * total)))
        while seen + count < rank:
            seen += count
            value, count = next(position)
        found.append(value)
    return tuple(found)
