"""The readings of a machine over time, and its energy.

Energy is what counters counted; nothing is estimated.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import compress
from typing import TYPE_CHECKING

from dlmon.quantities import GPU_ACTIVITY
from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts, MachineUse
from dlmon.statistics.series import Series

# Not imported at run time: a screen of a machine alone needs no epochs.
if TYPE_CHECKING:
    from dlmon.records import Epoch


GPU_READINGS = tuple(spec.name for spec in fields(Gpu) if spec.name not in ("index", "why"))


def gpus_of(machine: Machine | None, facts: MachineFacts) -> tuple[Gpu, ...]:
    """Return the GPUs of the newest sample; once lost, those of the facts without readings."""
    if machine is not None and machine.gpus is not None:
        return machine.gpus
    lost = machine.why.get("gpus") if machine is not None else None
    why = dict.fromkeys(GPU_READINGS, lost) if lost else {}
    return tuple(Gpu(gpu.index, why=why) for gpu in facts.gpus or ())


def facts_of_gpu(facts: MachineFacts, index: int) -> GpuFacts:
    """Return the facts of a GPU, all of them unknown if the machine has none of it."""
    gpus = (gpu for gpu in facts.gpus or () if gpu.index == index)
    return next(gpus, GpuFacts(index, ""))


class MachineHistory:
    """The machine's readings over time, for a session or a screen without one.

    Fields that a record leaves out have not changed, so records are merged.
    """

    def __init__(self, interval_s: float = 1.0) -> None:
        self.interval_s = interval_s
        self._interval_ns = max(int(interval_s * 1e9), 100_000_000)
        self.latest: Machine | None = None
        self.cpu_pct = self._series()
        self.run_cpu_pct = self._series()
        """The CPU time of the run alone; 100 % is one core. Empty without a run."""
        self.cpu_power_w = self._series()
        self.memory_mib = self._series()
        self.disk_mib_s = self._series()
        """What all disks read and wrote."""
        self.gpu_utilization_pct: dict[int, Series] = {}
        self.gpu_memory_mib: dict[int, Series] = {}
        self.gpu_power_w: dict[int, Series] = {}
        self.gpu_temperature_c: dict[int, Series] = {}
        self.gpu_memory_peak_mib: dict[int, int] = {}
        """The most memory in use on each GPU in any reading."""
        self.gpu_activity: dict[str, dict[int, Series]] = {}
        """The activity and the clock of each GPU, by the name of the reading."""
        self.run_memory_peak_mib: int | None = None
        """The most memory that the run's processes held in any reading."""
        self.energy = EnergyMeter()

    def add(self, sample: Machine, is_whole: bool = True) -> int:
        """Add a sample; return the begin of the time that it stands for.

        If it is not whole, the run was suspended in a part of that time: only the memory of the run
        counts, and it is the latest.
        """
        # Imported late: the first paint needs no readings.
        from dlmon.records.changes import merge

        before = self.latest
        start_ns = sample.t - self._interval_ns
        # Up to two missed readings are lateness, more are a gap.
        if before is not None and 0 < sample.t - before.t <= 3 * self._interval_ns:
            start_ns = before.t
        self.latest = merged = merge(before, sample)
        rss_mib = None if merged.process is None else merged.process.rss_mib
        if rss_mib is not None:
            self.run_memory_peak_mib = max(self.run_memory_peak_mib or 0, rss_mib)
        if not is_whole:
            self.energy.lose(sample.t, WAS_SUSPENDED)
            return start_ns
        self.energy.add(sample)
        for series, group, name in (
            (self.cpu_pct, merged.cpu, "pct"),
            (self.run_cpu_pct, merged.process, "cpu_pct"),
            (self.memory_mib, merged.memory, "used_mib"),
            (self.cpu_power_w, merged.cpu, "power_w"),
        ):
            value = getattr(group, name, None)
            if value is not None:
                series.add(start_ns, sample.t, value)
        disk = merged.disk
        if disk is not None and (disk.read_mib_s is not None or disk.write_mib_s is not None):
            disk_mib_s = (disk.read_mib_s or 0.0) + (disk.write_mib_s or 0.0)
            self.disk_mib_s.add(start_ns, sample.t, disk_mib_s)
        for gpu in merged.gpus or ():
            if gpu.memory_used_mib is not None:
                before_mib = self.gpu_memory_peak_mib.get(gpu.index, 0)
                self.gpu_memory_peak_mib[gpu.index] = max(before_mib, gpu.memory_used_mib)
            for of_gpus, value in (
                (self.gpu_utilization_pct, gpu.utilization_pct),
                (self.gpu_memory_mib, gpu.memory_used_mib),
                (self.gpu_power_w, gpu.power_w),
                (self.gpu_temperature_c, gpu.temperature_c),
            ):
                if value is not None:
                    if gpu.index not in of_gpus:
                        of_gpus[gpu.index] = self._series()
                    of_gpus[gpu.index].add(start_ns, sample.t, value)
            for name in (*GPU_ACTIVITY, "sm_mhz"):
                value = getattr(gpu, name)
                if value is not None:
                    of_gpus = self.gpu_activity.setdefault(name, {})
                    if gpu.index not in of_gpus:
                        # Coarser for many GPUs, so that a day takes no more memory.
                        gpus = len(merged.gpus or ())
                        of_gpus[gpu.index] = Series(self.bucket_ns * max(2, gpus))
                    of_gpus[gpu.index].add(start_ns, sample.t, value)
        return start_ns

    def gpu_series(self, reading: str, index: int) -> Series:
        """Return a reading of a GPU over time, by its field in `Gpu`; empty if it has none."""
        of_gpus = {
            "utilization_pct": self.gpu_utilization_pct,
            "memory_used_mib": self.gpu_memory_mib,
            "power_w": self.gpu_power_w,
            "temperature_c": self.gpu_temperature_c,
            **self.gpu_activity,
        }
        return of_gpus.get(reading, {}).get(index) or Series()

    def use(self) -> MachineUse:
        """Return the use of the machine over all of the time."""
        cpu_pct, energy_j, why = self.cpu_pct.mean, {}, {}
        if cpu_pct is None:
            why["cpu_pct"] = "it was not sampled"
        for name, counter in self.energy.counters.items():
            joules = counter.joules_since_start
            if joules is None:
                why[f"energy_j.{name}"] = counter.why
            else:
                energy_j[name] = round(joules, 1)
        gpu_pct = {
            f"gpu:{index}": round(series.mean, 2)
            for index, series in sorted(self.gpu_utilization_pct.items())
            if series.mean is not None
        }
        return MachineUse(
            gpu_pct=gpu_pct,
            energy_j=energy_j,
            cpu_pct=None if cpu_pct is None else round(cpu_pct, 2),
            why=why,
        )

    @property
    def bucket_ns(self) -> int:
        return min(self._interval_ns, 1_000_000_000)

    def _series(self) -> Series:
        return Series(self.bucket_ns)


