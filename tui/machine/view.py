"""What the machine's charts show: readings over time, facts, and the instant that is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dlmon.figures.machine.readings import GPU_READINGS, NO_READING_YET, Figure, gpu_figures
from dlmon.launch.device import ALL
from dlmon.records import Cpu, Gpu, GpuFacts, Machine, MachineFacts, Memory
from dlmon.records.record import record
from dlmon.session.machine_history import MachineHistory
from dlmon.statistics.series import Series
from tui.drawing.time_axis import TimeAxis

if TYPE_CHECKING:
    from dlmon.records import SessionHeader
    from dlmon.session.snapshot import PhaseSpan, Snapshot

STALE_INTERVALS = 3.0
READ_EVERY_S = 5
"""How often the sensors read the processes."""
NO_PROCESSES_YET = f"None yet: processes are read every {READ_EVERY_S} s."


def gpus_that_train(header: SessionHeader, snapshot: Snapshot | None) -> tuple[int, ...]:
    """Return NVML's numbers of the GPUs that train; until there is a model, of those requested."""
    if snapshot is not None and snapshot.model is not None:
        return snapshot.gpus
    _, _, listed = f"{header.options.get('device')}".partition(":")
    requested = ALL if listed == ALL else listed.split("+")
    gpus = header.machine.gpus or ()
    return tuple(gpu.index for gpu in gpus if requested == ALL or str(gpu.index) in requested)


@record(frozen=True)
class MachineView:
    """What the charts show: readings over time, facts, and how old the last sample is.

    `host` is the machine as ssh knows it, None for this one; `training` are the GPUs that train.
    `cursor_ns` is the instant whose values are shown in place of the latest ones, and
    `cursor_label` names it, as in "at 00:42".
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
    """What a framework holds of GPU memory; empty where none said it."""
    goes_on: bool = True
    """Whether more readings may come."""

    @property
    def no_sample(self) -> str:
        """Say why nothing is known at all; empty once there was a sample."""
        if self.history.latest is not None:
            return ""
        return "waiting for the first sample" if self.goes_on else "no sample was taken"

    @property
    def no_reading(self) -> str:
        """Say why a reading is unknown for which its sample, if there is one, gives no reason."""
        if self.goes_on:
            return NO_READING_YET
        return self.no_sample or "no reading"

    @property
    def cores(self) -> int | None:
        """How many cores the machine's utilisation is of; None where that isn't known."""
        machine = self.history.latest
        each = machine.cpu.cores if machine is not None and machine.cpu is not None else None
        return len(each or ()) or self.facts.cores

    @property
    def stale(self) -> str:
        """Say how old the latest readings are when they are too old; not of those at a cursor."""
        too_old_s = STALE_INTERVALS * max(self.interval_s, 1.0)
        if self.cursor_ns is not None or self.age_s is None or self.age_s <= too_old_s:
            return ""
        return f"stale {self.age_s:.0f} s"

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, with those that are known but no longer reported."""
        machine = self.history.latest
        if machine is not None and machine.gpus is not None:
            return machine.gpus
        lost = machine.why.get("gpus") if machine is not None else None
        why = dict.fromkeys(GPU_READINGS, lost) if lost else {}
        return tuple(Gpu(facts.index, why=why) for facts in self.facts.gpus or ())

    @property
    def main_gpu(self) -> Gpu | None:
        """The first GPU that trains, else the first."""
        gpus = self.gpus
        return next((g for g in gpus if g.index in self.training), gpus[0] if gpus else None)

    @property
    def no_gpus(self) -> str:
        """Say that there is no GPU, and why; empty where there is one, or nobody knows yet."""
        machine = self.history.latest
        why = self.facts.why.get("gpus") or (machine.why.get("gpus") if machine else None)
        if self.gpus or (why is None and self.facts.gpus is None):
            return ""
        return f"no GPU: {why}" if why else "no GPU"

    def facts_of(self, gpu: Gpu) -> GpuFacts | None:
        """Return what does not change about a GPU."""
        return next((facts for facts in self.facts.gpus or () if facts.index == gpu.index), None)

    def figures_of(self, gpu: Gpu) -> list[Figure]:
        """Return a GPU's figures beside its utilisation."""
        # What it has taken until now says nothing of another instant.
        energy_j = self.energy_j_of(gpu) if self.cursor_ns is None else None
        return gpu_figures(gpu, self.facts_of(gpu), energy_j)

    def energy_j_of(self, gpu: Gpu) -> float | None:
        """Return what a GPU has taken since the run, or this screen, began."""
        return self.history.energy.gpu_joules_since_start.get(gpu.index)

    def run_gpu_memory_mib(self, gpu: Gpu) -> int | None:
        """Return what the run holds of a GPU's memory; None where that isn't known.

        Of a process on several GPUs only the sum is known.
        """
        machine = self.history.latest
        rows = (machine.processes if machine is not None else None) or ()
        own = [row for row in rows if gpu.index in row.gpus and row.of_run]
        known = [row.gpu_memory_mib for row in own if row.gpu_memory_mib is not None]
        if not own or len(known) < len(own) or any(len(row.gpus) > 1 for row in own):
            return None
        return sum(known)

    def gpu_at(self, gpu: Gpu, axis: TimeAxis) -> Gpu:
        """Return a GPU's readings at the cursor, as far as they were kept; now without one."""
        if self.cursor_ns is None:
            return gpu
        history = self.history

        def value(of_gpus: dict[int, Series]) -> float | None:
            return self.value_at_cursor(of_gpus.get(gpu.index, Series()), axis)

        return Gpu(
            gpu.index,
            utilization_pct=_rounded(value(history.gpu_utilization_pct)),
            memory_used_mib=_rounded(value(history.gpu_memory_mib)),
            power_w=value(history.gpu_power_w),
            temperature_c=_rounded(value(history.gpu_temperature_c)),
            power_limit_w=gpu.power_limit_w,
            why={"utilization_pct": "no reading"},
        )

    def machine_at(self, axis: TimeAxis) -> Machine | None:
        """Return CPU and memory at the cursor, as far as they were kept; now without one."""
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
        """Return the run's share of all cores now, or at the cursor; None where it isn't known."""
        cores, machine = self.cores, self.history.latest
        if cores is None or machine is None:
            return None
        if self.cursor_ns is not None:
            of_a_core = self.value_at_cursor(self.history.run_cpu_pct, axis)
        else:
            of_a_core = machine.process.cpu_pct if machine.process is not None else None
        return None if of_a_core is None else min(100.0, of_a_core / cores)

    def value_at_cursor(self, series: Series, axis: TimeAxis) -> float | None:
        """Return a series' mean over the cursor's column."""
        columns = axis.columns(series)
        column = -1 if self.cursor_ns is None else axis.column_of(self.cursor_ns)
        return columns[column] if 0 <= column < len(columns) else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def is_over(view: MachineView) -> bool:
    """Return whether the readings are the last ones of a session that is over."""
    return view.history.latest is not None and view.age_s is None


def at_the_end(view: MachineView) -> str:
    """Return what follows a title whose figures are the last ones; nothing at a cursor."""
    return " at the end" if is_over(view) and view.cursor_ns is None else ""
