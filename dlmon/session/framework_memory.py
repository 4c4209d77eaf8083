"""What frameworks held of the GPUs' memory, whether it grows, and where it ran out. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from dlmon.records import Epoch, FrameworkMemory, OutOfMemory
from dlmon.records.record import record
from dlmon.statistics.series import Series

# A forged log may name any number of GPUs.
MOST_KEPT = 1024
# How many of the newest epochs show whether memory grows: at most, and at least without the first.
MOST_EPOCHS, LEAST_EPOCHS = 40, 6
# Each epoch grows by this share of the usual growth at least: what was made once is no leak.
STEADY = 0.25
LEAST_GROWTH_MIB = 16.0
# Of shorter epochs one counts in this time: memory is read once a second.
APART_NS = 2_000_000_000
# Growth is this many times as large as its distance from a straight line.
BEYOND_SPREAD = 4.0


def amount(mib: float) -> str:
    """Write an amount of memory: 640 MiB, 2.0 GiB."""
    return f"{mib:,.0f} MiB" if mib < 1023.5 else f"{mib / 1024:,.1f} GiB"


def out_of_memory_text(error: OutOfMemory) -> str:
    """Return what is noted as memory runs out; the script may go on."""
    known = (("asked for", error.asked_mib), ("free", error.free_mib))
    said = [f"{amount(mib)} {name}" for name, mib in known if mib is not None]
    gpu = "GPU memory" if error.device is None else f"memory of GPU {error.device}"
    return f"{gpu} ran out: {', '.join(said)}"


@record(frozen=True)
class MemoryGrowth:
    """The peak grows from epoch to epoch.

    Attributes:
        epoch_mib: how much it grows in an epoch.
        epochs: how many epochs were looked at.
        full_in: after about how many more epochs it is full; None where its end is not known.
    """

    epoch_mib: float
    epochs: int
    full_in: float | None = None


class Peak(NamedTuple):
    """The most that was held by the end of an epoch, as it was read at a time."""

    epoch: int
    mib: float
    t: int


class Peaks:
    """Keeps the peaks of epochs, and says whether they grow.

    What is held at a moment depends on where in a step it is read; of the peak nothing is missed.
    """

    def __init__(self) -> None:
        self.of_epochs = deque[Peak](maxlen=MOST_EPOCHS)
        self.growth: MemoryGrowth | None = None

    def end_epoch(self, epoch: int, newest: FrameworkMemory) -> None:
        """Take what was read last when an epoch had ended; of short epochs, not each has one."""
        last = self.of_epochs[-1] if self.of_epochs else None
        if last is None or (epoch > last.epoch and newest.t - last.t >= APART_NS):
            self.of_epochs.append(Peak(epoch, newest.peak_mib, newest.t))
            self.growth = self._find_growth()

    def _find_growth(self) -> MemoryGrowth | None:
        """Return by how much it grows, where every epoch after the first adds to it; else None."""
        peaks = [peak for peak in self.of_epochs if peak.epoch > 0]
        if len(peaks) < LEAST_EPOCHS:
            return None
        slopes = [
            (after.mib - before.mib) / (after.epoch - before.epoch)
            for number, before in enumerate(peaks)
            for after in peaks[number + 1 :]
        ]
        slope, grown = median(slopes), peaks[-1].mib - peaks[0].mib
        steps = [
            (after.mib - before.mib) / (after.epoch - before.epoch)
            for before, after in pairwise(peaks)
        ]
        if slope <= 0 or grown < LEAST_GROWTH_MIB or min(steps) < STEADY * slope:
            return None
        at = median(peak.mib - slope * peak.epoch for peak in peaks)
        spread = max(abs(peak.mib - slope * peak.epoch - at) for peak in peaks)
        if grown < BEYOND_SPREAD * spread:
            return None
        return MemoryGrowth(slope, len(peaks))


@record(frozen=True)
class MemoryUse:
    """What is known of the memory of the process that is shown in full.

    Attributes:
        newest: what it holds of the GPU where it held most; None where no framework said it.
        growth: whether that grows from epoch to epoch.
        first: the peak by the end of the first epoch that is kept.
        last: the same of the last one.
        error: the last time that memory ran out in any process.
        errors: how often it did.
    """

    newest: FrameworkMemory | None = None
    growth: MemoryGrowth | None = None
    first: Peak | None = None
    last: Peak | None = None
    error: OutOfMemory | None = None
    errors: int = 0


class MemoryHistory:
    """Folds what frameworks say of their memory."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, str, int], FrameworkMemory] = {}
        """By the process, the framework and its number of the GPU."""
        self.allocated_mib = Series()
        """Of the process that is shown in full."""
        self._error: OutOfMemory | None = None
        self._errors = 0
        self._peaks = Peaks()
        self._main: FrameworkMemory | None = None
        self._retries = deque[tuple[int, int]](maxlen=MOST_KEPT)
        """How many retries there were by a time, where there were more than before."""

    def fold(self, record: FrameworkMemory | OutOfMemory) -> None:
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
        """Return what it comes to; `free_mib` is what NVML says is free of that GPU."""
        newest, peaks, growth = self._main, self._peaks.of_epochs, self._peaks.growth
        if growth is not None and newest is not None and newest.limit_mib is not None:
            most_mib: float = newest.limit_mib
            if free_mib is not None and newest.framework == "torch":
                # The driver, and other programs, have some of it too.
                most_mib = min(most_mib, (newest.reserved_mib or 0) + free_mib)
            left_mib = max(0.0, most_mib - newest.peak_mib)
            growth = replace(growth, full_in=left_mib / growth.epoch_mib)
        first, last = (peaks[0], peaks[-1]) if peaks else (None, None)
        return MemoryUse(newest, growth, first, last, self._error, self._errors)
