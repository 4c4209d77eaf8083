"""What a session shows at one moment, and what speaks against comparing by it. Pure."""

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
    LoopResult,
    Machine,
    MachineFacts,
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
    StepParts,
    StepTime,
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
    gpus: tuple[int, ...]
    """NVML's numbers of the GPUs of this machine that train."""
    elapsed_s: float
    progress: Progress | None
    overdue_s: float | None
    """How long ago the last step ended, where the next is overdue."""
    samples_per_second_now: float | None
    samples_per_second: SamplesPerSecond | None
    tokens_per_second_now: float | None
    tokens_per_second: SamplesPerSecond | None
    """Throughput in tokens, padding included; None where batches hold none, or before it."""
    token_shares: Shares
    """What share of the tokens of sampled batches is no padding, and is trained on."""
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
    """The processes of a script that train, each with its own throughput."""
    counts_steps: bool
    """Whether throughput is in steps: the size of a script's batches isn't known."""
    loops: tuple[LoopResult, ...]
    """The loops, those that are alike as one."""
    measured_model: Model | None
    """What trains in the loop that took most time: throughput, step and epoch are of that one."""
    effective: Effective
    """The operations per second, and their share of the peak."""
    evaluation: Evaluation | None
    machine: Machine | None
    machine_age_s: float | None
    output: tuple[Output, ...]
    notices: tuple[Notice | Alert, ...]
    pauses: tuple[NamedPause, ...]
    """What a framework did that has a name, as saving."""
    limit: Limit | None
    account: dict[TimePart, float]
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
    memory: MemoryUse
    result: Result | None
    why: dict[str, str]
    lacking: dict[str, Requirement]
    """What the run lacks for figures that are unknown, by their names."""
    step_parts: StepParts | None = None
    """What the steps that were measured went into."""
    why_no_parts: str | None = None

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
        """Whether a framework said when it compiled, wherever that was."""
        return any(pause.name == COMPILE for pause in self.pauses)

    @property
    def compiled_s(self) -> float | None:
        """How long it compiled: what was measured, else what first batches took beyond others."""
        if self.is_compile_measured:
            return self.account.get(TimePart.COMPILING)
        return self.compile_s

    @property
    def compiles(self) -> bool:
        """Whether the first batch compiles; False where that isn't known either."""
        if self.is_compile_measured:
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


MIN_STEADY_S = 5.0
"""So long a sweep trains at the least, too."""
DRIFT = 0.02
STALLED = 0.02
THROTTLED_PCT = 5.0
STEAL_PCT = 2.0


@record(frozen=True)
class Validity:
    """What speaks against comparing by a session's figures, a sentence each without its period."""

    against: dict[Doubt, str]

    @property
    def is_valid(self) -> bool:
        return not self.against


def find_doubts(
    steady: SteadyState,
    account: Mapping[TimePart, float],
    readings: TrainingReadings,
    machine: MachineFacts,
    model: Model | None,
    gpus: Sequence[int],
    ended: bool,
) -> Validity | None:
    """Return what speaks against a session's figures; None before anything of it was steady.

    Of one that ended before it trained there are no figures to speak against.

    Args:
        steady: has folded its batches.
        account: where its time went.
        readings: of its steady training.
        machine: what was known of the machine at the start.
        model: what runs.
        gpus: those that are trained on, by NVML's numbers.
        ended: whether it is over: until then it may yet last long enough.
    """
    if not steady.steady and (model is None or not ended):
        return None
    against: dict[Doubt, str] = {}
    if ended and steady.seconds < MIN_STEADY_S:
        against[Doubt.TOO_SHORT] = _too_short(steady.seconds)
    drift = steady.blocks.drift()
    if drift is not None and abs(drift) >= DRIFT:
        how = f"{100 * abs(drift):.0f} % {'faster' if drift > 0 else 'slower'}"
        against[Doubt.NOT_STEADY] = f"not steady: its second half was {how} than its first"
    stalled_s = account.get(TimePart.STALLS, 0.0)
    training_s = stalled_s + account.get(TimePart.TRAINING, 0.0)
    if stalled_s > STALLED * training_s:
        share = 100 * stalled_s / training_s
        against[Doubt.STALLS] = f"stalls took {share:.1f} % of the time of its batches"
    of_readings = _doubts_of(readings, gpus)
    others = _cpu_shared(readings, machine.cores, bool(gpus))
    if others is not None:
        of_readings[Doubt.CPU_SHARED] = others
    busy = busy_at_start(machine, model.device if model is not None else None)
    at_start = {
        Doubt.BUSY_AT_START: busy,
        Doubt.ON_BATTERY: "the machine ran on battery" if machine.on_battery else None,
    }
    if model is not None and model.inferred is not None:
        against[Doubt.INFERRED_SAMPLES] = f"samples were inferred: {model.inferred}"
    against |= of_readings
    against |= {doubt: text for doubt, text in at_start.items() if text is not None}
    return Validity({doubt: against[doubt] for doubt in Doubt if doubt in against})


def _doubts_of(readings: TrainingReadings, gpus: Sequence[int]) -> dict[Doubt, str]:
    """Return what the readings of steady training say against its figures."""
    found: dict[Doubt, str] = {}
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
        found[Doubt.THROTTLED] = ", ".join(throttled)
    if readings.other_program is not None:
        memory_mib, pid, name = readings.other_program
        found[Doubt.GPU_SHARED] = (
            f"another program had {memory_mib / 1024:.1f} GiB on {gpu_name(gpus)} "
            f"({name}, pid {pid})"
        )
    steal_pct = readings.mean_or_zero("steal_pct")
    if steal_pct > STEAL_PCT:
        found[Doubt.STEAL] = f"CPU steal {steal_pct:.1f} %"
    return found


def _cpu_shared(readings: TrainingReadings, allowed: int | None, on_gpu: bool) -> str | None:
    """Say what other programs took of the CPUs, by the measure of a machine busy at the start.

    A GPU may train as fast while others compute beside it, and so may a run that is `allowed` some
    of the CPUs only: there it has to wait for one.
    """
    total = readings.cores or allowed
    took = readings.mean_or_zero("other_cores")
    if total is None or took < BUSY_CPU_PCT / 100 * total:
        return None
    text = f"other programs took {took:.1f} of {cores(total)}"
    if not on_gpu and allowed is not None and allowed >= total:
        return text
    waited_pct = readings.mean_or_zero("run_cpu_wait_pct")
    if waited_pct < 100 * WAITED_FOR_CPU:
        return None
    return f"{text}, and the run waited for a CPU {waited_pct:.0f} % of the time"


def _too_short(steady_s: float) -> str:
    if steady_s <= 0:
        return "too short: it was never steady"
    # Rounded up, 4.96 s would be as many as are asked for.
    seconds = math.floor(10 * steady_s) / 10
    return f"too short: {seconds:.1f} s of steady batches, at least {MIN_STEADY_S:.0f} s are needed"
