"""What a workload tells: its model, its phases, and the times of its batches and passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}

GRADIENTS_PHASE = "computing gradients"

PHASES = (
    "importing",
    "loading",
    "building",
    "compiling",
    "training",
    "validating",
    "evaluating",
    "predicting",
    GRADIENTS_PHASE,
    "opening",
    "closing",
)

WITHOUT_EPOCHS = {
    "gradients": "computing gradients has no epochs: no weight is updated",
    "inference": "inference has no epochs",
}
"""The modes in which nothing is learnt, and why a pass over the samples is no epoch there."""


@dataclass(frozen=True)
class Phase:
    """What the workload does from `t` on; one of `PHASES`, for a workload of ours.

    "opening" is the time before the first batch of a later epoch, and "closing" that after a
    pass, where these are long enough to be seen: the input pipeline is set up or taken down.
    `epoch` is the one that is opened.
    """

    TYPE: ClassVar[str] = "phase"
    t: int
    name: str
    epoch: int | None = None


@dataclass(frozen=True)
class Model:
    """What runs, as it was built. `steps_cap` is `--steps`, a cap per epoch.

    `extra_epochs` follow those that were asked for, so that training lasts as
    long as `--seconds` says; the record is told again as often as more, or
    fewer, turn out to be needed, and the last one counts.

    `mode` is train, gradients or inference; an epoch is one pass over the samples in
    the latter two, and `flops_per_sample` counts the passes of the mode. `precision` is
    Keras's dtype policy, and `jit` whether the step is compiled as a whole. A
    workload without epochs has 0 `samples_per_epoch`.
    """

    TYPE: ClassVar[str] = "model"
    parameters: int | None
    flops_per_sample: int | None
    batch_size: int
    samples_per_epoch: int
    steps_per_epoch: int
    epochs: int
    validation_steps: int | None = None
    validation_samples: int | None = None
    evaluation_steps: int | None = None
    steps_cap: int | None = None
    data: str | None = None
    device: str | None = None
    device_name: str | None = None
    backend: str | None = None
    backend_version: str | None = None
    keras_version: str | None = None
    mode: str | None = None
    precision: str | None = None
    jit: bool | None = None
    extra_epochs: int | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def epochs_in_all(self) -> int:
        """How many epochs there are to be, those for `--seconds` included."""
        return self.epochs + (self.extra_epochs or 0)

    @property
    def cut_short(self) -> bool:
        """Whether an epoch is less than a whole one, or the samples have no end."""
        endless = self.samples_per_epoch < 1
        return self.steps_cap is not None and (endless or self.steps_cap < self.steps_per_epoch)

    @property
    def why_no_epochs(self) -> str | None:
        """Why a pass over the samples is no epoch in this mode; None where it is one."""
        return WITHOUT_EPOCHS.get(self.mode or "")

    @property
    def gpu_index(self) -> int | None:
        """NVML's number of the GPU that is trained on (`device` is gpu:N); None on the CPU."""
        number = (self.device or "").removeprefix("gpu:")
        return int(number) if number.isascii() and number.isdecimal() else None


@dataclass(frozen=True)
class Batches:
    """Consecutive batches of one epoch.

    `t` is when the first of them ended and `dt_us` each one's duration: the
    time since the batch before it ended, or since the epoch began. `samples`
    is one number when all batches hold as many, else one for each.

    `opening_us` comes with the first batch of an epoch where the time before that batch is
    known apart, and is not in its duration then. `per_execution` is Keras's
    steps_per_execution above 1: so many batches end together and share their time equally.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    samples: int | tuple[int, ...]
    t: int
    dt_us: tuple[int, ...]
    opening_us: int | None = None
    per_execution: int | None = None


@dataclass(frozen=True)
class BatchSummary:
    """Batches whose single times were not kept: too many, or the log too slow.

    `t` and `t_last` are when the first and the last of them ended, `samples`
    is their sum, `time_us` the time that they took together, and `step_us`
    holds the quantiles 0, 5, 25, 50, 75, 95 and 100 % of their durations.

    `stalls` counts those that took over ten times the usual step. With the first batch of an
    epoch come `opening_us`, as in `Batches`, and `first_us`, that batch's own duration; of
    several batches an execution it is that of the execution, and `first_steps` is their number.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    count: int
    samples: int
    t: int
    t_last: int
    time_us: int
    step_us: tuple[int, ...]
    stalls: int | None = None
    opening_us: int | None = None
    first_us: int | None = None
    first_steps: int | None = None


@dataclass(frozen=True)
class Validation:
    """One validation pass: its first and last batch ended at these times.

    `first_steps` is how many batches ended together first, where that is more than one.
    """

    begin: int
    first_end: int
    last_end: int
    end: int
    steps: int
    first_steps: int | None = None


@dataclass(frozen=True)
class Epoch:
    """One epoch, told when it ended. `whole` is False when it was cut or capped."""

    TYPE: ClassVar[str] = "epoch"
    epoch: int
    begin: int
    train_end: int
    end: int
    whole: bool
    samples: int
    metrics: dict[str, float | None]
    steps: int | None = None
    validation: Validation | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """The pass over the test set after training; its first batch ended at `first_end`."""

    TYPE: ClassVar[str] = "evaluation"
    begin: int
    end: int
    steps: int
    samples: int
    whole: bool
    metrics: dict[str, float | None]
    first_end: int | None = None
    why: dict[str, str] = field(default_factory=dict)
