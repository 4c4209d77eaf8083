"""What came of recorded sessions and sweeps, in words. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from dlmon.sessions import RUNNING, SessionEntry
from dlmon.sweep_log import SweepEntry
from tui import figures
from tui.compared import compared_metric, mode_of, timed_unit, timing_of_result
from tui.sweep_figures import slot_text, swept_text, varied_text

Recorded = SessionEntry | SweepEntry
"""What a log directory holds."""


@dataclass(frozen=True)
class RunOfSweep:
    """Which sweep a session was run for, and which of its combinations it was, in words."""

    sweep: SweepEntry
    text: str


def runs_of_sweeps(sweeps: Sequence[SweepEntry]) -> dict[str, RunOfSweep]:
    """Return what sessions were run for, by their ids; those that no sweep ran are not there."""
    told = {}
    for entry in sweeps:
        plan = entry.plan
        for session, slot in entry.sweep.sessions.items():
            text = slot_text(plan, plan.combinations[slot.combination], slot.repeat)
            told[session] = RunOfSweep(entry, text)
    return told


def device_of(entry: SessionEntry) -> tuple[str, str]:
    """Return a session's device and its name; until it is over, the one that was asked for."""
    result, header = entry.result, entry.header
    if result is not None:
        return result.device or "", result.device_name or ""
    asked = str(header.options.get("device") or "")
    if asked == "cpu":
        return asked, header.machine.cpu_model or ""
    gpus = header.machine.gpus or ()
    return asked, next((gpu.name for gpu in gpus if asked == f"gpu:{gpu.index}"), "")


def outcome(entry: SessionEntry, ascii: bool = False) -> str:
    """Return what came of a session: its time, or its error; empty where there is neither."""
    result = entry.result
    if result is None:
        return ""
    if result.error:
        return result.error
    timing = timing_of_result(result, entry.header.workload)
    if timing is None:
        return ""
    metric = compared_metric(entry.header.workload, mode_of(result.options))
    return f"{figures.band(timing, ascii)} {timed_unit(metric)}"


def workload_of(entry: Recorded) -> str:
    """Return what was trained; of a sweep over several workloads, how many."""
    return entry.header.workload if isinstance(entry, SessionEntry) else swept_text(entry.plan)


def sweep_outcome(entry: SweepEntry, ascii: bool = False) -> str:
    """Say how far a sweep came, and what it varies: `sweep, 1 of 2: batch 32, 64`."""
    told = f"sweep, {made_text(entry)}"
    varied = varied_text(entry.plan, ascii)
    return f"{told}: {varied}" if varied else told


def made_text(entry: SweepEntry) -> str:
    """Say how many of a sweep's combinations have no run left: 1 of 2."""
    return f"{entry.sweep.combinations_over} of {len(entry.plan.combinations)}"


def can_be_resumed(entry: SweepEntry) -> bool:
    """Tell whether a sweep has runs left that nobody makes at present."""
    return entry.status != RUNNING and bool(entry.sweep.left())


def resume_command(entry: SweepEntry, by_path: bool = False) -> str:
    """Return the command that goes on with a sweep.

    Args:
        entry: the sweep.
        by_path: name it in a way that holds whatever log directory is configured.
    """
    name = str(entry.path.parent) if by_path else entry.header.id
    return shlex.join(["dlmon", "sweep", "--resume", name])
