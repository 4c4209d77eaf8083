"""Phases of a session, as they are called on a screen. Pure."""

from __future__ import annotations

_ON_SCREEN = {"opening": "starting", "closing": "finishing"}


def phase_text(phase: str | None) -> str:
    """Return what a session is doing: training, starting (an epoch); empty where unknown."""
    return "" if phase is None else _ON_SCREEN.get(phase, phase)
