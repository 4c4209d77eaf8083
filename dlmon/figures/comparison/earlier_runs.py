"""What a session is compared by, which earlier ones it compares with, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from dlmon.comparison.compared_run import (
    RATE_UNITS,
    RunFigures,
    SpeedFigures,
    Timing,
    metric_of_script,
    rate_of_script,
    timing_by,
)
from dlmon.comparison.conditions import Conditions, with_defaults
from dlmon.comparison.peaks import MEASURED, flop_s_text
from dlmon.comparison.references import Match, find_match
from dlmon.comparison.same_script import is_same_work
from dlmon.figures import units
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import OPTIONS, RunOptions, as_typed, differing, in_words
from dlmon.quantities import BY_KEY, SAMPLES_PER_SECOND, STEP_MS
from dlmon.records import (
    WITHOUT_EPOCHS,
    Requirement,
    Result,
    SecondsPerEpoch,
    SessionHeader,
    Status,
)
from dlmon.records.words import gpu_name
from dlmon.session.reasons import NEVER_STEADY, NO_PRICE, NOTHING_SEEN
from workloads.catalog import WORKLOADS, Workload

if TYPE_CHECKING:
    from dlmon.session.effective import Effective
    from dlmon.session.snapshot import Snapshot

EARLIER_SESSIONS = 5
"""A session is compared with this many earlier ones: a sweep would push all else out of view."""
MOST_EARLIER = 100
"""A person can choose from this many."""
SLOWER = 0.95
"""The slowest process is named where it has less than this share of the median throughput."""


def default_conditions(workload: Workload) -> Conditions:
    """Return what a workload's published numbers were taken with."""
    return Conditions(
        workload=workload.name,
        batch_size=workload.batch_size,
        samples=workload.samples,
        epochs=workload.epochs,
        precision=workload.precision,
        mode=workload.mode,
    )


def earlier_sessions(
    entries: Sequence[SessionEntry],
    header: SessionHeader,
    most: int = EARLIER_SESSIONS,
    metric: str | None = None,
) -> list[SessionEntry]:
    """Return the newest earlier sessions of the same work and machine that have a figure.

    It is one of the metric; without one, of whatever each is compared by.
    """
    earlier = [
        entry
        for entry in entries
        if entry.result is not None
        and entry.result.status in (Status.COMPLETED, Status.STOPPED)
        and has_figure(entry.result, header.workload, metric)
        and is_same_work(entry.header, header)
        and mode_of(entry.header.options) == mode_of(header.options)
        and entry.header.host == header.host
        and entry.header.wall < header.wall
    ]
    return sorted(earlier, key=lambda entry: entry.header.wall)[-most:]


def has_figure(result: Result, workload: str, metric: str | None) -> bool:
    """Return whether a recorded run can be compared by a metric; None is its own."""
    if metric is None:
        return timing_of_result(result, workload) is not None
    return timing_by(metric, result) is not None


def mode_of(options: Mapping[str, Any]) -> str:
    """Return what a session was launched to do: `train` unless its options say otherwise."""
    mode = options.get("mode")
    return mode if isinstance(mode, str) else "train"


def compared_metric(workload: str, mode: str, figures: SpeedFigures) -> str:
    """Return what runs are compared by: a batch's time in a mode that has no epochs.

    What a script is compared by depends on the `figures` that it has.
    """
    if mode in WITHOUT_EPOCHS:
        return STEP_MS
    known = WORKLOADS.get(workload)
    return known.metric if known is not None else metric_of_script(figures)


def metric_of(snapshot: Snapshot) -> str:
    """Return what a session is compared by."""
    header, model = snapshot.header, snapshot.model
    if header.is_script and model is not None and model.has_epochs is False:
        return rate_of_script(snapshot)
    return compared_metric(header.workload, mode_of(header.options), snapshot)


def timing_of(snapshot: Snapshot) -> Timing | None:
    """Return the time that a session is compared by."""
    return timing_by(metric_of(snapshot), snapshot)


def timing_of_result(result: Result, workload: str) -> Timing | None:
    """Return the time that a session is compared by, as it was recorded."""
    return timing_by(compared_metric(workload, mode_of(result.options), result), result)


def epoch_word(header: SessionHeader) -> str:
    """Return what to call going through the samples once: an epoch only where it trains."""
    return "pass" if mode_of(header.options) in WITHOUT_EPOCHS else "epoch"


