"""The closed sets of words in records: statuses, states, kinds of failure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
"""What the frameworks that Keras runs on are called."""
ONE_ON_TORCH = (
    "with the backend torch, Keras trains on one device: run a script of your own on several, "
    "dlmon exec -- torchrun --nproc-per-node N train.py"
)
"""Why a workload can't be divided among devices with PyTorch."""
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
"""What all are called that a script may train with."""

GRADIENTS_PHASE = "computing gradients"
SCRIPT_PHASE = "outside training"
"""What a script of a person's own does before, between and after its loops."""

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
"""The modes in which nothing is learnt, and why a pass over the samples is no epoch there."""


class Word(str, Enum):
    """One of a few words; a `StrEnum`, which Python 3.10 lacks."""

    __str__ = str.__str__


class OpenWord(Word):
    """One of words of which a newer version may have more: those are taken as "unknown"."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls("unknown")


class Status(OpenWord):
    """How a session, or a sweep, stands."""

    QUEUED = "queued"
    """Slurm has yet to start it."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class StopCause(OpenWord):
    """Who, or what, had a session stop."""

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
    """Of its job of Slurm's, as are the next three."""
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RunStatus(OpenWord):
    """How a run of a sweep stands; one that was stopped or interrupted is not run."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    IMPOSSIBLE = "impossible"
    NOT_RUN = "not run"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Requirement(OpenWord):
    """What a figure of a run requires."""

    MODEL = "model"
    """It was not built."""
    STEADY_STATE = "steady_state"
    UNKNOWN = "unknown"


class GpuState(OpenWord):
    """Whether a GPU answers, or all of them; else why not."""

    ANSWERS = "answers"
    ASLEEP = "asleep"
    IDLE = "idle"
    """Left alone, so that it can fall asleep."""
    LOST = "lost"
    """It answered before, and may come back."""
    NO_DRIVER = "no_driver"
    NO_PACKAGE = "no_package"
    VERSIONS_DIFFER = "versions_differ"
    """Of the driver and its library."""
    UNKNOWN = "unknown"

    @property
    def is_gone(self) -> bool:
        """Whether nothing is known of what it does meanwhile."""
        return self not in (GpuState.ANSWERS, GpuState.ASLEEP, GpuState.IDLE)

    @property
    def may_answer_later(self) -> bool:
        """Whether another try may reach it."""
        return self in (GpuState.LOST, GpuState.ASLEEP)


class FailureKind(OpenWord):
    """What made a run fail."""

    REFUSED = "refused"
    OUT_OF_MEMORY = "out_of_memory"
    EXCEPTION = "exception"
    KILLED = "killed"
    SIGNAL = "signal"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"


class AccountPart(OpenWord):
    """What a part of a session's wall time went into, in the order in which they are listed."""

    STARTUP = "startup"
    """Of the interpreter, with the imports; of a script, all before it first trains."""
    LOADING = "loading"
    BUILDING = "building"
    COMPILING = "compiling"
    TRAINING = "training"
    """Steps; in a mode that trains nothing, those of its passes."""
    STALLS = "stalls"
    """What steps took beyond the usual one where they took over ten times as long."""
    BETWEEN_STEPS = "between_steps"
    """The same of those that come every so many steps, as with an evaluation."""
    OPENINGS = "openings"
    """Of epochs after the first."""
    DATA_WAIT = "data_wait"
    VALIDATION = "validation"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    """Saving, wherever that was."""
    GARBAGE = "garbage"
    """Python collected garbage, for over 0.05 s at once."""
    GAPS = "gaps"
    """In which nothing ran, between passes."""
    CLOSING = "closing"
    SCRIPT = "script"
    """A script's own code, between the loops that train and after them."""
    UNKNOWN = "unknown"


class Doubt(OpenWord):
    """Why a figure may say less than it seems to."""

    TOO_SHORT = "too_short"
    NOT_STEADY = "not_steady"
    """The throughput drifts through the run by more than its band."""
    STALLS = "stalls"
    THROTTLED = "throttled"
    GPU_SHARED = "gpu_shared"
    CPU_SHARED = "cpu_shared"
    BUSY_AT_START = "busy_at_start"
    ON_BATTERY = "on_battery"
    STEAL = "steal"
    INFERRED_SAMPLES = "inferred_samples"
    UNKNOWN = "unknown"


class AlertEvent(OpenWord):
    """What a person is told who isn't looking."""

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
    """Of a GPU: what is held grows, and would be full before the end."""
    UNKNOWN = "unknown"


def gpu_name(numbers: Sequence[int]) -> str:
    """Name GPUs by NVML's numbers: GPU 0, GPUs 0 and 1, GPUs 0 to 7."""
    *others, last = numbers
    if not others:
        return f"GPU {last}"
    if len(others) > 1 and list(numbers) == list(range(others[0], last + 1)):
        return f"GPUs {others[0]} to {last}"
    return f"GPUs {', '.join(map(str, others))} and {last}"