# Both ends of epochs are interpolated, so they must last this many times the reading interval.
MIN_READINGS = 3
_MAX_POINTS = 1 << 17

NO_READING = "its energy counter was not read"
BEGAN_AGAIN = "its energy counter was reset"
STANDS_STILL = "its energy counter does not change"
READ_TOO_LATE = "its energy counter was first read after the epoch had started"
NOT_READ_SINCE = "its energy counter was not read after the epoch had ended"
NO_WHOLE_EPOCH = "no whole epoch was trained"
WAS_SUSPENDED = "its energy counter went on while the run was suspended"
TOO_SHORT = "the epochs were too short for the interval of its energy readings"


class NotMeasured(Exception):
    """A figure is unknown; the message says why."""


class NodeMachine:
    """Another host of a run: its facts and its readings."""

    def __init__(self, interval_s: float) -> None:
        self.facts = MachineFacts()
        self.history = MachineHistory(interval_s)


class EnergyMeter:
    """The energy counters of all devices of a machine."""

    def __init__(self) -> None:
        self.cpu = EnergyCounter()
        self.gpus: dict[int, EnergyCounter] = {}
        """By NVML's number."""
        self._why_no_gpu: str | None = None

    def add(self, sample: Machine) -> None:
        """Add a sample; a field that it leaves out has not changed."""
        if sample.cpu is not None:
            why = sample.cpu.why.get("energy_j")
            self.cpu.add(sample.t, sample.cpu.energy_j, why, breaks=why is not None)
        for gpu in sample.gpus or ():
            counter = self.gpus.setdefault(gpu.index, EnergyCounter())
            # It counts on if its GPU isn't read for a while, or a single reading fails.
            is_gone = gpu.state is not None and gpu.state.is_gone
            counter.add(sample.t, gpu.energy_j, gpu.why.get("energy_j"), breaks=is_gone)
        if sample.gpus is None and "gpus" in sample.why:
            self._why_no_gpu = why = sample.why["gpus"]
            are_gone = sample.gpus_state is None or sample.gpus_state.is_gone
            for counter in self.gpus.values():
                counter.add(sample.t, None, why, breaks=are_gone)

    def lose(self, t: int, why: str) -> None:
        """Take the energy from the last readings to the next as unknown."""
        for counter in (self.cpu, *self.gpus.values()):
            counter.add(t, None, why, breaks=True)

    @property
    def gpu_joules_since_start(self) -> dict[int, float]:
        """The energy of each GPU since its first reading, as far as known."""
        return {
            index: joules
            for index, counter in self.gpus.items()
            if (joules := counter.joules_since_start) is not None
        }

    @property
    def counters(self) -> dict[str, EnergyCounter]:
        """The counters by "cpu" and "gpu:N"."""
        return {"cpu": self.cpu, **{f"gpu:{index}": gpu for index, gpu in self.gpus.items()}}

    def gpu(self, index: int | None) -> EnergyCounter:
        """Return the counter of a GPU by NVML's number; of the only GPU if `index` is None."""
        if index is None and len(self.gpus) == 1:
            (counter,) = self.gpus.values()
            return counter
        unknown = "which GPU was trained on is not known" if index is None else self._why_no_gpu
        return self.gpus.get(-1 if index is None else index) or EnergyCounter(unknown)


