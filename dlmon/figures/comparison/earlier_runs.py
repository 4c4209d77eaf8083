"""Choose the metric of a session and the earlier sessions to compare, and name both."""

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
"""Show at most this many earlier sessions: those of a sweep would fill the view."""
MOST_EARLIER = 100
"""The number of earlier sessions to choose from."""
SLOWER = 0.95
"""The slowest process is named below this share of the median throughput."""


def default_conditions(workload: Workload) -> Conditions:
    """Return the settings under which a workload's published numbers were measured."""
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

    The figure is in `metric`, or by default in the metric that each session is compared by.
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
    """Return whether a recorded run has a figure in a metric; None stands for its own metric."""
    if metric is None:
        return timing_of_result(result, workload) is not None
    return timing_by(metric, result) is not None


def mode_of(options: Mapping[str, Any]) -> str:
    """Return the mode of a session; the default is `train`."""
    mode = options.get("mode")
    return mode if isinstance(mode, str) else "train"


def compared_metric(workload: str, mode: str, figures: SpeedFigures) -> str:
    """Return the metric to compare runs by: the time of a batch if the mode has no epochs.

    For a script it depends on the `figures` that it has.
    """
    if mode in WITHOUT_EPOCHS:
        return STEP_MS
    recipe = WORKLOADS.get(workload)
    return recipe.metric if recipe is not None else metric_of_script(figures)


def metric_of(snapshot: Snapshot) -> str:
    """Return the metric that a session is compared by."""
    header, model = snapshot.header, snapshot.model
    if header.is_script and model is not None and model.has_epochs is False:
        return rate_of_script(snapshot)
    return compared_metric(header.workload, mode_of(header.options), snapshot)


def timing_of(snapshot: Snapshot) -> Timing | None:
    """Return the time or throughput that a session is compared by."""
    return timing_by(metric_of(snapshot), snapshot)


def timing_of_result(result: Result, workload: str) -> Timing | None:
    """Return the time or throughput of a recorded result that its session is compared by."""
    return timing_by(compared_metric(workload, mode_of(result.options), result), result)


def epoch_word(header: SessionHeader) -> str:
    """Return the word for one pass over the samples: `epoch` only in training."""
    return "pass" if mode_of(header.options) in WITHOUT_EPOCHS else "epoch"


def last_epoch(snapshot: Snapshot) -> tuple[int, bool] | None:
    """Return the number of the current or last epoch, and whether the run ended with it complete.

    If a run was stopped before the first batch of an epoch, its last epoch is the one before. The
    same holds for a script that announces no number of epochs: it may not have begun another.
    """
    progress, model, result = snapshot.progress, snapshot.model, snapshot.result
    if progress is None or model is None or model.has_epochs is False:
        return None
    is_over = result is not None and (result.status == Status.STOPPED or model.epochs is None)
    if is_over and snapshot.epochs and not progress.step:
        return snapshot.epochs[-1].epoch + 1, snapshot.epochs[-1].whole
    return progress.epoch + 1, False


def epoch_text(snapshot: Snapshot) -> str:
    """Write the current or last epoch of the requested ones: epoch 2/3; empty without epochs.

    Further epochs that fill `--seconds` are counted separately: epoch 1/1, 4 more to fill 10 s.
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
    """Return `per epoch`, `per run` or `per batch`; empty for a throughput."""
    per = BY_KEY[metric].per
    return f"per {per}" if per else ""


def unusual_settings(options: Mapping[str, Any]) -> list[str]:
    """Return the settings of a session that are not the default, in words."""
    unusual = differing(options, {}, ("mode", "precision", "backend", "jit", "python", "cpus"))
    if "python" in unusual:
        unusual["python"] = "another Python"
    return [OPTIONS[name].words(value) for name, value in unusual.items()]


def basis_of_epoch(timing: SecondsPerEpoch, compile_s: float | None, compiles: bool = True) -> str:
    """Say which epochs a mean covers: `3 epochs, excludes the first epoch: it compiles`.

    Compilation is mentioned only if the first batch compiles.
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
    """Write the extra time of the first batch: compile 1.40 s, or first batch +1.40 s."""
    seconds = units.seconds(compile_s)
    return f"compile {seconds}" if compiles else f"first batch +{seconds}"


def why_no_time(snapshot: Snapshot, status: Status) -> str:
    """Say why a session has nothing to compare; a session that is over waits for nothing."""
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
    """Return the conditions of a workload's run; before it has a model, the requested ones."""
    return run if snapshot.model is not None else with_defaults(run, defaults)


