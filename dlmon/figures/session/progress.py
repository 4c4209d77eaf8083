"""How far a session has come, and what it waits for, in words."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import epoch_word, trainers_text, unusual_settings
from dlmon.figures.session.framework_memory import against_failure
from dlmon.figures.session.phases import overdue_text, phase_text
from dlmon.figures.session.time_breakdown import gap_of_session
from dlmon.records import FRAMEWORKS, SCRIPT_PHASE, FailureKind, Status
from dlmon.session.limits.run_samples import MIN_SAMPLES
from dlmon.session.reasons import (
    NOTHING_SEEN,
    NOTHING_SEEN_YET,
    STEADY_TAKES,
    TOO_SHORT,
    WATCHED,
    WATCHED_TOO,
)
from dlmon.session.snapshot import Progress, Snapshot
from workloads.catalog import WORKLOADS


def _script_framework(snapshot: Snapshot) -> str:
    """Name what counts the batches of a script, and what that runs on, with their versions."""
    if not snapshot.header.is_script or not snapshot.trainers:
        return ""
    trainer = snapshot.trainers[0].trainer
    name = {"dlmon": "reported by the script", **FRAMEWORKS}.get(
        trainer.framework, trainer.framework
    )
    text = f"{name} {trainer.framework_version or ''}".rstrip()
    if trainer.backend is None:
        return text
    model = snapshot.model
    version = model.backend_version if model is not None else None
    return f"{text} on {FRAMEWORKS.get(trainer.backend, trainer.backend)} {version or ''}".rstrip()


def settings_of(snapshot: Snapshot) -> list[str]:
    """Return how it is trained, what matters most first."""
    header, model = snapshot.header, snapshot.model
    workload = WORKLOADS.get(header.workload)
    batch_size = model.batch_size if model else header.options.get("batch_size")
    steps = header.options.get("steps")
    precision = header.options.get("precision") or (workload.precision if workload else None)
    unusual = unusual_settings(header.options)
    settings = (
        trainers_text(snapshot).partition(",")[0],
        _script_framework(snapshot),
        *unusual,
        f"batch {batch_size}" if batch_size else "",
        f"{steps} steps" if steps else "",
        f"{model.data} data" if model is not None and model.data else "",
        f"{precision}" if precision and precision not in unusual else "",
    )
    return [text for text in settings if text]


WAITING = "waiting for the first batch"

_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}


def sees_nothing(snapshot: Snapshot) -> bool:
    """Return whether no training was seen in a script."""
    return snapshot.header.is_script and snapshot.model is None


def failure_text(snapshot: Snapshot) -> str | None:
    """Return why a run failed; None where it didn't."""
    result = snapshot.result
    if result is None or result.status != Status.FAILED:
        return None
    return (result.error or "").strip() or "no reason was recorded"


def why_nothing_trained(snapshot: Snapshot) -> str | None:
    """Return why no training was seen in a script that is over; None where there was some."""
    if snapshot.result is None or not sees_nothing(snapshot):
        return None
    return snapshot.result.why.get("samples_per_second")


def try_or_output(snapshot: Snapshot) -> tuple[str, str]:
    """Return what to try; of a failure that is but an exit code, what was printed last."""
    result, model = snapshot.result, snapshot.model
    if result is None or result.failure in _SAYS_WHY:
        return "", ""
    if result.failure == FailureKind.OUT_OF_MEMORY:
        batch_size = model.batch_size if model is not None else None
        smaller = "use a smaller batch" if (batch_size or 0) > 1 else ""
        return "Try", against_failure(snapshot) or smaller
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # A script's own exception is in the reason already.
    return "Output", "" if last in (result.error or "") else last


def waiting_texts(snapshot: Snapshot, over: bool) -> tuple[str, ...]:
    """Say what the answer waits for, or why there is none."""
    if sees_nothing(snapshot):
        return NOTHING_SEEN if over else WAITING, f"{WATCHED}, {WATCHED_TOO}"
    if snapshot.overdue_s is not None and not over:
        return overdue_text(snapshot.overdue_s), "what held before is not said of now"
    if snapshot.samples_per_second is not None:
        few = "too few readings of the machine in steady training"
        return few, f"at least {MIN_SAMPLES} are needed"
    if not over:
        return "shown once training is steady", STEADY_TAKES
    if snapshot.batches:
        return TOO_SHORT, STEADY_TAKES
    return ("the run ended before its first step",)


