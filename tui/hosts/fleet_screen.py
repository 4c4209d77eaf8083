"""The cards of several machines, played from the recordings of them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from dlmon.figures import units
from dlmon.figures.phases import reading_text
from dlmon.remote.fleet import Fleet
from dlmon.session.replay import SEEKING_S
from dlmon.session.source import SLICE_S
from tui.hosts.cards_screen import MOVES, CardsScreen
from tui.requests import ReplayHost
from tui.screens.base import HELP, PALETTE, QUIT, SESSIONS, hidden, topics_of
from tui.screens.filtered import CLEAR_FILTER, FILTER, SORT
from tui.screens.transport import (
    FAST_REFRESH_S,
    TRANSPORT_HELP,
    TRANSPORT_KEYS,
    TransportControls,
    TransportLine,
    mark_text,
)

_KEPT_TOPICS = ("GPU rows", "free", "CPU row", "no sample since", "Order")


class FleetScreen(CardsScreen, TransportControls):
    """Several machines as they were at any moment.

    Args:
        fleet: what is played.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *TRANSPORT_KEYS,
        Binding("enter", "open", "Open", tooltip="Show the highlighted host in full"),
        Binding("q", "leave", "Quit", tooltip="Leave the replay"),
        FILTER,
        CLEAR_FILTER,
        SORT,
        HELP,
        hidden("escape", "leave", "Quit"),
        SESSIONS,
        Binding("t,f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        PALETTE,
        QUIT,
        *MOVES,
        hidden("ctrl+home", "move_to(0, -1000000)", "First host"),
        hidden("ctrl+end", "move_to(0, 1000000)", "Last host"),
    ]

    HELP_PAGES = (Path(__file__).with_name("fleet.md"),)

    def __init__(self, fleet: Fleet) -> None:
        """Take the recordings; nothing is played before the screen is shown."""
        super().__init__()
        self._fleet = fleet
        self._second = -1
        self._catching_up: Worker[None] | None = None

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        cards = topics_of(Path(__file__).with_name("hosts.md"))
        kept = (topic for topic in cards if topic[0] in _KEPT_TOPICS)
        hosts, *more = super().topics
        return (hosts, *topics_of(TRANSPORT_HELP), *more, *kept)

    @property
    def player(self) -> Fleet:
        return self._fleet

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield TransportLine()

    def on_mount(self) -> None:
        """Begin to play, and go through the logs behind the screen."""
        self.tick()
        self.set_interval(FAST_REFRESH_S, self.timer_fired)
        self.run_worker(self._read_ahead())

    def on_unmount(self) -> None:
        """Let go of the logs."""
        self._fleet.close()

    async def _read_ahead(self) -> None:
        """Go through what is recorded for its marks."""
        while self.is_attached and self._fleet.ahead_share is not None:
            self._fleet.read_ahead(SLICE_S)
            await self._fleet.pause()

    def timer_fired(self) -> None:
        second = self._fleet.second()
        if second != self._second:
            self._second = second
            self.tick()

    def on_screen_resume(self) -> None:
        """Go on, after a host in full where that was left."""
        self._fleet.take_back()

    def tick(self) -> None:
        """Read what was recorded until now, and show it where it can be seen."""
        if not self.is_attached:
            return
        if self._fleet.ahead_share is None:
            self._fleet.read_ahead(SLICE_S)
        self._fleet.poll()
        if self._fleet.read_share is not None:
            self._catch_up()
        if self.is_showing and not self.is_brief_seek:
            self.show_hosts(self._fleet.snapshots())
            self.paint_transport()

    def _catch_up(self) -> None:
        """Read on between the ticks for the moment that was gone to."""
        if self._catching_up is None or self._catching_up.is_finished:
            self._catching_up = self.run_worker(self._read_on())

    async def _read_on(self) -> None:
        while self.is_attached and self._fleet.read_share is not None:
            await self._fleet.pause()
            self._fleet.poll(SLICE_S)
        self.tick()

    @property
    def remark(self) -> str:
        """The day and time that are shown, and what the hosts are sorted by."""
        at = units.day_and_second(self._fleet.now() / 1e9)
        parts = (super().remark, reading_text(self._fleet.read_share), at)
        return "   ".join(part for part in parts if part)

    def show_moment(self) -> None:
        self.refresh_bindings()
        self.tick()

    def go_to_mark(self, forward: bool) -> str | None:
        found = self._fleet.seek_mark(forward, SEEKING_S)
        if found is None:
            return None
        host, mark = found
        return f"{host}: {mark_text(mark)}"

    def action_open(self) -> None:
        """Ask for the highlighted host in full."""
        chosen = self.chosen_host
        host = next(
            (each for each in self._fleet.hosts if chosen and each.name == chosen.name), None
        )
        if host is not None:
            self.post_message(ReplayHost(self._fleet, host))
