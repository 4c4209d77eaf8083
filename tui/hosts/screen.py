"""The screen of several machines, a card for each, and that of one of them in full."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.alerts.alerts import HostAlerts
from dlmon.figures import hosts as words
from dlmon.remote.host import HostState, WatchedHost
from tui.hosts.card import STATUS_STYLES
from tui.hosts.cards_screen import MOVES, CardsScreen, HostsLine
from tui.requests import ListHostSessions, ShowHost, ShowHostSession
from tui.screens.base import HELP, PALETTE, QUIT, TickingScreen, hidden
from tui.screens.filtered import CLEAR_FILTER, FILTER, SORT
from tui.watch.screen import WatchScreen


class HostsScreen(CardsScreen):
    """Hosts that are watched, until the user leaves; then all connections end.

    Args:
        hosts: which; they are started once the screen is shown.
        alerts: tells which of them are lost; None for nobody is told.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="Show the highlighted host, or session, in full"),
        Binding("tab", "session(1)", "Session", tooltip="Highlight the next session of the host"),
        Binding("r", "sessions", "Sessions", tooltip="What was recorded on the highlighted host"),
        FILTER,
        CLEAR_FILTER,
        SORT,
        Binding("R", "retry", "Retry", tooltip="Connect again now to hosts that are not connected"),
        HELP,
        Binding("q", "leave", "Quit", tooltip="Leave, and end all connections"),
        hidden("escape", "leave", "Quit"),
        Binding("t,f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        PALETTE,
        QUIT,
        hidden("shift+tab", "session(-1)", "Highlight the previous session"),
        *MOVES,
        hidden("home,ctrl+home", "move_to(0, -1000000)", "First host"),
        hidden("end,ctrl+end", "move_to(0, 1000000)", "Last host"),
    ]
    HELP_PAGES = (Path(__file__).with_name("hosts.md"),)

    def __init__(self, hosts: Sequence[WatchedHost], alerts: HostAlerts | None = None) -> None:
        """Connect to none before the screen is shown."""
        super().__init__()
        self._alerts = alerts
        self._hosts = list(hosts)
        self._offered = (False, False)

    def on_mount(self) -> None:
        """Connect once the screen is painted."""
        self.tick()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        if self.is_attached:
            for host in self._hosts:
                host.start()

    async def on_unmount(self) -> None:
        """End all connections."""
        await asyncio.gather(*(host.close() for host in self._hosts))

    def timer_fired(self) -> None:
        if self._alerts is not None:
            for host in self._hosts:
                self._alerts.look(host.name, host.link.is_up, host.link.problem)
            for failure in self._alerts.failures():
                self.notify(failure, severity="warning", markup=False)
        super().timer_fired()

    def paint(self) -> None:
        """Show the hosts as they are now."""
        self.show_hosts([host.snapshot() for host in self._hosts])
        offered = bool(self.sessions), self._answers
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    @property
    def _answers(self) -> bool:
        """Whether the highlighted host is connected."""
        host = self.chosen_host
        return host is not None and host.state == HostState.CONNECTED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with what is highlighted."""
        if action == "session":
            return bool(self.sessions)
        if action == "sessions":
            return self._answers
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """Ask for the highlighted session, else for the host in full."""
        session, host = self.chosen_session, self._watched
        if host is not None and session is not None:
            self.post_message(ShowHostSession(host.name, session.session))
        elif host is not None:
            self.post_message(ShowHost(host))

    def action_sessions(self) -> None:
        """Ask for the sessions that were recorded on the highlighted host."""
        if self._watched is not None:
            self.post_message(ListHostSessions(self._watched))

    @property
    def _watched(self) -> WatchedHost | None:
        """What watches the highlighted host."""
        chosen = self.chosen_host
        return next((host for host in self._hosts if chosen and host.name == chosen.name), None)

    def action_retry(self) -> None:
        """Try at once to reach the hosts that are not connected."""
        for host in self._hosts:
            host.retry_now()


class HostScreen(TickingScreen, WatchScreen):
    """A host, live; its connection goes on when the screen is left."""

    CSS_PATH = "hosts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Back", tooltip="Go back to all hosts"),
        hidden("R", "retry", "Retry", "Connect again now, if it is not connected"),
    ]

    def __init__(self, host: WatchedHost) -> None:
        """Take a host that is started."""
        super().__init__(host)
        self._host = host
        self._heading = HostsLine(id="host-heading")

    def compose_parts(self) -> ComposeResult:
        """Lay out which host it is, above the machine."""
        yield self._heading
        yield from super().compose_parts()

    def paint(self) -> None:
        """Show how the host stands."""
        host = self._host.snapshot()
        status, level = words.status_of(host)
        style = STATUS_STYLES[level]
        self._heading.show([host.name, words.sentence_of(host)], status, style, style)

    def action_retry(self) -> None:
        self._host.retry_now()
