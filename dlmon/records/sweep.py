"""A sweep: its plan, and what came of each of its runs."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from dlmon.records.record import record
from dlmon.records.session import Result
from dlmon.records.words import RunStatus, Status

Value = str | int | float
"""A value that an option of `run` can have."""

WITHIN = {"within": True}
"""Marks a field whose own fields stand in the record itself, beside the others."""


@record(frozen=True)
class SweptWorkload:
    """A workload of a sweep.

    Attributes:
        name: what is trained, by the name that `dlmon list` shows.
        metric: what its runs are compared by, such as ms_per_sample.
    """

    name: str
    metric: str


@record(frozen=True)
class Variation:
    """One option that is varied, and the values that it takes.

    Attributes:
        key: the option's name.
        values: at least one.
    """

    key: str
    values: tuple[Value, ...]


@record(frozen=True)
class SweepHeader:
    """The first line of a sweep's log: its plan.

    A combination is one value of everything that is varied; the last option varies fastest, the
    workload slowest.

    Attributes:
        schema: the version of this format, 1.
        id: the sweep's id, which is the name of its folder too.
        host: the machine's name.
        boot_id: the kernel's id of this boot.
        workloads: those that are trained, in the order they are run.
        options: the options that all runs share.
        vary: what is varied.
        repeat: how often each combination is run.
        seed: of the order.
        order: every run once, in the order they are run: its combination and which of the repeats
            it is, both from 0.
        slurm: what is asked of Slurm for each run, where they are tasks of a job array.
        at_once: how many of these may run at the same time; null for all.
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
        combination: which combination of what is varied, from 0.
        repeat: which of its repeats, from 0.
    """

    combination: int
    repeat: int


@record(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        status: completed, failed, out of memory, impossible, or not run; the last also for one
            that was stopped or interrupted.
        reason: why it did not complete.
        session: the id of its session, where there was one.
        result: what the session ended with, where it reported anything.
        took_s: from its launch to its end.
    """

    status: RunStatus
    reason: str | None = None
    session: str | None = None
    result: Result | None = None
    took_s: float | None = None


@record(frozen=True)
class Began:
    """A run that has begun.

    Attributes:
        session: the id of its session.
    """

    TYPE: ClassVar[str] = "began"
    slot: Slot = field(metadata=WITHIN)
    session: str
    wall: float


@record(frozen=True)
class Ended:
    """A run that is over."""

    TYPE: ClassVar[str] = "ended"
    slot: Slot = field(metadata=WITHIN)
    outcome: Outcome = field(metadata=WITHIN)
    wall: float


@record(frozen=True)
class Resumed:
    """The sweep was taken up again after a stop."""

    TYPE: ClassVar[str] = "resumed"
    wall: float


@record(frozen=True)
class Closed:
    """The sweep went no further.

    Attributes:
        status: completed or stopped.
    """

    TYPE: ClassVar[str] = "closed"
    status: Status
    wall: float


Event = Began | Ended | Resumed | Closed
"""What a sweep's log holds behind its header."""
