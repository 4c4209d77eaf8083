"""The work behind a time, and the differences between the work of two times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from dlmon.records.record import record
from dlmon.records.words import number_text

# Not imported at run time: a screen of a machine needs no header.
if TYPE_CHECKING:
    from dlmon.records import MachineFacts, SessionHeader

# The vocabulary, and so the network's size, follows from the training text.
SIZED_BY_DATA = frozenset({"imdb-fasttext"})
VOCABULARY_ESTIMATED = "vocabulary estimated"

# Of all cores together: on two cores, 0.4 of a core.
BUSY_CPU_PCT = 20
# Runnable processes per core; the load average lags by a minute, hence the wider margin.
BUSY_LOAD_PER_CORE = 0.5


@record(frozen=True)
class Conditions:
    """The conditions of a timed run; a None is unknown, and equals nothing.

    Attributes:
        samples: training samples of a whole epoch, before any cap.
        epochs: of the whole run; only `run_seconds` depends on it.
        data: "real" or "synthetic". Synthetic data has the real shapes, so it
            matters only if the network's size follows from the data.
        steps_cap: `--steps`; here None means that there is no cap.
        devices: the number of devices that share each batch.
        command: the words of a script's command; None for a workload. A field that is unknown
            for two scripts counts as equal.
    """

    workload: str
    batch_size: int | None = None
    samples: int | None = None
    epochs: int | None = None
    precision: str | None = "float32"
    mode: str | None = "train"
    data: str | None = None
    steps_cap: int | None = None
    devices: int | None = 1
    command: tuple[str, ...] | None = None


def with_defaults(conditions: Conditions, defaults: Conditions) -> Conditions:
    """Return conditions with the workload's defaults for fields that are None.

    Samples have no default for real data: the run may have read only some of it.
    """
    names = ["batch_size", "epochs", "precision", "mode"]
    names += [] if conditions.data == "real" else ["samples"]
    lacking = {name: getattr(defaults, name) for name in names if getattr(conditions, name) is None}
    return replace(conditions, **lacking)


def busy_at_start(machine: MachineFacts, device: str | None = None) -> str | None:
    """Describe the load of a machine before a run; None if it was idle.

    The load average counts only if utilization was not measured. Processes on a GPU don't disturb
    a run on the CPU.
    """
    causes = []
    if (machine.cpu_pct or 0) >= BUSY_CPU_PCT:
        causes.append(f"CPU {machine.cpu_pct:.0f} %")
    load_per_core = (machine.load_1m or 0) / (machine.cores or math.inf)
    if machine.cores and machine.cpu_pct is None and load_per_core >= BUSY_LOAD_PER_CORE:
        causes.append(f"load {machine.load_1m:.1f} on {cores(machine.cores)}")
    processes = machine.foreign_gpu_processes
    if processes and device != "cpu":
        causes.append(f"{processes} other GPU process{'es' if processes > 1 else ''}")
    return f"machine was busy at the start: {', '.join(causes)}" if causes else None


def cores(count: float) -> str:
    """Write a number of cores: 1 core, 1.5 cores, 16 cores."""
    text = number_text(count)
    return f"{text} core{'' if text == '1' else 's'}"


def find_differences(metric: str, theirs: Conditions, ours: Conditions) -> tuple[str, ...]:
    """Return the reasons why a time under `theirs` doesn't compare with one under `ours`."""

    def differs(field: str, wording: str) -> str | None:
        values = getattr(theirs, field), getattr(ours, field)
        if values == (None, None) and ours.command is not None:
            return None
        if None in values:
            return f"{field.replace('_', ' ')} not known"
        return wording.format(*values) if values[0] != values[1] else None

    differences = [
        differs("batch_size", "batch {}, not {}"),
        differs("precision", "{}, not {}"),
        differs("mode", "mode {}, not {}"),
    ]
    if theirs.devices != ours.devices:
        devices = "device" if theirs.devices == 1 else "devices"
        differences.append(
            f"{theirs.devices or 'unknown'} {devices}, not {ours.devices or 'unknown'}"
        )
    if metric in ("seconds_per_epoch", "run_seconds"):
        if not _same_samples(theirs, ours):
            differences.append(differs("samples", "{:,} samples, not {:,}"))
        if theirs.steps_cap != ours.steps_cap:
            steps, our_steps = theirs.steps_cap or "all", ours.steps_cap or "all"
            differences.append(f"{steps} steps per epoch, not {our_steps}")
    if metric == "run_seconds":
        epochs = "epoch" if theirs.epochs == 1 else "epochs"
        differences.append(differs("epochs", f"{{}} {epochs}, not {{}}"))
    if theirs.workload in SIZED_BY_DATA and (theirs.data is None or theirs.data != ours.data):
        vocabularies = {"synthetic": VOCABULARY_ESTIMATED, "real": "vocabulary of the real data"}
        differences.append(vocabularies.get(theirs.data or "", "vocabulary not known"))
    return tuple(difference for difference in differences if difference)


def _same_samples(theirs: Conditions, ours: Conditions) -> bool:
    """Return whether epochs are equally long; a dropped short last batch makes no difference."""
    if theirs.samples is None or ours.samples is None:
        return False
    batch_size = max(theirs.batch_size or 1, ours.batch_size or 1)
    return abs(theirs.samples - ours.samples) < batch_size


def is_capped(conditions: Conditions) -> bool:
    """Return whether `--steps` is less than an epoch, as far as known."""
    if conditions.steps_cap is None:
        return False
    if conditions.batch_size is None or conditions.samples is None:
        return True
    return conditions.steps_cap * conditions.batch_size < conditions.samples


# ---- whether the first batch compiles ----

# PyTorch doesn't compile by default, tree libraries never do, and a script that reports its steps
# itself may use anything.
_WITHOUT_COMPILATION = ("torch", "xgboost", "lightgbm", "dlmon")


def compiles(frameworks: Iterable[str], backend: object, jit: object) -> bool:
    """Return whether a first batch compiles, as far as known.

    Args:
        frameworks: the frameworks that a script's batches were counted in.
        backend: the backend of Keras.
        jit: whether Keras compiles the whole step.
    """
    if any(framework in _WITHOUT_COMPILATION for framework in frameworks):
        return False
    return backend != "torch" or jit in (True, "on")


def first_batch_compiled(header: SessionHeader) -> bool:
    """Return whether the first batch of a recorded workload compiled; False for a script."""
    return not header.is_script and compiles(
        (), header.versions.get("backend"), header.options.get("jit")
    )
