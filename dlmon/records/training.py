"""The records of a workload: its model, its phases, and the times of its batches and passes."""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

from dlmon.records.record import record
from dlmon.records.words import WITHOUT_EPOCHS

CHECKPOINT, COMPILE, GARBAGE = "checkpoint", "compile", "garbage"
"""The names of pauses."""


@record(frozen=True)
class Phase:
    """The start of a phase of the workload, at `t`.

    "opening" is the time before the first batch of a later epoch, and "closing" the time after a
    pass, if they are long enough to be seen: the input pipeline is set up or shut down.

    Attributes:
        name: one of `PHASES`.
        epoch: epoch that begins with "opening", from 0.
        trainer: number of the process that trains; absent for 0.
    """

    TYPE: ClassVar[str] = "phase"
    t: int
    name: str
    epoch: int | None = None
    trainer: int | None = None


@record(frozen=True)
class NamedPause:
    """A pause for a checkpoint, a compilation or garbage collection, written at its end.

    A compilation that goes on is also written each second, with its end so far. Pauses less than a
    hundredth of a second apart are merged. Pauses under 0.05 s are not written; after a thousand,
    only longer ones are.

    Attributes:
        t: its start.
        end: its end.
        name: checkpoint, compile or garbage.
        written_bytes: size of a checkpoint's files.
        folder: their folder.
        reason: the guard that failed, of a recompilation.
        graph_breaks: graph breaks during compilation.
        beside: true if training went on meanwhile.
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

    def contains(self, inner: NamedPause) -> bool:
        """Return whether `inner` lies within this pause; it has no trainer before training."""
        is_same_kind = (self.name, self.beside) == (inner.name, inner.beside)
        is_same_trainer = inner.trainer in (None, self.trainer)
        return is_same_kind and is_same_trainer and self.t <= inner.t and inner.end <= self.end


NUMBERS_PER_PART = 1000
"""The trainers of part N of a run are numbered from N times this on."""


@record(frozen=True)
class Trainer:
    """A process of a script that trains; written when it begins to train, and when it ends.

    Attributes:
        number: its number among those that train at the same time, from 0; used again after its
            end.
        pid: process id.
        framework: keras, tf_keras, torch, xgboost, lightgbm; or dlmon, if the script reports its
            batches.
        framework_version: its version.
        python: its interpreter's version.
        backend: Keras's: tensorflow, jax or torch.
        rank: its rank.
        world_size: number of ranks.
        ended: true once it has ended.
        host: its host, if another one.
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
    """The model and the plan of its training.

    Written again when `--seconds` needs more or fewer epochs; the last record counts.

    Attributes:
        parameters: weights and biases, trained or not.
        flops_per_sample: floating-point operations in this mode, counted by layer.
        batch_size: samples in a batch; null if a script's batches have no size.
        samples_per_epoch: samples in a whole epoch; 0 without epochs; null if unknown.
        steps_per_epoch: batches in it, or in a pass over the samples; null as above.
        epochs: requested ones, with those of a script's earlier loops; null as above.
        validation_steps: batches of a validation.
        validation_samples: its samples.
        evaluation_steps: batches of the final evaluation.
        steps_cap: `--steps`, the most batches of an epoch.
        data: real or synthetic.
        device: cpu, gpu:N by its number, or gpu:N+M.
        devices: devices that share each batch, if several.
        device_name: product's name, of the first.
        device_uuid: its uuid, by a script's framework; "amd:N" or "intel:N" for GPUs that it knows
            by number.
        backend: Keras's: tensorflow, jax or torch.
        backend_version: its version.
        keras_version: Keras's version.
        mode: train, gradients or inference; in the last two, an epoch is one pass over the samples.
        precision: Keras's dtype policy.
        jit: whether the whole step is compiled.
        extra_epochs: further epochs that `--seconds` needs.
        network: name of a script's model.
        loop: number of the script's loop that begins, from 0.
        first_epoch: its first epoch.
        workers: loader's worker processes.
        inferred: how the batch size was inferred, which may be wrong.
        has_epochs: false for a script's loop without a data set.
        steps: batches of a script's whole loop, without epochs.
        length_from: source of `epochs` or `steps` that the framework does not report; they may be
            wrong.
        trainer: as in `Phase`.
        optimizer: PyTorch's class.
        fused: whether it is fused into one kernel.
        pin_memory: whether PyTorch's loader pins memory.
        tokens_inferred: how tokens were inferred; they may be something else.
        sequence: tokens of each sample, if all have the same number, else a length that was seen.
        flops_per_token: operations for a token, forward and backward, without attention.
        attention_flops: attention's for each pair of tokens, by the window of the layers: a number
            of tokens, or `all`.
        recomputed_flops_per_token: further operations, recomputed in the backward pass; attention
            then takes a third more.
        flops_from: weights and attention, weights, or counted in a step.
        compute_precision: of a script's matrix products: float32, tf32, bfloat16, ...
        peak_flop_s: peak of one device in that precision.
        peak_from: measured, or the device's maker.
        threads: PyTorch's threads for an operation on the CPU.
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
    threads: int | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def epochs_in_all(self) -> int | None:
        """The planned number of epochs, with those for `--seconds`; None if unknown."""
        if self.epochs is not None:
            return self.epochs + (self.extra_epochs or 0)
        if self.steps is None or not self.steps_per_epoch or self.has_epochs is False:
            return None
        return (self.first_epoch or 0) - (-self.steps // self.steps_per_epoch)

    @property
    def cut_short(self) -> bool:
        """True if `--steps` ends an epoch before all samples are used, or they have no end."""
        if self.steps_cap is None or self.steps_per_epoch is None:
            return False
        endless = self.samples_per_epoch is not None and self.samples_per_epoch < 1
        return endless or self.steps_cap < self.steps_per_epoch

    @property
    def why_no_epochs(self) -> str | None:
        """Why a pass over the samples is no epoch in this mode; None if it is one."""
        return WITHOUT_EPOCHS.get(self.mode or "")

    @property
    def gpus(self) -> tuple[int, ...]:
        """NVML's numbers of the training GPUs; none on the CPU, or if unknown."""
        kind, _, text = (self.device or "").partition(":")
        numbers = text.split("+")
        is_valid = kind == "gpu" and all(n.isascii() and n.isdecimal() for n in numbers)
        return tuple(map(int, numbers)) if is_valid else ()


