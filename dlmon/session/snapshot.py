"""What a session shows at one moment."""

from __future__ import annotations

from dlmon.comparison.conditions import compiles
from dlmon.records import (
    COMPILE,
    AccountPart,
    Alert,
    Epoch,
    Evaluation,
    LoopResult,
    Machine,
    Model,
    NamedPause,
    Notice,
    Output,
    Requirement,
    Result,
    RunSeconds,
    SamplesPerSecond,
    SecondsPerEpoch,
    SessionHeader,
    Stack,
    StepTime,
)
from dlmon.records.record import record
from dlmon.session.gaps import Gap
from dlmon.session.limits.seen import Limit
from dlmon.session.loops import TrainerRate
from dlmon.session.validity import Validity
from dlmon.statistics.regular_gaps import RegularSteps


@record(frozen=True)
class PhaseSpan:
    """A part of the time axis in one phase; `end` is None while it lasts."""

    phase: str
    start: int
    end: int | None


@record(frozen=True)
class Progress:
    """How far the epoch and the run have come, and the time left at the mean step so far.

    What is left of the run holds its validation, and the pauses that its epochs had between them.

    A script may not say how many `epochs` there are to be, or `steps` in one.
    """

    epoch: int
    epochs: int | None
    step: int
    steps: int | None
    epoch_left_s: float | None
    run_left_s: float | None
    end_left_s: float | None = None
    """Until the end, with the pauses between epochs and the evaluation; None where not known."""
    end_of_training: bool = False
    """Whether that is the end of the training alone, as what follows it is not known."""
    is_over: bool = False
    """Whether the epoch is over and no other has begun, as while a script does something else."""
    updates: int | None = None
    """The steps of an optimizer so far in the epoch, where that is not one a batch."""

    @property
    def epoch_fraction(self) -> float:
        return min(1.0, self.step / self.steps) if self.steps else 0.0


@record(frozen=True)
class Snapshot:
    """All figures of a session at one moment."""

    header: SessionHeader
    phase: str | None
    model: Model | None
    elapsed_s: float
    progress: Progress | None
    samples_per_second_now: float | None
    samples_per_second: SamplesPerSecond | None
    rough_step_ms: float | None
    step_ms: StepTime | None
    compile_s: float | None
    validation_compile_s: float
    stalls: int | None
    opening_stalls: int | None
    batches: int
    seconds_per_epoch: SecondsPerEpoch | None
    run_seconds: RunSeconds | None
    epochs: tuple[Epoch, ...]
    trainers: tuple[TrainerRate, ...]
    """The processes of a script that train, each with its own throughput."""
    counts_steps: bool
    """Whether throughput is in steps: the size of a script's batches isn't known."""
    loops: tuple[LoopResult, ...]
    """The loops, those that are alike as one."""
    measured_model: Model | None
    """What trains in the loop that took most time: throughput, step and epoch are of that one."""
    evaluation: Evaluation | None
    machine: Machine | None
    machine_age_s: float | None
    output: tuple[Output, ...]
    notices: tuple[Notice | Alert, ...]
    pauses: tuple[NamedPause, ...]
    """What a framework did that has a name, as saving."""
    limit: Limit | None
    account: dict[AccountPart, float]
    """Seconds of `elapsed_s` by what they went into."""
    validity: Validity | None
    """What speaks against the figures; None before there are any."""
    gaps: tuple[Gap, ...]
    """Times of over a second without a batch."""
    stacks: tuple[Stack, ...]
    """Where the threads that train were in such times."""
    pause: Gap | None
    """The time of over a second without a batch that goes on."""
    regular_steps: RegularSteps | None
    """Long steps that come every so many steps, which are no stalls; None for none."""
    result: Result | None
    why: dict[str, str]
    lacking: dict[str, Requirement]
    """What the run lacks for figures that are unknown, by their names."""

    @property
    def compiles(self) -> bool:
        """Whether the first batch compiles; False where that isn't known either."""
        if any(pause.name == COMPILE for pause in self.pauses):
            return True
        model = self.model
        frameworks = [one.trainer.framework for one in self.trainers]
        if model is None:
            return compiles(frameworks, self.header.versions.get("backend"), None)
        return compiles(frameworks, model.backend, model.jit)

    def longest_loops(self, most: int) -> tuple[LoopResult, ...]:
        """Return so many of the loops, those whose batches took most time, in their order."""
        longest = sorted(self.loops, key=lambda loop: -loop.train_s)[:most]
        return tuple(loop for loop in self.loops if loop in longest)

    @property
    def first_batch_s(self) -> float | None:
        """What training's first batch took beyond a usual one, without that of a validation."""
        return None if self.compile_s is None else self.compile_s - self.validation_compile_s

    @property
    def wall(self) -> float:
        """The time of this moment, in seconds since 1970.

        By the machine's last sample: a clock that stood still while the machine was asleep would
        be behind.
        """
        if self.machine is None or self.machine_age_s is None:
            return self.header.wall + self.elapsed_s
        return self.machine.wall + self.machine_age_s
