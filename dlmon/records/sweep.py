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
        name: as in `dlmon list`.
        metric: what its runs are compared by, such as ms_per_sample.
    """

    name: str
    metric: str


@record(frozen=True)
class Variation:
    """An option that is varied.

    Attributes:
        key: its name.
        values: at least one.
    """

    key: str
    values: tuple[Value, ...]


@record(frozen=True)
class SweptScript:
    """The command that the runs of a sweep have in common, if they run a person's script.

    Attributes:
        command: its words; {name} stands for the value of a varied name.
        directory: its working directory.
        commit_folder: folder of the repository of the commits.
        commits: the compared commits, by the names that were typed.
        links: folders and files that git ignores and each commit's copy needs.
        expected: what the user said of the training, by the options of exec.
    """

    command: tuple[str, ...]
    directory: str | None = None
    commit_folder: str | None = None
    commits: dict[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    expected: dict[str, int] = field(default_factory=dict)


@record(frozen=True)
class PairRule:
    """The rule by which an experiment of pairs ends.

    Attributes:
        to: half-width of the ratio's 95 % interval that is asked for, 0.02 for 2 %.
        for_s: time that it may take.
        window_s: steady training after which a run is ended; null for whole runs.
        in_turns: whether both runs of a pair are alive at once, and one is suspended while the
            other runs.
        until_proven: whether it ends once a difference is proven, however wide the interval.
    """

    to: float
    for_s: float
    window_s: float | None = None
    in_turns: bool = False
    until_proven: bool = False


@record(frozen=True)
class SweepHeader:
    """The first line of a sweep's log: its plan.

    A combination has one value for each varied option; the last option varies fastest, the workload
    slowest.

    Attributes:
        schema: version of this format, 1.
        id: the sweep's id, its folder's name.
        host: host's name.
        boot_id: kernel's id of this boot.
        workloads: workloads in the order of their runs.
        options: options that all runs share.
        vary: varied options.
        repeat: runs of each combination.
        seed: seed of the order.
        order: all runs, each as the numbers of its combination and its repeat.
        slurm: Slurm options of each task, for a job array.
        at_once: the most tasks at once; null for all.
        script: the command, of a person's script.
        pairs: the rule that ends pairs.
        search_window_s: for a batch size: the steady training after which each run is ended.
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
    script: SweptScript | None = None
    pairs: PairRule | None = None
    search_window_s: float | None = None


@record(frozen=True)
class Slot:
    """One run of a sweep.

    Attributes:
        combination: its number, from 0.
        repeat: its number, from 0.
    """

    combination: int
    repeat: int


@record(frozen=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        status: completed, failed, out of memory, impossible, or not run (also if stopped or
            interrupted).
        reason: why it did not complete.
        session: its id.
        result: the session's result.
        took_s: from launch to end; of two runs in turns half of both.
        rate: samples or steps per second of its turns; null if it had the machine alone.
        ratio_error: standard error of the logarithm of its pair's ratio, by the ratios of their
            turns; null as `rate`.
    """

    status: RunStatus
    reason: str | None = None
    session: str | None = None
    result: Result | None = None
    took_s: float | None = None
    rate: float | None = None
    ratio_error: float | None = None


@record(frozen=True)
class Began:
    """The start of a run.

    Attributes:
        session: its id.
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
class Widened:
    """A further value of the only varied option, which a search tries next.

    Attributes:
        value: value.
    """

    TYPE: ClassVar[str] = "widened"
    value: Value
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
        status: completed, stopped, or failed if a run that failed ended it.
    """

    TYPE: ClassVar[str] = "closed"
    status: Status
    wall: float


Event = Began | Ended | Widened | Resumed | Closed
"""The records of a sweep's log after its header."""
