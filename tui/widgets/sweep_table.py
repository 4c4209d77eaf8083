"""The table of a sweep: a row for each combination, one of them highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.sweep import COMPLETED, NOT_RUN
from tui.sweep_figures import Column, TableRow
from tui.widgets.lines import (
    ACCENT,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    with_thumb,
)
from tui.widgets.rows import Row, Run, fit
from tui.widgets.tail import Wheel

_HIGHLIGHTED: tuple[str, ...] = ("sweep-table--highlighted",)
_GAP = "  "
_MARGIN = 1
"""Cells on the right, for the thumb that says which part is shown."""
_HEADING_ROWS = 1
_STATUS_COLUMNS = ("status", "runs")
_STYLES = {COMPLETED: GOOD, "running": ACCENT, NOT_RUN: MUTED}

HELP: tuple[tuple[str, str], ...] = (
    (
        "Combinations",
        "A row for each combination of what is varied; ▶ is the one of the least time. Enter shows "
        "the session of the highlighted one, as it runs or as it ended.",
    ),
    (
        "runs",
        "How many of a combination's runs have completed. All combinations are run before any is "
        "run again, in an order that favours none.",
    ),
    (
        "ms a sample, …",
        "The median over the runs; ± is the 95 % interval of three or more, and ~ says that it is "
        "projected from a part of an epoch.",
    ),
    (
        "best is",
        "How many times as fast the best combination is, where the runs show that it surely is: "
        "where the intervals of the two don't overlap.",
    ),
)


class SweepTable(Wheel, Lines):
    """Rows below the names of their columns; it scrolls, and never has the focus."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"sweep-table--highlighted"}
    DEFAULT_CSS = """
    SweepTable > .sweep-table--highlighted {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: bold;
    }
    """

    class Highlighted(Message):
        """Another combination is highlighted."""

    class Chosen(Message):
        """A combination was clicked twice."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id, classes="panel")
        self._columns: tuple[Column, ...] = ()
        self._table: tuple[TableRow, ...] = ()
        self._first = 0
        self.highlighted = 0
        """The number of the highlighted row."""

    @property
    def row(self) -> TableRow | None:
        """The highlighted row."""
        return self._table[self.highlighted] if self.highlighted < len(self._table) else None

    def show(self, columns: tuple[Column, ...], rows: tuple[TableRow, ...]) -> None:
        """Show rows, as many as ever; the highlight stays."""
        self._columns, self._table = columns, rows
        self.redraw()

    def highlight(self, number: int) -> None:
        """Highlight a row, and bring it into sight."""
        last = max(0, len(self._table) - 1)
        self.highlighted = min(max(0, number), last)
        room = max(1, self.size.height - _HEADING_ROWS)
        self._first = max(min(self._first, self.highlighted), self.highlighted - room + 1)
        self.redraw()
        self.post_message(self.Highlighted())

    def move(self, steps: int) -> None:
        """Move the highlight, as far as there are rows."""
        self.highlight(self.highlighted + steps)

    def move_page(self, direction: int) -> None:
        """Move the highlight by as many rows as are shown."""
        self.move(direction * max(1, self.size.height - _HEADING_ROWS - 1))

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down; the highlight stays where it is."""
        self._first += delta
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the heading and the rows in sight."""
        room = max(0, height - _HEADING_ROWS)
        self._first = min(max(0, self._first), max(0, len(self._table) - room))
        in_sight = range(self._first, min(self._first + room, len(self._table)))
        widths = _widths(self._columns, self._table)
        rows = [_heading(self._columns, widths)]
        for number in in_sight:
            row = self._row(self._table[number], widths)
            if number == self.highlighted:
                text = "".join(text for text, _ in row)
                row = ((fit(text, width - _MARGIN, self.ellipsis), _HIGHLIGHTED),)
            rows.append(row)
        rows = [cut(row, width - _MARGIN, self.ellipsis) for row in rows[:height]]
        if len(self._table) > room:
            rows[_HEADING_ROWS:] = with_thumb(
                rows[_HEADING_ROWS:], self._first, len(self._table), width, self.ascii
            )
        return rows

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight in sight."""
        self.highlight(self.highlighted)

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a double click chooses it."""
        clicked = event.get_content_offset(self)
        if clicked is None or clicked.y < _HEADING_ROWS:
            return
        number = self._first + clicked.y - _HEADING_ROWS
        if number < len(self._table):
            self.highlight(number)
            if event.chain == 2:
                self.post_message(self.Chosen())

    def _row(self, row: TableRow, widths: Sequence[int]) -> Row:
        marker = (">" if self.ascii else "▶") if row.best else " "
        runs: list[Run] = [(f" {marker}", ACCENT)]
        style = STRONG if row.best else PLAIN
        for column, cell, width in zip(self._columns, row.cells, widths, strict=True):
            standing = column.heading in _STATUS_COLUMNS
            cell_style = _STYLES.get(row.status, BAD) if standing else style
            runs.append((f"{_GAP if len(runs) > 1 else ' '}", PLAIN))
            runs.append((_aligned(cell, width, column.numeric), cell_style))
        if row.note:
            runs.append((f"{_GAP}{row.note}", MUTED))
        return tuple(runs)


def _heading(columns: Sequence[Column], widths: Sequence[int]) -> Row:
    told = [
        _aligned(column.heading, width, column.numeric)
        for column, width in zip(columns, widths, strict=True)
    ]
    return (("   " + _GAP.join(told), MUTED),)


def _widths(columns: Sequence[Column], rows: Sequence[TableRow]) -> list[int]:
    """Return how wide each column is for its heading and all of its cells."""
    return [
        max(cell_len(text) for text in (column.heading, *(row.cells[i] for row in rows)))
        for i, column in enumerate(columns)
    ]


def _aligned(text: str, width: int, right: bool) -> str:
    blank = " " * max(0, width - cell_len(text))
    return blank + text if right else text + blank
