"""The desktop notification at the end of a run."""

from __future__ import annotations

from dlmon.records.sanitize import clean

TEXT_LENGTH = 200


def desktop_notification(text: str) -> str:
    """Return the escape sequence (OSC 9) that lets a terminal notify the desktop.

    Known to iTerm2, kitty, WezTerm, Ghostty, foot and Windows Terminal; others ignore it.
    The name in front keeps it from being read as ConEmu's progress report, `OSC 9 ; 4`.
    """
    return f"\x1b]9;dlmon: {clean(text, TEXT_LENGTH)}\x07"
