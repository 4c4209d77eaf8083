"""Join what the providers read into one record each interval."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dlmon.records import Cost, Facts, GpuState, Machine, MachineFacts, Notice
from dlmon.records.changes import Changes, merge
from dlmon.sensors.linux.cgroup import CgroupProvider, PressureProvider
from dlmon.sensors.linux.cpu import CpuProvider, EnergyProvider
from dlmon.sensors.linux.memory import MemoryProvider
from dlmon.sensors.linux.traffic import DiskProvider, NetworkProvider
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.processes.table import ProcessTableReader
from dlmon.sensors.processes.tree import ProcessProvider
from dlmon.sensors.provider import SLOW_TIER_S, Provider, Reading

SECOND_SLOW_NS = 900_000_000
FIRST_WINDOW_S = 0.25
"""Over how long the utilisation at the start is measured: long enough to judge a run by it."""
SHORT_WINDOW_S = 0.1
"""The same where somebody waits to see the machine, and nothing is judged by it."""


class Sampler:
    """Read every provider. A later one's reading replaces an earlier one's of the same field.

    The `table` of processes is read in the slow tier, from what all of them read. The clocks
    are parameters: `clock` and `cpu_clock` return nanoseconds, `wall` Unix seconds.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        table: ProcessTableReader | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        cpu_clock: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._providers = tuple(providers)
        self._table = table
        self._clock, self._wall, self._cpu_clock = clock, wall, cpu_clock
        self._changes = Changes()
        self._facts = Facts(0, 0.0, "", MachineFacts())
        self._first: tuple[int, Reading] | None = None
        """What was read for the facts, and when, while a sample of it is still to be taken."""
        self._next_slow = 0
        self._cpu_ns = 0

    def facts(self, wait: Callable[[float], object], at_once: bool = False) -> Facts:
        """Find out what there is, and over a first short window how busy it is.

        `wait` is given that window's length in seconds. With `at_once` it is shorter, and the
        first sample is of what was read at its end.
        """
        facts = MachineFacts()
        for provider in self._providers:
            facts = merge(facts, provider.facts())
        self._read(self._clock(), slow=True)
        wait(SHORT_WINDOW_S if at_once else FIRST_WINDOW_S)
        t = self._clock()
        reading = self._read(t, slow=at_once)
        cpu = reading.cpu
        if cpu is not None:
            why = {"cpu_pct": cpu.why["pct"]} if "pct" in cpu.why else {}
            facts = merge(facts, MachineFacts(cpu_pct=cpu.pct, why=why))
        self._next_slow = t
        if at_once:
            # Rates over so short a window are coarse: they shall not stand for long.
            self._first, self._next_slow = (t, reading), t + SECOND_SLOW_NS
        self._cpu_ns = self._cpu_clock()
        self._facts = Facts(t, round(self._wall(), 2), os.uname().nodename, facts)
        return self._facts

    def sample(self, scheduled: int) -> Machine:
        """Return one record; `scheduled` is when it should have been taken."""
        t, reading = self._first or self._new_reading(scheduled)
        self._first = None
        before, self._cpu_ns = self._cpu_ns, self._cpu_clock()
        read = {name: value for name, value in vars(reading).items() if name != "gpu_processes"}
        cpu_ns = self._cpu_ns - before
        cost = Cost(cpu_ms=round(cpu_ns / 1e6, 2), late_ms=round((t - scheduled) / 1e6, 2))
        machine = Machine(t=t, wall=round(self._wall(), 2), cost=cost, **read)
        return self._changes.only_changed(machine)

    def events(self) -> Iterator[Facts | Notice]:
        """Yield records of devices that were found, lost or came back since the last call."""
        for provider in self._providers:
            later = provider.later_facts()
            if later is not None:
                machine = merge(self._facts.machine, later)
                wall = round(self._wall(), 2)
                self._facts = replace(self._facts, t=self._clock(), wall=wall, machine=machine)
                yield self._facts
            for text in provider.notices():
                yield Notice(self._clock(), text)

    def _new_reading(self, scheduled: int) -> tuple[int, Reading]:
        t = self._clock()
        slow = t >= self._next_slow
        if slow:
            # From when it was due: by one that is late, the next would come a sample later.
            self._next_slow = scheduled + int(SLOW_TIER_S * 1e9)
        return t, self._read(t, slow)

    def _read(self, t: int, slow: bool) -> Reading:
        reading = Reading()
        for provider in self._providers:
            reading = merge(reading, provider.fast(t))
            if slow:
                reading = merge(reading, provider.slow(t))
        if slow and self._table is not None:
            reading = merge(reading, self._table.read(t, reading))
        return reading


def machine_providers(
    process: ProcessProvider, no_gpus: str | None, pcie: bool = False, wake: bool = False
) -> tuple[Provider, ...]:
    """Return this machine's providers; `no_gpus` says why GPUs must not be asked, if so.

    `pcie` asks for the GPUs' PCIe throughput, which takes the driver 40 ms per GPU; with
    `wake` one is about to be used, and so they may be woken.
    The control group comes after memory: where it sets a limit, its usage is
    the one that counts. Another vendor's GPUs are one more provider here.
    """
    load = None if no_gpus is None else lambda: Missing(no_gpus, GpuState.LOST)
    return (
        CpuProvider(),
        EnergyProvider(),
        MemoryProvider(),
        CgroupProvider(),
        PressureProvider(),
        DiskProvider(),
        NetworkProvider(),
        process,
        NvidiaProvider(load, pcie=pcie, wake=wake),
    )