def match_of_options(workload: Workload, options: RunOptions) -> Match | None:
    """Return which published times a run with these options could be compared with."""
    defaults = default_conditions(workload)
    from dlmon.launch.device import gpu_numbers

    devices = options.devices or len(gpu_numbers(options.device)) or 1
    conditions = replace(
        defaults,
        batch_size=options.batch_size or workload.batch_size * devices,
        epochs=options.epochs or workload.epochs,
        precision=options.precision,
        mode=options.mode,
        # `auto` is resolved only when the run looks for the data.
        data=None if options.data == "auto" else options.data,
        steps_cap=options.steps,
        devices=devices,
    )
    return find_match(conditions, defaults)


def comparable_text(match: Match | None, *, typed: bool = False) -> str:
    """Say how many published numbers are comparable, or which options would make them so.

    Write the options in words, or `typed` as in a shell.
    """
    if match is None:
        return "none comparable"
    if not match.changes:
        return f"{match.count} comparable"
    changes = dict(match.changes)
    options = " ".join(as_typed(changes)) if typed else in_words(changes)
    return f"none comparable; {match.count} with {options}"


def trainers_text(snapshot: Snapshot) -> str:
    """Write the number of ranks and the range of their rates; empty for one rank."""
    rates = [process.samples_per_second for process in snapshot.trainers]
    known_rates = [rate for rate in rates if rate is not None]
    if len(rates) < 2:
        return ""
    machines = {process.trainer.host for process in snapshot.trainers}
    on = f" on {len(machines)} machines" if len(machines) > 1 else ""
    count = f"{len(rates)} processes{on}"
    if len(known_rates) < 2:
        return count
    ends = dict.fromkeys(map(units.rate, (min(known_rates), max(known_rates))))
    return f"{count}, {' to '.join(ends)} each{slowest_text(snapshot)}"


def slowest_text(snapshot: Snapshot) -> str:
    """Name the slowest rank and its host, if one is much slower than the median."""
    by_rate = [(p.samples_per_second, p) for p in snapshot.trainers if p.samples_per_second]
    rates = sorted(rate for rate, _ in by_rate)
    if len(rates) < 3 or rates[0] > SLOWER * median(rates):
        return ""
    _, slowest = min(by_rate, key=lambda pair: pair[0])
    return f", the slowest {slowest.name_and_host}"


def device_text(snapshot: Snapshot) -> str:
    """Name the device of the session: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        as_several = f"as {model.devices} devices" if model.devices else ""
        return " ".join(filter(None, ("CPU", machine.cpu_model, as_several)))
    number = gpu_name(model.gpus) if model.gpus else "GPU"
    return f"{number} {model.device_name or ''}".strip()


# ---- cost, energy and use of the hardware ----


def cost_text(result: Result) -> str:
    """Write the cost of a run, or why it is unknown; empty without a price."""
    if result.cost_usd is not None:
        return units.dollars(result.cost_usd)
    reason = result.why.get("cost_usd")
    return f"– ({reason})" if reason and reason != NO_PRICE else ""


def energy_text(result: Result) -> str:
    """Write the energy of an epoch, by device; empty if none was measured."""
    if not result.energy_j_per_epoch:
        return ""
    parts = (f"{name.upper()} {units.energy(j)}" for name, j in result.energy_j_per_epoch.items())
    return f"{', '.join(parts)} per epoch"


_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "tf32": "TF32"}


def effective_text(figures: Effective | Result) -> str:
    """Write the operations per second, and their share of the peak if it is known."""
    if figures.effective_flop_s is None:
        return ""
    speed = flop_s_text(figures.effective_flop_s)
    share = share_text(figures)
    if figures.hardware_share is not None:
        share = f"{share} ({units.share(figures.hardware_share)} with what is computed again)"
    return f"{speed}, {share}" if share else speed


def share_text(figures: Effective | Result) -> str:
    """Write the share of the peak: 38 % of the measured bf16 peak; empty if unknown."""
    if figures.peak_share is None:
        return ""
    return f"{units.share(figures.peak_share)} of {_peak_text(figures)}"


def _peak_text(figures: Effective | Result) -> str:
    """Name the peak; older logs don't say which one it was."""
    precision = _PRECISIONS.get(figures.peak_precision or "", figures.peak_precision or "")
    if figures.peak_from is None:
        return "peak"
    if figures.peak_from == MEASURED:
        return f"the measured {precision} peak"
    return f"{figures.peak_from}'s dense {precision} figure"


def effective_or_reason(figures: Effective | Result, is_asked_for: bool = False) -> str:
    """Write the operations per second, and why their share of the peak is unknown.

    If the figure `is_asked_for`, also say why the operations are unknown.
    """
    text, why = effective_text(figures), figures.why
    if text and figures.peak_share is None and "peak_share" in why:
        return f"{text} (share of the peak unknown: {why['peak_share']})"
    if not text and is_asked_for and "effective_flop_s" in why:
        return f"– ({why['effective_flop_s']})"
    return text
