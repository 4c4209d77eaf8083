"""A profile that a person asked for: of some steps, which operations took the time."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from dlmon.records.record import record


@record(frozen=True)
class Operation:
    """An operation of the profiled steps, or what ran on the device for it.

    Attributes:
        name: as the framework calls it.
        calls: how often it ran.
        host_us: the time of all calls on the host, without that of the operations within them.
        device_us: the time of all calls on the device.
        share: of the time of all operations, 0 to 1; of those on the device, where there is one.
    """

    name: str
    calls: int
    host_us: int
    device_us: int
    share: float


@record(frozen=True)
class Profile:
    """Steps that the framework's own profiler watched; they count in no figure.

    Attributes:
        t: when it was written.
        request: the number of the request.
        begin: when the first of the steps began; null where none did.
        end: when the last of them ended.
        steps: how many there were.
        profiler: what watched them: torch, jax or tensorflow.
        file: the name of the trace, which lies beside the log; null where there is none.
        bytes: its size.
        operations: those that took most time, most first; null where the trace could not be read.
        idle: the share of the time in which the device computed nothing, 0 to 1.
        copying: the share in which it copied; on the host, that of the operations that copy.
        communicating: the same of what talks to other ranks.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "profile"
    t: int
    request: int
    begin: int | None
    end: int | None
    steps: int
    profiler: str | None
    file: str | None = None
    bytes: int | None = None
    operations: tuple[Operation, ...] | None = None
    idle: float | None = None
    copying: float | None = None
    communicating: float | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)
