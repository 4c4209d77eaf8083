"""The records of a workload: its model, its phases, and the times of its batches and passes."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, ClassVar

from dlmon.records.record import record
from dlmon.records.words import WITHOUT_EPOCHS

CHECKPOINT, COMPILE, GARBAGE = "checkpoint", "compile", "garbage"
"""The names of pauses: it saves, compiles, or collects garbage."""


@record(frozen=True)
class Phase:
    """What the workload does from `t` on.

    "opening" is the time before the first batch of a later epoch, and "closing" that after a pass,
    where these are long enough to be seen: the input pipeline is set up or taken down.

    Attributes:
        name: one of `PHASES`.
        epoch: the one that is opened, from 0.
        trainer: the number of the process of a script that reports it; absent for number 0.
    """

    TYPE: ClassVar[str] = "phase"
    t: int
    name: str
    epoch: int | None = None
    trainer: int | None = None


@record(frozen=True)
class NamedPause:
    """A time in which a framework did something else than train, written when it is over.

    A compilation is written each second while it goes on, too, from its begin until then.
    What follows within a hundredth of a second is the same one. Of under 0.05 s none is written,
    and of more than a thousand only longer ones.

    Attributes:
        t: when it began.
        end: when it ended.
        name: checkpoint, compile or garbage.
        written_bytes: of a checkpoint, the size of the files that were written.
        folder: where they are.
        reason: why it was compiled again: the guard that failed.
        graph_breaks: how many breaks of the graph were met while it was compiled.
        beside: true where another thread than the one that trains did it: training went on.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "pause"
    t: int
    end: int
    name: str
    written_bytes: int | None = None
    folder: str | None = None
    reason: str | None = None
    graph_breaks: int | None = None
    beside: bool | None = None
    trainer: int | None = None

    @property
    def seconds(self) -> float:
        return (self.end - self.t) / 1e9

    def contains(self, other: NamedPause) -> bool:
        """Return whether another is part of this one; before it trains, a process has no number."""
        is_same = (self.name, self.beside) == (other.name, other.beside)
        is_here = other.trainer in (None, self.trainer)
        return is_same and is_here and self.t <= other.t and other.end <= self.end


NUMBERS_OF_A_PART = 1000
"""The processes of another part of a run are numbered from so many times its own number on."""


@record(frozen=True)
class Trainer:
    """A process of a script that trains: written when it begins to, and when it ends.

    Attributes:
        number: its number among those that train at once, from 0; the number of one that has ended
            is given again.
        pid: its process id.
        framework: what counts its batches: keras, tf_keras, torch, xgboost, lightgbm, or dlmon
            where the script itself reports them.
        framework_version: its version.
        python: the version of its interpreter.
        backend: what Keras runs on: tensorflow, jax or torch.
        rank: its rank in a data-parallel run.
        world_size: how many processes such a run has.
        ended: true once it has ended.
        host: the machine that it is on, where that is another one.
    """

    TYPE: ClassVar[str] = "trainer"
    t: int
    number: int
    pid: int
    framework: str
    framework_version: str | None = None
    python: str | None = None
    backend: str | None = None
    rank: int | None = None
    world_size: int | None = None
    ended: bool | None = None
    host: str | None = None


