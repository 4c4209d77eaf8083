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

MOST_ERRORS = 100
# A forged log may name any number of GPUs.
MOST_KEPT = 1024
# The newest epochs, by which it shows whether memory grows: so many at least, the first one apart.
MOST_EPOCHS, LEAST_EPOCHS = 40, 6
# Each epoch grows by this share of the usual growth at least: what was made once is no leak.
STEADY = 0.25
LEAST_GROWTH_MIB = 16.0
# So much less than it grew does it differ from a straight line.
BEYOND_SPREAD = 4.0


def amount(mib: float) -> str:
    """Write an amount of memory: 640 MiB, 2.0 GiB."""
    return f"{mib:,.0f} MiB" if mib < 1023.5 else f"{mib / 1024:,.1f} GiB"


def out_of_memory_text(error: OutOfMemory) -> str:
    """Return what is noted as memory runs out; the script may go on."""
    known = (
        ("asked for", error.asked_mib),
        ("free", error.free_mib),
    )
    said = [f"{amount(mib)} {name}" for name, mib in known if mib is not None]
    gpu = "GPU memory" if error.device is None else f"memory of GPU {error.device}"
    return f"{gpu} ran out: {', '.join(said)}"


@record(frozen=True)
class MemoryGrowth:
    """What is held grows from epoch to epoch.

    Attributes:
        epoch_mib: by so much in an epoch.
        epochs: so many were looked at.
        full_in: after about so many more epochs it is full; None where its end is not known.
    """

    epoch_mib: float
    epochs: int
    full_in: float | None = None


class Floor(NamedTuple):
    """The least that was held in an epoch: what of it remains from step to step."""

    epoch: int
    mib: float


class Floors:
    """Keeps the least of a quantity in each epoch, and says whether that grows."""

    def __init__(self) -> None:
        self._least: float | None = None
        self._newest: float | None = None
        self.of_epochs = deque[Floor](maxlen=MOST_EPOCHS)
        self.growth: MemoryGrowth | None = None

    def add(self, mib: float) -> None:
        self._least = mib if self._least is None else min(self._least, mib)
        self._newest = mib

    def end_epoch(self, epoch: int) -> None:
        """Take the end of an epoch; what was not read in it is as it was before."""
        least = self._newest if self._least is None else self._least
        self._least = None
        if least is not None and (not self.of_epochs or self.of_epochs[-1].epoch < epoch):
            self.of_epochs.append(Floor(epoch, least))
            self.growth = self._find_growth()

    def _find_growth(self) -> MemoryGrowth | None:
        """Return by how much it grows, where every epoch after the first adds to it; else None."""
        floors = [floor for floor in self.of_epochs if floor.epoch > 0]
        if len(floors) < LEAST_EPOCHS:
            return None
        slopes = [
            (after.mib - before.mib) / (after.epoch - before.epoch)
            for number, before in enumerate(floors)
            for after in floors[number + 1 :]
        ]
        slope, grown = median(slopes), floors[-1].mib - floors[0].mib
        steps = [
            (after.mib - before.mib) / (after.epoch - before.epoch)
            for before, after in pairwise(floors)
        ]
        if slope <= 0 or grown < LEAST_GROWTH_MIB or min(steps) < STEADY * slope:
            return None
        at = median(floor.mib - slope * floor.epoch for floor in floors)
        spread = max(abs(floor.mib - slope * floor.epoch - at) for floor in floors)
        if grown < BEYOND_SPREAD * spread:
            return None
        return MemoryGrowth(slope, len(floors))


@record(frozen=True)
class MemoryUse:
    """What is known of the memory of the process that is shown in full.

    Attributes:
        newest: what it holds of the GPU where it held most; None where no framework said it.
        growth: whether that grows from epoch to epoch.
        first: the least that was held in the first epoch that is kept.
        last: the same of the last one.
        error: the last time that memory ran out in any process.
        errors: how often it did.
    """

    newest: FrameworkMemory | None = None
    growth: MemoryGrowth | None = None
    first: Floor | None = None
    last: Floor | None = None
    error: OutOfMemory | None = None
    errors: int = 0


class MemoryHistory:
    """Folds what frameworks say of their memory."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, str, int], FrameworkMemory] = {}
        """By the process, the framework and its number of the GPU."""
        self.allocated_mib = Series()
        """Of the process that is shown in full."""
        self.errors = deque[OutOfMemory](maxlen=MOST_ERRORS)
        self._floors = Floors()
        self._main: FrameworkMemory | None = None
        self._retries = deque[tuple[int, int]](maxlen=MOST_KEPT)
        """How many retries there were by a time, where there were more than before."""

    def fold(self, record: FrameworkMemory | OutOfMemory) -> None:
        if isinstance(record, OutOfMemory):
            self.errors.append(record)
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
        self._floors.add(record.allocated_mib)
        retried = 0 if before is None else before.retries or 0
        if (record.retries or 0) > retried:
            self._retries.append((record.t, (record.retries or 0) - retried))

    def end_epoch(self, epoch: Epoch) -> None:
        self._floors.end_epoch(epoch.epoch)

    def retries_between(self, begin: int, end: int) -> int:
        return sum(count for t, count in self._retries if begin < t <= end)

    @property
    def use(self) -> MemoryUse:
        """What it comes to."""
        newest, floors = self._main, self._floors.of_epochs
        growth, errors = self._floors.growth, self.errors
        if growth is not None and newest is not None and newest.limit_mib is not None:
            left_mib = max(0, newest.limit_mib - newest.peak_mib)
            growth = replace(growth, full_in=left_mib / growth.epoch_mib)
        return MemoryUse(
            newest,
            growth,
            floors[0] if floors else None,
            floors[-1] if floors else None,
            errors[-1] if errors else None,
            len(errors),
        )
