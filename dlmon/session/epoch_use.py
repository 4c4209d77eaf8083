"""What the machine and the batches of each epoch did: means by which epochs are compared. Pure."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dlmon.records import Batches, BatchSummary, Epoch, Machine
from dlmon.session.gaps import WITHIN
from dlmon.session.limits.gpu import SHARED_GPU_MIB
from dlmon.session.training_readings import cores_of
from dlmon.statistics.steady_state import SteadyState

MAX_EPOCHS = 2000
"""Of so many, the newest, it is kept."""
# A record of batches may come so many readings after what it reports.
_PENDING = 16

# What NVML names as holding the clocks down, by the quantity that counts it.
THROTTLES = {
    "thermal slowdown": "heat_pct",
    "hardware thermal slowdown": "heat_pct",
    "power brake": "power_brake_pct",
    "hardware slowdown": "slowdown_pct",
    "power cap": "power_cap_pct",
}
STALLS, STALLED_S, OPENING_S, WAITED_S = "stalls", "stalled_s", "opening_s", "waited_s"
COMPILED_S = "compiled_s"
"""What compiled in an epoch after the first, as for batches of another size, beyond usual ones."""
RUN_CORES, OTHER_CORES = "run_cores", "other_cores"


class EpochUse(NamedTuple):
    """What is known of one epoch beside its times.

    Attributes:
        readings: of the machine, within it.
        values: sums of its batches (stalls, seconds that stalled or waited for data), and means of
            its readings; what was not measured is left out. A stall that waited for data is in the
            wait alone.
    """

    readings: int
    values: Mapping[str, float]


NOTHING = EpochUse(0, {})


class Reading(NamedTuple):
    """What one reading of the machine says of the time from `start` to `end`."""

    start: int
    end: int
    values: dict[str, float]


class EpochUses:
    """Folds readings and batches, and puts them to the epoch that they lie in."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self._interval_ns = int(interval_s * 1e9)
        self.ended: dict[int, EpochUse] = {}
        """By when each epoch began, oldest first."""
        self._pending = deque[Reading]()
        """The newest readings, which may be of the next epoch."""
        self._last_ns: int | None = None
        self._stall_limit_us: float | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts = Counter[str]()
        self._readings = 0
        self._batches: dict[str, float] = {}

    def fold_reading(self, sample: Machine, gpu_index: int | None) -> None:
        """Take a whole reading; `gpu_index` is the GPU that is trained on."""
        start = sample.t - self._interval_ns
        # Up to two missed ticks are lateness; of a longer time this reading says nothing.
        if self._last_ns is not None and 0 < sample.t - self._last_ns <= 3 * self._interval_ns:
            start = self._last_ns
        self._last_ns = sample.t
        self._pending.append(Reading(start, sample.t, values_of(sample, gpu_index)))
        if len(self._pending) > _PENDING:
            self._count(self._pending.popleft())

    def fold_batches(
        self, record: Batches | BatchSummary, steady: SteadyState, compiled: int = 0
    ) -> None:
        """Take batches, which `steady` has folded; so many of them were the first of their size."""
        if record.first == 0:
            self._begin_anew()
        if record.first == 0 or self._stall_limit_us is None:
            # Once an epoch: what is usual takes long to find, and changes little.
            self._stall_limit_us = steady.stall_limit_us()
        if isinstance(record, Batches):
            if record.first == 0:
                self._forget_before(record.t - (record.dt_us[0] + (record.opening_us or 0)) * 1000)
            if record.opening_us is not None:
                self._add(OPENING_S, record.opening_us / 1e6)
            first = steady.batches - len(record.dt_us)
            by_themselves = [
                us for number, us in enumerate(record.dt_us, first) if not steady.period_at(number)
            ]
            self._add_batches(by_themselves, record.wait_us, compiled)
            if compiled and record.epoch > 0:
                self._add_compiled(steady, compiled)
        else:
            self._add_batches(record.step_us[-1:] if record.stalls == 1 else (), record.wait_us, 0)

    def _add_batches(self, dt_us: Sequence[int], wait_us: int | None, compiled: int) -> None:
        """Take what stalled of batches, and what waited for data; what did both waited."""
        stalls = self._stalls_among(dt_us, compiled)
        waited_us = 0
        if wait_us is not None:
            # A wait in what compiles, as for loaders that start, is in the time for that.
            waited_us = max(0, wait_us - sum(heapq.nlargest(compiled, dt_us)))
            self._add(WAITED_S, waited_us / 1e6)
        if stalls is not None:
            self._add(STALLS, len(stalls))
            self._add(STALLED_S, max(0, sum(stalls) - waited_us) / 1e6)

    def _add_compiled(self, steady: SteadyState, count: int) -> None:
        usual_us = steady.usual_step_us
        if usual_us is not None:
            firsts = steady.first_batches[-count:]
            beyond_us = sum(max(0.0, took_us - usual_us * steps) for took_us, steps in firsts)
            self._add(COMPILED_S, beyond_us / 1e6)

    def _stalls_among(self, dt_us: Sequence[int], compiled: int) -> list[int] | None:
        """Return the batches that stalled; None where it isn't known what is usual."""
        limit_us = self._stall_limit_us
        if limit_us is None or not dt_us:
            return None
        if max(dt_us) <= limit_us:
            return []
        stalls = sorted(us for us in dt_us if us > limit_us)
        # What compiles takes the longest.
        return stalls[: max(0, len(stalls) - compiled)]

    def _add(self, name: str, value: float) -> None:
        self._batches[name] = self._batches.get(name, 0.0) + value

    def _forget_before(self, begin: int) -> None:
        """Forget the readings of what came before an epoch."""
        while self._pending and self._pending[0].start < begin:
            reading = self._pending[0]
            if _is_within(reading, begin, reading.end):
                break
            self._pending.popleft()

    def fold_epoch(self, epoch: Epoch) -> None:
        """Take an epoch that has ended; one that comes again has what it had."""
        if epoch.begin in self.ended:
            return
        while self._pending and self._pending[0].start < epoch.end:
            reading = self._pending[0]
            if not _is_within(reading, epoch.begin, epoch.end) and reading.end > epoch.end:
                break
            self._pending.popleft()
            if _is_within(reading, epoch.begin, epoch.end):
                self._count(reading)
        # In one reading the cores of others may be below 0, on average nothing is.
        means = {name: max(0.0, total / self._counts[name]) for name, total in self._sums.items()}
        self.ended[epoch.begin] = EpochUse(self._readings, means | self._batches)
        while len(self.ended) > MAX_EPOCHS:
            del self.ended[next(iter(self.ended))]
        self._begin_anew()

    def of(self, epoch: Epoch) -> EpochUse:
        return self.ended.get(epoch.begin, NOTHING)

    def _count(self, reading: Reading) -> None:
        self._readings += 1
        for name, value in reading.values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] += 1


