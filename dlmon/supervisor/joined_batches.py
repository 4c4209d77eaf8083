"""Fewer records of the batches of one process, where very many processes train."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dlmon.records import Batches, BatchSummary
from dlmon.statistics.histogram import StepHistogram, step_quantiles
from dlmon.statistics.steady_state import STALL_FACTOR

SHORT = 24
"""So many single times take no more room than what sums them up."""
KEPT_BATCHES = 200
"""Of so many batches single times are kept: they say when it is steady, and how long each takes."""


class JoinedBatches:
    """Makes one record of consecutive ones; no batch, sample or second of theirs is lost."""

    def __init__(self) -> None:
        self._held: list[Batches] = []
        self._kept = 0
        self._is_old = True
        self._durations = StepHistogram()

    @property
    def held_ns(self) -> int:
        """How much time lies between the first and the last that are held."""
        return self._held[-1].t_last - self._held[0].begin if self._held else 0

    def take_old(self) -> Iterator[Batches | BatchSummary]:
        """Do as `take` where nothing was added since this was asked last."""
        is_old, self._is_old = self._is_old, True
        if is_old:
            yield from self.take()

    def add(self, record: Batches) -> Iterator[Batches | BatchSummary]:
        """Hold a record; yield what was held before where it does not go on from there."""
        if self._held and not _goes_on(self._held[-1], record):
            yield from self.take()
        self._held.append(record)
        self._is_old = False

    def take(self) -> Iterator[Batches | BatchSummary]:
        """Yield what is held as one record, and hold nothing any more."""
        held, self._held = self._held, []
        if not held:
            return
        dt_us = tuple(us for each in held for us in each.dt_us)
        if held[0].profiled is None:
            self._durations.add(Counter(dt_us))
        is_short = len(dt_us) <= SHORT or self._kept < KEPT_BATCHES or held[0].profiled is not None
        self._kept += len(dt_us)
        yield _joined(held, dt_us) if is_short else self._summary(held, dt_us)

    def _summary(self, held: list[Batches], dt_us: tuple[int, ...]) -> BatchSummary:
        first, stride = held[0], held[0].per_execution or 1
        first_us = dt_us[:stride] if first.first == 0 or first.opening_us is not None else ()
        limit_us = STALL_FACTOR * self._durations.quantile(0.5)
        sizes = _of_all([each.samples for each in held], held)
        tokens = _of_all([each.tokens for each in held], held)
        return BatchSummary(
            epoch=first.epoch,
            first=first.first,
            count=len(dt_us),
            samples=None if sizes is None else sum(sizes),
            t=first.t,
            t_last=held[-1].t_last,
            time_us=sum(dt_us),
            step_us=step_quantiles(list(dt_us)),
            stalls=sum(us > limit_us for us in dt_us[len(first_us) :]),
            opening_us=first.opening_us,
            first_us=sum(first_us) if first_us else None,
            first_steps=len(first_us) if len(first_us) > 1 else None,
            wait_us=_sum(each.wait_us for each in held),
            updates=_updates(held),
            trainer=first.trainer,
            tokens=None if tokens is None else sum(tokens),
        )


def _goes_on(before: Batches, record: Batches) -> bool:
    """Return whether a record is of the batches that follow those of another at once."""
    same = ("epoch", "per_execution", "profiled", "trainer")
    return (
        all(getattr(before, name) == getattr(record, name) for name in same)
        and record.first == before.first + before.count
        and record.begin == before.t_last
        and record.opening_us is None
    )


def _joined(held: list[Batches], dt_us: tuple[int, ...]) -> Batches:
    if len(held) == 1:
        return held[0]
    first = held[0]
    return Batches(
        epoch=first.epoch,
        first=first.first,
        samples=_one_size(_of_all([each.samples for each in held], held)),
        t=first.t,
        dt_us=dt_us,
        opening_us=first.opening_us,
        per_execution=first.per_execution,
        wait_us=_sum(each.wait_us for each in held),
        updates=_updates(held),
        trainer=first.trainer,
        profiled=first.profiled,
        tokens=_one_size(_of_all([each.tokens for each in held], held)),
    )


def _of_all(
    sizes: Iterable[int | tuple[int, ...] | None], held: list[Batches]
) -> tuple[int, ...] | None:
    """Return how much each batch holds; None where that is not known of each."""
    found: list[int] = []
    for size, record in zip(sizes, held, strict=True):
        if size is None:
            return None
        found += (size,) * record.count if isinstance(size, int) else size
    return tuple(found)


def _one_size(sizes: tuple[int, ...] | None) -> int | tuple[int, ...] | None:
    return sizes[0] if sizes and len(set(sizes)) == 1 else sizes


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(each or 0 for each in known)


def _updates(held: list[Batches]) -> int | None:
    """Return how many batches ended with a step of an optimiser; None where each did."""
    if all(each.updates is None for each in held):
        return None
    return sum(each.count if each.updates is None else each.updates for each in held)
