"""All hosts: cards that flow in columns, or a row for each where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from dlmon.figures.hosts import ORDERS, in_order, matching
from dlmon.remote.host import HostSnapshot
from tui.hosts.card import HostCard, card_height, shown_sessions
from tui.hosts.host_row import HostTable

# A card's figures have room in so many cells.
_LEAST_WIDTH, _GAP, _SCROLLBAR = 58, 1, 1
_MOST_CARDS_IN_COLUMN = 8
# Hosts that are sorted by what changes take their new places so seldom: each time is a jump.
_SORTED_EVERY = 10


class HostCards(Container):
    """The hosts, of which one is highlighted, or a session on it.

    It never has the focus: the screen moves the highlight.
    """

    class Highlighted(Message):
        """Another host, or session, is highlighted."""

    class Filtered(Message):
        """Other hosts match than before."""

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
        self._all: Sequence[HostSnapshot] = ()
        self._hosts: Sequence[HostSnapshot] = ()
        self._typed, self._by, self._is_reversed = "", ORDERS[0], False
        self._times_shown = 0
        self._places: dict[str, int] = {}
        self._cards: dict[str, HostCard] = {}
        self._chosen_name: str | None = None
        self._chosen_id: str | None = None
        self._grid = VerticalScroll(can_focus=False)
        self._grid_rows = ""
        self._table = HostTable()
        self._nothing = Static("no host matches", markup=False)

    def compose(self) -> ComposeResult:
        yield self._grid
        yield self._table
        yield self._nothing

    def show(self, hosts: Sequence[HostSnapshot]) -> None:
        """Show hosts as they are now; those that are sorted by it change places now and then."""
        self._all = hosts
        if self._times_shown % _SORTED_EVERY == 0:
            self._sort()
        self._times_shown += 1
        self._put()

    def filter(self, text: str) -> None:
        """Show only hosts that match."""
        self._typed = text
        self._put()
        self.post_message(self.Filtered())

    def sort_by_next(self, step: int) -> None:
        """Sort in another way, so many further."""
        self._by = ORDERS[(ORDERS.index(self._by) + step) % len(ORDERS)]
        self._sort_anew()

    def reverse(self) -> None:
        """Reverse the order."""
        self._is_reversed = not self._is_reversed
        self._sort_anew()

    @property
    def order(self) -> str:
        """What the hosts are sorted by, in words; empty where they are as they were named."""
        by = "" if self._by == ORDERS[0] else f"sorted by {self._by}"
        return f"{by or 'as named'}, reversed" if self._is_reversed else by

    def _sort_anew(self) -> None:
        self._sort()
        self._put()
        self._bring_chosen_into_view()
        self.post_message(self.Highlighted())

    def _sort(self) -> None:
        in_sequence = in_order(self._all, self._by)
        if self._is_reversed:
            in_sequence.reverse()
        self._places = {host.name: place for place, host in enumerate(in_sequence)}

    def _put(self) -> None:
        before = self.chosen_host, self.chosen_session
        shown = matching(self._all, self._typed)
        self._hosts = shown = sorted(shown, key=lambda host: self._places[host.name])
        if not any(host.name == self._chosen_name for host in shown):
            self._choose(shown[0].name if shown else None)
        elif self._chosen_id is not None and self.chosen_session is None:
            self._chosen_id = None
        if (self.chosen_host, self.chosen_session) != before:
            self.post_message(self.Highlighted())
        self._paint()

    def _paint(self) -> None:
        """Show the hosts as cards or in rows, whichever have room."""
        if not self.size.width:
            return
        is_compact = self.is_compact
        self._table.display = is_compact and bool(self._hosts)
        self._grid.display = not is_compact and bool(self._hosts)
        self._nothing.display = bool(self._all) and not self._hosts
        if is_compact:
            self._table.show(self._hosts, self._index)
            return
        new = [HostCard(host) for host in self._all if host.name not in self._cards]
        if new:
            self._cards |= {card.host.name: card for card in new}
            self._grid.mount(*new)
        places = {host.name: place for place, host in enumerate(self._hosts)}
        for name, card in self._cards.items():
            card.display = name in places
        cards = [card for card in self._grid.children if isinstance(card, HostCard)]
        order = [card.host.name for card in cards if card.host.name in places]
        if order != [*places]:
            ranks: dict[Widget, int] = {self._cards[name]: rank for name, rank in places.items()}
            self._grid.sort_children(key=lambda card: ranks.get(card, -1))
        columns, heights = self._columns, self._heights
        styles = self._grid.styles
        if styles.grid_size_columns != columns:
            styles.grid_size_columns = columns
        rows = " ".join(map(str, heights))
        if rows != self._grid_rows:
            self._grid_rows = styles.grid_rows = rows
        for host in self._hosts:
            is_chosen = host.name == self._chosen_name
            self._cards[host.name].show(host, chosen=is_chosen, session=self.chosen_session)

    @property
    def shown_hosts(self) -> Sequence[HostSnapshot]:
        """Those that match the filter."""
        return self._hosts

    @property
    def chosen_host(self) -> str | None:
        """The highlighted host; None where none is shown."""
        return self._chosen_name

    @property
    def chosen_session(self) -> str | None:
        """The highlighted session of that host, by its id; None where the host itself is."""
        sessions = self._sessions_of(self._index)
        return self._chosen_id if self._chosen_id in sessions else None

    @property
    def is_compact(self) -> bool:
        """Whether each host has but a row."""
        return len(self._all) > _MOST_CARDS_IN_COLUMN * self._most_columns

    # ---- the highlight ----

    def move(self, steps: int) -> None:
        """Highlight another host, so many rows further."""
        self.move_to(0, steps)

    def move_to(self, across: int, down: int) -> None:
        """Highlight another host: so many columns to the right, and rows down."""
        columns, last = self._columns, len(self._hosts) - 1
        index = self._index + across
        at = index + down * columns
        if down and not 0 <= at <= last:
            # From the last whole row down to the last card; else as far as there are rows.
            has_row_below = last // columns > index // columns
            at = last if down > 0 and has_row_below else index
            if abs(down) > 1:
                at = last if down > 0 else 0
        self._highlight(at)

    def move_page(self, direction: int) -> None:
        """Highlight another host, by as many rows as are shown."""
        height = self.size.height
        if self.is_compact:
            step = max(1, height - 2)
        else:
            step = max(1, height // max(map(card_height, self._hosts), default=1))
        self._highlight(self._index + direction * step * self._columns)

    def next_session(self, step: int) -> None:
        """Highlight the next session of the host, and after the last the host itself."""
        choices = [None, *self._sessions_of(self._index)]
        at = choices.index(self.chosen_session)
        self._chosen_id = choices[(at + step) % len(choices)]
        self.post_message(self.Highlighted())
        self._paint()

    def _highlight(self, index: int) -> None:
        if not self._hosts:
            return
        self._choose(self._hosts[min(max(0, index), len(self._hosts) - 1)].name)
        self._paint()
        self._bring_chosen_into_view()
        self.post_message(self.Highlighted())

    def _choose(self, name: str | None) -> None:
        self._chosen_name, self._chosen_id = name, None

    @property
    def _index(self) -> int:
        names = [host.name for host in self._hosts]
        return names.index(self._chosen_name) if self._chosen_name in names else 0

    def _sessions_of(self, index: int) -> list[str | None]:
        if not 0 <= index < len(self._hosts):
            return []
        host = self._hosts[index]
        if self.is_compact and not host.is_there:
            # Its row says why it is not.
            return []
        return [session.session for session in shown_sessions(host)]

    @property
    def has_sessions(self) -> bool:
        """Whether a session of the highlighted host can be highlighted."""
        return bool(self._sessions_of(self._index))

    # ---- where they stand ----

    @property
    def _most_columns(self) -> int:
        return max(1, (self.size.width - _SCROLLBAR + _GAP) // (_LEAST_WIDTH + _GAP))

    @property
    def _columns(self) -> int:
        return 1 if self.is_compact else max(1, min(self._most_columns, len(self._all)))

    @property
    def _heights(self) -> list[int]:
        """The height of each row of cards, which is that of its tallest."""
        heights, columns = [card_height(host) for host in self._hosts], self._columns
        return [max(heights[at : at + columns]) for at in range(0, len(heights), columns)]

    def _bring_chosen_into_view(self) -> None:
        if self.is_compact:
            self._table.highlight(self._index)
        elif self._chosen_name in self._cards:
            card = self._cards[self._chosen_name]
            self.call_after_refresh(self._grid.scroll_to_widget, card, animate=False)

    # ---- what happens to them ----

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight visible."""
        self._paint()
        if self._hosts:
            self._bring_chosen_into_view()

    def on_host_card_clicked(self, message: HostCard.Clicked) -> None:
        """Highlight what is clicked; a double click chooses it."""
        if message.name != self._chosen_name:
            self._highlight([host.name for host in self._hosts].index(message.name))
        if message.twice:
            self.post_message(self.Chosen())

    def on_row_list_highlighted(self, message: HostTable.Highlighted) -> None:
        """Follow a click on a row."""
        message.stop()
        if self.is_compact and self._table.index != self._index:
            self._highlight(self._table.index)

    def on_row_list_chosen(self, message: HostTable.Chosen) -> None:
        message.stop()
        self.post_message(self.Chosen())
