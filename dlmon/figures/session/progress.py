"""The progress of a session, and the reason for missing figures, as text."""

from __future__ import annotations

import re

from dlmon.comparison.price import usd_per_hour_of
from dlmon.figures import units
from dlmon.figures.session import tokens
from dlmon.figures.session.compared_figure import timing_of
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.framework_memory import out_of_memory_advice
from dlmon.figures.session.gap_texts import gap_of_session
from dlmon.figures.session.injections import injected_texts
from dlmon.figures.session.phases import doing_text, overdue_text, phase_text
from dlmon.figures.session.ranks import trainers_text
from dlmon.figures.session.run_facts import share_text, unusual_settings
from dlmon.options.run_options import known_options
from dlmon.quantities import throughputs_of
from dlmon.records import FRAMEWORKS, SCRIPT_PHASE, FailureKind, StandardInput, Status
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
    """Return the framework that counts a script's batches, and its backend, with versions."""
    if not snapshot.header.is_script or not snapshot.trainers:
        return ""
    trainer = snapshot.trainers[0].trainer
    names = {"dlmon": "reported by the script", **FRAMEWORKS}
    name = names.get(trainer.framework, trainer.framework)
    text = f"{name} {trainer.framework_version or ''}".rstrip()
    if trainer.backend is None:
        return text
    model = snapshot.model
    version = model.backend_version if model is not None else None
    return f"{text} on {FRAMEWORKS.get(trainer.backend, trainer.backend)} {version or ''}".rstrip()


def settings_of(snapshot: Snapshot) -> list[str]:
    """Return the settings of the training, the most important first."""
    header, model = snapshot.header, snapshot.model
    workload = WORKLOADS.get(header.workload)
    options = known_options(header.options)
    batch_size = model.batch_size if model else options.get("batch_size")
    steps = options.get("steps")
    precision = options.get("precision") or (workload.precision if workload else None)
    unusual = unusual_settings(header.options)
    settings = (
        *injected_texts(header),
        trainers_text(snapshot).partition(",")[0],
        _script_framework(snapshot),
        *unusual,
        f"batch {batch_size}" if batch_size else "",
        f"{steps} steps" if steps else "",
        f"{model.data} data" if model is not None and model.data else "",
        f"{precision}" if precision and precision not in unusual else "",
    )
    return [text for text in settings if text]


WAITING = "imports, data or the network: no step has ended yet"

_READ_NOTHING = re.compile(r"EOFError: EOF when reading a line$|bdb\.BdbQuit$")
_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}


def is_script_without_training(snapshot: Snapshot) -> bool:
    """Return whether no training was seen in a script."""
    # The first step may take long, before anything of the loop is known.
    trains = snapshot.model is not None or (snapshot.result is None and _trains_now(snapshot))
    return snapshot.header.is_script and not trains


def _trains_now(snapshot: Snapshot) -> bool:
    return snapshot.phase == "training"


def failure_text(snapshot: Snapshot) -> str | None:
    """Return why a run failed; None if it didn't."""
    result = snapshot.result
    if result is None or result.status != Status.FAILED:
        return None
    return (result.error or "").strip() or "no reason was recorded"


def why_nothing_trained(snapshot: Snapshot) -> str | None:
    """Return why no training was seen in a script that is over; None if it trained."""
    if snapshot.result is None or not is_script_without_training(snapshot):
        return None
    return snapshot.result.why.get("samples_per_second")


def try_or_output(snapshot: Snapshot) -> tuple[str, str]:
    """Return advice, or the last line of output if the failure is but an exit code."""
    result = snapshot.result
    if result is None:
        return "", ""
    has_no_input = snapshot.header.standard_input == StandardInput.NONE
    if has_no_input and _READ_NOTHING.search(result.error or ""):
        return "Try", "it has no keyboard here: run it with --plain"
    if result.failure in _SAYS_WHY:
        return "", ""
    if result.failure == FailureKind.OUT_OF_MEMORY:
        return "Try", out_of_memory_advice(snapshot)
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # The error may have the script's own exception, or what its interpreter says, already.
    error = result.error or ""
    reason = error.partition(": ")[2]
    is_said = last in error or (reason and last.endswith(reason))
    return "Output", "" if is_said else last


