"""The table of a sweep: a row for each combination, one of them highlighted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures.sweeps import SweepTableColumn, SweepTableRow
from dlmon.records import RunStatus
from tui.widgets.lines import ACCENT, BAD, GOOD, MUTED, PLAIN, STRONG
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow, TextRun

_GAP = "  "
_STATUS_COLUMNS = ("status", "runs")
_STYLES = {RunStatus.COMPLETED: GOOD, RunStatus.RUNNING: ACCENT, RunStatus.NOT_RUN: MUTED}


class SweepTable(RowList):
    """The combinations of a sweep, as wide as their cells need them."""

    _columns: tuple[SweepTableColumn, ...] = ()
    _table: tuple[SweepTableRow, ...] = ()
    _widths: Sequence[int] = ()

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return len(self._table)

    @property
    def row(self) -> SweepTableRow | None:
        return self._table[self.index] if self._table else None

    def show(self, columns: tuple[SweepTableColumn, ...], rows: tuple[SweepTableRow, ...]) -> None:
        """Show rows, as many as ever; the highlight stays."""
        self._columns, self._table = columns, rows
        self._widths = _widths(columns, rows)
        self.redraw()

    def heading(self, width: int) -> TextRow:
        pairs = zip(self._columns, self._widths, strict=True)
        headings = [_aligned(column.heading, cells, column.numeric) for column, cells in pairs]
        return (("   " + _GAP.join(headings), MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        row = self._table[index]
        marker = "▶" if row.best else " "
        runs: list[TextRun] = [(f" {marker}", ACCENT)]
        style = STRONG if row.best else PLAIN
        for column, cell, cells in zip(self._columns, row.cells, self._widths, strict=True):
            is_status = column.heading in _STATUS_COLUMNS
            cell_style = _STYLES.get(row.status, BAD) if is_status else style
            runs.append((f"{_GAP if len(runs) > 1 else ' '}", PLAIN))
            runs.append((_aligned(cell, cells, column.numeric), cell_style))
        if row.note:
            runs.append((f"{_GAP}{row.note}", MUTED))
        return tuple(runs)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Return nothing: a sweep has combinations."""
        return []


def _widths(columns: Sequence[SweepTableColumn], rows: Sequence[SweepTableRow]) -> list[int]:
    """Return how wide each column is for its heading and all of its cells."""
    return [
        max(cell_len(text) for text in (column.heading, *(row.cells[i] for row in rows)))
        for i, column in enumerate(columns)
    ]


def _aligned(text: str, width: int, right: bool) -> str:
    blank = " " * max(0, width - cell_len(text))
    return blank + text if right else text + blank