@record(frozen=True)
class Batches:
    """Consecutive batches of one epoch.

    Attributes:
        epoch: its number, from 0.
        first: index of the first batch in the epoch, from 0.
        samples: of each batch: one number if all have the same, else a list.
        t: end of the first batch.
        dt_us: duration of each batch: since the end of the one before, or the start of the epoch.
        opening_us: time before an epoch's first batch, not in `dt_us`.
        per_execution: Keras's steps_per_execution if above 1: that many batches end together and
            share their time equally.
        wait_us: time that all batches waited for data.
        updates: batches that ended with an optimizer step, if not all did.
        trainer: as in `Phase`.
        profiled: true if a profiler watched them; no figure includes them.
        tokens: of each batch, with padding, in the form of `samples`; absent if one is unknown.
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
        return len(self.dt_us)

    @property
    def time_us(self) -> int:
        return sum(self.dt_us)

    @property
    def begin(self) -> int:
        return self.t - self.dt_us[0] * 1000

    @property
    def t_last(self) -> int:
        """The end of the last batch."""
        return self.begin + self.time_us * 1000

    @property
    def counted(self) -> tuple[int, ...]:
        """The samples of each batch; 1, for a step, if unknown."""
        samples = 1 if self.samples is None else self.samples
        return (samples,) * len(self.dt_us) if isinstance(samples, int) else samples

    def counted_in(self, steps: bool) -> tuple[int, ...] | None:
        """Return 1 for each batch if `steps`, else its samples; None if unknown."""
        if steps:
            return (1,) * len(self.dt_us)
        return None if self.samples is None else self.counted


@record(frozen=True)
class BatchSummary:
    """A summary of batches, without their single times: there are too many, or the log is too slow.

    Attributes:
        epoch: as in `Batches`.
        first: as in `Batches`.
        count: its batches.
        samples: of all batches.
        t: end of the first batch.
        t_last: end of the last batch.
        time_us: of all batches.
        step_us: quantiles 0, 5, 25, 50, 75, 95 and 100 % of their durations.
        stalls: batches that took over ten times the usual step.
        opening_us: as in `Batches`.
        first_us: duration of the epoch's first batch or execution.
        first_steps: batches in that execution.
        wait_us: as in `Batches`.
        updates: as in `Batches`.
        trainer: as in `Phase`.
        tokens: of all batches.
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
        return self.t_last - self.time_us * 1000

    def counted_in(self, steps: bool) -> int | None:
        """Return the number of batches if `steps`, else their samples; None if unknown."""
        return self.count if steps else self.samples


