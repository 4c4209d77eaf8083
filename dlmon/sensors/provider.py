"""The interface of the sampler's sources."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    GpuState,
    MachineFacts,
    Memory,
    Network,
    Pressure,
    Process,
    ProcessTree,
)

SLOW_TIER_S = 5.0


@dataclass(frozen=True)
class SensorReading:
    """The part of a machine record that one source reads at one time.

    A field that is None has its reason in `why`; without one, it was not read this time.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    disk: Disk | None = None
    network: Network | None = None
    process: ProcessTree | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpus_state: GpuState | None = None
    gpu_processes: dict[int, dict[int, int | None]] | None = None
    """By pid, the MiB that the process holds on each GPU; None if unknown.

    The pids are the driver's, possibly of another pid namespace.
    """
    gpu_pids_are_ours: bool = False
    """The pids in `gpu_processes` are those of this pid namespace."""
    gpu_pct: dict[int, int] = field(default_factory=dict)
    """By pid, the share of time in which the busiest engine of a GPU worked for the process."""
    processes: tuple[Process, ...] | None = None
    pressure: Pressure | None = None
    why: dict[str, str] = field(default_factory=dict)


class Provider:
    """A source of readings. Its methods don't raise: a failure becomes a reason in `why`.

    `t` is CLOCK_MONOTONIC in nanoseconds. Rates are measured since the previous call, so the first
    call of each tier only takes a baseline.
    """

    def facts(self) -> MachineFacts:
        """Return the facts of the hardware; called once, before all else."""
        return MachineFacts()

    def fast(self, t: int) -> SensorReading:
        """Read the fields of every interval."""
        return SensorReading()

    def slow(self, t: int) -> SensorReading:
        """Read the fields that change seldom or take long, every `SLOW_TIER_S`."""
        return SensorReading()

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a device appeared since they were last returned, else None."""
        return None

    def notices(self) -> list[str]:
        """Return a sentence for each device that was lost or came back since the last call."""
        return []


BYTES_IN_MIB = 1024 * 1024


class Rates:
    """The rates of counters that are read together."""

    def __init__(self) -> None:
        self._last: tuple[int, tuple[int, ...]] | None = None

    def per_second(self, t: int, *counts: int) -> tuple[float, ...]:
        """Return each counter's growth per second since the last call; `t` is in nanoseconds.

        Raises:
            ValueError: no rate can be computed; the message says why.
        """
        last, self._last = self._last, (t, counts)
        if last is None:
            raise ValueError("no earlier reading yet")
        t_before, before = last
        if t <= t_before:
            raise ValueError("no time has passed")
        growth = [now - then for then, now in zip(before, counts, strict=True)]
        if min(growth) < 0:
            raise ValueError("the counter was reset")
        return tuple(count * 1e9 / (t - t_before) for count in growth)


def mib_per_second(bytes_per_second: float) -> float:
    """Return MiB/s, rounded as in records."""
    mib_s = bytes_per_second / BYTES_IN_MIB
    return round(mib_s, 2 if mib_s < 10 else 1)
