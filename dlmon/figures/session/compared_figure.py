"""Choose the figure that sessions are compared by, and say what it covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlmon.comparison.compared_run import (
    RATE_UNITS,
    SpeedFigures,
    Timing,
    metric_of_script,
    rate_of_script,
    timing_by,
)
from dlmon.figures import units
from dlmon.quantities import BY_KEY, SAMPLES_PER_SECOND, STEP_MS
from dlmon.records import WITHOUT_EPOCHS, Requirement, Result, SecondsPerEpoch, Status
from dlmon.session.reasons import NEVER_STEADY, NOTHING_SEEN
from workloads.catalog import WORKLOADS

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot


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


def timed_unit(metric: str) -> str:
    """Return `per epoch`, `per run` or `per batch`; empty for a throughput."""
    per = BY_KEY[metric].per
    return f"per {per}" if per else ""


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
