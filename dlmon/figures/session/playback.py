"""The times, speeds and marks of playback as text."""

from __future__ import annotations

import re

from dlmon.session.marks import Mark, MarkKind

_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:\.\d*)?)")

_UNITS = re.compile(r"(?:(\d+(?:\.\d*)?)h)?(?:(\d+(?:\.\d*)?)m)?(?:(\d+(?:\.\d*)?)s?)?")

HOW_TO_SAY = "say a time such as 12m30s, 1:02:03 or 90"


def read_moment(text: str) -> float:
    """Read a time such as 12m30s, 1h, 90 or 1:02:03, and return its seconds.

    Raises:
        ValueError: the text is no time; the message is for the user.
    """
    plain = text.strip().removeprefix(":").replace(" ", "").lower()
    match = _CLOCK.fullmatch(plain) or _UNITS.fullmatch(plain)
    if match is None or not any(match.groups()) or len(plain) > 20:
        raise ValueError(HOW_TO_SAY)
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def speed_text(speed: float) -> str:
    """Write a speed as 0.25×, 10×."""
    return f"{speed:g}×"


def mark_text(mark: Mark, epoch_word: str = "epoch") -> str:
    """Describe a mark in a few words."""
    if mark.kind == MarkKind.EPOCH:
        return f"end of {epoch_word} {int(mark.number or 0) + 1}"
    if mark.kind == MarkKind.STALL:
        return f"a stall of {mark.number or 0:.1f} s"
    if mark.kind == MarkKind.BETWEEN_STEPS:
        return f"{mark.number or 0:.1f} s between steps, as they come regularly"
    if mark.kind == MarkKind.THROTTLING:
        device = "the CPU" if mark.number is None else f"GPU {int(mark.number)}"
        return f"{device} is throttled: {mark.text}"
    return mark.text
