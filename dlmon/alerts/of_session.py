"""The alerts of a session that runs: look at it, record what happened, and have it sent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dlmon.alerts.message import About, message_of
from dlmon.alerts.rules import Key, Known, RuleState, Space, look, of_result
from dlmon.alerts.sender import CLOSE_S, Sender
from dlmon.alerts.settings import AlertSettings
from dlmon.log.label import read_label
from dlmon.records import Alert, Result
from dlmon.session.session import Session

_LINES = 10
UNSENT = f"an alert was not sent within {CLOSE_S:g} s of the end, and no more tries are made"


class SessionAlerts:
    """Tells what becomes of a session.

    Args:
        settings: which alerts are sent, from which figures on, and where.
        session: all that is known of it so far.
        path: its log.
        write: records each alert.
        notice: records why it could not be sent.
    """

    def __init__(
        self,
        settings: AlertSettings,
        session: Session,
        path: Path,
        write: Callable[[Alert], None],
        notice: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._session = session
        self._path = path
        self._write = write
        self._notice = notice
        self._loop = asyncio.get_running_loop()
        self._states: dict[Key, RuleState] = {}
        self._is_over = False
        self._sender = Sender(settings, self._failed)

    def look(self) -> None:
        """Tell what has happened since the last look."""
        now = time.monotonic_ns()
        known = Known(self._session, now, self._settings, self._states, self._space())
        self._states, alerts = look(known)
        for alert in alerts:
            self._tell(alert)

    async def end(self, result: Result, now: int, hurry: asyncio.Event) -> None:
        """Tell how it ended, and wait a while until all is sent, or for as long as one may."""
        for alert in of_result(self._session, result, now, self._settings):
            self._tell(alert)
        is_all_sent = await self._sender.finish(hurry)
        # What was said of the last tries meanwhile.
        await asyncio.sleep(0)
        self._is_over = True
        if not is_all_sent:
            self._notice(UNSENT)

    def _tell(self, alert: Alert) -> None:
        self._write(alert)
        settings, name = self._settings, read_label(self._path).name
        about = About.of(self._session.header, self._path, name, settings.host)
        details = self._details() if settings.detail == "full" else None
        self._sender.put(message_of(alert, about, settings.detail, details))

    def _details(self) -> dict[str, Any]:
        header = self._session.header
        lines = [line.text for line in self._session.last_output(_LINES)]
        return {
            "command": list(header.command or ()),
            "directory": header.directory,
            "log": str(self._path),
            "output": lines,
        }

    def _space(self) -> Space | None:
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return None
        return Space(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)

    def _failed(self, sentence: str) -> None:
        """Take why a message could not be sent, from a thread that may outlive the session."""

        def take() -> None:
            if not self._is_over:
                self._notice(sentence)

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(take)
