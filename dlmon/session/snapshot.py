"""The figures of a session at one moment, and warnings against comparing them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlmon.comparison.conditions import BUSY_CPU_PCT, busy_at_start, compiles, cores
from dlmon.records import (
    COMPILE,
    Alert,
    Doubt,
    Epoch,
    Evaluation,
    Injection,
    LoopResult,
    Machine,
    MachineFacts,
    Model,
    NamedPause,
    Notice,
    Output,
    ProcessStack,
    RateNow,
    Requirement,
    Result,
    RunSeconds,
    SecondsPerEpoch,
    SessionHeader,
    SourceLines,
    Stack,
    StepParts,
    StepTime,
    Throughput,
    TimePart,
)
from dlmon.records.record import record
from dlmon.records.words import gpu_name
from dlmon.session.effective import Effective
from dlmon.session.framework_memory import MemoryUse
from dlmon.session.gaps import Gap
from dlmon.session.limits.evidence import Limit
from dlmon.session.limits.run_samples import WAITED_FOR_CPU
from dlmon.session.loops import ProcessRate, Shares
from dlmon.session.readings import TrainingReadings
from dlmon.statistics.regular_gaps import RegularSteps
from dlmon.statistics.steady_state import SteadyState


@record(frozen=True)
class PhaseSpan:
    """A stretch of time in one phase; `end` is None while it lasts."""

    phase: str
    start: int
    end: int | None


@record(frozen=True)
class Progress:
    """The progress of the epoch and the run, and their remaining time at the mean step so far.

    The remaining time of the run includes its validations and the pauses between its epochs. A
    script may not tell its number of `epochs`, or of `steps` in an epoch.
    """

    epoch: int
    epochs: int | None
    step: int
    steps: int | None
    epoch_left_s: float | None
    run_left_s: float | None
    end_left_s: float | None = None
    """The time until the end, with the evaluation; None if unknown."""
    end_of_training: bool = False
    """True if that is the end of the training, as the time after it is unknown."""
    is_over: bool = False
    """True if the epoch is over and no other has begun, as while a script does something else."""
    updates: int | None = None
    """The optimizer steps so far in the epoch, if not one per batch."""

    @property
    def epoch_fraction(self) -> float:
        return min(1.0, self.step / self.steps) if self.steps else 0.0


@record(frozen=True)
class Snapshot:
    """All figures of a session at one moment."""

    header: SessionHeader
    phase: str | None
    is_suspended: bool
    """True while all processes of the run are suspended."""
    suspended_s: float
    """The time for which they were, which no figure includes."""
    model: Model | None
    gpus: tuple[int, ...]
    """The NVML indices of the GPUs of this machine that train."""
    elapsed_s: float
    progress: Progress | None
    overdue_s: float | None
    """The time since the last step, if the next one is overdue."""
    samples_per_second_now: RateNow | None
    samples_per_second: Throughput | None
    tokens_per_second_now: RateNow | None
    tokens_per_second: Throughput | None
    """Throughput in tokens, with padding; None without tokens, or before steady training."""
    token_shares: Shares
    """The shares of the tokens of sampled batches that are no padding, or have labels."""
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
    trainers: tuple[ProcessRate, ...]
    """The throughput of each process of a script that trains."""
    throughput_unit: str
    """The unit of the throughput: steps/s if the size of a script's batches is unknown."""
    loops: tuple[LoopResult, ...]
    """The loops; similar ones are merged."""
    measured_model: Model | None
    """The model of the longest loop, whose throughput, step and epoch these are."""
    effective: Effective
    """The operations per second, and their share of the peak."""
    evaluation: Evaluation | None
    machine: Machine | None
    machine_age_s: float | None
    output: tuple[Output, ...]
    notices: tuple[Notice | Alert, ...]
    pauses: tuple[NamedPause, ...]
    """The named pauses of frameworks, such as checkpoints."""
    limit: Limit | None
    time_breakdown: dict[TimePart, float]
    """The seconds of each part of `elapsed_s`."""
    validity: Validity | None
    """The warnings against the figures; None before there are figures."""
    gaps: tuple[Gap, ...]
    """Times of over a second without a batch."""
    stacks: tuple[Stack, ...]
    """The stacks of the threads that train, in gaps."""
    source_lines: tuple[SourceLines, ...]
    """The lines of source at which the newest gaps were."""
    worker_stacks: tuple[ProcessStack, ...]
    """The stacks of the workers of data loaders at the last request."""
    pause: Gap | None
    """The current gap."""
    regular_steps: RegularSteps | None
    """Long steps that recur regularly, which are no stalls."""
    memory: MemoryUse
    result: Result | None
    why: dict[str, str]
    lacking: dict[str, Requirement]
    """The requirement that the run lacks for each unknown figure, by name."""
    step_parts: StepParts | None = None
    """The parts of the measured steps."""
    judged_parts: StepParts | None = None
    """The parts of the steps that the limit follows from: of the last half minute, or of all."""
    injections: tuple[Injection, ...] = ()
    """The outcomes of the injections, as far as reported."""
    why_no_parts: str | None = None
    silent_s: float = 0.0
    """The time since the last record of any kind."""
    stopping_s: float | None = None
    """The time since it was asked to end; None if it was not, or in logs of earlier versions."""
    phase_s: float = 0.0
    """The time since the phase began."""
    last_stall: Gap | None = None
    """The gap in which a run was asked to end, or ended without a result; None if a step came."""

    @property
    def not_padding(self) -> float | None:
        """The share of the tokens of sampled batches that is no padding."""
        return self.token_shares.of("not_padding")

    @property
    def trained_on(self) -> float | None:
        """The share of the tokens of sampled batches that has labels."""
        return self.token_shares.of("trained_on")

    @property
    def is_compile_measured(self) -> bool:
        """True if a framework reported its compilation."""
        return any(pause.name == COMPILE for pause in self.pauses)

    @property
    def compiled_s(self) -> float | None:
        """The time of compilation: measured, else the extra time of first batches."""
        if self.is_compile_measured:
            return self.time_breakdown.get(TimePart.COMPILING)
        return self.compile_s

    @property
    def compiles(self) -> bool:
        """True if the first batch is known to compile."""
        if self.is_compile_measured:
            return True
        model = self.model
        frameworks = [process.trainer.framework for process in self.trainers]
        if model is None:
            return compiles(frameworks, self.header.versions.get("backend"), None)
        return compiles(frameworks, model.backend, model.jit)

    def longest_loops(self, most: int) -> tuple[LoopResult, ...]:
        """Return at most this many loops, those whose batches took most time, in order."""
        longest = sorted(self.loops, key=lambda loop: -loop.train_s)[:most]
        return tuple(loop for loop in self.loops if loop in longest)

    @property
    def first_batch_s(self) -> float | None:
        """The extra time of the first training batch, without that of a validation."""
        return None if self.compile_s is None else self.compile_s - self.validation_compile_s

    @property
    def wall(self) -> float:
        """The time of this moment, in seconds since 1970.

        It follows from the machine's last sample, as the session's clock stops while the machine
        sleeps.
        """
        if self.machine is None or self.machine_age_s is None:
            return self.header.wall + self.elapsed_s
        return self.machine.wall + self.machine_age_s


