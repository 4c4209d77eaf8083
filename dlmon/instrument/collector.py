"""Sort the batches and marks that the training thread queued, and pack them into records."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dlmon.instrument.queued import (
    LEAST_NAMED_NS,
    MIN_PAUSE_NS,
    EpochChanged,
    EpochEnd,
    EpochOpened,
    EpochStart,
    Interruption,
    MeasuredBatch,
    MetricsRead,
    Pause,
    ProfiledSteps,
    Queued,
    awaited,
    joined,
)
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    NamedPause,
    Phase,
    Record,
    Validation,
    finite,
)
from dlmon.statistics.histogram import StepHistogram, step_quantiles
from dlmon.statistics.steady_batches import SteadyBatches
from dlmon.statistics.steady_state import STALL_FACTOR

SUMMARY_US = 1_000_000
# A session's first million batches keep their own times.
KEPT_BATCHES = 1_000_000
# The number of last steps that a late batch is compared to.
LAST_STEPS = 64
# Phases without training batches, in which none is late.
WITHOUT_BATCHES = ("validating", "evaluating")
# The least length of a named pause doubles after each this many.
NAMED_PAUSES = 1000
# The number of newest epochs that may still change.
CHANGEABLE_EPOCHS = 16


def _updates_of(updates: Sequence[int | None]) -> int | None:
    """Return the optimizer steps of some batches; None if each has one, or all are unknown."""
    return None if all(count == 1 for count in updates) else _known_sum(updates)


def _end_of(batch: int | MeasuredBatch) -> int:
    return batch.end_ns if isinstance(batch, MeasuredBatch) else batch


def _as_tuple(counts: int | tuple[int, ...] | None) -> Sequence[int | None]:
    return counts if isinstance(counts, tuple) else (counts,)


def _known_sum(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _added(total: int | None, counts: Sequence[int | None]) -> int | None:
    """Return a total with counts added; None if any of them is None."""
    if total is None or None in counts:
        return None
    return total + sum(counts)  # type: ignore[arg-type]


def _of_each(counts: Sequence[int | None]) -> int | tuple[int, ...] | None:
    """Return the count of each batch: one number if all are equal; None if any is unknown."""
    if None in counts:
        return None
    return tuple(counts) if len(set(counts)) > 1 else counts[0]  # type: ignore[arg-type]


def _tokens_of(epoch: EpochStart, sizes: Sequence[int | None]) -> list[int | None]:
    """Return the tokens of batches of these sizes; empty if samples have no tokens."""
    tokens = None if epoch.sizes is None else epoch.sizes.tokens
    return [] if tokens is None else [size and size * tokens[0] for size in sizes]


def _validation_after(train_end: int, validation: Validation | None) -> Validation | None:
    """Return a validation with its begin moved to the end of training.

    On JAX the host begins a validation while the device still computes training batches.
    """
    if validation is None or validation.begin >= train_end:
        return validation
    return replace(validation, begin=min(train_end, validation.first_end))


class BatchCollector:
    """Turns queued batches and marks into records, in order.

    On JAX and Torch, hooks run on a thread pool and batches may arrive out of order: they are
    sorted by their ends. Durations are differences of whole microseconds, so that they add up
    without drift. A hook for several batches (`stride`) becomes as many equal ones. The first batch
    of an epoch that began in the compile phase ends that phase. A pause becomes a phase once it has
    lasted `MIN_PAUSE_NS`.
    """

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._epoch: EpochStart | None = None
        # The newest by number: an epoch's sums may arrive from the GPU after the next epoch.
        self._ended_epochs: dict[int, Epoch] = {}
        # The epoch that ended last, if the script left it.
        self._left_epoch: int | None = None
        # Marks with metrics that a GPU is still computing, retried on every `take`.
        self._awaited: list[EpochChanged | MetricsRead] = []
        self._steps_due = 0
        self._next = 0
        self._last_us = 0
        self._phase_t = 0
        self._is_profiled = self._had_profile = False
        self._last_steps: deque[int] = deque(maxlen=LAST_STEPS)
        self._phase = ""
        self._compiling = False
        # A pause that is still too short for a phase; `_paused`: one became a phase.
        self._pause: Pause | None = None
        self._paused = False
        self._opening_us: int | None = None
        self._batches_kept = 0
        # Consecutive batches of one epoch that are not packed yet.
        self._first = 0
        self._first_end_us = 0
        self._dt_us: list[int] = []
        self._sizes: list[int | None] = []
        self._tokens: list[int | None] = []
        self._wait_us: int | None = None
        self._updates: list[int | None] = []
        self._epoch_samples: int | None = 0
        self._epoch_tokens: int | None = 0
        self._epoch_updates: int | None = None
        # The times of batches that were only summarised.
        self._summarised = StepHistogram()
        self._named_pauses = 0
        self.steady = SteadyBatches()
        self.steady_us = 0
        """The length of the steady state, without unpacked batches."""

    @property
    def quiet_since_ns(self) -> int | None:
        """The end of the last batch or the begin of the phase after it, whichever is later.

        None before training, and in phases without training batches.
        """
        phase = self._phase if self._pause is None else self._pause.phase
        if not self._last_us or phase in WITHOUT_BATCHES:
            return None
        return max(self._last_us * 1000, self._phase_t)

    @property
    def awaits_a_gpu(self) -> bool:
        return bool(self._awaited)

    def last_steps_us(self) -> list[int]:
        return list(self._last_steps)

    def take(self, queue: deque[Queued], now: int | None = None) -> None:
        """Move everything from `queue` into this collector.

        Args:
            queue: emptied from the left, while the training thread may append.
            now: the time at which a pause may have become long enough for a phase.
        """
        batches: list[int | MeasuredBatch] = []
        queue.extendleft(reversed(self._awaited))
        self._awaited = []
        while queue:
            item = queue.popleft()
            if isinstance(item, (int, MeasuredBatch)):
                batches.append(item)
                continue
            self._count(batches)
            batches = []
            if isinstance(item, EpochStart):
                self._start_epoch(item)
            elif isinstance(item, EpochOpened):
                self._open_epoch(item)
            elif isinstance(item, EpochEnd):
                self._end_epoch(item)
            elif isinstance(item, (EpochChanged, MetricsRead)) and awaited(item.metrics):
                self._awaited.append(item)
            elif isinstance(item, EpochChanged):
                self._change_epoch(item)
            elif isinstance(item, MetricsRead):
                if (metrics := item.record()) is not None:
                    self._records.append(metrics)
            elif isinstance(item, Interruption):
                self._pack(finish=True)
                self._last_us += (item.end - item.t) // 1000
            elif isinstance(item, ProfiledSteps):
                self._pack(finish=True)
                self._is_profiled, self._had_profile = item.on, True
            elif isinstance(item, Pause):
                self._end_pause(item.t)
                # The phase goes on after an interruption that was too short for a phase.
                self._pause = None if item.phase == self._phase else item
            else:
                if isinstance(item, Phase):
                    self._end_pause(item.t)
                    self._phase, self._paused = item.name, False
                    self._phase_t = max(self._phase_t, item.t)
                self._pack()
                last = self._records[-1] if self._records else None
                if (
                    isinstance(item, NamedPause)
                    and isinstance(last, NamedPause)
                    and (pause := joined(last, item))
                ):
                    item = pause
                    self._records.pop()
                self._records.append(item)
        self._count(batches)
        if now is not None and self._pause is not None and now - self._pause.t >= MIN_PAUSE_NS:
            self._end_pause(now)

    def records(self, finish: bool = False) -> Iterator[Record]:
        """Pack the batches, and yield all records, oldest first."""
        self._pack(finish)
        while self._records:
            record = self._records.popleft()
            if isinstance(record, NamedPause):
                if record.end - record.t < LEAST_NAMED_NS << self._named_pauses // NAMED_PAUSES:
                    continue
                self._named_pauses += 1
            yield record

    def _start_epoch(self, mark: EpochStart) -> None:
        self._end_pause(mark.t)
        self._pack(finish=True)
        self._epoch, self._next = mark, mark.skipped
        self._had_profile = self._is_profiled
        steps = None if mark.sizes is None else mark.sizes.open(mark.stride)
        self._steps_due = steps or mark.steps or 0
        self._epoch_samples, self._epoch_tokens, self._epoch_updates = 0, 0, None
        self._last_us = mark.t // 1000
        self._opening_us = None
        self._compiling = self._phase == "compiling" and not mark.follows
        if mark.follows:
            self._pause, self._paused = Pause(mark.t, "opening", mark.epoch), False

    def _open_epoch(self, mark: EpochOpened) -> None:
        """Enter the epoch's phase, from its start on if opening it took no time."""
        epoch = self._epoch
        if epoch is None:
            return
        self._end_pause(mark.t)
        opened_ns = max(mark.t, epoch.t)
        # A validation inside the first batch may already have entered a phase.
        begin_ns = max(opened_ns if self._paused else epoch.t, self._phase_t)
        self._records.append(Phase(t=begin_ns, name=epoch.phase))
        self._phase, self._paused = epoch.phase, False
        self._opening_us = opened_ns // 1000 - self._last_us
        self._last_us += self._opening_us

    def _end_pause(self, t: int) -> None:
        """Make a phase of the pause that ends at `t`, if it was long enough."""
        pause, self._pause = self._pause, None
        if pause is not None and t - pause.t >= MIN_PAUSE_NS:
            self._pack()
            self._records.append(Phase(t=pause.t, name=pause.phase, epoch=pause.epoch))
            self._phase, self._paused = pause.phase, True

    def _end_epoch(self, mark: EpochEnd) -> None:
        self._end_pause(mark.t)
        self._pack(finish=True)
        epoch = self._epoch
        if epoch is None:
            return
        steps = self._next - epoch.skipped
        # What ran after the last step is no part of it, though the epoch was not over for us.
        train_end = min(self._last_us * 1000, mark.t) if steps else epoch.t
        pending = awaited(mark.metrics)
        if pending:
            self._awaited.append(EpochChanged(mark.epoch, metrics=pending, was_awaited=True))
        metrics, why = finite({n: mark.metrics[n] for n in mark.metrics if n not in pending})
        samples, tokens = self._epoch_samples, self._epoch_tokens
        if mark.samples is not None:
            samples = mark.samples
            tokens = _added(0, _tokens_of(epoch, [samples]))
        record = Epoch(
            epoch=mark.epoch,
            begin=epoch.t,
            train_end=train_end,
            end=mark.t,
            whole=not mark.cut and self._next >= self._steps_due,
            samples=samples,
            metrics=metrics,
            steps=steps,
            validation=_validation_after(train_end, mark.validation),
            updates=self._epoch_updates,
            tokens=tokens or None,
            profiled=self._had_profile or None,
            why=why,
        )
        self._records.append(record)
        self._ended_epochs[mark.epoch] = record
        self._left_epoch = mark.epoch if mark.cut else None
        if len(self._ended_epochs) > CHANGEABLE_EPOCHS:
            del self._ended_epochs[min(self._ended_epochs)]
        self._epoch = None

    def _change_epoch(self, mark: EpochChanged) -> None:
        record = self._ended_epochs.get(mark.epoch)
        if record is None:
            return
        is_left = mark.epoch == self._left_epoch
        if mark.cut:
            self._left_epoch = None
        validation = mark.validation or record.validation
        added = {
            name: value
            for name, value in mark.metrics.items()
            if not (mark.was_awaited and name in record.metrics)
        }
        metrics, why = finite(added)
        changed = self._ended_epochs[mark.epoch] = replace(
            record,
            end=max(record.end, mark.end, validation.end if validation else 0),
            validation=validation,
            whole=(record.whole or (mark.is_whole and is_left)) and not mark.cut,
            metrics={**record.metrics, **metrics},
            why={**record.why, **why},
        )
        self._records.append(changed)

    def _count(self, batches: list[Any]) -> None:
        """Add batches in the order of their ends."""
        epoch = self._epoch
        if epoch is None:
            return
        batches.sort(key=_end_of)
        for batch in batches:
            if isinstance(batch, MeasuredBatch):
                sizes, tokens = _as_tuple(batch.samples), _as_tuple(batch.tokens)
                wait_us = None if batch.wait_ns is None else batch.wait_ns // 1000
                self._append(epoch, sizes, tokens, batch.end_ns, wait_us, batch.updates)
            else:
                sizes, wait_us = self._take_sizes(epoch)
                self._append(epoch, sizes, _tokens_of(epoch, sizes), batch, wait_us)

    def _take_sizes(self, epoch: EpochStart) -> tuple[Sequence[int | None], int | None]:
        """Return the samples of the batches of one hook, and the time that the device waited.

        The epoch may end within the hook's stride. Waits while the device still computed the batch
        before don't count.
        """
        count = epoch.stride
        if count > 1 and self._steps_due:
            count = max(1, min(count, self._steps_due - self._next))
        if epoch.sizes is None:
            return [None] * count, None
        sizes, waits = epoch.sizes.take(count)
        if epoch.stride > 1 or not waits:
            # Of several batches that end together, we can't tell which one the device waited for.
            return sizes, None
        [(begin, end)] = waits
        return sizes, max(0, end - max(begin, self._last_us * 1000)) // 1000

    def _append(
        self,
        epoch: EpochStart,
        sizes: Sequence[int | None],
        tokens: Sequence[int | None],
        end_ns: int,
        wait_us: int | None,
        updates: int | None = None,
    ) -> None:
        """Add batches that ended together."""
        count = len(sizes)
        if len(tokens) != count:
            tokens = (None,) * count
        if self._tokens and (self._tokens[-1] is None) != (tokens[0] is None):
            # One record has the tokens of all its batches, or of none.
            self._pack()
        self._sizes += sizes
        self._tokens += tokens
        self._epoch_samples = _added(self._epoch_samples, sizes)
        self._epoch_tokens = _added(self._epoch_tokens, self._tokens[-count:])
        if wait_us is not None:
            self._wait_us = (self._wait_us or 0) + wait_us
        self._updates += [updates, *[None if updates is None else 0] * (count - 1)]
        if updates is not None:
            self._epoch_updates = (self._epoch_updates or 0) + updates
        end_us = max(end_ns // 1000, self._last_us)
        took_us = end_us - self._last_us
        if not self._dt_us:
            self._first = self._next
            self._first_end_us = self._last_us + took_us // count
        if self._compiling:
            self._compiling = False
            self._records.append(Phase(t=end_us * 1000, name=epoch.phase))
            self._phase = epoch.phase
        self._dt_us += (took_us * (n + 1) // count - took_us * n // count for n in range(count))
        self._next += count
        self._last_us = end_us

    def _pack(self, finish: bool = False) -> None:
        """Make a record of the batches.

        After `KEPT_BATCHES`, it is a summary, of a second or more unless `finish`.
        """
        epoch = self._epoch
        if epoch is None or not self._dt_us:
            return
        opening_us = self._opening_us if self._first == epoch.skipped else None
        if self._batches_kept < KEPT_BATCHES or self._is_profiled:
            self._records.append(self._with_times(epoch, opening_us))
            self._batches_kept += len(self._dt_us)
        elif finish or self._last_us - self._first_end_us >= SUMMARY_US:
            self._records.append(self._summary(epoch, opening_us))
        else:
            return
        if not self._is_profiled:
            picked = self.steady.pick(
                _of_each(self._sizes),
                self._dt_us,
                opening=epoch.capped and self._first == 0,
                opening_us=opening_us,
                per_execution=epoch.stride,
                first=self._first,
            )
            self.steady_us += sum(picked.dt_us)
        self._last_steps.extend(self._dt_us[-LAST_STEPS:])
        self._dt_us, self._sizes, self._tokens, self._updates = [], [], [], []
        self._wait_us = None

    def _with_times(self, epoch: EpochStart, opening_us: int | None) -> Batches:
        return Batches(
            epoch=epoch.epoch,
            first=self._first,
            samples=_of_each(self._sizes),
            t=self._first_end_us * 1000,
            dt_us=tuple(self._dt_us),
            opening_us=opening_us,
            per_execution=epoch.stride if epoch.stride > 1 else None,
            wait_us=self._wait_us,
            updates=_updates_of(self._updates),
            profiled=self._is_profiled or None,
            tokens=_of_each(self._tokens),
        )

    def _summary(self, epoch: EpochStart, opening_us: int | None) -> BatchSummary:
        """Return a summary of the batches.

        In a capped epoch the first execution includes the opening, so it is no stalled step.
        """
        dt_us = self._dt_us
        self._summarised.add(Counter(dt_us))
        first_us = dt_us[: epoch.stride] if self._first == epoch.skipped else []
        limit_us = STALL_FACTOR * self._summarised.quantile(0.5)
        steps_us = dt_us[len(first_us) :] if epoch.capped else dt_us
        return BatchSummary(
            epoch=epoch.epoch,
            first=self._first,
            count=len(dt_us),
            samples=_added(0, self._sizes),
            t=self._first_end_us * 1000,
            t_last=self._last_us * 1000,
            time_us=sum(dt_us),
            step_us=step_quantiles(dt_us),
            stalls=sum(took_us > limit_us for took_us in steps_us),
            opening_us=opening_us,
            first_us=sum(first_us) if first_us else None,
            first_steps=len(first_us) if len(first_us) > 1 else None,
            wait_us=self._wait_us,
            updates=_known_sum(self._updates),
            tokens=_added(0, self._tokens),
        )
