"""What a source of readings looks like to the sampler."""

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
class Reading:
    """The part of a machine record that one source reads at one time.

    A field is a value, or None with its reason in `why`, or None without one:
    it was not read this time.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    disk: Disk | None = None
    network: Network | None = None
    process: ProcessTree | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpus_state: GpuState | None = None
    gpu_processes: dict[int, dict[int, int | None]] | None = None
    """For each process that a driver lists the MiB that it holds on each GPU, None where unknown.

    The pids are the driver's, and so may be another namespace's.
    """
    processes: tuple[Process, ...] | None = None
    pressure: Pressure | None = None
    why: dict[str, str] = field(default_factory=dict)


class Provider:
    """One source of readings. What it can't read raises nothing: it becomes a reason.

    `t` is CLOCK_MONOTONIC in nanoseconds. Rates are those since the call before,
    so each tier's first call only takes their baseline. What a source lacks is left as it is here.
    """

    def facts(self) -> MachineFacts:
        """Find out once what there is; called first."""
        return MachineFacts()

    def fast(self, t: int) -> Reading:
        """Read what is worth a reading each interval."""
        return Reading()

    def slow(self, t: int) -> Reading:
        """Read what changes seldom or costs much, every `SLOW_TIER_S`."""
        return Reading()

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a device was found since they were last returned, else None."""
        return None

    def notices(self) -> list[str]:
        """Return a sentence for each device that was lost or came back since the last call."""
        return []


BYTES_IN_MIB = 1024 * 1024


class Rates:
    """The growth per second of counters that are read together."""

    def __init__(self) -> None:
        self._last: tuple[int, tuple[int, ...]] | None = None

    def per_second(self, t: int, *counts: int) -> tuple[float, ...]:
        """Return each counter's growth per second since the last call; `t` is in nanoseconds.

        Raises:
            ValueError: there is no window to take a rate over; the message says why.
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
        return tuple(grown * 1e9 / (t - t_before) for grown in growth)


def mib_per_second(bytes_per_second: float) -> float:
    """Return MiB/s, rounded to the digits that a record keeps."""
    mib_s = bytes_per_second / BYTES_IN_MIB
    return round(mib_s, 2 if mib_s < 10 else 1)