def _is_within(reading: Reading, begin: int, end: int) -> bool:
    inside_ns = min(reading.end, end) - max(reading.start, begin)
    return inside_ns >= WITHIN * (reading.end - reading.start)


def values_of(sample: Machine, gpu_index: int | None) -> dict[str, float]:
    """Return what a reading says that may slow an epoch; what it doesn't know is left out."""
    cpu, pressure = sample.cpu, sample.pressure
    found: dict[str, float | None] = {}
    if cpu is not None:
        found |= {"stopped_pct": cpu.throttled_pct, "steal_pct": cpu.steal_pct}
        if sample.process is not None and sample.process.cpu_pct is not None:
            found[RUN_CORES] = sample.process.cpu_pct / 100
        cores = cores_of(sample)
        if cores is not None:
            found[OTHER_CORES] = cores.others
    if pressure is not None:
        found |= {
            "cpu_wait_pct": pressure.cpu_pct,
            "memory_wait_pct": pressure.memory_pct,
            "io_wait_pct": pressure.io_pct,
        }
    if sample.memory is not None:
        found["swap_mib_s"] = sample.memory.swap_mib_s
    for gpu in sample.gpus or ():
        if gpu.index == gpu_index:
            found |= {"gpu_pct": gpu.utilization_pct, "sm_mhz": gpu.sm_mhz}
            if gpu.throttle is not None:
                slowed = {THROTTLES[reason] for reason in gpu.throttle if reason in THROTTLES}
                found |= {name: 100.0 * (name in slowed) for name in THROTTLES.values()}
    if sample.processes is not None and gpu_index is not None:
        on_gpu = [
            row.gpu_memory_mib or 0.0
            for row in sample.processes
            if row.of_run is False and gpu_index in row.gpus
        ]
        held_mib = sum(mib for mib in on_gpu if mib >= SHARED_GPU_MIB)
        found["others_gpu_gib"] = held_mib / 1024
    return {name: float(value) for name, value in found.items() if value is not None}