def starting_texts(snapshot: Snapshot) -> tuple[str, ...]:
    """Say what a run does before its first step; after a while, also what dlmon watches."""
    if not is_script_without_training(snapshot):
        return (f"{doing_text(snapshot)}: no step has ended yet",)
    is_late = snapshot.elapsed_s >= _LATE_S
    return (WAITING, *[f"{WATCHED}, {WATCHED_TOO}"] * is_late)


def waiting_texts(snapshot: Snapshot, over: bool) -> tuple[str, ...]:
    """Say what is still missing to find the limit, or why there is none."""
    if is_script_without_training(snapshot):
        return NOTHING_SEEN, f"{WATCHED}, {WATCHED_TOO}"
    if snapshot.overdue_s is not None and not over:
        return overdue_text(snapshot.overdue_s), "what held before is not said of now"
    if snapshot.samples_per_second is not None:
        return (f"it takes {MIN_SAMPLES} readings of the machine in steady training",)
    if not over:
        return "shown once training is steady", STEADY_TAKES
    if snapshot.batches:
        return TOO_SHORT, STEADY_TAKES
    return ("the run ended before its first step",)


_LATE_S = 60.0
NOTICE_S = 15.0
"""How long a notice is shown as recent."""

PAUSE_S = 3.0
"""A pause of at least this time is shown in place of the step."""


def times_left(snapshot: Snapshot, is_wide: bool) -> str:
    """Return the time left of the epoch and of the run, the end of the run, and its cost.

    Without a wide screen, leave out the epoch, the source of the length and the cost in all. Return
    nothing while a step is overdue, and after the last known epoch: a full bar with 00:00 left
    would look like the end of a script that runs on.
    """
    progress = snapshot.progress
    if progress is None or snapshot.overdue_s is not None:
        return ""
    is_last = progress.epoch + 1 >= (progress.epochs or 0)
    if (progress.is_over and is_last) or trained_text(snapshot):
        return ""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    noun = epoch_word(snapshot.header)
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    epoch = epoch and f"{noun} {epoch}"
    if run and snapshot.model is not None and snapshot.model.length_from is not None:
        # The length of the training is inferred, and may be wrong.
        run = f"~ {run}"
    # The last epoch ends with the run: one time is enough.
    has_both = bool(epoch and run) and not is_last
    with_epoch = is_wide and has_both and not progress.is_over and progress.steps is not None
    end = (f"run {run}" if run else epoch) + _end(snapshot, progress, is_wide)
    cost = cost_so_far(snapshot, to_end_s, is_wide)
    return "   ".join(filter(None, (epoch if with_epoch else "", end, cost)))


def cost_so_far(snapshot: Snapshot, to_end_s: float | None, is_wide: bool = True) -> str:
    """Return the cost of the run so far, and in all if its end is known; empty without a price."""
    header = snapshot.header
    hour_usd = usd_per_hour_of(header.options, header.machine)
    if hour_usd is None:
        return ""
    until_s = [snapshot.elapsed_s, *([] if to_end_s is None else [snapshot.elapsed_s + to_end_s])]
    costs = [f"${units.number_of_dollars(hour_usd * s / 3600)}" for s in until_s]
    if not is_wide:
        return costs[0]
    return f"{costs[0]} so far" + "".join(f", about {cost} in all" for cost in costs[1:])


def step_of(snapshot: Snapshot) -> str:
    """Return the current step, or what the session does instead."""
    progress, doing = snapshot.progress, phase_text(snapshot.phase) or "starting"
    is_script = snapshot.header.is_script
    paused_s = snapshot.overdue_s or (snapshot.pause and snapshot.pause.seconds)
    if progress is not None and snapshot.phase == SCRIPT_PHASE and paused_s:
        # It may have begun to train again, but no step has ended.
        return overdue_text(paused_s)
    if progress is None and is_script:
        no_step = f"{doing}: no step has ended yet"
        return no_step if _trains_now(snapshot) else f"{NOTHING_SEEN_YET}: the script runs"
    if progress is None or trained_text(snapshot):
        return f"{doing} …"
    if progress.is_over:
        # Another epoch may follow or not.
        of = "" if progress.epochs is None else f" of {progress.epochs:,}"
        if snapshot.phase == SCRIPT_PHASE:
            doing = "the script trains nothing now"
        return f"{epoch_word(snapshot.header)} {progress.epoch + 1:,}{of} is over; {doing}"
    if is_script and snapshot.phase == SCRIPT_PHASE:
        return "the script runs, and trains nothing at the moment"
    step = step_text(progress.step, progress.steps, progress.updates)
    return step if progress.steps is not None else f"{doing}  {step}"


