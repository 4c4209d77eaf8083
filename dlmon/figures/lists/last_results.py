"""The last results of each workload on this host, compared with the options of a new run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlmon.comparison.compared_run import Timing
from dlmon.figures import units
from dlmon.figures.lists.session_list import outcome
from dlmon.figures.session.compared_figure import mode_of, timed_unit, timing_of_result
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import OPTIONS, RunOptions, in_words
from dlmon.records import WITHOUT_EPOCHS, Status
from workloads.catalog import Workload


def last_text(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Say how the last run here went, and which of its options differ from those wanted."""
    if last is None:
        return "no result here yet"
    when, timing = units.day_and_time(last.header.wall), timing_of_run(last)
    name = "" if last.label.name is None else f" ({last.label.name})"
    if timing is None:
        return f"last run here: {last.status}, {outcome(last)} ({when}){name}"
    took = units.band(timing)
    projected = ", projected" if timing.projected else ""
    options = in_words(other_options(last, workload, wanted))
    with_options = f" with {options}" if options else ""
    return f"last here: {took} {timed_unit(workload.metric)}{projected}{with_options}, {when}{name}"


def last_in_brief(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Return the time of the last run alone; in brackets if its options differ."""
    timing = None if last is None else timing_of_run(last)
    if last is None or timing is None:
        return ""
    mark = "~ " if timing.projected else ""
    took = f"{mark}{units.duration(timing)}"
    return f"({took})" if other_options(last, workload, wanted) else took


_TIME_OPTIONS = (
    *("device", "devices", "batch_size", "epochs", "steps", "threads", "cpus"),
    *("data", "mode", "precision", "jit", "backend", "python"),
)
"""The options that change the time of a run."""

_MOST_RUNS = 50
"""The most runs of a workload to look at, newest first."""


def results_here(
    workloads: Iterable[Workload], entries: Sequence[SessionEntry], host: str
) -> Mapping[str, list[SessionEntry]]:
    """Return the training runs of each workload on `host`, newest first.

    Args:
        workloads: the workloads.
        entries: all sessions, oldest first.
        host: the name of the host.
    """
    by_workload: dict[str, list[SessionEntry]] = {workload.name: [] for workload in workloads}
    for entry in reversed(entries):
        runs, result = by_workload.get(entry.header.workload), entry.result
        if runs is None or result is None or entry.header.host != host or len(runs) >= _MOST_RUNS:
            continue
        if mode_of(result.options) not in WITHOUT_EPOCHS:
            runs.append(entry)
    return by_workload


def timing_of_run(entry: SessionEntry) -> Timing | None:
    """Return the time of a run; None if it has none."""
    result = entry.result
    return None if result is None else timing_of_result(result, entry.header.workload)


def other_options(entry: SessionEntry, workload: Workload, wanted: RunOptions) -> dict[str, object]:
    """Return the options of a run that differ from those wanted, with their values in that run."""
    if entry.result is None:
        return {}
    different = {}
    for name in _TIME_OPTIONS:
        if name == "epochs" and workload.metric != "run_seconds":
            # The time of an epoch or a batch doesn't depend on their number.
            continue
        had = entry.result.options.get(name, OPTIONS[name].default)
        usual = getattr(workload, name, None)
        had, wants = (usual if value is None else value for value in (had, getattr(wanted, name)))
        if had != wants and not (name == "device" and wants in _names_of_device(entry)):
            different[name] = had
    return different


def _names_of_device(entry: SessionEntry) -> list[str]:
    """Return the values of the device option that stand for the device of a run."""
    device = (entry.result and entry.result.device) or ""
    is_only_device = device == "cpu" and not entry.header.machine.gpus
    return [device, device.split(":")[0], *(["auto"] if is_only_device else [])]


def last_result(
    entries: Sequence[SessionEntry], workload: Workload, wanted: RunOptions
) -> SessionEntry | None:
    """Return the run that tells most about one with the wanted options; entries: newest first.

    Prefer a run with a time, then one with the same options, then one that completed.
    """

    def order(entry: SessionEntry) -> tuple[bool, bool, bool]:
        # Of equal runs, min takes the first, which is the newest.
        has_other = bool(other_options(entry, workload, wanted))
        return timing_of_run(entry) is None, has_other, entry.status != Status.COMPLETED

    return min(entries, key=order, default=None)