# Where there is no room for the output, a notice is seen nowhere else.
NOTICE_S = 15.0

PAUSE_S = 3.0
"""A pause of at least this time is shown in place of the step."""


def times_left(snapshot: Snapshot, is_wide: bool) -> str:
    """Return the time left of the epoch, of the run, and when that ends.

    Where it is not wide, neither that of the epoch beside the run's nor what says the end is in it.
    Where no step is due there is none unless more epochs are known to come: a bar that is full
    and 00:00 left would read as the end of a script that runs on. Nor is there any while a step
    is overdue.
    """
    progress = snapshot.progress
    if progress is None or snapshot.overdue_s is not None:
        return ""
    if progress.is_over and progress.epoch + 1 >= (progress.epochs or 0):
        return ""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    if run and snapshot.model is not None and snapshot.model.length_from is not None:
        # How long the training is to be was read somewhere, and may be wrong.
        run = f"~ {run}"
    # In the last epoch, which ends with the run, there is one.
    has_both = bool(epoch and run) and (progress.epochs or 0) > progress.epoch + 1
    run = f"run {run}" if has_both else run or epoch
    with_epoch = is_wide and has_both and not progress.is_over and progress.steps is not None
    return f"{epoch}   " * with_epoch + run + _end(snapshot, progress, is_wide)


def step_of(snapshot: Snapshot) -> str:
    """Say which step it is at, or what it does in place of one."""
    progress, doing = snapshot.progress, phase_text(snapshot.phase) or "starting"
    is_script = snapshot.header.is_script
    if progress is None:
        return f"{NOTHING_SEEN_YET}: the script runs" if is_script else f"{doing} …"
    if progress.is_over:
        # Whether another epoch follows is not known.
        of = "" if progress.epochs is None else f" of {progress.epochs:,}"
        if snapshot.phase == SCRIPT_PHASE:
            doing = "the script trains nothing now"
        return f"{epoch_word(snapshot.header)} {progress.epoch + 1:,}{of} is over; {doing}"
    if is_script and snapshot.phase == SCRIPT_PHASE:
        return "the script runs, and trains nothing at the moment"
    step = step_text(progress.step, progress.steps, progress.updates)
    return step if progress.steps is not None else f"{doing}  {step}"


def step_text(step: int, steps: int | None, updates: int | None) -> str:
    """Say how far it is; and of an optimizer that does not step with each batch, how far it is."""
    text = f"step {step:,}" if steps is None else f"step {step:,} of {steps:,}"
    return text if updates is None else f"{text}, {units.counted(updates, 'update')}"


def _end(snapshot: Snapshot, progress: Progress, with_source: bool) -> str:
    """Say at what time of the day it ends; empty where that isn't known."""
    if by_slurm := job_end_text(snapshot):
        return f"; {by_slurm}"
    if progress.end_left_s is None:
        return ""
    at = units.moment(snapshot.wall + progress.end_left_s, snapshot.wall)
    source = snapshot.model.length_from if snapshot.model is not None else None
    by = f" by {source}" if with_source and progress.end_of_training and source else ""
    return f", {'training ' * progress.end_of_training}ends {at}{by}"


def pause_text(snapshot: Snapshot) -> str:
    """Say for how long there has been no batch, where the process is, and what the machine does."""
    pause = snapshot.pause
    return gap_of_session(pause, snapshot) if pause is not None and pause.seconds >= PAUSE_S else ""


def recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice while it is news."""
    now_ns = snapshot.header.t + snapshot.elapsed_s * 1e9
    newest = next(reversed(snapshot.notices), None)
    if newest is None or now_ns - newest.t > NOTICE_S * 1e9:
        return ""
    return f"▲ {newest.text}"


def job_end_text(snapshot: Snapshot) -> str:
    """Say when Slurm ends the job of a session that would run on; empty where it would not."""
    job, progress = snapshot.header.slurm, snapshot.progress
    if job is None or job.end_wall is None or progress is None:
        return ""
    left_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    if left_s is None or snapshot.wall + left_s <= job.end_wall:
        return ""
    end, own = (units.moment(t, snapshot.wall) for t in (job.end_wall, snapshot.wall + left_s))
    return f"Slurm ends it at {end}, before the run would ({own})"
