"""All hosts: cards that flow in columns, or a row for each where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from dlmon.figures.hosts import ORDERS
from dlmon.remote.host import HostSnapshot
from tui.hosts.card import HostCard, card_height, shown_sessions
from tui.hosts.host_row import HostTable

# A card's figures have room in so many cells.
_LEAST_WIDTH, _GAP, _SCROLLBAR = 58, 1, 1
_MOST_CARDS_IN_COLUMN = 8


class HostCards(Container):
    """The hosts, of which one is highlighted, or a session on it.

    The table of them has their order, what filters them and the highlight, also where the cards
    are seen in its place. It never has the focus: the screen moves the highlight.
    """

    class Highlighted(Message):
        """Another host, or session, is highlighted, or others are shown."""

    class Chosen(Message):
        """A host or a session was clicked twice."""

    DEFAULT_CSS = """
    HostCards VerticalScroll {
        layout: grid;
        grid-gutter: 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    HostCards VerticalScroll:focus { background-tint: transparent; }
    HostCards Static { color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._cards: dict[str, HostCard] = {}
        self._session: tuple[str | None, str | None] = (None, None)
        self._said: tuple[object, ...] = ()
        self._grid = VerticalScroll(can_focus=False)
        self._grid_rows = ""
        self._table = HostTable()
        self._nothing = Static("no host matches", markup=False)
        self._nothing.display = False
        self.filter, self.reverse = self._table.filter, self._table.reverse
        self.sort_by_next = self._table.sort_by_next

    def compose(self) -> ComposeResult:
        yield self._grid
        yield self._table
        yield self._nothing

    def show(self, hosts: Sequence[HostSnapshot]) -> None:
        """Show hosts as they are now."""
        self._table.show(hosts)
        self._paint()

    @property
    def order(self) -> str:
        """What the hosts are sorted by, in words; empty where they are as they were named."""
        by = "" if self._table.sorted_by == ORDERS[0] else f"sorted by {self._table.sorted_by}"
        return f"{by or 'as named'}, reversed" if self._table.is_reversed else by

    def _paint(self) -> None:
        """Show the hosts as cards or in rows, whichever have room."""
        if not self.size.width:
            return
        is_compact, hosts = self.is_compact, self.shown_hosts
        self._table.display = is_compact and bool(hosts)
        self._grid.display = not is_compact and bool(hosts)
        self._nothing.display = bool(self._table.all_rows) and not hosts
        if is_compact:
            return
        new = [HostCard(host) for host in hosts if host.name not in self._cards]
        if new:
            self._cards |= {card.host.name: card for card in new}
            self._grid.mount(*new)
        places = {host.name: place for place, host in enumerate(hosts)}
        for name, card in self._cards.items():
            card.display = name in places
        cards = [card for card in self._grid.children if isinstance(card, HostCard)]
        if [card.host.name for card in cards if card.host.name in places] != [*places]:
            ranks: dict[Widget, int] = {self._cards[name]: rank for name, rank in places.items()}
            self._grid.sort_children(key=lambda card: ranks.get(card, -1))
        columns, styles = self._columns, self._grid.styles
        if styles.grid_size_columns != columns:
            styles.grid_size_columns = columns
        # The height of each row of cards is that of its tallest.
        heights = [card_height(host) for host in hosts]
        starts = range(0, len(heights), columns)
        rows = " ".join(str(max(heights[at : at + columns])) for at in starts)
        if rows != self._grid_rows:
            self._grid_rows = styles.grid_rows = rows
        for host in hosts:
            is_chosen = host.name == self.chosen_host
            self._cards[host.name].show(host, chosen=is_chosen, session=self.chosen_session)

    @property
    def shown_hosts(self) -> Sequence[HostSnapshot]:
        """Those that match the filter."""
        return self._table.shown

    @property
    def chosen_host(self) -> str | None:
        """The highlighted host; None where none is shown."""
        host = self._table.highlighted
        return None if host is None else host.name

    @property
    def chosen_session(self) -> str | None:
        """The highlighted session of that host, by its id; None where the host itself is."""
        host, session = self._session
        return session if host == self.chosen_host and session in self._sessions else None

    @property
    def is_compact(self) -> bool:
        """Whether each host has but a row."""
        return len(self._table.all_rows or ()) > _MOST_CARDS_IN_COLUMN * self._most_columns

    # ---- the highlight ----

    def move(self, steps: int) -> None:
        """Highlight another host, so many rows further."""
        self.move_to(0, steps)

    def move_to(self, across: int, down: int) -> None:
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

    def move_page(self, direction: int) -> None:
        """Highlight another host, by as many rows as are shown."""
        row = 1 if self.is_compact else max(map(card_height, self.shown_hosts), default=1)
        step = max(1, (self.size.height - 2 * self.is_compact) // row)
        self._table.highlight(self._table.index + direction * step * self._columns)

    def next_session(self, step: int) -> None:
        """Highlight the next session of the host, and after the last the host itself."""
        choices = [None, *self._sessions]
        at = (choices.index(self.chosen_session) + step) % len(choices)
        self._session = self.chosen_host, choices[at]
        self._table.highlight(self._table.index)

    @property
    def _sessions(self) -> list[str | None]:
        """The sessions of the highlighted host that can be highlighted."""
        host = self._table.highlighted
        # The row of one that is gone says why it is.
        if host is None or (self.is_compact and not host.is_there):
            return []
        return [session.session for session in shown_sessions(host)]

    @property
    def has_sessions(self) -> bool:
        """Whether a session of the highlighted host can be highlighted."""
        return bool(self._sessions)

    # ---- where they stand ----

    @property
    def _most_columns(self) -> int:
        return max(1, (self.size.width - _SCROLLBAR + _GAP) // (_LEAST_WIDTH + _GAP))

    @property
    def _columns(self) -> int:
        hosts = len(self._table.all_rows or ())
        return 1 if self.is_compact else max(1, min(self._most_columns, hosts))

    # ---- what happens to them ----

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight visible."""
        self._paint()
        self._said = ()
        self._table.highlight(self._table.index)

    def on_host_card_clicked(self, message: HostCard.Clicked) -> None:
        """Highlight what is clicked; a double click chooses it."""
        self._table.highlight([host.name for host in self.shown_hosts].index(message.name))
        if message.twice:
            self.post_message(self.Chosen())

    def on_row_list_highlighted(self, message: HostTable.Highlighted) -> None:
        """Show what is highlighted, and bring it into view, where that is another one."""
        message.stop()
        said = (self.chosen_host, self.chosen_session, self.order, len(self.shown_hosts))
        if said == self._said:
            return
        self._said = said
        self._paint()
        card = self._cards.get(self.chosen_host or "")
        if card is not None and not self.is_compact:
            self.call_after_refresh(self._grid.scroll_to_widget, card, animate=False)
        self.post_message(self.Highlighted())

    def on_row_list_chosen(self, message: HostTable.Chosen) -> None:
        message.stop()
        self.post_message(self.Chosen())
