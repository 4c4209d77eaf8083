"""How long each workload took here the last time, with the options that a person has typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlmon.comparison.compared_run import Timing
from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import mode_of, timed_unit, timing_of_result
from dlmon.figures.session.session_list import outcome
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import OPTIONS, RunOptions, in_words
from dlmon.records import WITHOUT_EPOCHS, Status
from workloads.catalog import Workload


def last_text(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Say what came of the last run here, and which options it had other than these."""
    if last is None:
        return "not trained here yet"
    when, timing = units.day_and_time(last.header.wall), timing_of_run(last)
    name = "" if last.label.name is None else f" ({last.label.name})"
    if timing is None:
        return f"last run here: {last.status}, {outcome(last)} ({when}){name}"
    took = units.band(timing)
    projected = ", projected" if timing.projected else ""
    other = in_words(other_options(last, workload, wanted))
    with_other = f" with {other}" if other else ""
    return f"last here: {took} {timed_unit(workload.metric)}{projected}{with_other}, {when}{name}"


def last_in_brief(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Return the time alone; in brackets where it is of other options."""
    timing = None if last is None else timing_of_run(last)
    if last is None or timing is None:
        return ""
    mark = "~ " if timing.projected else ""
    took = f"{mark}{units.duration(timing)}"
    return f"({took})" if other_options(last, workload, wanted) else took


_SHAPE_THE_TIME = (
    *("device", "devices", "batch_size", "epochs", "steps", "threads", "cpus"),
    *("data", "mode", "precision", "jit", "backend", "python"),
)
"""What a run takes another time with; the rest is about how it is watched and kept."""

_MOST = 50
"""At most this many of the newest runs of a workload are looked at."""


def results_here(
    workloads: Iterable[Workload], entries: Sequence[SessionEntry], host: str
) -> Mapping[str, list[SessionEntry]]:
    """Return the runs of each workload on `host`, the newest first; entries come oldest first.

    A run that trained nothing (gradients, inference) does not count.
    """
    found: dict[str, list[SessionEntry]] = {workload.name: [] for workload in workloads}
    for entry in reversed(entries):
        runs, result = found.get(entry.header.workload), entry.result
        is_here = result is not None and entry.header.host == host
        if runs is None or result is None or not is_here or len(runs) >= _MOST:
            continue
        if mode_of(result.options) not in WITHOUT_EPOCHS:
            runs.append(entry)
    return found


def timing_of_run(entry: SessionEntry) -> Timing | None:
    """Return how long a run took; None where that can't be said."""
    result = entry.result
    return None if result is None else timing_of_result(result, entry.header.workload)


def other_options(entry: SessionEntry, workload: Workload, wanted: RunOptions) -> dict[str, object]:
    """Return the options that a run had other than these, and what they were."""
    if entry.result is None:
        return {}
    other = {}
    for name in _SHAPE_THE_TIME:
        if name == "epochs" and workload.metric != "run_seconds":
            # The time of an epoch, or of a batch, does not depend on it.
            continue
        had = entry.result.options.get(name, OPTIONS[name].default)
        usual = getattr(workload, name, None)
        had, wants = (usual if value is None else value for value in (had, getattr(wanted, name)))
        if had != wants and not (name == "device" and wants in _names_of_device(entry)):
            other[name] = had
    return other


def _names_of_device(entry: SessionEntry) -> list[str]:
    """Return what the option may say for what a run ran on."""
    device = (entry.result and entry.result.device) or ""
    is_all_there_is = device == "cpu" and not entry.header.machine.gpus
    return [device, device.split(":")[0], *(["auto"] if is_all_there_is else [])]


def last_result(
    entries: Sequence[SessionEntry], workload: Workload, wanted: RunOptions
) -> SessionEntry | None:
    """Return the run that says most about one with these options; newest come first.

    One with a time before one without; one of the same options before another; one that ran to
    its end before one that was cut short.
    """

    def order(entry: SessionEntry) -> tuple[bool, bool, bool]:
        # min takes the first, and so the newest, of those that are alike.
        is_whole = entry.status == Status.COMPLETED
        has_other = bool(other_options(entry, workload, wanted))
        return timing_of_run(entry) is None, has_other, not is_whole

    return min(entries, key=order, default=None)
