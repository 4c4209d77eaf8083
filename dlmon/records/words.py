"""The enumerated words in records, such as statuses, states and kinds of failure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
"""The names of Keras's backends."""
ONE_DEVICE_WITH_TORCH = (
    "with the backend torch, Keras trains on one device: run a script of your own on several, "
    "dlmon exec -- torchrun --nproc-per-node N train.py"
)
"""Why a workload can't use several devices with PyTorch."""
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
"""The names of the vendors of GPUs."""
FRAMEWORKS = {
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "pytorch_lightning": "Lightning",
    "transformers": "Transformers",
    "torch": "PyTorch",
    "keras": "Keras",
    "tf_keras": "tf-keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
}
"""The names of the frameworks that a script may train with."""

SAMPLES_PER_S, STEPS_PER_S, TOKENS_PER_S = "samples/s", "steps/s", "tokens/s"
GRADIENTS_PHASE = "computing gradients"
SCRIPT_PHASE = "outside training"
"""The phase of a script before, between and after its loops."""

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
    SCRIPT_PHASE,
)

WITHOUT_EPOCHS = {
    "gradients": "computing gradients has no epochs: no weight is updated",
    "inference": "inference has no epochs",
}
"""The modes without training, and why a pass over the samples is no epoch in them."""


class Word(str, Enum):
    """A `StrEnum`, which Python 3.10 lacks."""

    __str__ = str.__str__


class OpenWord(Word):
    """An enumeration that newer versions may extend: it reads other words as "unknown"."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls("unknown")


class Status(OpenWord):
    """The status of a session or a sweep."""

    QUEUED = "queued"
    """Waiting for Slurm to start it."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class StandardInput(OpenWord):
    """The kind of a script's standard input."""

    TERMINAL = "terminal"
    """A person can answer there."""
    NONE = "none"
    """It is empty: the live screen has the keyboard, or nobody watches."""
    OTHER = "other"
    """A pipe or a file."""
    UNKNOWN = "unknown"


class StopCause(OpenWord):
    """The cause of a session's stop."""

    LIVE_SCREEN = "live_screen"
    OTHER_SCREEN = "other_screen"
    CTRL_C = "ctrl_c"
    COMMAND = "command"
    SWEEP = "sweep"
    TERMINAL_CLOSED = "terminal_closed"
    VIEWER_TERMINATED = "viewer_terminated"
    VIEWER_GONE = "viewer_gone"
    SIGNAL = "signal"
    TIME_LIMIT = "time_limit"
    """By Slurm, as are the next three."""
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RunStatus(OpenWord):
    """The status of a run of a sweep; a run that was stopped or interrupted is not run."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    IMPOSSIBLE = "impossible"
    NOT_RUN = "not run"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Requirement(OpenWord):
    """A requirement of a figure that the run did not meet."""

    MODEL = "model"
    """The model was not built."""
    STEADY_STATE = "steady_state"
    UNKNOWN = "unknown"


class GpuState(OpenWord):
    """The state of a GPU, or of all of them."""

    ANSWERS = "answers"
    ASLEEP = "asleep"
    IDLE = "idle"
    """Not queried, so that it can fall asleep."""
    LOST = "lost"
    """It answered before, and may come back."""
    NO_DRIVER = "no_driver"
    NO_PACKAGE = "no_package"
    VERSIONS_DIFFER = "versions_differ"
    """The driver and its library differ in version."""
    UNKNOWN = "unknown"

    @property
    def is_gone(self) -> bool:
        """True if its activity is unknown."""
        return self not in (GpuState.ANSWERS, GpuState.ASLEEP, GpuState.IDLE)

    @property
    def may_answer_later(self) -> bool:
        return self in (GpuState.LOST, GpuState.ASLEEP)


class FailureKind(OpenWord):
    """The cause of a run's failure."""

    REFUSED = "refused"
    OUT_OF_MEMORY = "out_of_memory"
    EXCEPTION = "exception"
    KILLED = "killed"
    SIGNAL = "signal"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"


class TimePart(OpenWord):
    """A part of a session's time breakdown, in display order."""

    STARTUP = "startup"
    """The interpreter and imports; for a script, all the time before it first trains."""
    LOADING = "loading"
    BUILDING = "building"
    COMPILING = "compiling"
    TRAINING = "training"
    """Steps; in a mode without training, the steps of its passes."""
    STALLS = "stalls"
    """The extra time of steps that took over ten times the usual step."""
    BETWEEN_STEPS = "between_steps"
    """The extra time of steps that regularly take long, as with an evaluation."""
    OPENINGS = "openings"
    """The starts of epochs after the first."""
    DATA_WAIT = "data_wait"
    VALIDATION = "validation"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    """Saving, in whatever phase."""
    GARBAGE = "garbage"
    """Garbage collections of over 0.05 s."""
    GAPS = "gaps"
    """Idle time between passes."""
    CLOSING = "closing"
    SCRIPT = "script"
    """A script's own code, between its training loops and after them."""
    UNKNOWN = "unknown"


class Doubt(OpenWord):
    """A warning about a result: its figures may be unreliable."""

    TOO_SHORT = "too_short"
    NOT_STEADY = "not_steady"
    """The throughput drifts by more than its band."""
    STALLS = "stalls"
    THROTTLED = "throttled"
    GPU_SHARED = "gpu_shared"
    CPU_SHARED = "cpu_shared"
    BUSY_AT_START = "busy_at_start"
    ON_BATTERY = "on_battery"
    STEAL = "steal"
    INFERRED_SAMPLES = "inferred_samples"
    NAN_LOSS = "nan_loss"
    """The newest training loss is NaN or infinite."""
    UNKNOWN = "unknown"


class AlertEvent(OpenWord):
    """The event of an alert."""

    FINISHED = "finished"
    FAILED = "failed"
    NAN = "nan"
    STALLED = "stalled"
    SLOWER = "slower"
    GPU_IDLE = "gpu_idle"
    GPU_LOST = "gpu_lost"
    GPU_HOT = "gpu_hot"
    GPU_ERROR = "gpu_error"
    DISK = "disk"
    HOST_LOST = "host_lost"
    MEMORY = "memory"
    """GPU memory grows, and would be full before the end."""
    UNKNOWN = "unknown"


def gpu_name(numbers: Sequence[int]) -> str:
    """Name GPUs by NVML's numbers: GPU 0, GPUs 0 and 1, GPUs 0 to 7."""
    *before, last = numbers
    if not before:
        return f"GPU {last}"
    if len(before) > 1 and list(numbers) == list(range(before[0], last + 1)):
        return f"GPUs {before[0]} to {last}"
    return f"GPUs {', '.join(map(str, before))} and {last}"


def number_text(value: float) -> str:
    """Write a number in three digits, or all digits before its point: 1.2, 85, 12,346."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def memory_amount(mib: float) -> str:
    """Write an amount of memory: 640 MiB, 2.0 GiB."""
    return f"{mib:,.0f} MiB" if mib < 1023.5 else f"{mib / 1024:,.1f} GiB"
