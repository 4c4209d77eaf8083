"""The readings of a machine over time, each field as it was last reported."""

from __future__ import annotations

from dlmon.records import Machine, MachineUse
from dlmon.session.energy import EnergyMeter
from dlmon.statistics.series import Series

NOT_SAMPLED = "it was not sampled"


class MachineHistory:
    """The machine's readings over time; serves a session and a screen without one.

    Fields that a record leaves out have not changed, so records are merged.
    """

    def __init__(self, interval_s: float = 1.0) -> None:
        self.interval_s = interval_s
        self._interval_ns = max(int(interval_s * 1e9), 100_000_000)
        self.latest: Machine | None = None
        self.cpu_pct = self._series()
        self.run_cpu_pct = self._series()
        """The CPU time of the run alone; 100 % is one core. Empty where no run is watched."""
        self.cpu_power_w = self._series()
        self.memory_mib = self._series()
        self.gpu_utilization_pct: dict[int, Series] = {}
        self.gpu_memory_mib: dict[int, Series] = {}
        self.gpu_power_w: dict[int, Series] = {}
        self.gpu_temperature_c: dict[int, Series] = {}
        self.gpu_memory_peak_mib: dict[int, int] = {}
        """The most that was ever in use of each GPU's memory, in a reading."""
        self.energy = EnergyMeter()

    def fold(self, sample: Machine) -> int:
        """Take a sample; return since when its readings stand."""
        # Imported after the first paint, which no reading waits for.
        from dlmon.records.changes import merge_machine

        before = self.latest
        start_ns = sample.t - self._interval_ns
        # Up to two missed ticks are lateness, more is a gap.
        if before is not None and 0 < sample.t - before.t <= 3 * self._interval_ns:
            start_ns = before.t
        self.latest = merged = merge_machine(before, sample)
        self.energy.fold(sample)
        for series, group, name in (
            (self.cpu_pct, merged.cpu, "pct"),
            (self.run_cpu_pct, merged.process, "cpu_pct"),
            (self.memory_mib, merged.memory, "used_mib"),
            (self.cpu_power_w, merged.cpu, "power_w"),
        ):
            value = getattr(group, name, None)
            if value is not None:
                series.add(start_ns, sample.t, value)
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
        return start_ns

    def use(self) -> MachineUse:
        """Return how much of the machine was used over all of the time."""
        cpu_pct, energy_j, why = self.cpu_pct.mean, {}, {}
        if cpu_pct is None:
            why["cpu_pct"] = NOT_SAMPLED
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
