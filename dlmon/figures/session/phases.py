"""The phase of a session, and the progress of reading its log, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.records import SCRIPT_PHASE

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot

BEFORE_TRAINING, SCRIPT_CODE = "before training", "other script code"
"""A script's own code: before it trains, and between and after its loops."""
SUSPENDED = "suspended"
_ON_SCREEN = {"opening": "starting", "closing": "finishing", SCRIPT_PHASE: SCRIPT_CODE}


def phase_text(phase: str | None) -> str:
    """Return the phase of a session, such as training or starting; empty if unknown."""
    return "" if phase is None else _ON_SCREEN.get(phase, phase)


def doing_text(snapshot: Snapshot) -> str:
    """Return the phase of a running session, or that it is suspended, or a step is overdue."""
    if snapshot.is_suspended:
        return SUSPENDED
    if snapshot.phase == SCRIPT_PHASE and snapshot.progress is None:
        return BEFORE_TRAINING
    if snapshot.overdue_s is not None:
        return overdue_text(snapshot.overdue_s)
    before = "recording" if snapshot.header.is_machine_recording else "starting"
    return phase_text(snapshot.phase) or before


def overdue_text(seconds: float) -> str:
    """Say that no step has ended for a time."""
    return f"no step for {seconds:,.0f} s"


def reading_text(share: float | None) -> str:
    """Return the share of a log that is read; empty once all of it is."""
    return "" if share is None else f"reading the log: {int(share * 100)} %"
