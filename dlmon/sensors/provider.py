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
class GpuProcess:
    """A process that a driver lists: the memory it holds on one GPU, None where unknown.

    The pid is the driver's, and so may be another namespace's.
    """

    gpu_index: int
    pid: int
    memory_mib: int | None = None


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
    gpu_processes: tuple[GpuProcess, ...] | None = None
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