def last_epoch(snapshot: Snapshot) -> tuple[int, bool] | None:
    """Return which epoch runs, or a run ended in, and whether it ended with that one whole.

    A run that was stopped before the first batch of an epoch is still in the epoch before. So is a
    script without a total, for nobody knows whether it began another epoch.
    """
    progress, model, result = snapshot.progress, snapshot.model, snapshot.result
    if progress is None or model is None or model.has_epochs is False:
        return None
    is_over = result is not None and (result.status == Status.STOPPED or model.epochs is None)
    if is_over and snapshot.epochs and not progress.step:
        return snapshot.epochs[-1].epoch + 1, snapshot.epochs[-1].whole
    return progress.epoch + 1, False


def epoch_text(snapshot: Snapshot) -> str:
    """Say which epoch of those that were asked for runs, or a run ended in: epoch 2/3.

    The text is empty for a loop without epochs. Epochs beyond those that were asked for, which
    follow until `--seconds` are over, are counted apart: epoch 1/1, 4 more to fill 10 s.
    """
    last, model, word = last_epoch(snapshot), snapshot.model, epoch_word(snapshot.header)
    if last is None or model is None or model.epochs is None:
        return "" if last is None else f"{word} {last[0]}"
    number, requested = last[0], max(1, model.epochs)
    text = f"{word} {min(number, requested)}/{requested}"
    if number <= requested:
        return text
    seconds = snapshot.header.options.get("seconds")
    filled = f" to fill {seconds:g} s" if isinstance(seconds, (int, float)) else ""
    return f"{text}, {number - requested} more{filled}"


def timed_unit(metric: str) -> str:
    """Return what a time is per: epoch, run or batch; nothing of a throughput."""
    per = BY_KEY[metric].per
    return f"per {per}" if per else ""


def unusual_settings(options: Mapping[str, Any]) -> list[str]:
    """Return how a session computes, as far as that is not the default."""
    unusual = differing(options, {}, ("mode", "precision", "backend", "jit", "python", "cpus"))
    if "python" in unusual:
        unusual["python"] = "another Python"
    return [OPTIONS[name].words(value) for name, value in unusual.items()]


def basis_of_epoch(timing: SecondsPerEpoch, compile_s: float | None, compiles: bool = True) -> str:
    """Say what seconds per epoch rest on: `3 epochs, excludes the first epoch: it compiles`.

    Without a word of compilation where the first batch doesn't compile.
    """
    if timing.projected:
        return "projected mean epoch"
    if timing.first_left_out:
        why = ": it compiles" if compiles else ""
        if timing.left_out is not None:
            all_epochs = timing.epochs + timing.left_out
            return f"{all_epochs:,} epochs, excludes the first epoch of each fit{why}"
        return f"{timing.epochs + 1:,} epochs, excludes the first epoch{why}"
    with_first = timing.epochs == 1 and compile_s is not None
    compiled = f", {'compile' if compiles else 'first batch'} included" if with_first else ""
    return f"{units.counted(timing.epochs, 'epoch')}{compiled}"


def compile_text(compile_s: float, compiles: bool) -> str:
    """Say what the first batch took beyond a usual one: compile 1.40 s, first batch +1.40 s."""
    seconds = units.seconds(compile_s)
    return f"compile {seconds}" if compiles else f"first batch +{seconds}"


def why_no_time(snapshot: Snapshot, status: Status) -> str:
    """Say why a session has no time that is compared: of one that is over, nothing comes yet."""
    metric, why = metric_of(snapshot), snapshot.why
    name = SAMPLES_PER_SECOND if metric in RATE_UNITS else metric
    if name not in why:
        name = "seconds_per_epoch" if "seconds_per_epoch" in why else "run_seconds"
    reason = why.get(name, "")
    if status == Status.RUNNING:
        return reason
    if snapshot.lacking.get(name) == Requirement.STEADY_STATE:
        return NEVER_STEADY
    if snapshot.model is None and snapshot.header.is_script:
        return NOTHING_SEEN
    if snapshot.model is None:
        return "the run ended before the model was built"
    return reason


def conditions_of(run: RunFigures, snapshot: Snapshot, defaults: Conditions) -> Conditions:
    """Return what a run of a workload does: before it has a model, as it was asked to."""
    return run if snapshot.model is not None else with_defaults(run, defaults)


def match_of_options(workload: Workload, options: RunOptions) -> Match | None:
    """Return how a run with these options would compare with published times."""
    defaults = default_conditions(workload)
    from dlmon.launch.device import gpu_numbers

    devices = options.devices or len(gpu_numbers(options.device)) or 1
    conditions = replace(
        defaults,
        batch_size=options.batch_size or workload.batch_size * devices,
        epochs=options.epochs or workload.epochs,
        precision=options.precision,
        mode=options.mode,
        # What `auto` finds is known once it was looked for.
        data=None if options.data == "auto" else options.data,
        steps_cap=options.steps,
        devices=devices,
    )
    return find_match(conditions, defaults)


