"""GPU memory held by frameworks: its peaks, its growth, and errors when it runs out. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import combinations, pairwise, starmap
from statistics import median
from typing import NamedTuple

from dlmon.records import Epoch, FrameworkMemory, OutOfMemory
from dlmon.records.record import record
from dlmon.records.words import memory_amount
from dlmon.statistics.series import Series

# A forged log may name any number of GPUs.
MOST_KEPT = 1024
# The number of newest epochs that show growth: at most, and at least, without the first.
MOST_EPOCHS, LEAST_EPOCHS = 40, 6
# Each epoch must grow by this share of the usual growth: a single allocation is no leak.
STEADY = 0.25
LEAST_GROWTH_MIB = 16.0
# Of shorter epochs, one in this time counts: memory is read once a second.
APART_NS = 2_000_000_000
# Growth must be this many times its distance from a straight line.
BEYOND_SPREAD = 4.0


def out_of_memory_text(error: OutOfMemory) -> str:
    """Return the notice for memory that ran out; the script may go on."""
    amounts = (("asked for", error.asked_mib), ("free", error.free_mib))
    texts = [f"{memory_amount(mib)} {name}" for name, mib in amounts if mib is not None]
    gpu = "GPU memory" if error.device is None else f"memory of GPU {error.device}"
    return f"{gpu} ran out: {', '.join(texts)}"


@record(frozen=True)
class MemoryGrowth:
    """The growth of the peak from epoch to epoch.

    Attributes:
        epoch_mib: the growth per epoch.
        epochs: the number of epochs that show it.
        full_in: the epochs until memory is full, about; None if its limit isn't known.
    """

    epoch_mib: float
    epochs: int
    full_in: float | None = None


class MemoryPeak(NamedTuple):
    """The most memory held by the end of an epoch, read at time `t`."""

    epoch: int
    mib: float
    t: int


def _slope(before: MemoryPeak, after: MemoryPeak) -> float:
    """Return the growth per epoch from one peak to another."""
    return (after.mib - before.mib) / (after.epoch - before.epoch)


class Peaks:
    """The memory peaks of epochs, and their growth.

    Peaks, because the memory held at a moment depends on the moment within a step.
    """

    def __init__(self) -> None:
        self.of_epochs = deque[MemoryPeak](maxlen=MOST_EPOCHS)
        self.growth: MemoryGrowth | None = None

    def end_epoch(self, epoch: int, newest: FrameworkMemory) -> None:
        """Add the newest reading at the end of an epoch; some short epochs are skipped."""
        last = self.of_epochs[-1] if self.of_epochs else None
        if last is None or (epoch > last.epoch and newest.t - last.t >= APART_NS):
            self.of_epochs.append(MemoryPeak(epoch, newest.peak_mib, newest.t))
            self.growth = self._find_growth()

    def _find_growth(self) -> MemoryGrowth | None:
        """Return the growth if every epoch after the first adds to it, else None."""
        peaks = [peak for peak in self.of_epochs if peak.epoch > 0]
        if len(peaks) < LEAST_EPOCHS:
            return None
        slope = median(starmap(_slope, combinations(peaks, 2)))
        grown, steps = peaks[-1].mib - peaks[0].mib, starmap(_slope, pairwise(peaks))
        if slope <= 0 or grown < LEAST_GROWTH_MIB or min(steps) < STEADY * slope:
            return None
        at = median(peak.mib - slope * peak.epoch for peak in peaks)
        spread = max(abs(peak.mib - slope * peak.epoch - at) for peak in peaks)
        if grown < BEYOND_SPREAD * spread:
            return None
        return MemoryGrowth(slope, len(peaks))


@record(frozen=True)
class MemoryUse:
    """The memory of the process that is shown in full.

    Attributes:
        newest: its memory on the GPU with its highest peak; None if no framework reported it.
        growth: its growth from epoch to epoch; None if it doesn't grow.
        first: the peak of the first kept epoch.
        last: the peak of the last epoch.
        error: the last time that memory ran out in any process.
        errors: the number of times that it ran out.
    """

    newest: FrameworkMemory | None = None
    growth: MemoryGrowth | None = None
    first: MemoryPeak | None = None
    last: MemoryPeak | None = None
    error: OutOfMemory | None = None
    errors: int = 0


class MemoryHistory:
    """The memory readings of frameworks over time."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, str, int], FrameworkMemory] = {}
        """By process, framework, and the framework's number of the GPU."""
        self.allocated_mib = Series()
        """The allocated memory of the process that is shown in full."""
        self._error: OutOfMemory | None = None
        self._errors = 0
        self._peaks = Peaks()
        self._main: FrameworkMemory | None = None
        self._retries = deque[tuple[int, int]](maxlen=MOST_KEPT)
        """The times at which the number of retries rose, and by how much."""

    def add(self, record: FrameworkMemory | OutOfMemory) -> None:
        if isinstance(record, OutOfMemory):
            self._error, self._errors = record, self._errors + 1
            return
        key = (record.trainer or 0, record.framework, record.device)
        before = self.latest.get(key)
        if before is None and len(self.latest) >= MOST_KEPT:
            return
        self.latest[key] = record
        main = self._main
        is_same = main is not None and (main.framework, main.device) == key[1:]
        if record.trainer or not (main is None or is_same or record.peak_mib > main.peak_mib):
            return
        self._main = record
        if before is not None and before.t < record.t:
            self.allocated_mib.add(before.t, record.t, before.allocated_mib)
        retried = 0 if before is None else before.retries or 0
        if (record.retries or 0) > retried:
            self._retries.append((record.t, (record.retries or 0) - retried))

    def end_epoch(self, epoch: Epoch) -> None:
        if self._main is not None:
            self._peaks.end_epoch(epoch.epoch, self._main)

    def retries_between(self, begin: int, end: int) -> int:
        return sum(count for t, count in self._retries if begin < t <= end)

    def use(self, free_mib: float | None = None) -> MemoryUse:
        """Return the state of memory; `free_mib` is the free memory of that GPU, by NVML."""
        newest, peaks, growth = self._main, self._peaks.of_epochs, self._peaks.growth
        if growth is not None and newest is not None and newest.limit_mib is not None:
            most_mib: float = newest.limit_mib
            if free_mib is not None and newest.framework == "torch":
                # The driver and other programs use memory too.
                most_mib = min(most_mib, (newest.reserved_mib or 0) + free_mib)
            remaining_mib = max(0.0, most_mib - newest.peak_mib)
            growth = replace(growth, full_in=remaining_mib / growth.epoch_mib)
        first, last = (peaks[0], peaks[-1]) if peaks else (None, None)
        return MemoryUse(newest, growth, first, last, self._error, self._errors)
