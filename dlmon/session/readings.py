"""What the readings of a machine come to: in steady training, in an epoch, in a gap. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from dlmon.quantities import OTHER_CORES, QUANTITIES, RUN_CORES
from dlmon.records import Machine
from dlmon.session.limits.rules import SHARED_GPU_MIB
from dlmon.session.limits.run_samples import MIN_SAMPLES, program_name

WITHIN = 0.8
"""So much of a reading's time lies in a stretch that it counts for."""
# What NVML names as holding the clocks down, by the quantity that counts it.
THROTTLES = {
    "thermal slowdown": "heat_pct",
    "hardware thermal slowdown": "heat_pct",
    "power brake": "power_brake_pct",
    "hardware slowdown": "slowdown_pct",
    "power cap": "power_cap_pct",
}
# Not the power cap: a GPU at the limit that it is set to runs as it always does.
_SLOWED_BY = {
    "heat_pct": "heat",
    "power_brake_pct": "the power brake",
    "slowdown_pct": "a hardware slowdown",
}
_OF_TRAINING = (
    *("steal_pct", "stopped_pct", "run_cpu_wait_pct", "slowed_pct"),
    *(one.key for one in QUANTITIES if one.is_compared and one.readings == "mean"),
)
_CORES = "cores"
_MOST_OF_TRAINING = (_CORES, *(one.key for one in QUANTITIES if one.readings == "max"))
_JOINED: dict[str, Callable[[list[Any]], float]] = {"mean": fmean, "sum": sum, "max": max}


class Reading(NamedTuple):
    """What one reading of the machine says of the time from `start` to `end`."""

    start: int
    end: int
    values: Mapping[str, float]
    """By name; what it doesn't know is left out."""

    def lies_in(self, begin: int, end: int) -> bool:
        """Return whether it counts for a stretch of time."""
        inside_ns = min(self.end, end) - max(self.start, begin)
        return inside_ns >= WITHIN * (self.end - self.start)


def values_of(sample: Machine, gpus: Collection[int]) -> dict[str, float]:
    """Return what a sample says by name.

    Of several `gpus` that are trained on it is the mean of each value, what they take together
    of power, and the most of memory; one that is slowed slows them all.
    """
    found: dict[str, float | None] = {}
    cpu, process, disk, pressure = sample.cpu, sample.process, sample.disk, sample.pressure
    run_pct = process.cpu_pct if process is not None else None
    if cpu is not None:
        found = {"cpu_pct": cpu.pct, "cpu_power_w": cpu.power_w}
        found |= {"steal_pct": cpu.steal_pct, "stopped_pct": cpu.throttled_pct}
        count = len(cpu.cores or ())
        found[_CORES] = count or None
        if cpu.pct is not None and count:
            found["busy_cores"] = cpu.pct * count / 100
            if run_pct is not None:
                # They are not read at the same instant: only the mean of many is never below 0.
                busy_pct = (cpu.pct - (cpu.steal_pct or 0.0)) * count
                found[OTHER_CORES] = (busy_pct - run_pct) / 100
    if process is not None:
        found[RUN_CORES] = None if run_pct is None else run_pct / 100
        found |= {"run_cpu_wait_pct": process.cpu_wait_pct, "memory_mib": process.rss_mib}
    if disk is not None:
        moved = [mib_s for mib_s in (disk.read_mib_s, disk.write_mib_s) if mib_s is not None]
        found["disk_mib_s"] = sum(moved) if moved else None
    if sample.memory is not None:
        found["swap_mib_s"] = sample.memory.swap_mib_s
    if pressure is not None:
        found |= {"cpu_wait_pct": pressure.cpu_pct, "memory_wait_pct": pressure.memory_pct}
        found["io_wait_pct"] = pressure.io_pct
    rows = [gpu for gpu in sample.gpus or () if gpu.index in gpus]
    if not gpus:
        return {name: value for name, value in found.items() if value is not None}
    for quantity in QUANTITIES:
        if quantity.gpu is not None:
            field, join = quantity.gpu
            # If one is not known, neither is what they come to.
            known = [value for gpu in rows if (value := getattr(gpu, field)) is not None]
            is_whole = known and len(known) == len(gpus)
            found[quantity.key] = _JOINED[join](known) if is_whole else None
    throttles = [gpu.throttle for gpu in rows if gpu.throttle is not None]
    if throttles:
        slowed = {THROTTLES[reason] for reason in chain(*throttles) if reason in THROTTLES}
        found |= {name: 100.0 * (name in slowed) for name in THROTTLES.values()}
        found["slowed_pct"] = 100.0 * any(name in slowed for name in _SLOWED_BY)
    if sample.processes is not None:
        on_gpu = [row.gpu_memory_mib or 0.0 for row in sample.processes if row.is_other_on(gpus)]
        found["others_gpu_gib"] = sum(mib for mib in on_gpu if mib >= SHARED_GPU_MIB) / 1024
    return {name: value for name, value in found.items() if value is not None}


