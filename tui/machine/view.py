"""The readings and facts that the machine's charts show, now or at the cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dlmon.figures.machine.processes import gpu_users, who_uses
from dlmon.figures.machine.readings import (
    GPU_CURVES,
    NO_READING_YET,
    Figure,
    gpu_figures,
    has_no_readings,
    no_gpu_text,
)
from dlmon.launch.device import ALL
from dlmon.records import Cpu, Gpu, GpuFacts, Machine, MachineFacts, Memory
from dlmon.records.record import record
from dlmon.session.machine_history import MachineHistory, facts_of_gpu, gpus_of
from dlmon.statistics.series import Series
from dlmon.statistics.totals import total
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels

if TYPE_CHECKING:
    from dlmon.records import SessionHeader
    from dlmon.session.snapshot import PhaseSpan, Snapshot

STALE_INTERVALS = 3.0
PROCESSES_INTERVAL_S = 5
"""The interval at which the sensors read the processes."""
NO_PROCESSES_YET = "Reading the processes …"


def gpus_that_train(header: SessionHeader, snapshot: Snapshot | None) -> tuple[int, ...]:
    """Return NVML's indices of the GPUs that train, or of the requested ones before a model."""
    if snapshot is not None and snapshot.model is not None:
        return snapshot.gpus
    _, _, listed = f"{header.options.get('device')}".partition(":")
    requested = ALL if listed == ALL else listed.split("+")
    gpus = header.machine.gpus or ()
    return tuple(gpu.index for gpu in gpus if requested == ALL or str(gpu.index) in requested)