STALLED_S = 10.0
"""A run is stalled if no step ends for this time."""


def is_stalled(overdue_s: float | None, regular: RegularSteps | None) -> bool:
    """Return whether a run is stalled; some steps regularly take long.

    Args:
        overdue_s: the time since the last step, if the next one is overdue.
        regular: the long steps that come regularly.
    """
    regular_s = 0.0 if regular is None else regular.seconds / regular.times
    return overdue_s is not None and overdue_s >= max(STALLED_S, 2 * regular_s)


MIN_STEADY_S = 5.0
"""The least steady training for valid figures, and the least training of a sweep."""
DRIFT = 0.02
STALLED = 0.02
THROTTLED_PCT = 5.0
STEAL_PCT = 2.0


@record(frozen=True)
class Validity:
    """The warnings against comparing a session's figures, as sentences without a period."""

    warnings: dict[Doubt, str]

    @property
    def is_valid(self) -> bool:
        return not self.warnings


def find_warnings(
    steady: SteadyState,
    time_breakdown: Mapping[TimePart, float],
    readings: TrainingReadings,
    machine: MachineFacts,
    model: Model | None,
    gpus: Sequence[int],
    is_over: bool,
    bad_loss: str | None = None,
) -> Validity | None:
    """Return the warnings against a session's figures; None before steady training.

    A session that ended before it trained has no figures, and so no warnings.

    Args:
        steady: the batches of its longest loop.
        time_breakdown: its time breakdown.
        readings: the readings of its steady training.
        machine: the facts of the machine at the start.
        model: the model that trains.
        gpus: the NVML indices of the GPUs that train.
        is_over: the session is over; until then it may still last long enough.
        bad_loss: the sentence that the newest training loss is NaN or infinite, if it is.
    """
    if not steady.steady and (model is None or not is_over):
        return None
    warnings: dict[Doubt, str] = {}
    if is_over and steady.seconds < MIN_STEADY_S:
        warnings[Doubt.TOO_SHORT] = _too_short(steady.seconds)
    drift = steady.blocks.drift()
    if drift is not None and abs(drift) >= DRIFT:
        ratio, word = (1 + drift, "fast") if drift > 0 else (1 / (1 + drift), "slow")
        text = f"its second half was {ratio:.2f}× as {word} as its first"
        warnings[Doubt.NOT_STEADY] = f"not steady: {text}"
    stalled_s = time_breakdown.get(TimePart.STALLS, 0.0)
    training_s = stalled_s + time_breakdown.get(TimePart.TRAINING, 0.0)
    if stalled_s > STALLED * training_s:
        share = 100 * stalled_s / training_s
        warnings[Doubt.STALLS] = f"stalls took {share:.1f} % of the time of its batches"
    if model is not None and model.inferred is not None:
        warnings[Doubt.INFERRED_SAMPLES] = f"samples were inferred: {model.inferred}"
    if bad_loss is not None:
        warnings[Doubt.NAN_LOSS] = bad_loss
    warnings |= _warnings_of(readings, gpus)
    machine_warnings = {
        Doubt.CPU_SHARED: _cpu_shared(readings, machine.cores, bool(gpus)),
        Doubt.BUSY_AT_START: busy_at_start(machine, model.device if model is not None else None),
        Doubt.ON_BATTERY: "the machine ran on battery" if machine.on_battery else None,
    }
    warnings |= {doubt: text for doubt, text in machine_warnings.items() if text is not None}
    return Validity({doubt: warnings[doubt] for doubt in Doubt if doubt in warnings})