def trained_text(snapshot: Snapshot) -> str:
    """Say that a run that evaluates has trained all of its epochs; empty if more may follow."""
    progress = snapshot.progress
    if progress is None or progress.epochs is None or snapshot.phase != "evaluating":
        return ""
    is_last = progress.epoch + 1 >= progress.epochs and progress.step == progress.steps
    count = units.counted(progress.epochs, epoch_word(snapshot.header))
    return f"after {count} of training" if is_last else ""


def step_text(step: int, steps: int | None, updates: int | None) -> str:
    """Return the step, and the updates of an optimizer that doesn't step with each batch."""
    text = f"step {step:,}" if steps is None else f"step {step:,} of {steps:,}"
    return text if updates is None else f"{text}, {units.counted(updates, 'update')}"


def _end(snapshot: Snapshot, progress: Progress, with_source: bool) -> str:
    """Say when the run ends; empty if unknown."""
    if by_slurm := job_end_text(snapshot):
        return f"; {by_slurm}"
    if progress.end_left_s is None:
        return ""
    at = units.moment(snapshot.wall + progress.end_left_s, snapshot.wall)
    source = snapshot.model.length_from if snapshot.model is not None else None
    by = f" by {source}" if with_source and progress.end_of_training and source else ""
    return f", {'training ' * progress.end_of_training}ends {at}{by}"


def pause_text(snapshot: Snapshot) -> str:
    """Describe the current pause: its length, where the process is, what the machine does."""
    pause = snapshot.pause
    return gap_of_session(pause, snapshot) if pause is not None and pause.seconds >= PAUSE_S else ""


def recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice if it is recent, else nothing."""
    now_ns = snapshot.header.t + snapshot.elapsed_s * 1e9
    newest = next(reversed(snapshot.notices), None)
    if newest is None or now_ns - newest.t > NOTICE_S * 1e9:
        return ""
    return f"▲ {newest.text}"


def job_end_text(snapshot: Snapshot) -> str:
    """Say when Slurm ends the job, if that is before the run would end; else nothing."""
    job, progress = snapshot.header.slurm, snapshot.progress
    if job is None or job.end_wall is None or progress is None:
        return ""
    left_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    if left_s is None or snapshot.wall + left_s <= job.end_wall:
        return ""
    job_end = units.moment(job.end_wall, snapshot.wall)
    run_end = units.moment(snapshot.wall + left_s, snapshot.wall)
    return f"Slurm ends it at {job_end}, before the run would ({run_end})"


def throughput_texts(snapshot: Snapshot, room: int) -> tuple[str, ...]:
    """Write the throughput in samples and tokens, the share of the peak, and the stalls.

    An interval that has no room in the first text, of `room` cells, is left out.
    """
    steady, figure = throughputs_of(snapshot), units.rate_now(snapshot.samples_per_second_now)
    if steady:
        figure = units.throughput_within(steady[0], room)
    stalls = units.stalls(snapshot.stalls) if snapshot.stalls else ""
    in_tokens = tokens.rate_text(snapshot)
    if snapshot.overdue_s is not None:
        before = (f"was {text}" for text in (figure, in_tokens) if text)
        return (f"0 {snapshot.throughput_unit}", *before, *filter(None, (stalls,)))
    share = share_text(snapshot.result or snapshot.effective)
    return (figure, *filter(None, (in_tokens, share, stalls)))


def end_text(snapshot: Snapshot, status: str) -> str:
    """Say what became of a run, and its figure."""
    timing, text = timing_of(snapshot), f"{snapshot.header.workload} {status}"
    return f"{text}: {units.band(timing)}" if timing is not None else text