@record(frozen=True)
class Metrics:
    """The metrics at the end of a batch; at most once a second.

    Attributes:
        t: time of reading.
        values: loss, accuracy and others: with Keras means since the start of the epoch, with
            PyTorch the mean loss since the last record.
        trainer: as in `Phase`.
    """

    TYPE: ClassVar[str] = "metrics"
    t: int
    values: dict[str, float | None]
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class StepParts:
    """The parts of some PyTorch steps, about four a second; written at most once a second.

    A step is measured from one batch to the next that follows an optimizer step: on a GPU by CUDA
    events, else by the clock. A part that was not seen is absent.

    Attributes:
        t: end of the last step.
        steps: its batches.
        step_us: of all steps: the parts below and the rest.
        wait_us: from the request for a batch until the loader returned it.
        copy_us: on a GPU, from then until the network began to compute.
        forward_us: until `backward` began, with the loss.
        backward_us: in `backward`, without collective operations.
        optimizer_us: in optimizer steps, without passes that they call.
        collective_us: collective operations, such as an all-reduce, with waits for other ranks;
            absent if none was seen.
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
    collective_us: int | None = None
    trainer: int | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def rest_us(self) -> int:
        """The time outside of all parts."""
        return self.step_us - sum(getattr(self, name) or 0 for name in STEP_PARTS)

    @property
    def parts_with_waits(self) -> tuple[str, ...]:
        """The parts in which a rank may wait for others: if seen, collective operations alone."""
        is_unseen = self.collective_us is None
        return ("backward_us", "optimizer_us") if is_unseen else ("collective_us",)

    @property
    def is_mostly_rest(self) -> bool:
        """True if no part is longer than the rest, with forward and backward as one part."""
        parts = {name: getattr(self, name) or 0 for name in STEP_PARTS}
        parts["forward_us"] += parts.pop("backward_us")
        return self.rest_us >= max(parts.values())

    def share(self, name: str) -> float | None:
        """Return the share of a part in the step, 0 to 1, by the name of its field."""
        part_us: int | None = getattr(self, name)
        return None if part_us is None or not self.step_us else part_us / self.step_us


STEP_PARTS = (
    *("wait_us", "copy_us", "forward_us", "backward_us"),
    *("optimizer_us", "collective_us"),
)
"""The parts of a step, in order."""
WAITS = "waits"
"""The name of the waiting for other ranks, which stands beside these parts."""


@record(frozen=True)
class TokenShares:
    """The shares of padding and labels in the tokens of a training batch; about one batch a second.

    Attributes:
        t: arrival of the batch.
        tokens: its tokens, with padding.
        not_padding: tokens in its attention mask.
        trained_on: labels that are not -100.
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
    """The validation of an epoch: one pass, or several in a row.

    Attributes:
        begin: its start.
        first_end: end of its first batch.
        last_end: end of its last batch.
        end: its end.
        steps: its batches.
        first_steps: batches that ended together at `first_end`, if several.
        passes: batches of each pass, if several.
        between_us: time between passes, in which the script did something else.
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

    def followed_by(self, later: Validation) -> Validation:
        return replace(
            self,
            last_end=later.last_end,
            end=later.end,
            steps=self.steps + later.steps,
            passes=(*(self.passes or (self.steps,)), later.steps),
            between_us=(self.between_us or 0) + max(0, later.begin - self.end) // 1000,
        )


@record(frozen=True)
class Epoch:
    """One epoch, written at its end.

    A script's epoch is written again if validation follows it; the last record counts.

    Attributes:
        epoch: its number, from 0.
        begin: its start.
        train_end: end of its last training batch, before validation.
        end: its end.
        whole: false if cut short, or limited by `--steps`.
        samples: samples that it trained on.
        metrics: loss, accuracy and others; with PyTorch also the mean loss of all steps.
        steps: training batches.
        validation: its validation, if any.
        updates: optimizer steps, if not one per batch.
        trainer: as in `Phase`.
        tokens: tokens that it trained on, with padding.
        profiled: true if a profiler watched some steps; no figure of speed includes it.
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
    profiled: bool | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """True if its time counts: it is whole, and no profiler slowed it."""
        return self.whole and not self.profiled and self.end > self.begin


@record(frozen=True)
class Evaluation:
    """The evaluation after training: a pass over the test set.

    Attributes:
        begin: its start.
        end: its end.
        steps: its batches.
        samples: its samples.
        whole: false if cut short.
        metrics: loss, accuracy and others.
        first_end: end of its first batch.
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
"""The records that a workload sends."""
