"""The values of a machine's readings, in steady training, in an epoch or in a gap. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from dlmon.quantities import OTHER_CORES, QUANTITIES, RUN_CORES
from dlmon.records import Machine
from dlmon.script_name import program_name
from dlmon.session.limits.rules import SHARED_GPU_MIB
from dlmon.session.limits.run_samples import MIN_SAMPLES

# A reading counts for a span of time if at least this share of the reading lies in the span.
_COUNTED_SHARE = 0.8
# NVML's reasons for throttling, with the quantity that counts each.
THROTTLES = {
    "thermal slowdown": "heat_pct",
    "hardware thermal slowdown": "heat_pct",
    "power brake": "power_brake_pct",
    "hardware slowdown": "slowdown_pct",
    "power cap": "power_cap_pct",
}
_THROTTLE_QUANTITIES = tuple(dict.fromkeys(THROTTLES.values()))
# Without the power cap: a GPU at its own power limit runs as it always does.
_SLOWED_BY = {
    "heat_pct": "heat",
    "power_brake_pct": "the power brake",
    "slowdown_pct": "a hardware slowdown",
}
_MEANS_OF_TRAINING = (
    *("steal_pct", "stopped_pct", "run_cpu_wait_pct", "slowed_pct"),
    *(q.key for q in QUANTITIES if q.is_compared and q.readings == "mean"),
)
_CORES = "cores"
_MAXIMA_OF_TRAINING = (_CORES, *(q.key for q in QUANTITIES if q.readings == "max"))
_GPU_QUANTITIES = tuple((q.key, *q.gpu) for q in QUANTITIES if q.gpu is not None)
_JOIN: dict[str, Callable[[list[Any]], float]] = {"mean": fmean, "sum": sum, "max": max}


class MachineReading(NamedTuple):
    """One reading of the machine, for the time from `start` to `end`."""

    start: int
    end: int
    values: Mapping[str, float]
    """By name; unknown ones are left out."""

    def lies_in(self, begin: int, end: int) -> bool:
        """Return whether the reading counts for a span of time."""
        inside_ns = min(self.end, end) - max(self.start, begin)
        return inside_ns >= _COUNTED_SHARE * (self.end - self.start)


def values_of(sample: Machine, gpus: Collection[int]) -> dict[str, float]:
    """Return the values of a sample by name.

    `gpus` are those that train. If there are several, power is their sum, memory the highest, and
    any other value the mean; one that is slowed slows them all.
    """
    values: dict[str, float | None] = {}
    cpu, process, disk, pressure = sample.cpu, sample.process, sample.disk, sample.pressure
    run_pct = process.cpu_pct if process is not None else None
    if cpu is not None:
        values = {"cpu_pct": cpu.pct, "cpu_power_w": cpu.power_w}
        values |= {"steal_pct": cpu.steal_pct, "stopped_pct": cpu.throttled_pct}
        count = len(cpu.cores or ())
        values[_CORES] = count or None
        if cpu.pct is not None and count:
            values["busy_cores"] = cpu.pct * count / 100
            if run_pct is not None:
                # The two are read at different instants: a single difference may be below 0.
                busy_pct = (cpu.pct - (cpu.steal_pct or 0.0)) * count
                values[OTHER_CORES] = (busy_pct - run_pct) / 100
    if process is not None:
        values[RUN_CORES] = None if run_pct is None else run_pct / 100
        values |= {"run_cpu_wait_pct": process.cpu_wait_pct, "memory_mib": process.rss_mib}
    if disk is not None:
        rates = [mib_s for mib_s in (disk.read_mib_s, disk.write_mib_s) if mib_s is not None]
        values["disk_mib_s"] = sum(rates) if rates else None
    if sample.memory is not None:
        values["swap_mib_s"] = sample.memory.swap_mib_s
    if pressure is not None:
        values |= {"cpu_wait_pct": pressure.cpu_pct, "memory_wait_pct": pressure.memory_pct}
        values["io_wait_pct"] = pressure.io_pct
    if gpus:
        values |= _gpu_values(sample, gpus)
    return {name: value for name, value in values.items() if value is not None}


def _gpu_values(sample: Machine, gpus: Collection[int]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    rows = [gpu for gpu in sample.gpus or () if gpu.index in gpus]
    for name, field, join in _GPU_QUANTITIES:
        measured = [value for gpu in rows if (value := getattr(gpu, field)) is not None]
        # A value that is unknown for one GPU is unknown for all.
        if len(measured) == len(gpus):
            values[name] = measured[0] if len(measured) == 1 else _JOIN[join](measured)
    throttles = [gpu.throttle for gpu in rows if gpu.throttle is not None]
    if throttles:
        slowed = {THROTTLES[reason] for reason in chain(*throttles) if reason in THROTTLES}
        values |= {name: 100.0 * (name in slowed) for name in _THROTTLE_QUANTITIES}
        values["slowed_pct"] = 100.0 * (not slowed.isdisjoint(_SLOWED_BY))
    if sample.processes is not None:
        gpu_mib = (row.gpu_memory_mib or 0.0 for row in sample.processes if row.is_other_on(gpus))
        values["others_gpu_gib"] = sum(mib for mib in gpu_mib if mib >= SHARED_GPU_MIB) / 1024
    return values


class Means:
    """The mean of each value over several readings, as far as known."""

    def __init__(self, readings: Iterable[MachineReading] = ()) -> None:
        self._sums: dict[str, float] = {}
        self.counts = Counter[str]()
        self.readings = 0
        for reading in readings:
            self.add(reading.values)

    def add(self, values: Mapping[str, float]) -> None:
        self.readings += 1
        sums, counts = self._sums, self.counts
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value
            counts[name] += 1

    @property
    def by_name(self) -> dict[str, float]:
        """The means, at least 0."""
        return {name: max(0.0, total / self.counts[name]) for name, total in self._sums.items()}


class OtherProgram(NamedTuple):
    """The program that holds the most GPU memory, other than the run."""

    memory_mib: float
    pid: int
    name: str


class TrainingReadings:
    """The readings of a machine in steady training: means, peaks, and other programs on the GPU."""

    def __init__(self) -> None:
        self._means = Means()
        self._maxima: dict[str, float] = {}
        self._slowed = Counter[str]()
        self.other_program: OtherProgram | None = None

    def add(self, values: Mapping[str, float], sample: Machine, gpus: Collection[int]) -> None:
        """Add a whole sample and its values; `gpus` are those that are trained on."""
        self._means.add({name: values[name] for name in _MEANS_OF_TRAINING if name in values})
        for name in _MAXIMA_OF_TRAINING:
            if name in values and values[name] > self._maxima.setdefault(name, 0.0):
                self._maxima[name] = values[name]
        if values.get("slowed_pct"):
            self._slowed.update(cause for name, cause in _SLOWED_BY.items() if values.get(name))
        for row in sample.processes or ():
            memory_mib = row.gpu_memory_mib or 0.0
            least_mib: float = SHARED_GPU_MIB
            if self.other_program is not None:
                least_mib = self.other_program.memory_mib
            if row.is_other_on(gpus) and memory_mib >= least_mib:
                name = program_name(row.command) or "unnamed"
                self.other_program = OtherProgram(memory_mib, row.pid, name)

    def mean_or_zero(self, name: str) -> float:
        """Return a mean; 0 if there are too few readings."""
        return self.mean(name) or 0.0

    def mean(self, name: str) -> float | None:
        """Return a mean; None if there are too few readings."""
        return self.means.get(name) if self._means.counts[name] >= MIN_SAMPLES else None

    @property
    def slowed_by(self) -> list[str]:
        """The causes that slowed the GPU, the most frequent first."""
        return [cause for cause, _ in self._slowed.most_common()]

    @property
    def means(self) -> dict[str, float]:
        """The mean of each quantity with a reading."""
        return self._means.by_name

    @property
    def maxima(self) -> dict[str, float]:
        """The highest value of each quantity that has one."""
        return {name: value for name, value in self._maxima.items() if name != _CORES}

    @property
    def cores(self) -> int | None:
        return round(self._maxima[_CORES]) if _CORES in self._maxima else None
