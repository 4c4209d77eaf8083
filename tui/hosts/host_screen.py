"""One of several machines in full: the screen of a machine, which says whose it is."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.figures import hosts as words
from dlmon.remote.host import WatchedHost
from tui.hosts.card import STATUS_STYLES
from tui.hosts.cards_screen import HostsLine
from tui.screens.base import TickingScreen, hidden
from tui.watch.screen import WatchScreen


class HostScreen(TickingScreen, WatchScreen):
    """A host, live; its connection goes on when the screen is left."""

    CSS_PATH = "hosts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Back", tooltip="Go back to all hosts"),
        hidden("R", "retry", "Retry", "Connect again now, if it is not connected"),
    ]

    def __init__(self, host: WatchedHost) -> None:
        """Take a host that is started."""
        super().__init__(host.machine)
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