def _warnings_of(readings: TrainingReadings, gpus: Sequence[int]) -> dict[Doubt, str]:
    """Return the warnings from the readings of steady training."""
    warnings: dict[Doubt, str] = {}
    throttled = []
    slowed_pct = readings.mean_or_zero("slowed_pct")
    stopped_pct = readings.mean_or_zero("stopped_pct")
    if slowed_pct > THROTTLED_PCT:
        causes = " and ".join(readings.slowed_by)
        verb = "was" if len(gpus) == 1 else "were"
        throttled.append(
            f"{gpu_name(gpus)} {verb} slowed by {causes} in {slowed_pct:.0f} % of readings"
        )
    if stopped_pct > THROTTLED_PCT:
        throttled.append(f"the CPU limit stopped the run in {stopped_pct:.0f} % of periods")
    if throttled:
        warnings[Doubt.THROTTLED] = ", ".join(throttled)
    if readings.other_program is not None:
        memory_mib, pid, name = readings.other_program
        warnings[Doubt.GPU_SHARED] = (
            f"another program had {memory_mib / 1024:.1f} GiB on {gpu_name(gpus)} "
            f"({name}, pid {pid})"
        )
    steal_pct = readings.mean_or_zero("steal_pct")
    if steal_pct > STEAL_PCT:
        warnings[Doubt.STEAL] = f"CPU steal {steal_pct:.1f} %"
    return warnings


def _cpu_shared(readings: TrainingReadings, allowed: int | None, on_gpu: bool) -> str | None:
    """Return a warning if other programs used many cores; None if they did no harm.

    Training on a GPU, or on some of the cores (`allowed`), may be as fast beside other programs
    unless it waits for a CPU.
    """
    all_cores = readings.cores or allowed
    used = readings.mean_or_zero("other_cores")
    if all_cores is None or used < BUSY_CPU_PCT / 100 * all_cores:
        return None
    text = f"other programs took {used:.1f} of {cores(all_cores)}"
    if not on_gpu and allowed is not None and allowed >= all_cores:
        return text
    waited_pct = readings.mean_or_zero("run_cpu_wait_pct")
    if waited_pct < 100 * WAITED_FOR_CPU:
        return None
    return f"{text}, and the run waited for a CPU {waited_pct:.0f} % of the time"


def _too_short(steady_s: float) -> str:
    if steady_s <= 0:
        return "too short: it was never steady"
    # Rounded up, 4.96 s would read as the 5.0 s that are needed.
    seconds = math.floor(10 * steady_s) / 10
    return f"too short: {seconds:.1f} s of steady batches, at least {MIN_STEADY_S:.0f} s are needed"