class EnergyPoints:
    """The readings of a counter by time; NaN marks a break between two of them.

    When there are very many, every second one is dropped, so memory stays flat.
    """

    def __init__(self, times: Iterable[int] = (), joules: Iterable[float] = ()) -> None:
        self.times, self.joules = array("q", times), array("d", joules)

    @property
    def end_ns(self) -> int | None:
        return self.times[-1] if self.times else None

    def until(self, end_ns: int | None) -> EnergyPoints:
        count = 0 if end_ns is None else bisect_right(self.times, end_ns)
        return EnergyPoints(self.times[:count], self.joules[:count])

    def add(self, t: int, joules: float) -> None:
        self.times.append(t)
        self.joules.append(joules)
        if len(self.times) > _MAX_POINTS:
            keeps = [at % 2 == 0 or math.isnan(joules) for at, joules in enumerate(self.joules)]
            # Breaks are kept, so the oldest points may have to go.
            newest = slice(-_MAX_POINTS * 3 // 4, None)
            self.times = array("q", compress(self.times, keeps))[newest]
            self.joules = array("d", compress(self.joules, keeps))[newest]


class EnergyCounter:
    """The readings of one energy counter over time.

    The energy is unknown across a lost reading, or one that is lower than the one before.
    """

    def __init__(self, why: str | None = None) -> None:
        self.points = EnergyPoints()
        self._is_whole = True
        """True if it only rose since its first reading, and none was lost."""
        self.why = why or NO_READING
        """The reason why its energy is unknown, if it is."""

    @property
    def joules_since_start(self) -> float | None:
        """The energy since the first reading; None if not known."""
        joules = self.points.joules
        return joules[-1] - joules[0] if joules and self._is_whole else None

    def add(
        self, t: int, energy_j: float | None, why: str | None = None, breaks: bool = False
    ) -> None:
        """Add one reading.

        Args:
            t: its time.
            energy_j: the counter; None without a reason means that it was not read this time.
            why: the reason why it couldn't be read.
            breaks: the energy from the reading before to the next is unknown.
        """
        points = self.points
        if energy_j is None:
            self.why = why or self.why
            if breaks:
                self._break(t)
        elif not points.times or t > points.times[-1]:
            if points.joules and energy_j < points.joules[-1]:
                self.why = BEGAN_AGAIN
                self._break(t)
            points.add(t, energy_j)

    def _break(self, t: int) -> None:
        """Mark the energy from the last reading to the next as unknown."""
        points = self.points
        if points.times and not math.isnan(points.joules[-1]):
            self._is_whole = False
            points.add(max(t, points.times[-1]), math.nan)

    def joules_between(self, start: int, end: int) -> tuple[float, int]:
        """Return the energy from `start` to `end`, and the longer reading gap at its ends.

        A time between two readings is interpolated. `start` is before `end`.

        Raises:
            NotMeasured: a break or a missing reading lies between them.
        """
        times, joules = self.points.times, self.points.joules
        if not times:
            raise NotMeasured(self.why)
        before, after = bisect_right(times, start) - 1, bisect_left(times, end)
        if before < 0:
            raise NotMeasured(READ_TOO_LATE)
        if after == len(times):
            raise NotMeasured(self.why if math.isnan(joules[-1]) else NOT_READ_SINCE)
        if math.isnan(sum(joules[before : after + 1])):
            raise NotMeasured(self.why)
        gap = max(times[before + 1] - times[before], times[after] - times[after - 1])
        return self._joules_at(end, after - 1) - self._joules_at(start, before), gap

    def _joules_at(self, t: int, index: int) -> float:
        """Return the counter at a time between the reading at `index` and the next."""
        since, until = self.points.times[index : index + 2]
        first, last = self.points.joules[index : index + 2]
        return first + (t - since) / (until - since) * (last - first)

    def per_epoch(self, whole: Sequence[Epoch]) -> float:
        """Return the mean energy of whole epochs in joules.

        Epochs whose energy is unknown are left out.

        Raises:
            NotMeasured: none remains, or they were too short for the interval of the readings.
        """
        joules, span, gap, epochs = 0.0, 0, 0, 0
        why = NO_WHOLE_EPOCH
        for epoch in whole:
            try:
                epoch_joules, epoch_gap = self.joules_between(epoch.begin, epoch.end)
            except NotMeasured as reason:
                why = str(reason)
                continue
            joules += epoch_joules
            span += epoch.end - epoch.begin
            gap = max(gap, epoch_gap)
            epochs += 1
        if not epochs:
            raise NotMeasured(why)
        if span < MIN_READINGS * gap:
            raise NotMeasured(TOO_SHORT)
        if not 0 < joules < math.inf:
            raise NotMeasured(STANDS_STILL)
        return joules / epochs
