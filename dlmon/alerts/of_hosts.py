"""The alerts of hosts that are watched: a viewer sends them, for a host that is lost can't."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from dlmon.alerts.message import About, message_of
from dlmon.alerts.rules import Standing, advance, host_cause
from dlmon.alerts.sender import Sender
from dlmon.alerts.settings import AlertSettings


class Connection(Protocol):
    """How the connection to a host stands."""

    @property
    def is_up(self) -> bool: ...
    @property
    def problem(self) -> str | None: ...


class Watched(Protocol):
    """A host that is watched."""

    @property
    def name(self) -> str: ...
    @property
    def link(self) -> Connection: ...


class HostAlerts:
    """Tells which hosts are lost, and that they are back.

    Args:
        settings: from when on, and where that is sent.
    """

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self._standings: dict[str, Standing] = {}
        self._failures: deque[str] = deque(maxlen=10)
        self._sender = Sender(settings, self._failures.append)

    def look(self, watched: Watched) -> None:
        """Take how a host stands; of one that is being reached nothing is known."""
        host, now = watched.name, time.monotonic_ns()
        if watched.link.problem is None and not watched.link.is_up:
            return
        problem = None if watched.link.is_up else watched.link.problem
        cause = host_cause(host, problem, self._settings)
        if cause.event not in self._settings.events:
            return
        before = self._standings.get(host, Standing())
        self._standings[host], alert = advance(before, cause, now, self._settings)
        if alert is not None:
            about = About(host, time.time() - time.monotonic_ns() / 1e9)
            self._sender.put(message_of(alert, about, self._settings.detail))

    def failures(self) -> list[str]:
        """Return why messages could not be sent since this was last asked."""
        return [self._failures.popleft() for _ in range(len(self._failures))]
