"""The energy that a session's devices took over its epochs, from their counters.

Pure. No energy is estimated that no counter counted.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

# Who watches a machine has no epoch: what training says is read where something trains.
if TYPE_CHECKING:
    from dlmon.records import Epoch, Machine

# Two ends are interpolated, so the epochs must be longer than what lies between two readings.
MIN_READINGS = 3
_MAX_POINTS = 4096

NO_READING = "its energy counter was not read"
BEGAN_AGAIN = "its energy counter was reset"
STANDS_STILL = "its energy counter does not change"
READ_TOO_LATE = "its energy counter was first read after the epoch had started"
NOT_READ_SINCE = "its energy counter was not read after the epoch had ended"
NO_WHOLE_EPOCH = "no whole epoch was trained"
TOO_SHORT = "the epochs were too short for the interval of its energy readings"


class NotMeasured(Exception):
    """A figure is unknown; the message says why."""


class EnergyMeter:
    """Folds a session's samples into one energy counter for each device."""

    def __init__(self) -> None:
        self.cpu = EnergyCounter()
        self.gpus: dict[int, EnergyCounter] = {}
        """By NVML's number."""
        self._why_no_gpu: str | None = None

    def fold(self, sample: Machine) -> None:
        """Take one sample; a field that it leaves out has not changed."""
        if sample.cpu is not None:
            why = sample.cpu.why.get("energy_j")
            self.cpu.fold(sample.t, sample.cpu.energy_j, why, breaks=why is not None)
        for gpu in sample.gpus or ():
            counter = self.gpus.setdefault(gpu.index, EnergyCounter())
            # It counts on while its GPU is left alone, or when a single reading fails.
            is_gone = gpu.state is not None and gpu.state.is_gone
            counter.fold(sample.t, gpu.energy_j, gpu.why.get("energy_j"), breaks=is_gone)
        if sample.gpus is None and "gpus" in sample.why:
            self._why_no_gpu = why = sample.why["gpus"]
            are_gone = sample.gpus_state is None or sample.gpus_state.is_gone
            for counter in self.gpus.values():
                counter.fold(sample.t, None, why, breaks=are_gone)

    @property
    def gpu_joules_since_start(self) -> dict[int, float]:
        """What each GPU took since its first reading; one where that isn't known is left out."""
        known = {index: counter.joules_since_start for index, counter in self.gpus.items()}
        return {index: joules for index, joules in known.items() if joules is not None}

    @property
    def counters(self) -> dict[str, EnergyCounter]:
        """The counters by "cpu" and "gpu:N"."""
        return {"cpu": self.cpu, **{f"gpu:{index}": gpu for index, gpu in self.gpus.items()}}

    def gpu(self, index: int | None) -> EnergyCounter:
        """Return the counter of a GPU by NVML's number; the only one's where `index` is None."""
        if index is None and len(self.gpus) == 1:
            (counter,) = self.gpus.values()
            return counter
        unknown = "which GPU was trained on is not known" if index is None else self._why_no_gpu
        return self.gpus.get(-1 if index is None else index) or EnergyCounter(unknown)


class EnergyPoint(NamedTuple):
    """One reading of a counter."""

    t: int
    joules: float
    segment: int


class EnergyPoints(list[EnergyPoint]):
    """The readings of a counter that are kept."""

    @property
    def end_ns(self) -> int | None:
        return self[-1].t if self else None

    def until(self, end_ns: int | None) -> EnergyPoints:
        return EnergyPoints(point for point in self if end_ns is not None and point.t <= end_ns)


