"""Choose the earlier sessions and the published numbers to compare a session with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dlmon.comparison.compared_run import RunFigures, timing_by
from dlmon.comparison.conditions import Conditions, with_defaults
from dlmon.comparison.references import Match, fastest_published, find_match
from dlmon.comparison.same_script import is_same_work
from dlmon.figures import units
from dlmon.figures.session.compared_figure import mode_of, timing_of_result
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import RunOptions, as_typed, in_words
from dlmon.quantities import BY_KEY, STEP_MS
from dlmon.records import Result, SessionHeader, Status
from workloads.catalog import Workload

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot

EARLIER_SESSIONS = 5
"""Show at most this many earlier sessions: those of a sweep would fill the view."""
MOST_EARLIER = 100
"""The number of earlier sessions to choose from."""


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

    The figure is in `metric`, or by default in the metric that each session is compared by. Runs of
    another sweep, or of pairs, are left out: they warmed up, or ran beside each other.
    """
    earlier = [
        entry
        for entry in entries
        if entry.result is not None
        and entry.result.status in (Status.COMPLETED, Status.STOPPED)
        and has_figure(entry.result, header.workload, metric)
        and is_same_work(entry.header, header)
        and entry.header.sweep in (None, header.sweep)
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


def published_in_brief(workload: Workload) -> tuple[str, str]:
    """Return the fastest published time of a workload, and its device: 4.00 s/epoch, GTX 1080 Ti.

    A time with other options than the defaults ends with *; without any, both are empty.
    """
    defaults = default_conditions(workload)
    match = find_match(defaults, defaults)
    changes: dict[str, Any] = dict(match.changes) if match is not None else {}
    row = fastest_published(replace(defaults, **changes), defaults)
    if row is None:
        return "", ""
    is_step = row.metric.endswith("_ms")
    time = units.milliseconds(row.value) if is_step else units.seconds(row.value)
    device = units.device(row.device).removeprefix("NVIDIA ").partition(" (")[0]
    mark = "*" if changes else ""
    return f"{time}/{BY_KEY[STEP_MS if is_step else row.metric].per}{mark}", device
