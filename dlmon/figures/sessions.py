"""What came of recorded sessions and sweeps, in words. Pure."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.comparison import compared_metric, mode_of, timed_unit, timing_of_result
from dlmon.figures.machine import without_detail
from dlmon.figures.sweeps import resumed_by, slot_text, swept_text, varied_text
from dlmon.figures.validity import in_doubt
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import MachineUse, Requirement, Result, SessionHeader, Status, StopCause
from dlmon.records.record import record
from dlmon.session.reasons import NOTHING_SEEN, TOO_SHORT
from dlmon.stop import CAUSE_TEXT
from dlmon.sweep.log import SweepEntry, entry_of
from dlmon.sweep.plan import SweepError

if TYPE_CHECKING:
    from dlmon.remote.listing import ListedSweep

# The whole reason stands in the details.
_IN_BRIEF = {
    Requirement.STEADY_STATE: TOO_SHORT,
    Requirement.MODEL: "ended before training",
}

WHY_NO_RESULT = {
    Status.INTERRUPTED: "left no result",
    Status.UNKNOWN: "recorded on another machine; whether it still runs can't be seen from here",
}

_NOT_ASKED = {
    StopCause.TERMINAL_CLOSED,
    StopCause.VIEWER_TERMINATED,
    StopCause.VIEWER_GONE,
    StopCause.SIGNAL,
}

Recorded = SessionEntry | SweepEntry
"""What a log directory holds."""


@record(frozen=True)
class RunOfSweep:
    """Which sweep a session was run for, and which of its combinations it was, in words."""

    sweep: SweepEntry
    text: str


def status_text(status: Status, result: Result | None = None) -> str:
    """Return how a session stands, and why nothing more is known, or who stopped it."""
    if status in WHY_NO_RESULT:
        return f"{status}: {WHY_NO_RESULT[status]}"
    cause = None if result is None else result.stopped_by
    text = None if cause is None else CAUSE_TEXT.get(cause)
    return str(status) if text is None else f"{status}: {text}"


def stopped_unasked_text(result: Result) -> str:
    """Return what stopped a session that nobody asked to stop; empty of all others."""
    cause = result.stopped_by
    if cause is None or cause not in _NOT_ASKED:
        return ""
    return status_text(result.status, result)


def runs_of_sweeps(sweeps: Sequence[SweepEntry]) -> dict[str, RunOfSweep]:
    """Return what sessions were run for, by their ids; those that no sweep ran are not there."""
    runs = {}
    for entry in sweeps:
        plan = entry.plan
        for session, slot in entry.sweep.sessions.items():
            text = slot_text(plan, plan.combinations[slot.combination], slot.repeat)
            runs[session] = RunOfSweep(entry, text)
    return runs


def sweeps_of_host(listed: Iterable[ListedSweep]) -> list[SweepEntry]:
    """Return the sweeps that a host lists, oldest first."""
    entries = []
    for each in listed:
        # What another machine calls a sweep may be none.
        with contextlib.suppress(SweepError):
            entries.append(entry_of(*each))
    return sorted(entries, key=lambda entry: entry.header.wall)


def grouped(
    recorded: Sequence[Recorded], runs: Mapping[str, RunOfSweep], oldest_first: bool = False
) -> list[Recorded]:
    """Return what was recorded newest first, or oldest, the runs of a sweep right below it.

    A sweep stands where its newest run would, whatever else was run between two of its runs.
    """
    of_sweep: dict[str, list[Recorded]] = {
        entry.header.id: [entry] for entry in recorded if not isinstance(entry, SessionEntry)
    }
    groups = list(of_sweep.values())
    for entry in sorted(recorded, key=_began, reverse=not oldest_first):
        if isinstance(entry, SessionEntry):
            run = runs.get(entry.header.id)
            group = of_sweep.get(run.sweep.header.id) if run is not None else None
            if group is not None:
                group.append(entry)
            else:
                groups.append([entry])
    groups.sort(key=lambda group: max(map(_began, group)), reverse=not oldest_first)
    return [entry for group in groups for entry in group]


def _began(entry: Recorded) -> float:
    return entry.header.wall


def device_of(entry: SessionEntry) -> tuple[str, str]:
    """Return a session's device and its name; until it is over, the one requested."""
    result, header = entry.result, entry.header
    if result is not None:
        return result.device or "", result.device_name or ""
    requested = str(header.options.get("device") or "")
    if requested == "cpu":
        return requested, header.machine.cpu_model or ""
    gpus = header.machine.gpus or ()
    return requested, next((gpu.name for gpu in gpus if requested == f"gpu:{gpu.index}"), "")


