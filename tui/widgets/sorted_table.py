"""Rows that are sorted by a column and filtered by what is typed; a click on a heading sorts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual import events

from dlmon.records.record import record
from tui.widgets.lines import MUTED
from tui.widgets.row_list import MARGIN, RowList
from tui.widgets.rows import TextRow, TextRun

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
    shown: Sequence[Row] = ()
    _typed = ""
    _by = ""
    _reversed = False

    def columns(self, width: int) -> Sequence[Column]:
        """Return those that a width has room for."""
        raise NotImplementedError

    def found(self) -> list[Row]:
        """Return what matches the filter, in order."""
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
        return len(self.shown)

    @property
    def highlighted(self) -> Row | None:
        """What is highlighted; None where nothing is."""
        return self.shown[self.index] if 0 <= self.index < len(self.shown) else None

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
        """Show only what matches."""
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
        self.shown = self.found()
        keys = [self.key_of(row) for row in self.shown]
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
        if clicked is None or clicked.y or not self.shown or clicked.x < self.FRONT:
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
