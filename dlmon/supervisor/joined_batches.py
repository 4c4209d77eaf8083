"""Join consecutive records of one process's batches, to write fewer for very many processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from dlmon.records import Batches, BatchSummary
from dlmon.statistics.histogram import StepHistogram, step_quantiles
from dlmon.statistics.steady_state import STALL_FACTOR

SHORT = 24
"""Up to this many single times take no more room than their summary."""
KEPT_BATCHES = 200
"""The single times of the first batches are kept: they show when the steps become steady."""


class JoinedBatches:
    """Joins consecutive records into one, without losing a batch, a sample or any time."""

    def __init__(self) -> None:
        self._held: list[Batches] = []
        self._kept = 0
        self._is_old = True
        self._durations = StepHistogram()

    @property
    def held_ns(self) -> int:
        """The time from the beginning of the first held record to the end of the last."""
        return self._held[-1].t_last - self._held[0].begin if self._held else 0

    def take_old(self) -> Iterator[Batches | BatchSummary]:
        """Take the joined record if none was added since the last call."""
        is_old, self._is_old = self._is_old, True
        if is_old:
            yield from self.take()

    def add(self, record: Batches) -> Iterator[Batches | BatchSummary]:
        """Hold a record; yield the earlier ones if it does not continue them."""
        if self._held and not _continues(self._held[-1], record):
            yield from self.take()
        self._held.append(record)
        self._is_old = False

    def take(self) -> Iterator[Batches | BatchSummary]:
        """Yield the held records as one, and hold none."""
        records, self._held = self._held, []
        if not records:
            return
        is_profiled = records[0].profiled is not None
        dt_us = tuple(us for record in records for us in record.dt_us)
        if not is_profiled:
            self._durations.add(Counter(dt_us))
        is_short = len(dt_us) <= SHORT or self._kept < KEPT_BATCHES or is_profiled
        self._kept += len(dt_us)
        yield _joined(records, dt_us) if is_short else self._summary(records, dt_us)

    def _summary(self, records: list[Batches], dt_us: tuple[int, ...]) -> BatchSummary:
        first, stride = records[0], records[0].per_execution or 1
        first_us = dt_us[:stride] if first.first == 0 or first.opening_us is not None else ()
        limit_us = STALL_FACTOR * self._durations.quantile(0.5)
        sizes = _per_batch(records, "samples")
        tokens = _per_batch(records, "tokens")
        return BatchSummary(
            epoch=first.epoch,
            first=first.first,
            count=len(dt_us),
            samples=None if sizes is None else sum(sizes),
            t=first.t,
            t_last=records[-1].t_last,
            time_us=sum(dt_us),
            step_us=step_quantiles(list(dt_us)),
            stalls=sum(us > limit_us for us in dt_us[len(first_us) :]),
            opening_us=first.opening_us,
            first_us=sum(first_us) if first_us else None,
            first_steps=len(first_us) if len(first_us) > 1 else None,
            wait_us=_wait_us(records),
            updates=_updates(records),
            trainer=first.trainer,
            tokens=None if tokens is None else sum(tokens),
        )


def _continues(before: Batches, record: Batches) -> bool:
    """Return whether a record's batches directly follow those of another."""
    return (
        record.epoch == before.epoch
        and record.per_execution == before.per_execution
        and record.profiled == before.profiled
        and record.trainer == before.trainer
        and record.first == before.first + before.count
        and record.begin == before.t_last
        and record.opening_us is None
    )


def _joined(records: list[Batches], dt_us: tuple[int, ...]) -> Batches:
    if len(records) == 1:
        return records[0]
    return replace(
        records[0],
        samples=_one_size(_per_batch(records, "samples")),
        dt_us=dt_us,
        wait_us=_wait_us(records),
        updates=_updates(records),
        tokens=_one_size(_per_batch(records, "tokens")),
    )


def _per_batch(records: list[Batches], name: str) -> tuple[int, ...] | None:
    """Return the samples or tokens of every batch; None if they are unknown for any."""
    sizes: list[int] = []
    for record in records:
        size: int | tuple[int, ...] | None = getattr(record, name)
        if size is None:
            return None
        sizes += (size,) * record.count if isinstance(size, int) else size
    return tuple(sizes)


def _one_size(sizes: tuple[int, ...] | None) -> int | tuple[int, ...] | None:
    return sizes[0] if sizes and len(set(sizes)) == 1 else sizes


def _wait_us(records: list[Batches]) -> int | None:
    waits_us = [record.wait_us for record in records if record.wait_us is not None]
    return sum(waits_us) if len(waits_us) == len(records) else None


def _updates(records: list[Batches]) -> int | None:
    """Return how many batches ended with an optimizer step; None if all did."""
    if all(record.updates is None for record in records):
        return None
    return sum(r.count if r.updates is None else r.updates for r in records)
