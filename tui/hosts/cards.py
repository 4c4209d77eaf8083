"""All hosts: cards that flow in columns, or a row for each where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from dlmon.figures.hosts import ORDERS, in_order, matching
from dlmon.remote.host import HostSnapshot
from tui.hosts.card import (
    card_height,
    card_rows,
    shown_sessions,
)
from tui.hosts.host_row import compact_heading, compact_row
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import MUTED, PLAIN
from tui.widgets.rows import TextRow

# A card's figures have room in so many cells; in more, they are too far apart to be read.
_LEAST_WIDTH, _MOST_WIDTH = 58, 100
_GAP = 1
_THUMB = 1
_MOST_CARDS_IN_COLUMN = 8
_HEADING_ROWS = 1
# Hosts that are sorted by what changes take their new places so seldom: each time is a jump.
_SORTED_EVERY = 10


class HostCards(ScrollingLines):
    """The hosts, of which one is highlighted, or a session on it.

    It never has the focus: the screen moves the highlight.
    """

    class Highlighted(Message):
        """Another host, or session, is highlighted."""

    class Filtered(Message):
        """Other hosts match than before."""

    class Chosen(Message):
        """A host or a session was clicked twice."""

    _all: Sequence[HostSnapshot] = ()
    _hosts: Sequence[HostSnapshot] = ()
    _typed = ""
    _by = ORDERS[0]
    _is_reversed = False
    _times_shown = 0
    _chosen_name: str | None = None
    _chosen_id: str | None = None

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: dict[str, int] = {}

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
        self.redraw()
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
        self.redraw()

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
        columns = self._columns
        index = self._index + across
        at = index + down * columns
        if down and not 0 <= at < len(self._hosts):
            # From the last whole row down to the last card; else as far as there are rows.
            at = len(self._hosts) - 1 if down > 0 and self._rows_below(index) else index
            if abs(down) > 1:
                at = len(self._hosts) - 1 if down > 0 else 0
        self._highlight(at)

    def move_page(self, direction: int) -> None:
        """Highlight another host, by as many rows as are shown."""
        if self.is_compact:
            step = max(1, self.size.height - _HEADING_ROWS - 1)
        else:
            tallest = max(map(card_height, self._hosts), default=1)
            step = max(1, self.size.height // tallest)
        columns = self._columns
        last = max(0, len(self._hosts) - 1)
        self._highlight(min(max(0, self._index + direction * step * columns), last))

    def next_session(self, step: int) -> None:
        """Highlight the next session of the host, and after the last the host itself."""
        choices = [None, *self._sessions_of(self._index)]
        at = choices.index(self.chosen_session)
        self._chosen_id = choices[(at + step) % len(choices)]
        self.post_message(self.Highlighted())
        self.redraw()

    def _highlight(self, index: int) -> None:
        if not self._hosts:
            return
        self._choose(self._hosts[min(max(0, index), len(self._hosts) - 1)].name)
        self._bring_chosen_into_view()
        self.redraw()
        self.post_message(self.Highlighted())

    def _choose(self, name: str | None) -> None:
        self._chosen_name, self._chosen_id = name, None

    @property
    def _index(self) -> int:
        names = (
            number for number, host in enumerate(self._hosts) if host.name == self._chosen_name
        )
        return next(names, 0)

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

    def _rows_below(self, index: int) -> bool:
        last = len(self._hosts) - 1
        return last // self._columns > index // self._columns

    # ---- where they stand ----

    @property
    def _most_columns(self) -> int:
        return max(1, (self.size.width - _THUMB + _GAP) // (_LEAST_WIDTH + _GAP))

    @property
    def _columns(self) -> int:
        return 1 if self.is_compact else max(1, min(self._most_columns, len(self._all)))

    @property
    def _card_width(self) -> int:
        room = self.size.width - _THUMB - _GAP * (self._columns - 1)
        return min(_MOST_WIDTH, room // self._columns)

    def _heights(self) -> list[int]:
        """Return the height of each row of cards, which is that of its tallest."""
        columns = self._columns
        heights = [card_height(host) for host in self._hosts]
        return [max(heights[at : at + columns]) for at in range(0, len(heights), columns)]

    def _bring_chosen_into_view(self) -> None:
        if self.is_compact:
            self.bring_into_view(self._index, self.size.height - _HEADING_ROWS)
            return
        heights = self._heights()
        row = self._index // self._columns
        top = sum(heights[:row])
        self._first = max(self._first, top + heights[row] - self.size.height)
        self._first = min(self._first, top)

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return what has room of the hosts."""
        if not self._hosts:
            return [(("no host matches", MUTED),)] if self._all else []
        if self.is_compact:
            return self._compact(width, height)
        heights = self._heights()
        seen = self.in_view(sum(heights), height)
        rows: list[TextRow] = []
        top = 0
        for number, tall in enumerate(heights):
            if top + tall > seen.start and top < seen.stop:
                beside = self._row_of_cards(number, tall)
                rows += beside[max(0, seen.start - top) : seen.stop - top]
            top += tall
        return self.with_thumb(rows, top, width)

    def _row_of_cards(self, number: int, height: int) -> list[TextRow]:
        first = number * self._columns
        cards = [
            card_rows(
                host,
                self._card_width,
                height,
                self.glyphs,
                chosen=host.name == self._chosen_name,
                session=self.chosen_session,
            )
            for host in self._hosts[first : first + self._columns]
        ]
        gap: TextRow = ((" " * _GAP, PLAIN),)
        return [
            (*left, *(run for row in more for run in (*gap, *row)))
            for left, *more in zip(*cards, strict=True)
        ]

    def _compact(self, width: int, height: int) -> list[TextRow]:
        inner = width - _THUMB
        levels = max(len(host.gpus) for host in self._hosts)
        seen = self.in_view(len(self._hosts), max(0, height - _HEADING_ROWS))
        rows = [
            compact_row(
                host,
                inner,
                levels,
                self.glyphs,
                chosen=host.name == self._chosen_name,
                session=self.chosen_session,
            )
            for host in self._hosts[seen.start : seen.stop]
        ]
        rows = self.with_thumb(rows, len(self._hosts), width)
        sessions = not all(host.is_recorded for host in self._hosts)
        return [compact_heading(inner, levels, sessions=sessions), *rows]

    # ---- what happens to them ----

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight visible."""
        if self._hosts and self.size.height:
            self._bring_chosen_into_view()
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a double click chooses it."""
        clicked = event.get_content_offset(self)
        index = None if clicked is None else self._index_at(clicked.x, clicked.y)
        if index is not None:
            if self._hosts[index].name != self._chosen_name:
                self._highlight(index)
            if event.chain == 2:
                self.post_message(self.Chosen())

    def _index_at(self, x: int, y: int) -> int | None:
        """Return which host stands in a cell; None where none does."""
        if self.is_compact:
            return self.index_at(y - _HEADING_ROWS, len(self._hosts))
        heights = self._heights()
        column, line = x // (self._card_width + _GAP), self.index_at(y, sum(heights))
        if line is None:
            return None
        for row, height in enumerate(heights):
            if line < height:
                index = row * self._columns + column
                is_card = column < self._columns and index < len(self._hosts)
                return index if is_card else None
            line -= height
        return None
