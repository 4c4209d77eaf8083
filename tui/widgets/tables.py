"""What scrolls: rows, of which one may be highlighted; tables that are sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.figures.report.sections import Section
from dlmon.records.record import record
from dlmon.render.lines import lines_of
from tui.widgets.lines import (
    BAD,
    CHOSEN,
    GOOD,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    TextRun,
    cut,
    fit,
    shows,
    with_thumb,
)

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


MARGIN = 1
"""Cells on the right, for the thumb that says which part is shown."""


class RowList(ScrollingLines):
    """Base of the tables that scroll; a subclass says what its rows are.

    It never has the focus: the screen moves the highlight.
    """

    class Highlighted(Message):
        """Another row is highlighted, or none is left."""

    class RowChosen(Message):
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
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        index = self.index_at(clicked.y - 1, self.count)
        if index is not None and self.can_highlight:
            self.highlight(index)
            if event.chain == self.CLICKS:
                self.post_message(self.RowChosen())

    def _row_drawn(self, index: int, width: int) -> TextRow:
        """Return a row as it is shown: the highlighted one stands out."""
        row = self.row_of(index, width)
        if index != self.index:
            return row
        text = "".join(text for text, _ in row)
        return ((fit(text, width), CHOSEN),)


Row = TypeVar("Row")


@record(frozen=True)
class Column:
    """A column.

    Attributes:
        name: what it is sorted by.
        value: returns what a row is sorted by; None where that is unknown.
        largest_first: whether the first sort puts the largest on top.
        cells: its width; 0 for the rest of the row.
        is_text: whether it is aligned left, as numbers are not.
        title: its heading, where that is not its name.
    """

    name: str
    value: Callable[[Any], Any]
    largest_first: bool = False
    cells: int = 0
    is_text: bool = True
    title: str = ""

    @property
    def heading(self) -> str:
        return self.title or self.name


def in_order(rows: Iterable[Row], column: Column, reverse: bool = False) -> list[Row]:
    """Return rows sorted by a column, equal ones as they came; those without a value come last."""
    valued = [(column.value(row), row) for row in rows]
    known = [(value, row) for value, row in valued if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=column.largest_first != reverse)
    return [row for _, row in known] + [row for value, row in valued if value is None]


def next_column(by: str, step: int, names: Sequence[str]) -> str:
    """Return the column after one, or before it; after the last comes the first."""
    return names[(names.index(by) + step) % len(names)] if by in names else names[0]


class SortedTable(RowList, Generic[Row]):
    """Rows below the names of their columns; what is highlighted stays so while it is shown."""

    FRONT: ClassVar[int] = 4
    """Cells before the first column."""
    GAP: ClassVar[int] = 2

    all_rows: Sequence[Row] | None = None
    """What there is, shown or not; None while that isn't known."""
    shown_rows: Sequence[Row] = ()
    _typed = ""
    _by = ""
    _reversed = False

    def columns(self, width: int) -> Sequence[Column]:
        """Return those that a width has room for."""
        raise NotImplementedError

    def matching_rows(self) -> list[Row]:
        raise NotImplementedError

    def key_of(self, row: Row) -> object:
        """Return what identifies a row when it is read again."""
        raise NotImplementedError

    def put_titles(self) -> None:
        """Say in the border how many there are, and in which order."""
        raise NotImplementedError

    @property
    def first_index(self) -> int:
        """Which row is highlighted where the one before is gone."""
        return self.FIRST

    @property
    def count(self) -> int:
        return len(self.shown_rows)

    @property
    def highlighted(self) -> Row | None:
        """What is highlighted; None where nothing is."""
        return self.shown_rows[self.index] if 0 <= self.index < len(self.shown_rows) else None

    @property
    def sorted_by(self) -> str:
        return self._by

    @property
    def order(self) -> str:
        """By what it is sorted, in words."""
        by = {column.name: column.heading for column in self.columns(self._inner_width)}
        name = by.get(self.sorted_by, self.sorted_by)
        return f"by {name}{' reversed' * self._reversed}"

    def filter(self, typed: str) -> None:
        self._typed = typed
        self.rearrange()

    def sort_by(self, name: str) -> None:
        """Sort by a column; by the same one once more, the other way round."""
        self._reversed = name == self.sorted_by and not self._reversed
        self._by = name
        self.rearrange()

    def sort_by_next(self, step: int) -> None:
        """Sort by the next column that is shown, or by the one before."""
        names = [column.name for column in self.columns(self._inner_width)]
        self._by, self._reversed = next_column(self.sorted_by, step, names), False
        self.rearrange()

    def reverse(self) -> None:
        self.sort_by(self.sorted_by)

    def rearrange(self) -> None:
        """Put what matches in order; the highlight stays on its row where that is shown."""
        before = self.highlighted
        self.shown_rows = self.matching_rows()
        keys = [self.key_of(row) for row in self.shown_rows]
        key = None if before is None else self.key_of(before)
        self.put_titles()
        # One that somebody has scrolled away from is not scrolled to.
        scroll = before is None or self.index in self._seen
        index = keys.index(key) if key in keys else self.first_index
        self.highlight(index, scroll=scroll)

    def heading(self, width: int) -> TextRow:
        """Return the names of the columns, with an arrow at the one that it is sorted by."""
        runs: list[TextRun] = [(" " * self.FRONT, MUTED)]
        for column in self.columns(width):
            name, style = column.heading, MUTED
            if column.name == self.sorted_by:
                arrow = "▼" if column.largest_first != self._reversed else "▲"
                name, style = arrow + name, "bold underline"
            # An arrow may take a cell of the gap.
            room = column.cells + self.GAP - cell_len(name)
            after = max(0, room if column.is_text else min(room, self.GAP))
            runs += [(" " * max(0, room - after), MUTED), (name, style), (" " * after, MUTED)]
        return tuple(runs)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose name is clicked; the base takes a click on a row."""
        clicked = event.get_content_offset(self)
        if clicked is None or clicked.y or not self.shown_rows or clicked.x < self.FRONT:
            return
        right = self.FRONT
        for column in self.columns(self._inner_width):
            right += (column.cells or self.size.width) + self.GAP
            if clicked.x < right:
                self.sort_by(column.name)
                return

    @property
    def _inner_width(self) -> int:
        return self.size.width - MARGIN


_STYLES = {
    "": PLAIN, "dim": MUTED, "strong": STRONG, "good": GOOD, "bad": BAD, "high": HIGH,
}  # fmt: skip


class SectionLines(ScrollingLines):
    """Sections below each other; `show` takes them."""

    def rows(self, width: int, height: int, *sections: Section) -> list[TextRow]:
        """Return the rows that are in view."""
        lines = lines_of(sections, width - 1)
        rows = [tuple((text, _STYLES[style]) for text, style in line) for line in lines]
        return self.scrolled([cut(row, width - 1) for row in rows], width, height)

    show = shows(rows)
