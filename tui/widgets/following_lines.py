"""Panels that one can scroll in, and one whose newest line stands at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual import events

from tui.widgets.lines import Lines, with_thumb
from tui.widgets.rows import TextRow

Line = TypeVar("Line")

WHEEL_LINES = 3


class Wheel:
    """What a turn of the mouse wheel does to a widget with `scroll_lines`."""

    def scroll_lines(self, delta: int) -> None:
        raise NotImplementedError

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(WHEEL_LINES)


class ScrollingLines(Wheel, Lines):
    """Rows of which some are seen; where there are more, a thumb at the right says which."""

    _first = 0
    _seen = range(0)
    scrolls = False
    """Whether there is more than fits."""

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
        return with_thumb(rows, self._first, total, width, self.glyphs)

    def scrolled(self, rows: list[TextRow], width: int, height: int) -> list[TextRow]:
        """Return the rows that are seen of all."""
        seen = self.in_view(len(rows), height)
        return self.with_thumb(rows[seen.start : seen.stop], len(rows), width)


class Tail(Wheel, Lines, Generic[Line]):
    """Follows the newest line, unless one has scrolled back; then what is seen stays in place.

    A subclass draws one line in `rows_of`.
    """

    DEFAULT_CLASSES = "panel"

    _lines: Sequence[Line] = ()
    _lowest: Line | None = None
    _titled: tuple[str, str, str, tuple[str, ...]] = ("", "", "", ())

    def show_lines(
        self,
        lines: Sequence[Line],
        title: str,
        note: str = "",
        right: str = "",
        more: tuple[str, ...] = (),
    ) -> None:
        """Show lines, oldest first, under a title.

        `note` stands in the bottom of the border, `right` at the right end of its top, and what
        has room of `more` behind that.
        """
        self._lines, self._titled = lines, (title, note, right, more)
        self._put_note()
        self.redraw()

    def rows_of(self, line: Line, width: int, height: int) -> list[TextRow]:
        """Return at least one row, and at most `height`, for a line."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the lines that end at the newest, or where one has scrolled to."""
        rows: list[TextRow] = []
        for line in reversed(self._lines[: self._end()]):
            if len(rows) >= height:
                break
            room = height - len(rows)
            rows[:0] = self.rows_of(line, width, height)[-room:]
        return rows

    def lines_from_top(self, width: int, height: int) -> int:
        """Return how many lines fit, from the oldest on: further back there is nothing."""
        rows = 0
        for count, line in enumerate(self._lines):
            rows += len(self.rows_of(line, width, height))
            if rows > height:
                return max(1, count)
        return len(self._lines)

    @property
    def newer_below(self) -> int:
        """How many newer lines lie below what is in view."""
        return len(self._lines) - self._end()

    def scroll_lines(self, delta: int) -> None:
        """Scroll by lines: back is negative; at the newest it follows again."""
        least = self.lines_from_top(*self.size)
        end = min(max(self._end() + delta, least), len(self._lines))
        self._lowest = None if end == len(self._lines) else self._lines[end - 1]
        self._put_note()
        self.redraw()

    def _end(self) -> int:
        """Return the number of lines down to the lowest in view: no room is left below it."""
        if self._lowest is None:
            return len(self._lines)
        least = min(len(self._lines), self.lines_from_top(*self.size))
        for index in range(len(self._lines) - 1, -1, -1):
            if self._lines[index] is self._lowest:
                return max(index + 1, least)
        return least

    def on_resize(self, event: events.Resize) -> None:
        """Say again how many lines lie below."""
        self._put_note()

    @property
    def _below(self) -> str:
        return f"{self.newer_below} newer below" if self.newer_below else ""

    def _put_note(self) -> None:
        title, note, right, more = self._titled
        self.set_titles(title, "  ".join(part for part in (note, self._below) if part), right, more)
