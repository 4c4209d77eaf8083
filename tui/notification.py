"""Notifications of the desktop."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading

from dlmon.records.sanitize import clean

TEXT_LENGTH = 200
ASK_S = 5.0


def desktop_notification(text: str) -> str:
    """Return the escape sequence (OSC 9) that lets a terminal notify the desktop.

    Known to iTerm2, kitty, WezTerm, Ghostty, foot and Windows Terminal; others ignore it.
    The name in front keeps it from being read as ConEmu's progress report, `OSC 9 ; 4`.
    """
    return f"\x1b]9;dlmon: {clean(text, TEXT_LENGTH)}\x07"


def notify_send(text: str) -> bool:
    """Have the desktop that the terminal is on show a text; return whether it is ours to ask."""
    program = shutil.which("notify-send")
    if program is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    command = [program, "--app-name=dlmon", "--", "dlmon", clean(text, TEXT_LENGTH)]

    def ask() -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, check=False, capture_output=True, timeout=ASK_S)

    threading.Thread(target=ask, daemon=True).start()
    return True
