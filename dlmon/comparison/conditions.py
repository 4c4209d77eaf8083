"""The work behind a time, and how that of two times differs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from dlmon.records.record import record

# Who watches a machine needs no header.
if TYPE_CHECKING:
    from dlmon.records import MachineFacts, SessionHeader

# Their vocabulary, and so their size, follows from the training text.
SIZED_BY_DATA = frozenset({"imdb-fasttext"})
VOCABULARY_ESTIMATED = "vocabulary estimated"

# Of the whole machine: on two cores, less than half of one.
BUSY_CPU_PCT = 20
# Runnable processes a core; the load average lags by a minute, hence the wider margin.
BUSY_LOAD_PER_CORE = 0.5


@record(frozen=True)
class Conditions:
    """The conditions of a timed run; a None is unknown, and equals nothing.

    Attributes:
        samples: training samples of a whole epoch, before any cap.
        epochs: of the whole run; only `run_seconds` depends on it.
        data: "real" or "synthetic". Synthetic data has the real shapes, so it
            matters only where the network's size follows from the data.
        steps_cap: `--steps`; here None means that there is no cap.
        devices: how many devices share each batch.
        command: the words of a script's command; None of a workload. What is not known of two
            scripts is taken to be alike: one was seen to do the same the last time.
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
    """Return conditions with the workload's own for what a run doesn't say.

    The samples are those of the data that it read; an older log has them only for synthetic data,
    which are always whole.
    """
    names = ["batch_size", "epochs", "precision", "mode"]
    names += [] if conditions.data == "real" else ["samples"]
    lacking = {name: getattr(defaults, name) for name in names if getattr(conditions, name) is None}
    return replace(conditions, **lacking)


def busy_at_start(machine: MachineFacts, device: str | None = None) -> str | None:
    """Say in words what else kept a machine busy before a run, None when nothing did.

    The load average counts only where utilisation was not measured. Processes
    on a GPU don't disturb a run on the CPU.
    """
    found = []
    if (machine.cpu_pct or 0) >= BUSY_CPU_PCT:
        found.append(f"CPU {machine.cpu_pct:.0f} %")
    load_per_core = (machine.load_1m or 0) / (machine.cores or math.inf)
    if machine.cores and machine.cpu_pct is None and load_per_core >= BUSY_LOAD_PER_CORE:
        found.append(f"load {machine.load_1m:.1f} on {cores(machine.cores)}")
    others = machine.foreign_gpu_processes
    if others and device != "cpu":
        found.append(f"{others} other GPU process{'es' if others > 1 else ''}")
    return f"machine was busy at the start: {', '.join(found)}" if found else None


def cores(count: float) -> str:
    """Write how many cores there are, or may be used: 1 core, 1.5 cores, 16 cores."""
    text = f"{count:,.0f}" if count >= 99.95 else f"{count:.3g}"
    return f"{text} core{'' if text == '1' else 's'}"


def find_differences(metric: str, theirs: Conditions, ours: Conditions) -> tuple[str, ...]:
    """Say in words why a time taken under `theirs` doesn't compare with one under `ours`."""

    def differs(field: str, wording: str) -> str | None:
        values = getattr(theirs, field), getattr(ours, field)
        if values == (None, None) and ours.command is not None:
            return None
        if None in values:
            return f"{field.replace('_', ' ')} not known"
        return wording.format(*values) if values[0] != values[1] else None

    found = [
        differs("batch_size", "batch {}, not {}"),
        differs("precision", "{}, not {}"),
        differs("mode", "mode {}, not {}"),
    ]
    if theirs.devices != ours.devices:
        devices = "device" if theirs.devices == 1 else "devices"
        found.append(f"{theirs.devices or 'unknown'} {devices}, not {ours.devices or 'unknown'}")
    if metric in ("seconds_per_epoch", "run_seconds"):
        if not _same_samples(theirs, ours):
            found.append(differs("samples", "{:,} samples, not {:,}"))
        if theirs.steps_cap != ours.steps_cap:
            steps, our_steps = theirs.steps_cap or "all", ours.steps_cap or "all"
            found.append(f"{steps} steps per epoch, not {our_steps}")
    if metric == "run_seconds":
        epochs = "epoch" if theirs.epochs == 1 else "epochs"
        found.append(differs("epochs", f"{{}} {epochs}, not {{}}"))
    if theirs.workload in SIZED_BY_DATA and (theirs.data is None or theirs.data != ours.data):
        vocabularies = {"synthetic": VOCABULARY_ESTIMATED, "real": "vocabulary of the real data"}
        found.append(vocabularies.get(theirs.data or "", "vocabulary not known"))
    return tuple(difference for difference in found if difference)


def _same_samples(theirs: Conditions, ours: Conditions) -> bool:
    """Return whether epochs are as long: a dropped short last batch makes no difference."""
    if theirs.samples is None or ours.samples is None:
        return False
    batch_size = max(theirs.batch_size or 1, ours.batch_size or 1)
    return abs(theirs.samples - ours.samples) < batch_size


def is_capped(conditions: Conditions) -> bool:
    """Return whether `--steps` cuts an epoch short; one beyond its length doesn't."""
    if conditions.steps_cap is None:
        return False
    if conditions.batch_size is None or conditions.samples is None:
        return True
    return conditions.steps_cap * conditions.batch_size < conditions.samples


# ---- whether the first batch compiles ----

# PyTorch computes step by step unless a script asks for more, trees are not compiled, and what
# reports its steps itself may be anything.
_NOT_KNOWN_TO = ("torch", "xgboost", "lightgbm", "dlmon")


def compiles(frameworks: Iterable[str], backend: object, jit: object) -> bool:
    """Return whether a first batch compiles, as far as that is known.

    Args:
        frameworks: what counts the batches of a script.
        backend: what Keras runs on.
        jit: whether its step is compiled as a whole.
    """
    if any(framework in _NOT_KNOWN_TO for framework in frameworks):
        return False
    return backend != "torch" or jit in (True, "on")


def compiled_by(header: SessionHeader) -> bool:
    """Return the same of a recorded run, by its header: a script's framework is not in that."""
    return not header.is_script and compiles(
        (), header.versions.get("backend"), header.options.get("jit")
    )
