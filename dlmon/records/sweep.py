"""The records of a sweep: its plan, and the outcome of each run."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from dlmon.records.record import record
from dlmon.records.session import Result
from dlmon.records.words import RunStatus, Status

Value = str | int | float
"""The value of an option of `run`."""

WITHIN = {"within": True}
"""Marks a field whose own fields are written in the enclosing object."""


@record(frozen=True)
class SweptWorkload:
    """A workload of a sweep.

    Attributes:
        name: the workload's name, as in `dlmon list`.
        metric: the metric that its runs are compared by, such as ms_per_sample.
    """

    name: str
    metric: str


@record(frozen=True)
class Variation:
    """An option that is varied.

    Attributes:
        key: the option's name.
        values: its values, at least one.
    """

    key: str
    values: tuple[Value, ...]


@record(frozen=True)
class SweepHeader:
    """The first line of a sweep's log: its plan.

    A combination has one value for each varied option; the last option varies fastest, the workload
    slowest.

    Attributes:
        schema: the version of this format, 1.
        id: the sweep's id, which is also the name of its folder.
        host: the host's name.
        boot_id: the kernel's id of this boot.
        workloads: the workloads, in the order of their runs.
        options: the options that all runs share.
        vary: the varied options.
        repeat: the number of runs of each combination.
        seed: the seed of the order.
        order: all runs in order, each as the number of its combination and of its repeat, from 0.
        slurm: the Slurm options of each run, if the runs are tasks of a job array.
        at_once: the most tasks that may run at the same time; null for all.
    """

    TYPE: ClassVar[str] = "sweep"
    schema: int
    id: str
    host: str
    boot_id: str
    wall: float
    workloads: tuple[SweptWorkload, ...]
    options: dict[str, Value | None]
    vary: tuple[Variation, ...]
    repeat: int
    seed: int
    order: tuple[tuple[int, ...], ...]
    slurm: str | None = None
    at_once: int | None = None


@record(frozen=True)
class Slot:
    """One run of a sweep.

    Attributes:
        combination: the number of the combination, from 0.
        repeat: the number of the repeat, from 0.
    """

    combination: int
    repeat: int


@record(frozen=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        status: completed, failed, out of memory, impossible, or not run; a run that was stopped or
            interrupted is not run.
        reason: why it did not complete.
        session: the id of its session, if there is one.
        result: the result of the session, if there is one.
        took_s: the time from its launch to its end.
    """

    status: RunStatus
    reason: str | None = None
    session: str | None = None
    result: Result | None = None
    took_s: float | None = None


@record(frozen=True)
class Began:
    """The start of a run.

    Attributes:
        session: the id of its session.
    """

    TYPE: ClassVar[str] = "began"
    slot: Slot = field(metadata=WITHIN)
    session: str
    wall: float


@record(frozen=True)
class Ended:
    """The end of a run."""

    TYPE: ClassVar[str] = "ended"
    slot: Slot = field(metadata=WITHIN)
    outcome: Outcome = field(metadata=WITHIN)
    wall: float


@record(frozen=True)
class Resumed:
    """The continuation of a sweep after a stop."""

    TYPE: ClassVar[str] = "resumed"
    wall: float


@record(frozen=True)
class Closed:
    """The end of a sweep, or a stop.

    Attributes:
        status: completed or stopped.
    """

    TYPE: ClassVar[str] = "closed"
    status: Status
    wall: float


Event = Began | Ended | Resumed | Closed
"""The records of a sweep's log after its header."""
