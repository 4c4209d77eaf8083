"""Notify the desktop of alerts."""

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

_MAX_LENGTH = 200
_TIMEOUT_S = 5.0


def desktop_notification(text: str) -> str:
    """Return the escape sequence (OSC 9) that lets a terminal notify the desktop.

    iTerm2, kitty, WezTerm, Ghostty, foot and Windows Terminal know it; others ignore it. The
    prefix `dlmon` keeps a text from being read as ConEmu's progress report, `OSC 9 ; 4`.
    """
    return f"\x1b]9;dlmon: {clean(text, _MAX_LENGTH)}\x07"


def notify_send(text: str) -> bool:
    """Show a text on this host's desktop by notify-send; return False if that can't be done."""
    program = shutil.which("notify-send")
    if program is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    command = [program, "--app-name=dlmon", "--", "dlmon", clean(text, _MAX_LENGTH)]
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:
        return False

    def wait() -> None:
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    threading.Thread(target=wait, daemon=True).start()
    return True


class NewAlerts:
    """Finds the alerts of a session that come after its log was first read to the end."""

    def __init__(self) -> None:
        self._last: Alert | None = None
        self._has_read_log = False

    def take(self, source: SessionSource) -> Alert | None:
        """Return the newest alert if it is new; None before the log was read to the end."""
        newest = source.session.newest_alert
        is_new = self._has_read_log and newest != self._last
        self._last, self._has_read_log = newest, source.read_share is None
        return newest if is_new else None


class DesktopAlerts:
    """Notifies the desktop of a session's alerts if no screen shows the session.

    Args:
        is_wanted: the user asked for notifications.
        terminal: gets the escape sequence if there is no notify-send.
    """

    def __init__(self, is_wanted: bool, terminal: TextIO | None = None) -> None:
        self._is_wanted, self._terminal = is_wanted, terminal
        self._new = NewAlerts()

    def notify(self, source: SessionSource) -> None:
        """Notify the desktop of a new alert."""
        alert = self._new.take(source) if self._is_wanted else None
        if alert is None or notify_send(alert.text):
            return
        if self._terminal is not None and self._terminal.isatty():
            self._terminal.write(desktop_notification(alert.text))
            self._terminal.flush()