@record(frozen=True)
class Model:
    """What runs, as it was built.

    The record is written again as often as more, or fewer, epochs turn out to be needed for
    `--seconds`, and the last one counts.

    Attributes:
        parameters: weights and biases of the network, trained or not.
        flops_per_sample: floating-point operations for one sample in this mode, counted by layer.
        batch_size: samples in a batch; null where a script's batches have no size.
        samples_per_epoch: samples in a whole epoch; 0 for a workload without epochs; null where a
            script does not say it.
        steps_per_epoch: batches in a whole epoch, or in a pass over the samples; null as above.
        epochs: how many were asked for, those of a script's loops before this one included; null
            where it does not say it.
        validation_steps: batches of each validation.
        validation_samples: samples of each validation.
        evaluation_steps: batches of the evaluation after training.
        steps_cap: `--steps`, the most batches of an epoch.
        data: what the samples are: real or synthetic.
        device: what it runs on: cpu, gpu:N by NVML's number, or several GPUs as gpu:N+M.
        devices: how many devices share each batch; absent where that is one.
        device_name: the product's name of that device, or of the first.
        device_uuid: its uuid, where a script's framework says it.
        backend: what Keras runs on: tensorflow, jax or torch.
        backend_version: its version.
        keras_version: the version of Keras.
        mode: train, gradients or inference; an epoch is one pass over the samples in the latter
            two.
        precision: Keras's dtype policy.
        jit: whether the step is compiled as a whole.
        extra_epochs: how many follow those that were asked for, so that training lasts as long as
            `--seconds` says.
        network: what a script's model is called.
        loop: the number of the script's loop that begins, from 0; absent for a workload.
        first_epoch: the number of that loop's first epoch.
        workers: how many processes load its data.
        inferred: how the samples of a batch were found, where that may be wrong; absent where the
            framework says how many there are.
        has_epochs: false of a script's loop that goes through no set of samples; absent elsewhere.
        steps: batches of a script's whole loop, where no number of epochs says when it ends.
        length_from: what says `epochs` or `steps` where what trains does not, such as the script's
            command line: they may be wrong.
        trainer: as in `Phase`.
        optimizer: the class of PyTorch's optimiser.
        fused: whether it steps in one kernel; absent where its class can't.
        pin_memory: whether PyTorch's loader puts batches where a GPU copies them from directly.
        tokens_inferred: how tokens were found, where what was found may be none.
        sequence: tokens of each sample, where all have as many, or of a sequence as one was seen,
            of a loop that makes its batches itself.
        flops_per_token: operations that a token takes in training, forward and backward, without
            those of attention between tokens.
        attention_flops: those of attention for each token that it meets, by how many tokens back
            layers look: a number, or `all`.
        recomputed_flops_per_token: further operations of what is computed again for the way back;
            of attention, it is a third more.
        flops_from: what says the operations of a script: weights and attention, weights, or
            counted in a step.
        compute_precision: what a script's products are computed in: float32, tf32, bfloat16, ...
        peak_flop_s: the most operations per second of one of its devices in that precision.
        peak_from: who says so: measured, or the device's maker.
    """

    TYPE: ClassVar[str] = "model"
    parameters: int | None
    flops_per_sample: int | None
    batch_size: int | None
    samples_per_epoch: int | None
    steps_per_epoch: int | None
    epochs: int | None
    validation_steps: int | None = None
    validation_samples: int | None = None
    evaluation_steps: int | None = None
    steps_cap: int | None = None
    data: str | None = None
    device: str | None = None
    devices: int | None = None
    device_name: str | None = None
    backend: str | None = None
    backend_version: str | None = None
    keras_version: str | None = None
    mode: str | None = None
    precision: str | None = None
    jit: bool | None = None
    extra_epochs: int | None = None
    network: str | None = None
    loop: int | None = None
    first_epoch: int | None = None
    workers: int | None = None
    inferred: str | None = None
    device_uuid: str | None = None
    trainer: int | None = None
    has_epochs: bool | None = None
    steps: int | None = None
    length_from: str | None = None
    optimizer: str | None = None
    fused: bool | None = None
    pin_memory: bool | None = None
    tokens_inferred: str | None = None
    sequence: int | None = None
    flops_per_token: int | None = None
    attention_flops: dict[str, int] | None = None
    recomputed_flops_per_token: int | None = None
    flops_from: str | None = None
    compute_precision: str | None = None
    peak_flop_s: float | None = None
    peak_from: str | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def epochs_in_all(self) -> int | None:
        """How many epochs there are to be, those for `--seconds` included; None if not known."""
        if self.epochs is not None:
            return self.epochs + (self.extra_epochs or 0)
        if self.steps is None or not self.steps_per_epoch or self.has_epochs is False:
            return None
        return (self.first_epoch or 0) - (-self.steps // self.steps_per_epoch)

    @property
    def cut_short(self) -> bool:
        """Whether an epoch is less than a whole one, or the samples have no end."""
        if self.steps_cap is None or self.steps_per_epoch is None:
            return False
        endless = self.samples_per_epoch is not None and self.samples_per_epoch < 1
        return endless or self.steps_cap < self.steps_per_epoch

    @property
    def why_no_epochs(self) -> str | None:
        """Why a pass over the samples is no epoch in this mode; None where it is one."""
        return WITHOUT_EPOCHS.get(self.mode or "")

    @property
    def gpus(self) -> tuple[int, ...]:
        """NVML's numbers of the GPUs that are trained on; none on the CPU, or where unknown."""
        kind, _, listed = (self.device or "").partition(":")
        numbers = listed.split("+")
        known = kind == "gpu" and all(each.isascii() and each.isdecimal() for each in numbers)
        return tuple(map(int, numbers)) if known else ()


@record(frozen=True)
class Batches:
    """Consecutive batches of one epoch.

    Attributes:
        epoch: the epoch that they belong to, from 0.
        first: the index in the epoch of the first of them, from 0.
        samples: how many samples each batch holds: one number when all hold as many, else one for
            each; null where that is not known.
        t: when the first of them ended.
        dt_us: each one's duration: the time since the batch before it ended, or since the epoch
            began.
        opening_us: with the first batch of an epoch, the time before that batch, where it is known
            apart; it is not in its duration then.
        per_execution: Keras's steps_per_execution above 1: so many batches end together and share
            their time equally.
        wait_us: how much of all their time was spent waiting for data, where that was measured.
        updates: how many of them ended with a step of an optimiser, where not each did.
        trainer: as in `Phase`.
        profiled: true where a profiler watched them: they count in no figure.
        tokens: how many tokens each batch holds, padding included, as `samples` says samples;
            absent where they hold none, or where that is not known of each.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    samples: int | tuple[int, ...] | None
    t: int
    dt_us: tuple[int, ...]
    opening_us: int | None = None
    per_execution: int | None = None
    wait_us: int | None = None
    updates: int | None = None
    trainer: int | None = None
    profiled: bool | None = None
    tokens: int | tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many batches there are."""
        return len(self.dt_us)

    @property
    def time_us(self) -> int:
        """The time that they took together."""
        return sum(self.dt_us)

    @property
    def begin(self) -> int:
        """When the first of them began."""
        return self.t - self.dt_us[0] * 1000

    @property
    def t_last(self) -> int:
        """When the last of them ended."""
        return self.begin + self.time_us * 1000

    @property
    def counted(self) -> tuple[int, ...]:
        """The samples of each batch; 1, a step, where they are not known."""
        samples = 1 if self.samples is None else self.samples
        return (samples,) * len(self.dt_us) if isinstance(samples, int) else samples

    def counted_in(self, steps: bool) -> tuple[int, ...] | None:
        """Return 1 for each batch in steps, else its samples; None where these aren't known."""
        if steps:
            return (1,) * len(self.dt_us)
        return None if self.samples is None else self.counted


@record(frozen=True)
class BatchSummary:
    """Batches whose single times were not kept: too many, or the log too slow.

    Attributes:
        epoch: the epoch that they belong to, from 0.
        first: the index in the epoch of the first of them, from 0.
        count: how many batches there are.
        samples: the samples of all of them; null where that is not known.
        t: when the first of them ended.
        t_last: when the last of them ended.
        time_us: the time that they took together.
        step_us: the quantiles 0, 5, 25, 50, 75, 95 and 100 % of their durations.
        stalls: how many took over ten times the usual step.
        opening_us: as in `Batches`.
        first_us: the duration of the epoch's first batch, or of the execution that it is part of.
        first_steps: how many batches that execution holds.
        wait_us: as in `Batches`.
        updates: as in `Batches`.
        trainer: as in `Phase`.
        tokens: the tokens of all of them; absent as in `Batches`.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    count: int
    samples: int | None
    t: int
    t_last: int
    time_us: int
    step_us: tuple[int, ...]
    stalls: int | None = None
    opening_us: int | None = None
    first_us: int | None = None
    first_steps: int | None = None
    wait_us: int | None = None
    updates: int | None = None
    trainer: int | None = None
    tokens: int | None = None

    @property
    def begin(self) -> int:
        """When the first of them began."""
        return self.t_last - self.time_us * 1000

    def counted_in(self, steps: bool) -> int | None:
        """Return the batches in steps, else their samples; None where these aren't known."""
        return self.count if steps else self.samples


@record(frozen=True)
class Metrics:
    """What training reported of itself as a batch ended; at most once a second.

    Attributes:
        t: when it was read.
        values: such as loss and accuracy, by name: of Keras the means since the epoch began, of
            PyTorch the mean loss of the steps since the last record.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "metrics"
    t: int
    values: dict[str, float | None]
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class StepParts:
    """What some steps of PyTorch's went into, about four a second; at most once a second.

    Each is measured from one batch to the next that follows a step of the optimiser: on a GPU by
    its own events, so what it did and waited for, else by the clock. What is absent was not seen.

    Attributes:
        t: when the last of them ended.
        steps: how many batches they have.
        step_us: the time of all of them, of which the others are parts; what is left is the rest.
        wait_us: from asking the loader for a batch until it came; absent without a loader.
        copy_us: on a GPU, from then until the network began to compute.
        forward_us: until `backward` began, the loss included.
        backward_us: within `backward`.
        optimizer_us: in steps of optimisers, without what they call to go forward or backward.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "step_parts"
    t: int
    steps: int
    step_us: int
    wait_us: int | None = None
    copy_us: int | None = None
    forward_us: int | None = None
    backward_us: int | None = None
    optimizer_us: int | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def rest_us(self) -> int:
        """The time that is in none of the parts."""
        return self.step_us - sum(getattr(self, name) or 0 for name in STEP_PARTS)

    @property
    def is_mostly_rest(self) -> bool:
        """Is no part longer than the rest? Forward and backward are one part."""
        parts = {name: getattr(self, name) or 0 for name in STEP_PARTS}
        parts["forward_us"] += parts.pop("backward_us")
        return self.rest_us >= max(parts.values())

    def share(self, name: str) -> float | None:
        """Return a part of the step, 0 to 1, by its field; None where it is not known."""
        part_us: int | None = getattr(self, name)
        return None if part_us is None or not self.step_us else part_us / self.step_us

    def plus(self, other: StepParts) -> StepParts:
        """Return the sums of both, the later one `other`."""
        sums: dict[str, Any] = {}
        for name in ("steps", "step_us", *STEP_PARTS):
            known = [n for n in (getattr(self, name), getattr(other, name)) if n is not None]
            sums[name] = sum(known) if known else None
        return replace(other, **sums)


STEP_PARTS = ("wait_us", "copy_us", "forward_us", "backward_us", "optimizer_us")
"""The parts that are measured, in their order."""


@record(frozen=True)
class TokenShares:
    """How many tokens of a training batch mean something: of about one batch a second.

    Attributes:
        t: when the batch came.
        tokens: how many it holds, padding included.
        not_padding: how many of them its attention mask holds; null where that isn't known.
        trained_on: of how many its labels are no -100; null as above.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "token_shares"
    t: int
    tokens: int
    not_padding: int | None = None
    trained_on: int | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Validation:
    """The validation of an epoch: one pass, or several after each other.

    Attributes:
        begin: when it began.
        first_end: when its first batch ended.
        last_end: when its last batch ended.
        end: when it ended.
        steps: how many batches it has.
        first_steps: how many batches ended together first, where that is more than one.
        passes: the batches of each pass, where there are several.
        between_us: the time between several passes, in which the script did something else.
    """

    begin: int
    first_end: int
    last_end: int
    end: int
    steps: int
    first_steps: int | None = None
    passes: tuple[int, ...] | None = None
    between_us: int | None = None

    @property
    def count(self) -> int:
        return len(self.passes or (self.steps,))

    @property
    def took_s(self) -> float:
        return (self.end - self.begin) / 1e9 - (self.between_us or 0) / 1e6

    def followed_by(self, other: Validation) -> Validation:
        return replace(
            self,
            last_end=other.last_end,
            end=other.end,
            steps=self.steps + other.steps,
            passes=(*(self.passes or (self.steps,)), other.steps),
            between_us=(self.between_us or 0) + max(0, other.begin - self.end) // 1000,
        )


@record(frozen=True)
class Epoch:
    """One epoch, written when it ended.

    That of a script is written again where validation follows it; the last one counts.

    Attributes:
        epoch: its index, from 0.
        begin: when it began.
        train_end: when its last training batch ended; validation follows.
        end: when it ended.
        whole: false when it was cut short, or capped by `--steps`.
        samples: how many samples it trained on; null where that is not known.
        metrics: what its framework reports of it, such as loss and accuracy, by name; of PyTorch
            also the mean loss of all its steps.
        steps: how many training batches it had.
        validation: its validation, where it had one.
        updates: how many steps of an optimiser it had, where that is not one a batch.
        trainer: as in `Phase`.
        tokens: how many tokens it trained on, padding included; absent as in `Batches`.
    """

    TYPE: ClassVar[str] = "epoch"
    epoch: int
    begin: int
    train_end: int
    end: int
    whole: bool
    samples: int | None
    metrics: dict[str, float | None]
    steps: int | None = None
    validation: Validation | None = None
    updates: int | None = None
    trainer: int | None = None
    tokens: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Evaluation:
    """The pass over the test set after training.

    Attributes:
        begin: when it began.
        end: when it ended.
        steps: how many batches it had.
        samples: how many samples it read.
        whole: false when it was cut short.
        metrics: what Keras reports of it, such as loss and accuracy, by name.
        first_end: when its first batch ended.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "evaluation"
    begin: int
    end: int
    steps: int
    samples: int | None
    whole: bool
    metrics: dict[str, float | None]
    first_end: int | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)


WorkloadRecord = (
    Phase
    | NamedPause
    | Trainer
    | Model
    | Batches
    | BatchSummary
    | StepParts
    | Metrics
    | TokenShares
    | Epoch
    | Evaluation
)
"""What a workload reports of its training."""
