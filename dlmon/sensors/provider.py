"""What a source of readings looks like to the sampler, and how readings are joined."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

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

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Mergeable = TypeVar("Mergeable", bound=DataclassInstance)
else:
    Mergeable = TypeVar("Mergeable")

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

    def read_deferred(self) -> None:
        """Read some of what takes too long for a sample; called between two."""

    def later_facts(self) -> MachineFacts | None:
        """Return the facts again if a device was found since they were last returned, else None."""
        return None

    def notices(self) -> list[str]:
        """Return a sentence for each device that was lost or came back since the last call."""
        return []


def merge(first: Mergeable, second: Mergeable) -> Mergeable:
    """Lay the fields of `second` over `first`, nested records field by field.

    Both need a `why`. A value and a reason for its absence replace each other,
    and GPUs are matched by index.
    """
    merged: dict[str, Any] = {}
    why: dict[str, str] = dict(getattr(first, "why"))  # noqa: B009 - not known to the type
    reasons: dict[str, str] = getattr(second, "why")  # noqa: B009
    for name in _names(type(second)):
        new = getattr(second, name)
        if new is not None:
            merged[name] = _joined(getattr(first, name), new)
            why.pop(name, None)
        elif name in reasons:
            merged[name] = None
            why[name] = reasons[name]
    return replace(first, **merged, why=why) if merged else first


def _joined(old: Any, new: Any) -> Any:
    if old is None:
        return new
    if hasattr(new, "why"):
        return merge(old, new)
    if isinstance(new, tuple) and new and isinstance(new[0], Gpu):
        by_index = {gpu.index: gpu for gpu in old}
        for gpu in new:
            by_index[gpu.index] = merge(by_index[gpu.index], gpu) if gpu.index in by_index else gpu
        return tuple(by_index[index] for index in sorted(by_index))
    return new


_NAMES: dict[type[Any], tuple[str, ...]] = {}


def _names(record: type[Any]) -> tuple[str, ...]:
    if record not in _NAMES:
        _NAMES[record] = tuple(spec.name for spec in fields(record) if spec.name != "why")
    return _NAMES[record]
