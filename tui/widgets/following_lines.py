"""Panels that one can scroll in."""

from __future__ import annotations

from textual import events

from tui.widgets.lines import Lines, with_thumb
from tui.widgets.rows import TextRow

WHEEL_LINES = 3


class ScrollingLines(Lines):
    """Rows of which some are seen; where there are more, a thumb at the right says which."""

    _first = 0
    _seen = range(0)
    scrolls = False
    """Whether there is more than fits."""

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(WHEEL_LINES)

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down."""
        self._first += delta
        self.redraw()

    def scroll_pages(self, pages: int) -> None:
        """Scroll by pages, less a row each; up is negative."""
        self.scroll_lines(pages * max(1, self.size.height - 1))

    def bring_into_view(self, index: int, height: int) -> None:
        """Scroll as little as brings a row among those that are seen."""
        self._first = max(min(self._first, index), index - height + 1)

    def in_view(self, total: int, height: int) -> range:
        """Return which rows of so many are seen in so few."""
        self._first = min(max(0, self._first), max(0, total - height))
        self.scrolls = total > height
        self._seen = range(self._first, min(self._first + height, total))
        return self._seen

    def index_at(self, line: int, total: int) -> int | None:
        """Return which of so many rows stands in a line as it is painted; None where none does."""
        index = self._seen[line] if 0 <= line < len(self._seen) else None
        return index if index is not None and index < total else None

    def with_thumb(self, rows: list[TextRow], total: int, width: int) -> list[TextRow]:
        """Add the thumb to the rows that are seen, if there are more."""
        if not self.scrolls or not rows:
            return rows
        return with_thumb(rows, self._first, total, width)

    def scrolled(self, rows: list[TextRow], width: int, height: int) -> list[TextRow]:
        """Return the rows that are seen of all."""
        seen = self.in_view(len(rows), height)
        return self.with_thumb(rows[seen.start : seen.stop], len(rows), width)


class FollowingLines(ScrollingLines):
    """Rows of which the newest are seen, until somebody scrolls back from there."""

    _scrolled = False

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down; at the newest it follows again."""
        self._scrolled = True
        super().scroll_lines(delta)

    def in_view(self, total: int, height: int) -> range:
        if not self._scrolled:
            self._first = total
        seen = super().in_view(total, height)
        self._scrolled = seen.stop < total
        return seen
