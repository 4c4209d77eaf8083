"""Rows that scroll, lists with a highlighted row, and tables that are sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.figures.columns import Column, Row
from dlmon.figures.sections import Section
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
    fit_right,
    row_width,
    shows,
)

WHEEL_LINES = 3


class ScrollingLines(Lines):
    """Rows that scroll, with a scrollbar's thumb at the right if there are more than fit."""

    _first = 0
    _in_view = range(0)
    scrolls = False
    """There are more rows than fit."""

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(WHEEL_LINES)

    def scroll_lines(self, delta: int) -> None:
        """Scroll by lines; up is negative."""
        self._first += delta
        self.redraw()

    def scroll_pages(self, pages: int) -> None:
        """Scroll by pages, which overlap by a row; up is negative."""
        self.scroll_lines(pages * max(1, self.size.height - 1))

    def bring_into_view(self, index: int, height: int) -> None:
        """Scroll just far enough to show a row."""
        self._first = max(min(self._first, index), index - height + 1)

    def in_view(self, total: int, height: int) -> range:
        """Return the range of the visible ones of `total` rows."""
        self._first = min(max(0, self._first), max(0, total - height))
        self.scrolls = total > height
        self._in_view = range(self._first, min(self._first + height, total))
        return self._in_view

    def index_at(self, line: int, total: int) -> int | None:
        """Return the index of the row painted in a line, if there is one."""
        index = self._in_view[line] if 0 <= line < len(self._in_view) else None
        return index if index is not None and index < total else None

    def with_thumb(self, rows: list[TextRow], total: int, width: int) -> list[TextRow]:
        count, first = len(rows), self._first
        if count >= total:
            return rows
        start = first * count // total
        end = max(start + 1, (first + count) * count // total)
        gaps = (" " * (width - 1 - row_width(row)) for row in rows)
        thumb = ["┃" if start <= y < end else " " for y in range(count)]
        return [
            (*row, (gap + part, MUTED)) for row, gap, part in zip(rows, gaps, thumb, strict=True)
        ]

    def scrolled(self, rows: list[TextRow], width: int, height: int) -> list[TextRow]:
        visible = self.in_view(len(rows), height)
        return self.with_thumb(rows[visible.start : visible.stop], len(rows), width)


class FollowingLines(ScrollingLines):
    """Rows that follow the newest one until the user scrolls back."""

    _scrolled = False

    def scroll_lines(self, delta: int) -> None:
        """Scroll by lines; at the newest row, follow again."""
        self._scrolled = True
        super().scroll_lines(delta)

    def in_view(self, total: int, height: int) -> range:
        if not self._scrolled:
            self._first = total
        visible = super().in_view(total, height)
        self._scrolled = visible.stop < total
        return visible


MARGIN = 1
"""Cells on the right for the scrollbar's thumb."""


class RowList(ScrollingLines):
    """Base of scrolling tables; a subclass defines the rows, and the screen moves the highlight."""

    class Highlighted(Message):
        """Another row is highlighted, or no row is left."""

    class RowChosen(Message):
        """The user clicked a row `CLICKS` times."""

    DEFAULT_CLASSES = "panel"
    FIRST: ClassVar[int] = 0
    """The least index; -1 if no row is highlighted at first."""

    KEEPS_MARGIN: ClassVar[bool] = True
    """Leave the margin free while there is no thumb."""
    CLICKS: ClassVar[int] = 2
    """The number of clicks that choose a row."""

    index = 0
    """The index of the highlighted row; -1 for none."""
    can_highlight = True
    """A click highlights a row."""

    @property
    def count(self) -> int:
        raise NotImplementedError

    def heading(self, width: int) -> TextRow:
        raise NotImplementedError

    def row_of(self, index: int, width: int) -> TextRow:
        """Return a row without its highlight; it may be wider than `width`, and is cut then."""
        raise NotImplementedError

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Return the rows that say why the table is empty."""
        return []

    def highlight(self, index: int, *, scroll: bool = True) -> None:
        """Highlight a row, and scroll to it."""
        self.index = max(self.FIRST, min(index, self.count - 1))
        room = self.size.height - 1
        if scroll and room > 0 and self.index >= 0:
            self.bring_into_view(self.index, room)
        self.redraw()
        self.post_message(self.Highlighted())

    def move(self, steps: int) -> None:
        """Move the highlight by rows; up is negative."""
        self.highlight(self.index + steps)

    def move_page(self, direction: int) -> None:
        """Move the highlight by a page; up is negative."""
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
        """Return a row, with the highlight if it has it."""
        row = self.row_of(index, width)
        if index != self.index:
            return row
        text = "".join(text for text, _ in row)
        return ((fit(text, width), CHOSEN),)


def in_order(rows: Iterable[Row], column: Column[Row], reverse: bool = False) -> list[Row]:
    """Return rows sorted by a column, stable; rows without a value come last."""
    pairs = [(column.order(row), row) for row in rows]
    with_value = [(value, row) for value, row in pairs if value is not None]
    with_value.sort(key=lambda pair: pair[0], reverse=column.largest_first != reverse)
    return [row for _, row in with_value] + [row for value, row in pairs if value is None]


def without_dropped(columns: Sequence[Column[Row]], room: int, gap: int) -> list[Column[Row]]:
    """Return the columns that fit; those with the least `dropped` are left out first."""
    remaining = list(columns)
    for column in sorted((c for c in columns if c.dropped), key=lambda c: c.dropped):
        if sum(c.cells + gap for c in remaining) - gap > room:
            remaining.remove(column)
    return remaining


def next_column(by: str, step: int, names: Sequence[str]) -> str:
    """Return the name `step` columns after `by`, cyclically."""
    return names[(names.index(by) + step) % len(names)] if by in names else names[0]


class SortedTable(RowList, Generic[Row]):
    """Rows below the names of their columns; the highlight stays on its row."""

    FRONT: ClassVar[int] = 4
    """Cells before the first column."""
    GAP: ClassVar[int] = 2

    all_rows: Sequence[Row] | None = None
    """All rows, filtered or not; None until they are read."""
    shown_rows: Sequence[Row] = ()
    _typed = ""
    _by = ""
    _reversed = False

    def columns(self, width: int) -> Sequence[Column[Row]]:
        raise NotImplementedError

    def bar_of(self, column: Column[Row], row: Row) -> Sequence[TextRun]:
        """Return the bar of a column that has one, in exactly its cells."""
        raise NotImplementedError

    def matching_rows(self) -> list[Row]:
        raise NotImplementedError

    def key_of(self, row: Row) -> object:
        """Return a key that identifies a row when it is read again."""
        raise NotImplementedError

    def put_titles(self) -> None:
        """Write the number of rows and their order into the border."""
        raise NotImplementedError

    @property
    def first_index(self) -> int:
        """The row to highlight if the highlighted one is gone."""
        return self.FIRST

    @property
    def count(self) -> int:
        return len(self.shown_rows)

    @property
    def highlighted(self) -> Row | None:
        return self.shown_rows[self.index] if 0 <= self.index < len(self.shown_rows) else None

    @property
    def sorted_by(self) -> str:
        return self._by

    @property
    def order(self) -> str:
        by = {column.name: column.heading for column in self.columns(self._inner_width)}
        name = by.get(self.sorted_by, self.sorted_by)
        return f"by {name}{' reversed' * self._reversed}"

    def filter(self, typed: str) -> None:
        self._typed = typed
        self.rearrange()

    def sort_by(self, name: str) -> None:
        """Sort by a column; if the rows are sorted by it already, reverse them."""
        self._reversed = name == self.sorted_by and not self._reversed
        self._by = name
        self.rearrange()

    def sort_by_next(self, step: int) -> None:
        """Sort by the next visible column, or by the one before."""
        names = [column.name for column in self.columns(self._inner_width)]
        self._by, self._reversed = next_column(self.sorted_by, step, names), False
        self.rearrange()

    def reverse(self) -> None:
        self.sort_by(self.sorted_by)

    def rearrange(self) -> None:
        """Filter and sort the rows; the highlight stays on its row if that is still shown."""
        before = self.highlighted
        self.shown_rows = self.matching_rows()
        keys = [self.key_of(row) for row in self.shown_rows]
        key = None if before is None else self.key_of(before)
        self.put_titles()
        # Don't scroll back to a row that the user has scrolled away from.
        scroll = before is None or self.index in self._in_view
        index = keys.index(key) if key in keys else self.first_index
        self.highlight(index, scroll=scroll)

    def heading(self, width: int) -> TextRow:
        """Return the names of the columns, with an arrow at the sorted one."""
        runs: list[TextRun] = [(" " * self.FRONT, MUTED)]
        for column in self.columns(width):
            name, style = column.heading, MUTED
            if column.name == self.sorted_by:
                arrow = "▼" if column.largest_first != self._reversed else "▲"
                name, style = arrow + name, "bold underline"
            # An arrow may take a cell of the gap.
            room = column.cells + self.GAP - cell_len(name)
            after = max(0, min(room, self.GAP) if column.is_number else room)
            after_text = " " * (after + (column.bar + self.GAP if column.bar else 0))
            runs += [(" " * max(0, room - after), MUTED), (name, style), (after_text, MUTED)]
        return tuple(runs)

    def cells_of(self, row: Row, columns: Sequence[Column[Row]]) -> list[TextRun]:
        """Return a row's cells; that of the sorted column stands out."""
        runs: list[TextRun] = []
        for column in columns:
            style = STRONG if column.name == self.sorted_by else PLAIN
            runs.append((self._cell(column, row), style))
            if column.bar:
                runs += [*self.bar_of(column, row), (" " * self.GAP, PLAIN)]
        return runs

    def _cell(self, column: Column[Row], row: Row) -> str:
        text = column.text(row)
        if not column.cells:
            return text
        return (fit_right if column.is_number else fit)(text, column.cells) + " " * self.GAP

    def on_click(self, event: events.Click) -> None:
        """Sort by the clicked column; the base class handles a click on a row."""
        clicked = event.get_content_offset(self)
        if clicked is None or clicked.y or not self.shown_rows or clicked.x < self.FRONT:
            return
        right = self.FRONT
        for column in self.columns(self._inner_width):
            right += (column.cells or self.size.width) + self.GAP
            right += column.bar + self.GAP if column.bar else 0
            if clicked.x < right:
                self.sort_by(column.name)
                return

    @property
    def _inner_width(self) -> int:
        return self.size.width - MARGIN


STYLES = {
    "": PLAIN, "dim": MUTED, "strong": STRONG, "good": GOOD, "bad": BAD, "high": HIGH,
}  # fmt: skip
"""The styles of the words that figures name them by."""


class SectionLines(ScrollingLines):
    """Sections of a report, which scroll; `show` takes them."""

    def rows(self, width: int, height: int, *sections: Section) -> list[TextRow]:
        """Return the visible rows."""
        lines = lines_of(sections, width - 1)
        rows = [tuple((text, STYLES[style]) for text, style in line) for line in lines]
        return self.scrolled([cut(row, width - 1) for row in rows], width, height)

    show = shows(rows)
