"""What the machine did during steady training: means, peaks, and who else was on the GPU. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from dlmon.records import Machine
from dlmon.session.limits.evidence import MIN_SAMPLES
from dlmon.session.limits.gpu import SHARED_GPU_MIB
from dlmon.session.program_name import program_name

# Not the power cap: a GPU at the limit that it is set to runs as it always does.
_SLOWED_BY = {
    "thermal slowdown": "heat",
    "hardware thermal slowdown": "heat",
    "power brake": "the power brake",
    "hardware slowdown": "a hardware slowdown",
}


class OnGpu(NamedTuple):
    """The program that had the most memory of the GPU beside the run."""

    memory_mib: float
    pid: int
    name: str


class Cores(NamedTuple):
    """How many cores the run took, and how many other programs did.

    The two are not read at the same instant: in one reading the others' may be below 0, which only
    their mean may not.
    """

    run: float
    others: float


def cores_of(sample: Machine) -> Cores | None:
    """Return who took how many cores; None where a reading doesn't know it."""
    cpu, run_pct = sample.cpu, sample.process.cpu_pct if sample.process is not None else None
    if cpu is None or cpu.pct is None or not cpu.cores or run_pct is None:
        return None
    busy_pct = (cpu.pct - (cpu.steal_pct or 0.0)) * len(cpu.cores)
    return Cores(run_pct / 100, (busy_pct - run_pct) / 100)


_CORES = "cores"


class TrainingReadings:
    """Folds the readings of a machine during steady training."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts, self._slowed = Counter[str](), Counter[str]()
        self._most: dict[str, float] = {}
        self.on_gpu: OnGpu | None = None

    def fold(self, sample: Machine, gpu_index: int | None) -> None:
        """Take a whole reading; `gpu_index` is the GPU that is trained on."""
        if sample.cpu is not None:
            self._add("cpu_pct", sample.cpu.pct)
            self._add("cpu_power_w", sample.cpu.power_w)
            self._add("steal_pct", sample.cpu.steal_pct)
            self._add("stopped_pct", sample.cpu.throttled_pct)
            self._keep_most(_CORES, len(sample.cpu.cores) if sample.cpu.cores else None)
        cores = cores_of(sample)
        if cores is not None:
            self._add("run_cores", cores.run)
            self._add("other_cores", cores.others)
        if sample.process is not None:
            self._add("run_cpu_wait_pct", sample.process.cpu_wait_pct)
            self._keep_most("memory_mib", sample.process.rss_mib)
        for gpu in sample.gpus or ():
            if gpu.index != gpu_index:
                continue
            self._add("gpu_pct", gpu.utilization_pct)
            self._add("gpu_power_w", gpu.power_w)
            self._keep_most("gpu_memory_mib", gpu.memory_used_mib)
            if gpu.throttle is not None:
                slowed = {_SLOWED_BY[reason] for reason in gpu.throttle if reason in _SLOWED_BY}
                self._add("slowed_pct", 100.0 if slowed else 0.0)
                self._slowed.update(slowed)
        for row in sample.processes or ():
            shares = row.of_run is False and gpu_index is not None and gpu_index in row.gpus
            memory_mib = row.gpu_memory_mib or 0.0
            most_mib = SHARED_GPU_MIB if self.on_gpu is None else self.on_gpu.memory_mib
            if shares and memory_mib >= most_mib:
                name = program_name(row.command) or "unnamed"
                self.on_gpu = OnGpu(memory_mib, row.pid, name)

    def _add(self, name: str, value: float | None) -> None:
        if value is not None:
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] += 1

    def _keep_most(self, name: str, value: float | None) -> None:
        if value is not None:
            self._most[name] = max(self._most.get(name, 0.0), value)

    def mean_or_zero(self, name: str) -> float:
        """Return a mean; 0 where too few readings stand for the run."""
        count = self._counts[name]
        return self._sums[name] / count if count >= MIN_SAMPLES else 0.0

    @property
    def slowed_by(self) -> list[str]:
        """What slowed the GPU that is trained on, the most frequent first."""
        return [cause for cause, _ in self._slowed.most_common()]

    @property
    def means(self) -> dict[str, float]:
        """The mean of each quantity that was read at all; none of them can be below 0."""
        return {name: max(0.0, total / self._counts[name]) for name, total in self._sums.items()}

    @property
    def most(self) -> dict[str, float]:
        """The greatest of each quantity of which that counts."""
        return {name: value for name, value in self._most.items() if name != _CORES}

    @property
    def cores(self) -> int | None:
        return round(self._most[_CORES]) if _CORES in self._most else None
