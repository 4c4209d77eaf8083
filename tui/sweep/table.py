"""The table of a sweep: a row for each combination, one of them highlighted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from rich.cells import cell_len

from dlmon.figures.sweeps import SweepTableRow
from dlmon.records import RunStatus
from tui.widgets.lines import ACCENT, BAD, GOOD, MUTED, PLAIN, STRONG
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow, TextRun

_GAP = "  "
_STATUS_COLUMNS = ("status", "runs")
_STYLES = {RunStatus.COMPLETED: GOOD, RunStatus.RUNNING: ACCENT, RunStatus.NOT_RUN: MUTED}


class SweepTable(RowList):
    """The combinations of a sweep, as wide as their cells need them."""

    _table: tuple[SweepTableRow, ...] = ()
    _words: Collection[str] = ()
    _widths: Mapping[str, int] = MappingProxyType({})

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return len(self._table)

    @property
    def row(self) -> SweepTableRow | None:
        return self._table[self.index] if self._table else None

    def show(self, rows: tuple[SweepTableRow, ...], words: Collection[str]) -> None:
        """Show rows, as many as ever; the highlight stays. `words` are columns of no numbers."""
        self._table, self._words = rows, words
        self._widths = {
            heading: max(
                cell_len(text) for text in (heading, *(row.cells[heading] for row in rows))
            )
            for heading in rows[0].cells
        }
        self.redraw()

    def heading(self, width: int) -> TextRow:
        headings = [self._aligned(heading, heading) for heading in self._widths]
        return (("   " + _GAP.join(headings), MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        row = self._table[index]
        marker = "▶" if row.best else " "
        runs: list[TextRun] = [(f" {marker}", ACCENT)]
        style = STRONG if row.best else PLAIN
        for heading, cell in row.cells.items():
            is_status = heading in _STATUS_COLUMNS
            cell_style = _STYLES.get(row.status, BAD) if is_status else style
            runs.append((f"{_GAP if len(runs) > 1 else ' '}", PLAIN))
            runs.append((self._aligned(cell, heading), cell_style))
        if row.note:
            runs.append((f"{_GAP}{row.note}", MUTED))
        return tuple(runs)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Return nothing: a sweep has combinations."""
        return []

    def _aligned(self, text: str, heading: str) -> str:
        blank = " " * (self._widths[heading] - cell_len(text))
        return text + blank if heading in self._words else blank + text
