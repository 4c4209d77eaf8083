"""What a session is doing, and how far its log is read, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.records import SCRIPT_PHASE

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot

BEFORE_TRAINING, SCRIPT_CODE = "before training", "other script code"
"""A script's own code before it trains, and between its loops and after them."""
_ON_SCREEN = {"opening": "starting", "closing": "finishing", SCRIPT_PHASE: SCRIPT_CODE}


def phase_text(phase: str | None) -> str:
    """Return what a session is doing: training, starting (an epoch); empty where unknown."""
    return "" if phase is None else _ON_SCREEN.get(phase, phase)


def doing_text(snapshot: Snapshot) -> str:
    """Return what a running session is doing; of a script that has yet to train, just that."""
    if snapshot.phase == SCRIPT_PHASE and snapshot.progress is None:
        return BEFORE_TRAINING
    if snapshot.overdue_s is not None:
        return overdue_text(snapshot.overdue_s)
    before = "recording" if snapshot.header.is_machine_recording else "starting"
    return phase_text(snapshot.phase) or before


def overdue_text(seconds: float) -> str:
    """Say that no step has ended for so long."""
    return f"no step for {seconds:,.0f} s"


def reading_text(share: float | None) -> str:
    """Say how much of a log is read; nothing once it is read to its end."""
    return "" if share is None else f"reading the log: {int(share * 100)} %"
