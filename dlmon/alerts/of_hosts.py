"""The alerts of hosts that are watched: a viewer sends them, for a host that is lost can't."""

from __future__ import annotations

import time
from collections import deque

from dlmon.alerts.message import About, message_of
from dlmon.alerts.rules import RuleState, advance, host_cause
from dlmon.alerts.sender import Sender
from dlmon.alerts.settings import AlertSettings


class HostAlerts:
    """Tells which hosts are lost, and that they are back.

    Args:
        settings: from when on, and where that is sent.
    """

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self._states: dict[str, RuleState] = {}
        self._failures: deque[str] = deque(maxlen=10)
        self._sender = Sender(settings, self._failures.append)

    def look(self, host: str, is_up: bool, problem: str | None) -> None:
        """Take whether a host is connected, and if not, why; both are unknown at first."""
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
        """Return why messages could not be sent since this was last asked."""
        return [self._failures.popleft() for _ in range(len(self._failures))]