@record(frozen=True)
class MachineView:
    """The readings of a machine over time, its facts, and the age of the last sample.

    Attributes:
        history: the readings over time.
        facts: what does not change about the machine.
        age_s: the age of the last sample; None if there is none, or its session is over.
        interval_s: the interval of the samples.
        training: the indices of the GPUs that train.
        epoch_starts: the number and start of each epoch.
        phase_spans: the phases of the run, such as validation.
        cursor_ns: the instant whose values replace the latest ones.
        cursor_label: names that instant, as in "at 00:42".
        host: the host's name for ssh; None for this machine.
        memory: the GPU memory that a framework holds, in words; empty if it reported none.
        goes_on: whether more readings may come.
        is_here: whether they are the present readings of this machine.
        ranks: the rank of each process that trains, by its pid.
        needs_memory: the run failed, which may be for want of memory.
        axis: returns the axis of the screen's charts for a number of columns.
        times: returns the labels of such an axis.
    """

    history: MachineHistory
    facts: MachineFacts
    age_s: float | None
    interval_s: float
    training: tuple[int, ...] = ()
    epoch_starts: tuple[tuple[int, int], ...] = ()
    phase_spans: tuple[PhaseSpan, ...] = ()
    cursor_ns: int | None = None
    cursor_label: str = ""
    host: str | None = None
    memory: str = ""
    goes_on: bool = True
    is_here: bool = False
    ranks: Mapping[int, int] = field(default_factory=dict)
    needs_memory: bool = False
    axis: Callable[[int], TimeAxis] = lambda count: TimeAxis(0, 1, count, 0)
    times: Callable[[TimeAxis], TimeLabels] = lambda axis: NO_LABELS

    @property
    def is_over(self) -> bool:
        """True if the readings are the last ones of a session that is over."""
        return self.history.latest is not None and self.age_s is None

    @property
    def no_sample(self) -> str:
        """The reason why nothing is known; empty once there was a sample."""
        if self.history.latest is not None:
            return ""
        return "waiting for the first sample" if self.goes_on else "no sample was taken"

    @property
    def no_reading(self) -> str:
        """The reason to show for a reading that is missing without one of its own."""
        if self.goes_on:
            return NO_READING_YET
        return self.no_sample or "no reading"

    @property
    def cores(self) -> int | None:
        """The number of cores that the CPU's utilisation covers; None if unknown."""
        machine = self.history.latest
        cores_pct = machine.cpu.cores if machine is not None and machine.cpu is not None else None
        return len(cores_pct or ()) or self.facts.cores

    @property
    def stale(self) -> str:
        """The age of the latest readings in words; empty if they are fresh or at a cursor."""
        too_old_s = STALE_INTERVALS * max(self.interval_s, 1.0)
        if self.cursor_ns is not None or self.age_s is None or self.age_s <= too_old_s:
            return ""
        return f"stale {self.age_s:.0f} s"

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return gpus_of(self.history.latest, self.facts)

    @property
    def main_gpu(self) -> Gpu | None:
        """The first GPU that trains, or else the first one."""
        gpus = self.gpus
        return next((g for g in gpus if g.index in self.training), gpus[0] if gpus else None)

    @property
    def no_gpus(self) -> str:
        """The words that there is no GPU, and why; empty if there is one or nobody knows yet."""
        return no_gpu_text(self.history.latest, self.facts)

    def is_unread(self, gpu: Gpu) -> bool:
        """Return whether a GPU never gave a reading, and says why."""
        series = (self.history.gpu_series(name, gpu.index) for name in GPU_CURVES.values())
        has_reason = has_no_readings(gpu) and "utilization_pct" in gpu.why
        return has_reason and not any(one.sums for one in series)

    def facts_of(self, gpu: Gpu) -> GpuFacts:
        return facts_of_gpu(self.facts, gpu.index)

    def figures_of(self, gpu: Gpu) -> list[Figure]:
        """Return a GPU's figures other than its utilisation."""
        # The energy until now is not that of another instant.
        energy_j = self.energy_j_of(gpu) if self.cursor_ns is None else None
        return gpu_figures(gpu, self.facts_of(gpu), energy_j)

    @cached_property
    def _in_depth(self) -> dict[int, list[Figure]]:
        return {}

    def figures_in_depth(self, gpu: Gpu, axis: TimeAxis) -> list[Figure]:
        """Return all of a GPU's figures, at the cursor if there is one; each of its charts asks."""
        if gpu.index not in self._in_depth:
            reading, facts = self.gpu_at(gpu, axis), self.facts_of(gpu)
            self._in_depth[gpu.index] = gpu_figures(reading, facts, in_depth=True)
        return self._in_depth[gpu.index]

    def energy_j_of(self, gpu: Gpu) -> float | None:
        """Return the energy that a GPU used since the run, or this screen, began."""
        return self.history.energy.gpu_joules_since_start.get(gpu.index)

    def users_of(self, gpu: Gpu) -> tuple[str, ...]:
        """Return the programs on a GPU with their users and memory; none at a cursor, or unread."""
        is_unread = self.cursor_ns is not None or has_no_readings(gpu)
        return () if is_unread else gpu_users(gpu, self.history.latest)

    def who_uses(self, gpu: Gpu) -> str:
        """Name the users of a GPU and their programs; empty at a cursor."""
        return "" if self.cursor_ns is not None else who_uses(gpu, self.history.latest)

    def run_gpu_memory_mib(self, gpu: Gpu) -> int | None:
        """Return the memory of a GPU that the run holds; None if unknown.

        It is unknown if a process of the run is on several GPUs: only its total is reported.
        """
        machine = None if has_no_readings(gpu) else self.history.latest
        listed = (machine.processes if machine is not None else None) or ()
        ours = [process for process in listed if gpu.index in process.gpus and process.of_run]
        return total(row.gpu_memory_mib if len(row.gpus) == 1 else None for row in ours)

    def gpu_at(self, gpu: Gpu, axis: TimeAxis) -> Gpu:
        """Return a GPU's readings that were kept of the cursor, or the latest without a cursor."""
        if self.cursor_ns is None:
            return gpu
        values: dict[str, Any] = {
            reading: self.value_at_cursor(self.history.gpu_series(reading, gpu.index), axis)
            for reading in GPU_CURVES.values()
        }
        for reading in ("utilization_pct", "memory_used_mib", "temperature_c", "sm_mhz"):
            values[reading] = _rounded(values[reading])
        why = {"utilization_pct": "no reading"}
        return Gpu(gpu.index, power_limit_w=gpu.power_limit_w, why=why, **values)

    def machine_at(self, axis: TimeAxis) -> Machine | None:
        """Return CPU and memory at the cursor, or the latest sample without a cursor."""
        machine, history = self.history.latest, self.history
        if machine is None or self.cursor_ns is None:
            return machine
        cpu = Cpu(
            self.value_at_cursor(history.cpu_pct, axis),
            machine.cpu.cores if machine.cpu is not None else None,
            power_w=self.value_at_cursor(history.cpu_power_w, axis),
            why={"pct": "no reading"},
        )
        used_mib = _rounded(self.value_at_cursor(history.memory_mib, axis))
        memory = Memory(used_mib=used_mib)
        return replace(machine, cpu=cpu, memory=memory, process=None, disk=None, network=None)

    def run_pct(self, axis: TimeAxis) -> float | None:
        """Return the run's share of all cores now, or at the cursor; None if unknown."""
        cores, machine = self.cores, self.history.latest
        if cores is None or machine is None:
            return None
        if self.cursor_ns is not None:
            core_pct = self.value_at_cursor(self.history.run_cpu_pct, axis)
        else:
            core_pct = machine.process.cpu_pct if machine.process is not None else None
        return None if core_pct is None else min(100.0, core_pct / cores)

    def value_at_cursor(self, series: Series, axis: TimeAxis) -> float | None:
        """Return a series' mean over the cursor's column."""
        columns = axis.columns(series)
        column = -1 if self.cursor_ns is None else axis.column_of(self.cursor_ns)
        return columns[column] if 0 <= column < len(columns) else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
