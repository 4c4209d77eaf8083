"""What a run does before its first step, with the times of the run before."""

from __future__ import annotations

from collections.abc import Mapping

from dlmon.figures import units
from dlmon.figures.session.time_breakdown import BRIEF_NAMES, names_of
from dlmon.records import TimePart
from dlmon.records.record import record
from dlmon.session.snapshot import Snapshot

STARTING = (TimePart.STARTUP, TimePart.LOADING, TimePart.BUILDING, TimePart.COMPILING)
_LEAST_WAIT_PCT = 10.0


@record(frozen=True)
class StartRow:
    """A part of the start, or something that the run uses meanwhile.

    Attributes:
        name: the part.
        fraction: its time as a share of the longest here, or the share of what there is.
        now: its time so far, or what is used; empty if it has not begun.
        note: its time in the run before, or what it lacks; empty if unknown.
    """

    name: str
    fraction: float
    now: str
    note: str


def doing_rows(snapshot: Snapshot) -> tuple[StartRow, ...]:
    """Return what a run without a step does now: the CPU, the memory and the disk that it uses."""
    tree = None if snapshot.machine is None else snapshot.machine.process
    machine = snapshot.header.machine
    if tree is None or snapshot.batches or snapshot.result is not None:
        return ()
    rows, cores = [], machine.cores
    if tree.cpu_pct is not None and cores:
        busy = tree.cpu_pct / 100
        waits = tree.cpu_wait_pct or 0.0
        waiting = f"waits {waits:.0f} %" if waits >= _LEAST_WAIT_PCT else ""
        used = f"this run {busy:.1f} of {units.counted(cores, 'core')}"
        rows.append(StartRow("CPU", busy / cores, used, waiting))
    if tree.rss_mib is not None:
        total_mib = machine.usable_memory_mib
        share = tree.rss_mib / total_mib if total_mib else 0.0
        held = f"this run {units.memory_in_use(tree.rss_mib, total_mib)}"
        rows.append(StartRow("memory", share, held, ""))
    if tree.read_mib_s is not None:
        rows.append(StartRow("reads", 0.0, f"this run {tree.read_mib_s:.0f} MiB/s", ""))
    return tuple(rows)


def usual_start(before: Mapping[str, float]) -> str:
    """Return the time that the run before took to its first step; empty if unknown."""
    usual_s = sum(before.get(part.value, 0.0) for part in STARTING)
    return f"last time {units.seconds(usual_s)}" if usual_s else ""


def start_rows(snapshot: Snapshot, before: Mapping[str, float]) -> tuple[StartRow, ...]:
    """Return the parts of the start of a run that has ended no step; nothing after that.

    Args:
        snapshot: the figures of the run.
        before: the seconds of each part of the run before, by its name in `account`.
    """
    if snapshot.batches or snapshot.result is not None:
        return ()
    names, now_s = names_of(snapshot), snapshot.time_breakdown
    both = {part: (now_s.get(part, 0.0), before.get(part.value, 0.0)) for part in STARTING}
    longest_s = max((s for times in both.values() for s in times), default=0.0)
    return tuple(
        StartRow(
            BRIEF_NAMES.get(part, names[part]),
            taken_s / longest_s,
            units.seconds(taken_s) if taken_s else "",
            f"last time {units.seconds(before_s)}" if before_s else "",
        )
        for part, (taken_s, before_s) in both.items()
        if taken_s or before_s
    )
