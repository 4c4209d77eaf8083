"""One of several machines in full: the screen of a machine, which says whose it is."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.figures import hosts as words
from dlmon.remote.host import HostSnapshot, WatchedHost
from tui.screens.base import REFRESH_S, hidden
from tui.watch.screen import WatchScreen
from tui.widgets.lines import BAD, HIGH, MUTED, STRONG, Lines, joined
from tui.widgets.rows import TextRow


class HostScreen(WatchScreen):
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
        self._heading = HostHeading(id="host-heading")

    def compose_parts(self) -> ComposeResult:
        """Lay out which host it is, above the machine."""
        yield self._heading
        yield from super().compose_parts()

    def on_mount(self) -> None:
        self.tick()
        self.set_interval(REFRESH_S, self.tick)

    def tick(self) -> None:
        """Show how the host stands."""
        if self.is_showing:
            self._heading.show(self._host.snapshot())

    def action_retry(self) -> None:
        self._host.retry_now()


class HostHeading(Lines):
    """The name of a host, and how it stands."""

    _shown: HostSnapshot | None = None

    def show(self, host: HostSnapshot) -> None:
        """Show a host."""
        self._shown = host
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return one row."""
        host = self._shown
        if host is None:
            return []
        status, level = words.status_of(host)
        style = {"": MUTED, "high": HIGH, "bad": BAD}[level]
        sentence = words.sentence_of(host)
        left: TextRow = ((f"{host.name}  ", STRONG), (sentence, style))
        return [joined(left, ((status, style),), width)]