def comparable_text(match: Match | None, *, typed: bool = False) -> str:
    """Say how many published numbers are comparable, and which options would make them so.

    These are in words, or as one types them in a shell.
    """
    if match is None:
        return "none comparable"
    if not match.changes:
        return f"{match.count} comparable"
    changes = dict(match.changes)
    options = " ".join(as_typed(changes)) if typed else in_words(changes)
    return f"none comparable; {match.count} with {options}"


def trainers_text(snapshot: Snapshot) -> str:
    """Say how many processes train together, and how far apart they are; empty for one."""
    rates = [one.samples_per_second for one in snapshot.trainers]
    known = [rate for rate in rates if rate is not None]
    if len(rates) < 2:
        return ""
    machines = {one.trainer.host for one in snapshot.trainers}
    on = f" on {len(machines)} machines" if len(machines) > 1 else ""
    count = f"{len(rates)} processes{on}"
    if len(known) < 2:
        return count
    ends = dict.fromkeys(map(units.rate, (min(known), max(known))))
    return f"{count}, {' to '.join(ends)} each{slowest_text(snapshot)}"


def slowest_text(snapshot: Snapshot) -> str:
    """Name the slowest of the processes that train together, and its machine, where one is."""
    known = [(one.samples_per_second, one) for one in snapshot.trainers if one.samples_per_second]
    rates = sorted(rate for rate, _ in known)
    if len(rates) < 3 or rates[0] > SLOWER * median(rates):
        return ""
    _, slowest = min(known, key=lambda pair: pair[0])
    return f", the slowest {slowest.name_and_host}"


def device_text(snapshot: Snapshot) -> str:
    """Name the device that the session trains on: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        as_several = f"as {model.devices} devices" if model.devices else ""
        return " ".join(filter(None, ("CPU", machine.cpu_model, as_several)))
    number = gpu_name(model.gpus) if model.gpus else "GPU"
    return f"{number} {model.device_name or ''}".strip()


# ---- what a run cost, and how much of its hardware it used ----


def cost_text(result: Result) -> str:
    """Return what the run cost, or why that isn't known; empty without a price."""
    if result.cost_usd is not None:
        return units.dollars(result.cost_usd)
    reason = result.why.get("cost_usd")
    return f"– ({reason})" if reason and reason != NO_PRICE else ""


def energy_text(result: Result) -> str:
    """Return the energy of an epoch, by what was measured; empty where nothing was."""
    if not result.energy_j_per_epoch:
        return ""
    parts = (f"{name.upper()} {units.energy(j)}" for name, j in result.energy_j_per_epoch.items())
    return f"{', '.join(parts)} per epoch"


_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "tf32": "TF32"}


def effective_text(found: Effective | Result) -> str:
    """Return the operations per second, and their share of the peak where that is known."""
    if found.effective_flop_s is None:
        return ""
    speed = flop_s_text(found.effective_flop_s)
    share = share_text(found)
    if found.hardware_share is not None:
        share = f"{share} ({units.share(found.hardware_share)} with what is computed again)"
    return f"{speed}, {share}" if share else speed


def share_text(found: Effective | Result) -> str:
    """Return the share of the peak, as "38 % of the measured bf16 peak"; empty where unknown."""
    if found.peak_share is None:
        return ""
    return f"{units.share(found.peak_share)} of {_peak_text(found)}"


def _peak_text(found: Effective | Result) -> str:
    """Say of what peak a share is: of an older session, only that it was measured is known."""
    precision = _PRECISIONS.get(found.peak_precision or "", found.peak_precision or "")
    if found.peak_from is None:
        return "peak"
    if found.peak_from == MEASURED:
        return f"the measured {precision} peak"
    return f"{found.peak_from}'s dense {precision} figure"


def effective_or_reason(found: Effective | Result, is_asked_for: bool = False) -> str:
    """Return what `effective_text` does, with the reason why the share of the peak is not known.

    Where it `is_asked_for`, why no operations are known is said too.
    """
    text, why = effective_text(found), found.why
    if text and found.peak_share is None and "peak_share" in why:
        return f"{text} (share of the peak unknown: {why['peak_share']})"
    if not text and is_asked_for and "effective_flop_s" in why:
        return f"– ({why['effective_flop_s']})"
    return text