class Means:
    """The mean of each value of several readings, as far as they know it."""

    def __init__(self, readings: Iterable[Reading] = ()) -> None:
        self._sums: dict[str, float] = {}
        self.counts = Counter[str]()
        self.readings = 0
        for reading in readings:
            self.add(reading.values)

    def add(self, values: Mapping[str, float]) -> None:
        self.readings += 1
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self.counts[name] += 1

    @property
    def by_name(self) -> dict[str, float]:
        """Each mean; none can be below 0."""
        return {name: max(0.0, total / self.counts[name]) for name, total in self._sums.items()}


class OnGpu(NamedTuple):
    """The program that had the most memory of the GPU beside the run."""

    memory_mib: float
    pid: int
    name: str


class TrainingReadings:
    """Adds up the readings of a machine during steady training: means, peaks, others on the GPU."""

    def __init__(self) -> None:
        self._means = Means()
        self._most: dict[str, float] = {}
        self._slowed = Counter[str]()
        self.on_gpu: OnGpu | None = None

    def add(self, values: Mapping[str, float], sample: Machine, gpus: Collection[int]) -> None:
        """Take a whole sample and its values; `gpus` are those that are trained on."""
        self._means.add({name: values[name] for name in _OF_TRAINING if name in values})
        for name in _MOST_OF_TRAINING:
            if name in values:
                self._most[name] = max(self._most.get(name, 0.0), values[name])
        self._slowed.update(cause for name, cause in _SLOWED_BY.items() if values.get(name))
        for row in sample.processes or ():
            memory_mib = row.gpu_memory_mib or 0.0
            most_mib = SHARED_GPU_MIB if self.on_gpu is None else self.on_gpu.memory_mib
            if row.is_other_on(gpus) and memory_mib >= most_mib:
                name = program_name(row.command) or "unnamed"
                self.on_gpu = OnGpu(memory_mib, row.pid, name)

    def mean_or_zero(self, name: str) -> float:
        """Return a mean; 0 where too few readings stand for the run."""
        return self.mean(name) or 0.0

    def mean(self, name: str) -> float | None:
        """Return a mean; None where too few readings stand for the run."""
        return self.means.get(name) if self._means.counts[name] >= MIN_SAMPLES else None

    @property
    def slowed_by(self) -> list[str]:
        """What slowed the GPU that is trained on, the most frequent first."""
        return [cause for cause, _ in self._slowed.most_common()]

    @property
    def means(self) -> dict[str, float]:
        """The mean of each quantity that was read at all."""
        return self._means.by_name

    @property
    def most(self) -> dict[str, float]:
        """The greatest of each quantity of which that counts."""
        return {name: value for name, value in self._most.items() if name != _CORES}

    @property
    def cores(self) -> int | None:
        return round(self._most[_CORES]) if _CORES in self._most else None
