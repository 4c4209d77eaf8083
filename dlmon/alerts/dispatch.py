"""The alerts of a session that runs, of hosts that are watched, and of a sweep."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.message import About, message_of
from dlmon.alerts.rules import (
    Key,
    RuleInputs,
    RuleState,
    advance,
    alerts_of_end,
    duration_text,
    evaluate,
    host_cause,
)
from dlmon.alerts.sender import CLOSE_S, Sender
from dlmon.log.label import read_label
from dlmon.records import Alert, AlertEvent, Result
from dlmon.session.session import Session
from dlmon.system.this_host import host_name

_LINES = 10
UNSENT = f"an alert was not sent within {CLOSE_S:g} s of the end, and no more tries are made"


class SessionAlerts:
    """Writes the alerts of a session to its log and sends them; a failure to send is a notice."""

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

    def update(self) -> None:
        """Evaluate the rules, and send the alerts that began or ended since the last update."""
        running_time, disk = self._session.running_time, None
        now, suspended_ns = running_time.at(time.monotonic_ns()), running_time.suspended_ns
        with contextlib.suppress(OSError):
            disk = shutil.disk_usage(self._path.parent)
        inputs = RuleInputs(self._session, now, self._settings, self._states, disk)
        self._states, alerts = evaluate(inputs)
        for alert in alerts:
            logged = replace(alert, t=alert.t + suspended_ns, since=alert.since + suspended_ns)
            self._send(logged)

    async def end(self, result: Result, now: int, hurry: asyncio.Event) -> None:
        """Send the alert of the end, and wait until all are sent, `CLOSE_S` at most."""
        for alert in alerts_of_end(self._session, result, now, self._settings):
            self._send(alert)
        is_all_sent = await self._sender.finish(hurry)
        # Let the loop run `take` for the last failures.
        await asyncio.sleep(0)
        self._is_over = True
        if not is_all_sent:
            self._notice(UNSENT)

    def _send(self, alert: Alert) -> None:
        self._write(alert)
        settings, name = self._settings, read_label(self._path).name
        about = About.of(self._session.header, self._path, name, settings.host)
        self._sender.put(message_of(alert, about, settings.detail, self._details()))

    def _details(self) -> dict[str, Any]:
        header = self._session.header
        return {
            "command": list(header.command or ()),
            "directory": header.directory,
            "log": str(self._path),
            "output": [line.text for line in self._session.last_output(_LINES)],
        }

    def _failed(self, sentence: str) -> None:
        """Report a message that could not be sent; the calling thread may outlive the session."""

        def take() -> None:
            if not self._is_over:
                self._notice(sentence)

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(take)


class HostAlerts:
    """Sends an alert when a watched host is lost, and when it is back."""

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self._states: dict[str, RuleState] = {}
        self._failures: deque[str] = deque(maxlen=10)
        self._sender = Sender(settings, self._failures.append)

    def update(self, host: str, is_up: bool, problem: str | None) -> None:
        """Take the state of a host: neither up nor with a problem until first contact."""
        if not is_up and problem is None:
            return
        now = time.monotonic_ns()
        cause = host_cause(host, None if is_up else problem, self._settings)
        if cause.event not in self._settings.events:
            return
        before = self._states.get(host, RuleState())
        self._states[host], alert = advance(before, cause, now, self._settings)
        if alert is not None:
            about = About(host, time.time() - time.monotonic_ns() / 1e9)
            self._sender.put(message_of(alert, about, self._settings.detail))

    def failures(self) -> list[str]:
        """Return the sentences about messages that could not be sent since the last call."""
        return [self._failures.popleft() for _ in range(len(self._failures))]


def settings_of_runs(settings: AlertSettings) -> AlertSettings:
    """Return the settings for the runs of a sweep, which send no alert when they finish."""
    events = tuple(event for event in settings.events if event != AlertEvent.FINISHED)
    return replace(settings, events=events)


async def send_sweep_alert(
    settings: AlertSettings, sweep: str, name: str | None, took_s: float, counts: str
) -> str | None:
    """Send the alert that a sweep is over, with the `counts` of its runs; return why not, if so."""
    if AlertEvent.FINISHED not in settings.events:
        return None
    failures: list[str] = []
    sender = Sender(settings, failures.append)
    text = f"The sweep has finished after {duration_text(took_s)}"
    alert = Alert(0, AlertEvent.FINISHED, text, 0, False, (counts,))
    about = About(host_name(), time.time(), sweep, name=name or sweep)
    sender.put(message_of(alert, about, settings.detail))
    await sender.finish()
    return "; ".join(failures) or None