class EnergyCounter:
    """The readings of one energy counter over time, in segments that only rise.

    A reading that is lost, or lower than the one before, starts a new segment:
    nothing is known across two. Where there are too many points, every
    second one is kept from then on, so memory stays flat; the energy of many
    epochs together stays as exact.
    """

    def __init__(self, why: str | None = None) -> None:
        self._points = EnergyPoints()
        self._first: EnergyPoint | None = None
        self._segments = self._readings = 0
        self._every = 1
        self.why = why or NO_READING
        """Why nothing is known of it, where that is so."""

    @property
    def joules_since_start(self) -> float | None:
        """What was taken since the first reading; None where that isn't known."""
        if self._first is None or self._first.segment != self._segments:
            return None
        return self._points[-1].joules - self._first.joules

    def fold(
        self, t: int, energy_j: float | None, why: str | None = None, breaks: bool = False
    ) -> None:
        """Take one reading.

        Args:
            t: when it was read.
            energy_j: what it said; None without a reason means that it was not read this time.
            why: why it said nothing.
            breaks: nothing is known of it from the reading before to the next.
        """
        if energy_j is None:
            self.why = why or self.why
            self._segments += breaks
            return
        last = self._points[-1] if self._points else None
        if last is not None and t <= last.t:
            return
        if last is not None and last.segment == self._segments and energy_j < last.joules:
            self.why = BEGAN_AGAIN
            self._segments += 1
        point = EnergyPoint(t, energy_j, self._segments)
        # The last reading always stands; the next one takes its place unless it is to be kept.
        before = [known.segment for known in self._points[-2:]]
        if self._readings % self._every and before == [self._segments, self._segments]:
            self._points.pop()
        self._readings += 1
        self._first = self._first or point
        self._points.append(point)
        if len(self._points) > _MAX_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Drop every second point that lies between two of its own segment."""
        self._every *= 2
        points = self._points
        kept = [
            point
            for place, point in enumerate(points)
            if place % 2 == 0
            or place == len(points) - 1
            or not points[place - 1].segment == point.segment == points[place + 1].segment
        ]
        self._points[:] = kept[-_MAX_POINTS * 3 // 4 :]  # where breaks leave nothing to drop

    def joules_between(self, start: int, end: int) -> tuple[float, int]:
        """Return the energy between two times, and how long the longer of its ends' gaps is.

        A time between two readings is interpolated. `start` is before `end`.

        Raises:
            NotMeasured: they don't lie in one segment.
        """
        points = self._points
        if not points:
            raise NotMeasured(self.why)
        before = bisect_right(points, start, key=attrgetter("t")) - 1
        after = bisect_left(points, end, key=attrgetter("t"))
        if before < 0:
            raise NotMeasured(READ_TOO_LATE)
        if after == len(points):
            raise NotMeasured(self.why if points[-1].segment != self._segments else NOT_READ_SINCE)
        if points[before].segment != points[after].segment:
            raise NotMeasured(self.why)
        first, last = points[before : before + 2], points[after - 1 : after + 1]
        gap = max(first[1].t - first[0].t, last[1].t - last[0].t)
        return _joules_at(end, *last) - _joules_at(start, *first), gap

    def per_epoch(self, whole: Sequence[Epoch]) -> float:
        """Return the mean energy in joules of whole epochs.

        Epochs that lie across two segments are left out.

        Raises:
            NotMeasured: none is left, or they were too short beside the interval.
        """
        joules, span, gap, epochs = 0.0, 0, 0, 0
        why = NO_WHOLE_EPOCH
        for epoch in whole:
            try:
                taken, gap_here = self.joules_between(epoch.begin, epoch.end)
            except NotMeasured as reason:
                why = str(reason)
                continue
            joules += taken
            span += epoch.end - epoch.begin
            gap = max(gap, gap_here)
            epochs += 1
        if not epochs:
            raise NotMeasured(why)
        if span < MIN_READINGS * gap:
            raise NotMeasured(TOO_SHORT)
        if not 0 < joules < math.inf:
            raise NotMeasured(STANDS_STILL)
        return joules / epochs


def _joules_at(t: int, point: EnergyPoint, following: EnergyPoint) -> float:
    """Return the counter at `t`, which lies between two points."""
    share = (t - point.t) / (following.t - point.t)
    return point.joules + share * (following.joules - point.joules)
