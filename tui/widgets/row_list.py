"""Rows below the names of their columns, of which one is highlighted."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.message import Message

from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import CHOSEN, cut
from tui.widgets.rows import TextRow, fit

MARGIN = 1
"""Cells on the right, for the thumb that says which part is shown."""


class RowList(ScrollingLines):
    """Base of the tables that scroll; a subclass says what its rows are.

    It never has the focus: the screen moves the highlight.
    """

    class Highlighted(Message):
        """Another row is highlighted, or none is left."""

    class Chosen(Message):
        """A row was clicked as often as it takes."""

    DEFAULT_CLASSES = "panel"
    FIRST: ClassVar[int] = 0
    """The least index; -1 where at first no row is highlighted."""

    KEEPS_MARGIN: ClassVar[bool] = True
    """Whether the thumb has its room while there is none."""
    CLICKS: ClassVar[int] = 2
    """So many choose a row."""

    index = 0
    """The number of the highlighted row; -1 for none."""
    can_highlight = True
    """Whether a click highlights a row."""

    @property
    def count(self) -> int:
        raise NotImplementedError

    def heading(self, width: int) -> TextRow:
        raise NotImplementedError

    def row_of(self, index: int, width: int) -> TextRow:
        """Return a row, the highlighted one too; it is cut where it is wider."""
        raise NotImplementedError

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Return what stands there in place of heading and rows while there are none."""
        raise NotImplementedError

    def highlight(self, index: int, *, scroll: bool = True) -> None:
        """Highlight a row, and scroll to it."""
        self.index = max(self.FIRST, min(index, self.count - 1))
        room = self.size.height - 1
        if scroll and room > 0 and self.index >= 0:
            self.bring_into_view(self.index, room)
        self.redraw()
        self.post_message(self.Highlighted())

    def move(self, steps: int) -> None:
        """Move the highlight, as far as there are rows."""
        self.highlight(self.index + steps)

    def move_page(self, direction: int) -> None:
        """Move the highlight by as many rows as are shown."""
        self.move(direction * max(1, self.size.height - 2))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the heading and the visible rows."""
        if not self.count:
            return self.empty_rows(width, height)
        room = max(0, height - 1)
        visible = self.in_view(self.count, room)
        inner = width - (MARGIN if self.KEEPS_MARGIN or self.scrolls else 0)
        rows = [self.heading(inner), *(self._row_drawn(index, inner) for index in visible)]
        rows = [cut(row, inner) for row in rows[:height]]
        return [*rows[:1], *self.with_thumb(rows[1:], self.count, width)]

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight visible."""
        self.highlight(self.index)

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked."""
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        index = self.index_at(clicked.y - 1, self.count)
        if index is not None and self.can_highlight:
            self.highlight(index)
            if event.chain == self.CLICKS:
                self.post_message(self.Chosen())

    def _row_drawn(self, index: int, width: int) -> TextRow:
        """Return a row as it is shown: the highlighted one stands out."""
        row = self.row_of(index, width)
        if index != self.index:
            return row
        text = "".join(text for text, _ in row)
        return ((fit(text, width), CHOSEN),)
