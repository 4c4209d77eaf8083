"""Merge the readings of all providers into one record each interval."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dlmon.records import Cost, Facts, GpuState, Machine, MachineFacts, Notice
from dlmon.records.changes import Changes, merge
from dlmon.sensors.drm.cards import DrmProvider
from dlmon.sensors.gpus import GpuProvider
from dlmon.sensors.linux.cgroup import CgroupProvider, PressureProvider
from dlmon.sensors.linux.cpu import CpuProvider, EnergyProvider
from dlmon.sensors.linux.memory import MemoryProvider
from dlmon.sensors.linux.traffic import DiskProvider, NetworkProvider
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.nvidia.jetson import nvidia_provider
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.processes.table import ProcessTableReader
from dlmon.sensors.processes.tree import ProcessProvider
from dlmon.sensors.provider import SLOW_TIER_S, Provider, SensorReading
from dlmon.system.this_host import IS_MACOS

# Parts of a reading that are for the process table alone.
_NOT_RECORDED = ("gpu_processes", "gpu_pids_are_ours", "gpu_pct")
SECOND_SLOW_NS = 900_000_000
FIRST_WINDOW_S = 0.25
"""The window of the utilisation at the start, by which a run is judged."""
SHORT_WINDOW_S = 0.1
"""A shorter one, for a viewer that waits to show the machine."""


class Sampler:
    """Reads all providers; for a field that several read, the last provider counts.

    The process `table` is read in the slow tier, after all providers. `clock` and `cpu_clock`
    return nanoseconds, `wall` Unix seconds. The slow tier is read every `slow_s` seconds.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        table: ProcessTableReader | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        cpu_clock: Callable[[], int] = time.process_time_ns,
        slow_s: float = SLOW_TIER_S,
    ) -> None:
        self._slow_ns = int(slow_s * 1e9)
        self._providers = tuple(providers)
        self._table = table
        self._clock, self._wall, self._cpu_clock = clock, wall, cpu_clock
        self._changes = Changes()
        self._facts = Facts(0, 0.0, "", MachineFacts())
        self._first: tuple[int, SensorReading] | None = None
        """The time and the reading of `facts`, which the first sample uses."""
        self._next_slow = 0
        self._cpu_ns = 0
        self._use_system_memory: set[int] = set()
        """The indices of the GPUs without memory of their own."""

    def facts(
        self,
        wait: Callable[[float], object],
        at_once: bool = False,
        interval_s: float = FIRST_WINDOW_S,
    ) -> Facts:
        """Return the facts of all providers, and the CPU utilisation over a first short window.

        `wait` is called with the window's length in seconds, which is no longer than the interval.
        With `at_once` the window is shorter, and its reading is the first sample.
        """
        facts = MachineFacts()
        for provider in self._providers:
            facts = merge(facts, provider.facts())
        facts = self._with_system_memory(facts)
        self._read(self._clock(), slow=True)
        wait(SHORT_WINDOW_S if at_once else min(FIRST_WINDOW_S, interval_s))
        t = self._clock()
        reading = self._read(t, slow=at_once)
        cpu = reading.cpu
        if cpu is not None:
            why = {"cpu_pct": cpu.why["pct"]} if "pct" in cpu.why else {}
            facts = merge(facts, MachineFacts(cpu_pct=cpu.pct, why=why))
        self._next_slow = t
        if at_once:
            # Rates over such a short window are coarse: replace them soon.
            self._first, self._next_slow = (t, reading), t + SECOND_SLOW_NS
        self._cpu_ns = self._cpu_clock()
        self._facts = Facts(t, round(self._wall(), 2), os.uname().nodename, facts)
        return self._facts

    def sample(self, scheduled: int) -> Machine:
        """Return the next record; `scheduled` is the time at which it was due."""
        t, reading = self._first or self._new_reading(scheduled)
        self._first = None
        before, self._cpu_ns = self._cpu_ns, self._cpu_clock()
        values = {name: v for name, v in vars(reading).items() if name not in _NOT_RECORDED}
        cpu_ns = self._cpu_ns - before
        cost = Cost(cpu_ms=round(cpu_ns / 1e6, 2), late_ms=round((t - scheduled) / 1e6, 2))
        machine = Machine(t=t, wall=round(self._wall(), 2), cost=cost, **values)
        return self._changes.only_changed(machine)

    def events(self) -> Iterator[Facts | Notice]:
        """Yield records of devices that appeared, were lost or came back since the last call."""
        for provider in self._providers:
            later = provider.later_facts()
            if later is not None:
                machine = self._with_system_memory(merge(self._facts.machine, later))
                wall = round(self._wall(), 2)
                self._facts = replace(self._facts, t=self._clock(), wall=wall, machine=machine)
                yield self._facts
            for text in provider.notices():
                yield Notice(self._clock(), text)

    def _new_reading(self, scheduled: int) -> tuple[int, SensorReading]:
        t = self._clock()
        slow = t >= self._next_slow
        if slow:
            # Count from the scheduled time: from a late sample, the next would come one later.
            self._next_slow = scheduled + self._slow_ns
        return t, self._read(t, slow)

    def _read(self, t: int, slow: bool) -> SensorReading:
        reading = SensorReading()
        for provider in self._providers:
            reading = merge(reading, provider.fast(t))
            if slow:
                reading = merge(reading, provider.slow(t))
        if slow and self._table is not None:
            reading = merge(reading, self._table.read(t, reading))
        return self._with_system_memory_in_use(reading)

    def _with_system_memory(self, facts: MachineFacts) -> MachineFacts:
        """Return the facts with the system's memory, within the limit, for GPUs that use it."""
        gpus = facts.gpus or ()
        self._use_system_memory = {gpu.index for gpu in gpus if gpu.memory_kind == "system"}
        if not self._use_system_memory:
            return facts
        total_mib = facts.usable_memory_mib
        filled = (
            replace(gpu, memory_mib=total_mib) if gpu.index in self._use_system_memory else gpu
            for gpu in gpus
        )
        return replace(facts, gpus=tuple(filled))

    def _with_system_memory_in_use(self, reading: SensorReading) -> SensorReading:
        memory, gpus = reading.memory, reading.gpus
        if not self._use_system_memory or memory is None or gpus is None:
            return reading
        filled = (
            replace(gpu, memory_used_mib=memory.used_mib)
            if gpu.index in self._use_system_memory and "memory_used_mib" not in gpu.why
            else gpu
            for gpu in gpus
        )
        return replace(reading, gpus=tuple(filled))


