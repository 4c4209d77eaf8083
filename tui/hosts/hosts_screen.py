"""The screen of several hosts, with a card for each, and the screen of one host in full."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.layout import WidgetPlacement
from textual.widget import Widget
from textual.widgets import Static

from dlmon.alerts.dispatch import HostAlerts
from dlmon.figures import units
from dlmon.figures.machine import host_rows as words
from dlmon.figures.machine.readings import identity
from dlmon.figures.session.phases import reading_text
from dlmon.figures.session.playback import mark_text
from dlmon.remote.host import HostSnapshot, HostState, RunningSession, WatchedHost
from dlmon.remote.host_replay import HostReplay
from dlmon.session.replay import SEEKING_S
from dlmon.session.source import SLICE_S
from tui.hosts.card import (
    MOST_HISTORY_ROWS,
    STATUS_STYLES,
    HostCard,
    HostTable,
    shown_sessions,
    user_cells,
)
from tui.messages import ListHostSessions, ReplayHost, ShowHostSession
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
from tui.widgets.lines import (
    APART,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    OneLine,
    TextRow,
    fitting,
    in_rows,
    joined,
    shows,
    wrapped,
)

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
# The narrowest card has room for its figures.
_LEAST_WIDTH, _SCROLLBAR = 58, 1
# Cards are wider, up to this, while all of them fit.
_WIDEST = 100
# The rows of a card's border and sessions, and the GPUs of a host that did not tell yet.
_ROWS_BESIDE_HISTORIES, _UNKNOWN_GPUS = 4, 8
_MOST_CARDS_IN_COLUMN, _MOST_ALONE = 8, 3
# The rows of a small card.
_LEAST_CARD = 7


class CardGrid(VerticalScroll):
    """Cards in columns, each directly below the one above it."""

    def process_layout(self, placements: list[WidgetPlacement]) -> list[WidgetPlacement]:
        bottoms: dict[int, int] = {}
        for number, placement in enumerate(placements):
            x, _, width, height = placement.region
            region = Region(x, bottoms.get(x, 0), width, height)
            placements[number] = placement._replace(region=region)
            bottoms[x] = region.bottom
        return placements


class CardsScreen(FilteredScreen, TickingScreen):
    """Hosts, of which one is highlighted, or a session of it.

    If cards for all don't fit, a table has a row for each, above the cards of the highlighted one
    and of as many others as fit. The table of hosts keeps the order, the filter and the highlight,
    even while cards replace it.
    """

    CSS_PATH = "hosts.tcss"
    # Without a focus in the filter field, letters are commands.
    AUTO_FOCUS = ""
    nouns: ClassVar[tuple[str, str]] = ("host", "session")
    """The words for a host and for a session on it."""
    rows_beside: ClassVar[int] = 5
    """The rows of the summary, the table's heading, the details and the footer."""

    def __init__(self) -> None:
        super().__init__()
        self._table = HostTable()
        self._cards: dict[str, HostCard] = {}
        self._grid = CardGrid(id="cards", can_focus=False)
        self._nothing = Static("no host matches", markup=False, id="nothing")
        self._summary = HostsLine(id="summary")
        self._details = HostDetails(id="details")
        self._session: tuple[str | None, str | None] = (None, None)
        self._painted_highlight: tuple[object, ...] = ()

    @property
    def table(self) -> HostTable:
        return self._table

    def compose_parts(self) -> ComposeResult:
        yield self._summary
        yield self.filter_field
        yield self._table
        yield self._grid
        yield self._nothing
        yield self._details

    def show_hosts(self, snapshots: Sequence[HostSnapshot]) -> None:
        """Show the hosts as they are at one moment."""
        self._table.show(snapshots)
        self._paint()

    def on_resize(self) -> None:
        """Keep the highlight visible."""
        self._painted_highlight = ()
        self._table.highlight(self._table.index)

    def _paint(self) -> None:
        """Show the hosts as cards if these fit, otherwise in rows, and their summary."""
        all_hosts, hosts = self._table.all_rows or (), self._table.shown_rows
        if not self.size.width or not all_hosts:
            return
        room = self._room - len(hosts)
        has_card = self.is_compact and room >= _LEAST_CARD and self.chosen_host is not None
        self._table.display = self.is_compact and bool(hosts)
        self._table.styles.height = len(hosts) + 1 if has_card else "1fr"
        self._grid.display = (has_card or not self.is_compact) and bool(hosts)
        self._nothing.display = not hosts
        if self._grid.display:
            self._paint_cards(self._hosts_in(room) if has_card else hosts)
        summary = words.summary([*hosts, *self._table.folded], len(all_hosts), *self.nouns)
        self._summary.show(summary, self.remark)
        is_alone = self.is_compact and not has_card
        self._details.show(self.chosen_host, self.chosen_session if is_alone else None)

    @property
    def _room(self) -> int:
        return self.size.height - self.rows_beside

    def _hosts_in(self, room: int) -> Sequence[HostSnapshot]:
        """Return the highlighted host, and as many others with figures as cards have room for."""
        rows, index = self._table.shown_rows, self._table.index
        others = (*rows[index + 1 :], *rows[:index])
        hosts = [rows[index], *(host for host in others if host.machine is not None)]
        counts = range(len(hosts), 1, -1)
        columns = self._most_columns
        return hosts[: next((n for n in counts if _fit(hosts[:n], columns, room)), 1)]

    def _paint_cards(self, hosts: Sequence[HostSnapshot]) -> None:
        new = [HostCard(host) for host in hosts if host.name not in self._cards]
        if new:
            self._cards |= {card.host.name: card for card in new}
            self._grid.mount(*new)
        ranks: dict[Widget, int] = {self._cards[host.name]: n for n, host in enumerate(hosts)}
        for card in self._cards.values():
            card.display = card in ranks
        if [card for card in self._grid.children if card in ranks] != [*ranks]:
            self._grid.sort_children(key=lambda card: ranks.get(card, -1))
        self._grid.styles.grid_size_columns, history_rows = self._shape_of(hosts)
        cells = user_cells(hosts)
        for host, rows in zip(hosts, history_rows, strict=True):
            is_chosen, session = host is self.chosen_host, self.chosen_session
            self._cards[host.name].show(host, is_chosen, session, cells, rows)

    @property
    def remark(self) -> str:
        """The end of the summary: the order of the hosts, unless it is the default."""
        table = self._table
        by = "" if table.sorted_by == words.ORDERS[0] else f"sorted by {table.sorted_by}"
        return f"{by or 'as named'}, reversed" if table.is_reversed else by

    @property
    def chosen_host(self) -> HostSnapshot | None:
        """The highlighted host; None if no host matches the filter."""
        return self._table.highlighted

    @property
    def sessions(self) -> Sequence[RunningSession]:
        """The sessions of the highlighted host that can be highlighted."""
        host = self.chosen_host
        # The row of a lost host shows the reason in place of sessions.
        if host is None or (self.is_compact and not host.is_there):
            return ()
        return shown_sessions(host)

    @property
    def chosen_session(self) -> RunningSession | None:
        host, (host_name, session_name) = self.chosen_host, self._session
        if host is None or host.name != host_name:
            return None
        return next((s for s in self.sessions if s.session == session_name), None)

    @property
    def is_compact(self) -> bool:
        """True if each host has a row, because cards for all of them don't fit."""
        most = _MOST_CARDS_IN_COLUMN * self._most_columns if self._most_columns > 1 else _MOST_ALONE
        return len(self._table.all_rows or ()) > most

    @property
    def _most_columns(self) -> int:
        # Count a gap for each column; the last column has none.
        return max(1, (self.size.width - _SCROLLBAR + 1) // (_LEAST_WIDTH + 1))

    def _shape_of(self, hosts: Sequence[HostSnapshot]) -> tuple[int, list[int]]:
        """Return the columns of cards, and the rows of a history on each: the largest that fit."""
        most = max(1, min(self._most_columns, len(hosts)))
        room = self._room - (self._table.count if self.is_compact else 0)
        least = min(most, max(1, self.size.width // _WIDEST))
        columns = next((n for n in range(least, most) if _fit(hosts, n, room)), most)
        rows = [1] * len(hosts)
        # The histories of hosts with few GPUs grow first.
        fewest = sorted(range(len(hosts)), key=lambda n: len(hosts[n].gpus))
        for number in fewest * (MOST_HISTORY_ROWS - 1):
            higher = [*rows[:number], rows[number] + 1, *rows[number + 1 :]]
            if _fit(hosts, columns, room, higher):
                rows = higher
        return columns, rows

    def on_host_card_clicked(self, message: HostCard.Clicked) -> None:
        """Highlight the clicked host; a double click opens it."""
        self._table.highlight([host.name for host in self._table.shown_rows].index(message.name))
        if message.twice:
            self.action_open()

    def on_row_list_highlighted(self) -> None:
        """Paint a new highlight, and scroll to it."""
        host, session = self.chosen_host, self.chosen_session
        name = host.name if host is not None else None
        highlight = (name, self._session, session is None, self.remark, self._table.count)
        if highlight == self._painted_highlight:
            return
        self._painted_highlight = highlight
        self._paint()
        self.refresh_bindings()
        card = self._cards.get(host.name) if host is not None else None
        if card is not None and not self.is_compact:
            self.call_after_refresh(self._grid.scroll_to_widget, card, animate=False)

    def on_row_list_row_chosen(self) -> None:
        self.action_open()

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "open": "no host is highlighted",
        "session": "no session runs on the highlighted host",
        "sessions": "the highlighted host is not connected",
    }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to open only if a host is highlighted."""
        if action == "open":
            return self.chosen_host is not None and self.focused is not self.filter_field
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        raise NotImplementedError

    def action_move_to(self, across: int, down: int) -> None:
        """Move the highlight by columns to the right and rows down."""
        last = self._table.count - 1
        columns = 1 if self.is_compact else self._shape_of(self._table.shown_rows)[0]
        index = self._table.index + across
        target = index + down * columns
        if down and not 0 <= target <= last:
            # Below the card is no other one, but an incomplete last row: go to its last card.
            has_row_below = last // columns > index // columns
            target = last if down > 0 and has_row_below else index
            if abs(down) > 1:
                target = last if down > 0 else 0
        self._table.highlight(target)

    def action_move_page(self, direction: int) -> None:
        """Move the highlight by as many rows as are visible."""
        if self.is_compact:
            self._table.move_page(direction)
            return
        tallest = max((card.outer_size.height for card in self._cards.values()), default=1)
        rows = max(1, self._grid.size.height // max(1, tallest))
        self._table.move(direction * rows * self._shape_of(self._table.shown_rows)[0])

    def action_session(self, step: int) -> None:
        """Highlight the next session of the host; after the last one, the host itself."""
        host, choices = self.chosen_host, [None, *self.sessions]
        if host is not None:
            session = choices[(choices.index(self.chosen_session) + step) % len(choices)]
            self._session = host.name, session.session if session is not None else None
            self.on_row_list_highlighted()


def _fit(
    hosts: Sequence[HostSnapshot], columns: int, room: int, history_rows: Sequence[int] = ()
) -> bool:
    """Return whether cards of these hosts, with histories so high, fit into a number of rows."""
    gpus = [
        _UNKNOWN_GPUS if host.machine is None and host.problem is None else len(host.gpus)
        for host in hosts
    ]
    rows = history_rows or [1] * len(hosts)
    heights = [
        n * (count + 1) + _ROWS_BESIDE_HISTORIES for n, count in zip(rows, gpus, strict=True)
    ]
    return all(sum(heights[column::columns]) <= room for column in range(columns))


class HostsLine(OneLine):
    """A line with the summary of the hosts, or the state of one of them."""

    def rows(
        self,
        width: int,
        height: int,
        parts: Sequence[str],
        right: str,
        style: str = PLAIN,
        right_style: str = MUTED,
    ) -> list[TextRow]:
        """Return the parts, the first one bold, and a text on the right."""
        first, *more = parts or ("",)
        summary = ((first, STRONG), *((part, style) for part in more))
        room = width - cell_len(right) - APART * bool(right)
        return [joined(fitting(summary, room), ((right, right_style),), width)]

    show = shows(rows)


class HostDetails(Lines):
    """Lines for what a card cuts: the problem of the highlighted host, and its identity."""

    def rows(
        self,
        width: int,
        height: int,
        host: HostSnapshot | None,
        session: RunningSession | None = None,
    ) -> list[TextRow]:
        """Return the host's identity, or the session if it has no row, and the host's problem."""
        if host is None:
            return []
        sentence, style = words.sentence_of(host), STATUS_STYLES[words.status_of(host)[1]]
        # If there is no room for both, the problem comes first.
        rows: list[TextRow] = [((line, style),) for line in wrapped(sentence, width, height)]
        about = identity(host.facts) if host.machine is not None else []
        if session is not None:
            about = words.session_parts(session)
        return [*in_rows(host.name, about, width, height - len(rows)) * bool(about), *rows]

    show = shows(rows)


class HostsScreen(CardsScreen):
    """The watched hosts, connected from the first paint until the user leaves.

    If hosts are lost, `alerts` sends alerts.
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
                is_fine = host.connection.is_up or host.connection.has_ended
                self._alerts.update(host.name, is_fine, host.connection.problem)
            for failure in self._alerts.failures():
                self.notify(failure, severity="warning", markup=False)
        super().timer_fired()

    def paint(self) -> None:
        self.show_hosts([host.snapshot() for host in self._hosts])
        offered = bool(self.sessions), self._is_connected
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    @property
    def _is_connected(self) -> bool:
        host = self.chosen_host
        return host is not None and host.state == HostState.CONNECTED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer sessions only if the highlighted host has them, or can be asked for them."""
        if action == "session":
            return bool(self.sessions)
        if action == "sessions":
            return self._is_connected
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        session, host = self.chosen_session, self._watched
        if host is not None and session is not None:
            self.post_message(ShowHostSession(host.name, session.session))
        elif host is not None:
            self.app.push_screen(HostScreen(host))

    def action_sessions(self) -> None:
        if self._watched is not None:
            self.post_message(ListHostSessions(self._watched))

    @property
    def _watched(self) -> WatchedHost | None:
        """The connection to the highlighted host."""
        chosen = self.chosen_host
        return next((host for host in self._hosts if chosen and host.name == chosen.name), None)

    def action_retry(self) -> None:
        """Connect again at once to hosts that are not connected."""
        for host in self._hosts:
            host.retry_now()


class HostScreen(TickingScreen, WatchScreen):
    """One host, live. Its connection stays open when the screen is left."""

    CSS_PATH = "hosts.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Back", tooltip="Go back to all hosts"),
        hidden("R", "retry", "Retry", "Connect again now, if it is not connected"),
    ]

    def __init__(self, host: WatchedHost) -> None:
        super().__init__(host)
        self._host = host
        self._heading = HostsLine(id="host-heading")

    def compose_parts(self) -> ComposeResult:
        yield self._heading
        yield from super().compose_parts()

    def paint(self) -> None:
        host = self._host.snapshot()
        status, level = words.status_of(host)
        style = STATUS_STYLES[level]
        self._heading.show([host.name, words.sentence_of(host)], status, style, style)

    def action_retry(self) -> None:
        self._host.retry_now()


_CARD_TOPICS = ("GPU rows", "free", "CPU row", "no sample since", "Order")


class HostReplayScreen(CardsScreen, PlaybackControls):
    """A replay of several hosts."""

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

    HELP_PAGES = (Path(__file__).with_name("host_replay.md"),)
    rows_beside = CardsScreen.rows_beside + 1

    def __init__(self, replay: HostReplay) -> None:
        super().__init__()
        self._replay = replay
        self._second = -1

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        cards = topics_of(Path(__file__).with_name("hosts.md"))
        hosts, *more = super().topics
        more += (topic for topic in cards if topic[0] in _CARD_TOPICS)
        return (hosts, *topics_of(PLAYBACK_HELP), *more)

    @property
    def player(self) -> HostReplay:
        return self._replay

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield PlaybackLine()

    def on_mount(self) -> None:
        """Begin to play, and read the logs ahead."""
        self.tick()
        self.set_interval(FAST_REFRESH_S, self.timer_fired)
        self.run_worker(self._read_ahead)

    def on_unmount(self) -> None:
        self._replay.close()

    async def _read_ahead(self) -> None:
        """Read the logs to their ends, to find their marks."""
        while self.is_attached and self._replay.ahead_share is not None:
            self._replay.read_ahead(SLICE_S)
            await self._replay.pause()

    def timer_fired(self) -> None:
        second = self._replay.second()
        if second != self._second:
            self._second = second
            self.tick()

    def on_screen_resume(self) -> None:
        """Continue at the moment at which the screen of a host was left."""
        self._replay.take_back()

    def tick(self) -> None:
        """Read the logs up to the moment of the replay, and paint if the screen is visible."""
        if not self.is_attached:
            return
        if self._replay.ahead_share is None:
            self._replay.read_ahead(SLICE_S)
        self._replay.poll()
        if self._replay.read_share is not None:
            self.run_worker(self._read_on, group="reading", exclusive=True)
        if self.is_showing and not self.is_brief_seek:
            self.show_hosts(self._replay.snapshots())
            self.paint_playback()

    async def _read_on(self) -> None:
        """Read on between ticks until the moment that the user sought."""
        while self.is_attached and self._replay.read_share is not None:
            await self._replay.pause()
            self._replay.poll(SLICE_S)
        self.tick()

    @property
    def remark(self) -> str:
        """The order of the hosts, and the day and time of the replay."""
        time = units.day_and_second(self._replay.now() / 1e9)
        parts = (super().remark, reading_text(self._replay.read_share), time)
        return "   ".join(part for part in parts if part)

    def show_moment(self) -> None:
        self.refresh_bindings()
        self.tick()

    def go_to_mark(self, forward: bool) -> str | None:
        host_mark = self._replay.seek_mark(forward, SEEKING_S)
        if host_mark is None:
            return None
        host, mark = host_mark
        return f"{host}: {mark_text(mark)}"

    def action_open(self) -> None:
        chosen = self.chosen_host
        for host in self._replay.hosts:
            if chosen is not None and host.name == chosen.name:
                self.post_message(ReplayHost(self._replay, host))
