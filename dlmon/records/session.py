"""How a log begins and ends, and what else is told of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dlmon.records.machine import MachineFacts


@dataclass(frozen=True)
class SessionHeader:
    """The first line of a log: what runs, where, with what."""

    TYPE: ClassVar[str] = "session"
    schema: int
    id: str
    host: str
    boot_id: str
    t: int
    wall: float
    workload: str
    options: dict[str, Any]
    machine: MachineFacts
    versions: dict[str, Any]
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What a sensors process tells first, and again when a GPU was found later.

    The supervisor moves the first into the header; later ones stand in the log, and the newest
    counts.
    """

    TYPE: ClassVar[str] = "facts"
    t: int
    wall: float
    host: str
    machine: MachineFacts


@dataclass(frozen=True)
class Output:
    """One line that the workload printed; `left_out` lines before it were not kept."""

    TYPE: ClassVar[str] = "output"
    t: int
    stream: str
    text: str
    left_out: int | None = None


@dataclass(frozen=True)
class Notice:
    """Something a person should know."""

    TYPE: ClassVar[str] = "notice"
    t: int
    text: str


@dataclass(frozen=True)
class Failure:
    """Why the workload gave up, in words, told by itself."""

    TYPE: ClassVar[str] = "failure"
    t: int
    text: str


@dataclass(frozen=True)
class SecondsPerEpoch:
    """Wall time of the mean whole epoch, validation included.

    `low`..`high` is the 95 % interval of that mean, of a projection too: a single epoch may lie
    further off. They are None while nothing is known of how sure the value is. `epochs` whole
    ones stand behind the value; where the first is left out, since it compiles, it is not
    among them.
    """

    value: float
    low: float | None
    high: float | None
    epochs: int
    projected: bool
    first_left_out: bool = False


@dataclass(frozen=True)
class RunSeconds:
    """Wall time of build, every epoch and the final evaluation.

    `low`..`high` is the 95 % interval of a projection, by what is still to come. A run that was
    measured is a single one: nothing is known of how others would differ, and they are None.
    """

    value: float
    low: float | None
    high: float | None
    projected: bool


@dataclass(frozen=True)
class SamplesPerSecond:
    """Steady-state throughput.

    `jitter` is 1.4826 × MAD over batches; `band` is the half-width of the mean's 95 % interval.
    `standard_error` allows for noise that lasts for seconds.
    """

    median: float
    mean: float
    standard_error: float | None
    jitter: float
    band: float | None = None


@dataclass(frozen=True)
class StepTime:
    """Steady-state time of a batch in milliseconds; `mean` is None in older logs."""

    median: float
    p95: float
    mean: float | None = None


@dataclass(frozen=True)
class Result:
    """The last line of a log, and what `--json` prints.

    `energy_j_per_epoch` holds what was measured, by "gpu" and "cpu"; `cost_usd`
    is the price times the wall time; `peak_share` is `effective_flop_s` as a
    share (0 to 1) of the matmul peak measured on that device in that precision.
    `samples_per_epoch` is that of the model: the samples of a whole epoch of the
    data that were read; older logs lack it. `opening_stalls` are those of the `stalls`
    that were at the start of an epoch.
    """

    TYPE: ClassVar[str] = "result"
    status: str
    session: str
    log: str
    workload: str
    device: str | None
    options: dict[str, Any]
    wall_s: float
    seconds_per_epoch: SecondsPerEpoch | None = None
    run_seconds: RunSeconds | None = None
    samples_per_second: SamplesPerSecond | None = None
    step_ms: StepTime | None = None
    compile_s: float | None = None
    device_name: str | None = None
    data: str | None = None
    error: str | None = None
    exit_code: int | None = None
    epochs: int | None = None
    batches: int | None = None
    stalls: int | None = None
    opening_stalls: int | None = None
    energy_j_per_epoch: dict[str, float] | None = None
    cost_usd: float | None = None
    effective_flop_s: float | None = None
    peak_share: float | None = None
    samples_per_epoch: int | None = None
    t: int | None = None
    wall: float | None = None
    why: dict[str, str] = field(default_factory=dict)
