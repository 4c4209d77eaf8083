"""How long each workload took here the last time, with the options that the form has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlmon.comparison.run import Timing
from dlmon.figures.comparison import mode_of, timing_of_result
from dlmon.log.directory import SessionEntry
from dlmon.options.run import OPTIONS, RunOptions
from dlmon.records import WITHOUT_EPOCHS, Status
from workloads.catalog import Workload

_SHAPE_THE_TIME = (
    *("device", "devices", "batch_size", "epochs", "steps", "threads", "cpus"),
    *("data", "mode", "precision", "jit", "backend", "python"),
)
"""What a run takes another time with; the rest is about how it is watched and kept."""
_MOST = 50
"""So many runs of a workload are looked at, the newest."""


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
    result, other = entry.result, {}
    for name in _SHAPE_THE_TIME if result is not None else ():
        if name == "epochs" and workload.metric != "run_seconds":
            # Of a time per epoch, or per batch.
            continue
        had = (result.options if result else {}).get(name, OPTIONS[name].default)
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
        # Of several that are alike in these, the first.
        is_whole = entry.status == Status.COMPLETED
        has_other = bool(other_options(entry, workload, wanted))
        return timing_of_run(entry) is None, has_other, not is_whole

    return min(entries, key=order, default=None)
