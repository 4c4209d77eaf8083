"""The screen of several machines, a card for each, and that of one of them in full."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from dlmon.alerts.dispatch import HostAlerts
from dlmon.figures import units
from dlmon.figures.machine import host_rows as words
from dlmon.figures.machine.readings import identity
from dlmon.figures.session.phases import reading_text
from dlmon.figures.session.playback import mark_text
from dlmon.remote.fleet import Fleet
from dlmon.remote.host import HostSnapshot, HostState, RunningSession, WatchedHost
from dlmon.session.replay import SEEKING_S
from dlmon.session.source import SLICE_S
from tui.hosts.card import STATUS_STYLES, HostCard, HostTable, shown_sessions
from tui.messages import ListHostSessions, ReplayHost, ShowHost, ShowHostSession
from tui.screens.base import HELP, PALETTE, QUIT, SESSIONS, TickingScreen, hidden, topics_of
from tui.screens.filtered import CLEAR_FILTER, FILTER, REVERSE, SORT, SORT_KEYS, FilteredScreen
from tui.screens.playback import (
    FAST_REFRESH_S,
    PLAYBACK_HELP,
    PLAYBACK_KEYS,
    PlaybackControls,
    PlaybackLine,
)
from tui.watch.watch_screen import WatchScreen
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, TextRow, in_rows, joined, shows, wrapped

MOVES: tuple[BindingType, ...] = (
    *SORT_KEYS,
    hidden("up", "move_to(0, -1)", "Host above"),
    hidden("down", "move_to(0, 1)", "Host below"),
    hidden("left", "move_to(-1, 0)", "Host on the left"),
    hidden("right", "move_to(1, 0)", "Host on the right"),
    replace(REVERSE, show=False),
    hidden("pageup", "move_page(-1)", "Page up"),
    hidden("pagedown", "move_page(1)", "Page down"),
)
# A card's figures have room in so many cells.
_LEAST_WIDTH, _SCROLLBAR = 58, 1
_MOST_CARDS_IN_COLUMN = 8


class CardsScreen(FilteredScreen, TickingScreen):
    """Machines, one of them highlighted, or a session on it.

    The table of them has their order, what filters them and the highlight, also where cards are
    seen in its place.
    """

    CSS_PATH = "hosts.tcss"
    # Letters are commands until the filter is asked for.
    AUTO_FOCUS = ""
    called: ClassVar[tuple[str, str]] = ("host", "session")
    """What a machine, and what runs on it, is called."""

    def __init__(self) -> None:
        """Show nothing before the screen is shown."""
        super().__init__()
        self._table = HostTable()
        self._cards: dict[str, HostCard] = {}
        self._grid = VerticalScroll(id="cards", can_focus=False)
        self._nothing = Static("no host matches", markup=False, id="nothing")
        self._summary = HostsLine(id="summary")
        self._details = HostDetails(id="details")
        self._session: tuple[str | None, str | None] = (None, None)
        self._shown: tuple[object, ...] = ()

    @property
    def table(self) -> HostTable:
        return self._table

    def compose_parts(self) -> ComposeResult:
        yield self._summary
        yield self.filter_field
        yield self._grid
        yield self._table
        yield self._nothing
        yield self._details

    def show_hosts(self, snapshots: Sequence[HostSnapshot]) -> None:
        """Show the machines as they are at one moment."""
        self._table.show(snapshots)
        self._paint()

    def on_resize(self) -> None:
        """Keep the highlight visible."""
        self._shown = ()
        self._table.highlight(self._table.index)

    def _paint(self) -> None:
        """Show the hosts as cards or in rows, whichever have room, and how they stand together."""
        all_hosts, hosts = self._table.all_rows or (), self._table.shown_rows
        if not self.size.width or not all_hosts:
            return
        self._table.display = self.is_compact and bool(hosts)
        self._grid.display = not self.is_compact and bool(hosts)
        self._nothing.display = not hosts
        if not self.is_compact:
            self._paint_cards(hosts)
        summary = words.summary(hosts, len(all_hosts), *self.called)
        self._summary.show(summary, self.remark)
        self._details.show(self.chosen_host, self.chosen_session if self.is_compact else None)

    def _paint_cards(self, hosts: Sequence[HostSnapshot]) -> None:
        new = [HostCard(host) for host in hosts if host.name not in self._cards]
        if new:
            self._cards |= {card.host.name: card for card in new}
            self._grid.mount(*new)
        places: dict[Widget, int] = {self._cards[host.name]: n for n, host in enumerate(hosts)}
        for card in self._cards.values():
            card.display = card in places
        if [card for card in self._grid.children if card in places] != [*places]:
            self._grid.sort_children(key=lambda card: places.get(card, -1))
        self._grid.styles.grid_size_columns = self._columns
        for host in hosts:
            is_chosen = host is self.chosen_host
            self._cards[host.name].show(host, chosen=is_chosen, session=self.chosen_session)

    @property
    def remark(self) -> str:
        """What stands at the end of the summary: what the hosts are sorted by, if by anything."""
        table = self._table
        by = "" if table.sorted_by == words.ORDERS[0] else f"sorted by {table.sorted_by}"
        return f"{by or 'as named'}, reversed" if table.is_reversed else by

    @property
    def chosen_host(self) -> HostSnapshot | None:
        """The highlighted host; None where none is shown."""
        return self._table.highlighted

    @property
    def sessions(self) -> Sequence[RunningSession]:
        """The sessions of the highlighted host that can be highlighted."""
        host = self.chosen_host
        # The row of one that is gone says why it is.
        if host is None or (self.is_compact and not host.is_there):
            return ()
        return shown_sessions(host)

    @property
    def chosen_session(self) -> RunningSession | None:
        """The highlighted session of that host; None where the host itself is."""
        host, chosen = self.chosen_host, self._session
        if host is None or host.name != chosen[0]:
            return None
        return next((each for each in self.sessions if each.session == chosen[1]), None)

    @property
    def is_compact(self) -> bool:
        """Whether each host has but a row."""
        return len(self._table.all_rows or ()) > _MOST_CARDS_IN_COLUMN * self._most_columns

    @property
    def _most_columns(self) -> int:
        # Of the gap between two, one more than there are columns.
        return max(1, (self.size.width - _SCROLLBAR + 1) // (_LEAST_WIDTH + 1))

    @property
    def _columns(self) -> int:
        hosts = len(self._table.all_rows or ())
        return 1 if self.is_compact else max(1, min(self._most_columns, hosts))

    def on_host_card_clicked(self, message: HostCard.Clicked) -> None:
        """Highlight what is clicked; a double click opens it."""
        self._table.highlight([host.name for host in self._table.shown_rows].index(message.name))
        if message.twice:
            self.action_open()

    def on_row_list_highlighted(self) -> None:
        """Show what is highlighted, and bring it into view, where that is another one."""
        host, session = self.chosen_host, self.chosen_session
        shown = (host and host.name, self._session, session is None, self.remark, self._table.count)
        if shown == self._shown:
            return
        self._shown = shown
        self._paint()
        self.refresh_bindings()
        card = self._cards.get(host.name) if host is not None else None
        if card is not None and not self.is_compact:
            self.call_after_refresh(self._grid.scroll_to_widget, card, animate=False)

    def on_row_list_row_chosen(self) -> None:
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with what is highlighted."""
        if action == "open":
            return self.chosen_host is not None and self.focused is not self.filter_field
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """Ask for what is highlighted, in full."""
        raise NotImplementedError

    def action_move_to(self, across: int, down: int) -> None:
        """Highlight another host: so many columns to the right, and rows down."""
        columns, last = self._columns, self._table.count - 1
        index = self._table.index + across
        at = index + down * columns
        if down and not 0 <= at <= last:
            # From the last whole row down to the last card; else as far as there are rows.
            has_row_below = last // columns > index // columns
            at = last if down > 0 and has_row_below else index
            if abs(down) > 1:
                at = last if down > 0 else 0
        self._table.highlight(at)

    def action_move_page(self, direction: int) -> None:
        """Highlight another host, by as many rows as are shown."""
        if self.is_compact:
            self._table.move_page(direction)
            return
        tallest = max((card.outer_size.height for card in self._cards.values()), default=1)
        rows = max(1, self._grid.size.height // max(1, tallest))
        self._table.move(direction * rows * self._columns)

    def action_session(self, step: int) -> None:
        """Highlight the next session of the host, and after the last the host itself."""
        host, choices = self.chosen_host, [None, *self.sessions]
        if host is not None:
            session = choices[(choices.index(self.chosen_session) + step) % len(choices)]
            self._session = host.name, session.session if session is not None else None
            self.on_row_list_highlighted()


class HostsLine(Lines):
    """How many hosts there are and how they stand, or one of them; and what is on the right."""

    def rows(
        self,
        width: int,
        height: int,
        parts: Sequence[str],
        right: str,
        style: str = PLAIN,
        right_style: str = MUTED,
    ) -> list[TextRow]:
        """Return parts, of which the first one stands out, and what is on the right."""
        first, *more = parts or ("",)
        left: TextRow = ((first, STRONG), *((f"   {part}", style) for part in more))
        return [joined(left, ((right, right_style),), width)]

    show = shows(rows)


class HostDetails(Lines):
    """What a card has no room for: the whole problem of a host, else what the machine is."""

    def rows(
        self,
        width: int,
        height: int,
        host: HostSnapshot | None,
        session: RunningSession | None = None,
    ) -> list[TextRow]:
        """Return the highlighted host, or what is known of a session that has no row of its own."""
        if host is None:
            return []
        sentence, style = words.sentence_of(host), STATUS_STYLES[words.status_of(host)[1]]
        # The sentence comes first where both have no room.
        rows: list[TextRow] = [((line, style),) for line in wrapped(sentence, width, height)]
        about = identity(host.facts) if host.machine is not None else []
        if session is not None:
            about = words.session_parts(session)
        return [*in_rows(host.name, about, width, height - len(rows)) * bool(about), *rows]

    show = shows(rows)


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
                is_fine = host.link.is_up or host.link.has_ended
                self._alerts.look(host.name, is_fine, host.link.problem)
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


_KEPT_TOPICS = ("GPU rows", "free", "CPU row", "no sample since", "Order")


class FleetScreen(CardsScreen, PlaybackControls):
    """Several machines as they were at any moment.

    Args:
        fleet: what is played.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *PLAYBACK_KEYS,
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
        return (hosts, *topics_of(PLAYBACK_HELP), *more, *kept)

    @property
    def player(self) -> Fleet:
        return self._fleet

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield PlaybackLine()

    def on_mount(self) -> None:
        """Begin to play, and go through the logs behind the screen."""
        self.tick()
        self.set_interval(FAST_REFRESH_S, self.timer_fired)
        self.run_worker(self._read_ahead)

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
            self.paint_playback()

    def _catch_up(self) -> None:
        """Read on between the ticks for the moment that was gone to."""
        if self._catching_up is None or self._catching_up.is_finished:
            self._catching_up = self.run_worker(self._read_on)

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