def outcome(entry: SessionEntry, whole: bool = False, unsaid: Container[str] = ()) -> str:
    """Return what came of a session: its time, its error, or why there is neither.

    A reason, and what speaks against a time, is in a few words, unless the `whole` is asked for.
    What is `unsaid` of what speaks against it stands elsewhere.
    """
    result = entry.result
    if result is None:
        why = WHY_NO_RESULT.get(entry.status, f"still {entry.status}")
        return why if whole else why.partition(";")[0]
    if result.error:
        return result.error
    if entry.header.is_machine_recording:
        return f"{units.clock(result.wall_s)}  {use_text(result.machine)}".rstrip()
    metric = compared_metric(entry.header.workload, mode_of(result.options), result)
    timing = timing_of_result(result, entry.header.workload)
    if timing is None:
        why = result.why.get(metric) or "no figure, and no reason was recorded"
        lack = (result.lacking or {}).get(metric)
        if whole:
            return why
        return _lack_in_brief(lack, entry.header) or without_detail(why, 0)
    figure = f"{units.band(timing)} {timed_unit(metric)}".rstrip()
    against = {code: text for code, text in (result.against or {}).items() if code not in unsaid}
    doubts = f"in doubt: {'; '.join(against.values())}" if whole else in_doubt(against)
    return f"{figure}, {doubts}" if against else figure


def _lack_in_brief(lack: Requirement | None, header: SessionHeader) -> str | None:
    if lack == Requirement.MODEL and header.is_script:
        return NOTHING_SEEN
    return None if lack is None else _IN_BRIEF.get(lack)


def called(id: str, label: Label) -> str:
    """Return the id of a session or a sweep, with its name where it has one."""
    return id if label.name is None else f"{id} ({label.name})"


def workload_of(entry: Recorded) -> str:
    """Return what was trained; of a sweep over several workloads, how many.

    It is "machine" where the machine alone was recorded.
    """
    if isinstance(entry, SessionEntry):
        return workload_name(entry.header)
    return swept_text(entry.plan)


def workload_name(header: SessionHeader) -> str:
    """Return what a session runs, or "machine" where it is only that which is recorded."""
    return "machine" if header.is_machine_recording else header.workload


def after_the_batch(header: SessionHeader) -> str:
    """Say when a session stops that is asked to; a recording does at once, and needs no word."""
    if header.is_script:
        return ": the script was interrupted, as by Ctrl-C"
    return "" if header.is_machine_recording else " after the current batch"


def use_text(use: MachineUse | None) -> str:
    """Say how much of a machine was used: CPU 12 %, GPU 0 97 %, 1.2 MJ; empty where unknown."""
    if use is None:
        return ""
    parts = [] if use.cpu_pct is None else [f"CPU {units.percent(use.cpu_pct)}"]
    parts += [f"{device_name(name)} {units.percent(pct)}" for name, pct in use.gpu_pct.items()]
    if use.energy_j:
        parts.append(energy_used(use))
    return ", ".join(parts)


def energy_used(use: MachineUse) -> str:
    """Say how much energy was counted, by device: CPU 82 kJ, GPU 0 1.2 MJ."""
    return ", ".join(f"{device_name(name)} {units.energy(j)}" for name, j in use.energy_j.items())


def device_name(name: str) -> str:
    """Return a device as people write it: GPU 0 of gpu:0."""
    return name.upper().replace(":", " ")


def sweep_outcome(entry: SweepEntry) -> str:
    """Say how far a sweep came, and what it varies: `sweep, 1 of 2: batch 32, 64`."""
    progress = f"sweep, {done_text(entry)}"
    varied = varied_text(entry.plan)
    return f"{progress}: {varied}" if varied else progress


def done_text(entry: SweepEntry) -> str:
    """Say how many of a sweep's combinations have no run left: 1 of 2."""
    return f"{entry.sweep.combinations_over} of {len(entry.plan.combinations)}"


def can_be_resumed(entry: SweepEntry) -> bool:
    """Return whether a sweep has runs left, and no process runs it."""
    return entry.status != Status.RUNNING and bool(entry.sweep.left())


def resume_command(entry: SweepEntry, by_path: bool = False) -> str:
    """Return the command that goes on with a sweep; by its path, it holds in any log directory."""
    return resumed_by(shlex.quote(str(entry.path.parent)) if by_path else entry.header.id)