def machine_providers(
    process: ProcessProvider,
    no_nvidia: str | None,
    *,
    pcie: bool = False,
    wake: bool = False,
    others: bool = True,
) -> tuple[Provider, ...]:
    """Return the providers of this machine.

    The control group comes after memory: if it sets a limit, its usage counts.

    Args:
        process: the provider of the workload's process tree.
        no_nvidia: the reason why NVIDIA's driver must not be used, if so.
        pcie: measure the GPUs' PCIe throughput, which takes the driver 40 ms per GPU.
        wake: as in `NvidiaProvider`.
        others: read the GPUs of other vendors, too.
    """
    load = None if no_nvidia is None else lambda: Missing(no_nvidia, GpuState.LOST)
    of_macos: tuple[Provider, ...] = ()
    if IS_MACOS:
        from dlmon.sensors.macos import MacosProvider, no_gpus_of_macos

        load, of_macos = no_gpus_of_macos, (MacosProvider(),)
    nvidia = (nvidia_provider if others else NvidiaProvider)(load, pcie=pcie, wake=wake)
    return (
        CpuProvider(),
        EnergyProvider(),
        MemoryProvider(),
        CgroupProvider(),
        PressureProvider(),
        DiskProvider(),
        NetworkProvider(),
        *of_macos,
        process,
        GpuProvider(nvidia, DrmProvider()) if others else nvidia,
    )
