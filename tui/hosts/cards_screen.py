"""The screen of several machines, be they watched or played from their recordings.

They are cards that flow in columns, or a row each where there are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from dlmon.figures import hosts as words
from dlmon.figures.machine import identity
from dlmon.remote.host import HostSnapshot, RunningSession
from tui.hosts.card import STATUS_STYLES, HostCard, HostTable, shown_sessions
from tui.screens.base import TickingScreen, hidden
from tui.screens.filtered import REVERSE, SORT_KEYS, FilteredScreen
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
        """Lay out how many there are, the filter, the hosts, and more of the highlighted one."""
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
        all_hosts, hosts = self._table.all_rows or (), self._table.shown
        if not self.size.width or not all_hosts:
            return
        self._table.display = self.is_compact and bool(hosts)
        self._grid.display = not self.is_compact and bool(hosts)
        self._nothing.display = not hosts
        if not self.is_compact:
            self._paint_cards(hosts)
        self._summary.show(words.summary(hosts, among=len(all_hosts)), self.remark)
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
        self._table.highlight([host.name for host in self._table.shown].index(message.name))
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

    def on_row_list_chosen(self) -> None:
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
