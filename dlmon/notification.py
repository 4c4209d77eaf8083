"""Notifications of the desktop."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, TextIO

from dlmon.records.sanitize import clean

if TYPE_CHECKING:
    from dlmon.records import Alert
    from dlmon.session.source import SessionSource

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

    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:
        return False

    def wait() -> None:
        try:
            process.wait(ASK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    threading.Thread(target=wait, daemon=True).start()
    return True


class NewAlerts:
    """Finds each alert of a session that came after it was first shown."""

    def __init__(self) -> None:
        self._seen: Alert | None = None
        self._has_looked = False

    def take(self, source: SessionSource) -> Alert | None:
        """Return the newest alert, where it is new and all that there was before is read."""
        newest = source.session.newest_alert
        is_new = self._has_looked and newest != self._seen
        self._seen, self._has_looked = newest, source.read_share is None
        return newest if is_new else None


class DesktopAlerts:
    """Notifies the desktop of the alerts of a session that is shown without a screen.

    Args:
        is_wanted: whether to do so.
        terminal: takes the escape sequence where there is no notify-send.
    """

    def __init__(self, is_wanted: bool, terminal: TextIO | None = None) -> None:
        self._is_wanted, self._terminal = is_wanted, terminal
        self._new = NewAlerts()

    def look(self, source: SessionSource) -> None:
        """Notify it of what is new."""
        alert = self._new.take(source) if self._is_wanted else None
        if alert is None or notify_send(alert.text):
            return
        if self._terminal is not None and self._terminal.isatty():
            self._terminal.write(desktop_notification(alert.text))
            self._terminal.flush()
